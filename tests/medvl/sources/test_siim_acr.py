import gzip
import shutil
import statistics

import pytest
from mini_siim_acr import MASKS, PATIENTS, UID, write_dicom, write_mini_siim_acr

from medvl.errors import DataError
from medvl.sources.record import Domain
from medvl.sources.siim_acr import SIIM_ACR

TABLE = "train-rle.csv"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return write_mini_siim_acr(tmp_path_factory.mktemp("siim") / "siim")


@pytest.fixture
def mini(written, tmp_path):
    return shutil.copytree(written, tmp_path / "siim")


def by_id(scan):
    return {record.record_id: record for record in scan.records}


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_every_picture_of_the_table_gives_one_record(mini):
    scan = SIIM_ACR.scan(mini)
    assert [record.record_id for record in scan.records] == list(MASKS)
    assert {record.domain for record in scan.records} == {Domain.CLINICAL}
    assert [record.where for record in scan.records] == [f"{TABLE} row {n}" for n in (2, 3, 4, 7, 8)]
    assert scan.warnings == []


def test_a_picture_is_positive_when_one_of_its_rows_is(mini):
    for name, record in by_id(SIIM_ACR.scan(mini)).items():
        assert record.findings == {"pneumothorax": bool(MASKS[name])}
        assert len(record.structures) == bool(MASKS[name])


def test_the_box_encloses_all_annotations_of_a_picture(mini):
    records = by_id(SIIM_ACR.scan(mini))
    assert records[UID.format(2)].structures[0].bbox_xyxy_px == (100, 200, 180, 400)
    assert records[UID.format(3)].structures[0].bbox_xyxy_px == (40, 50, 720, 1024)
    assert records[UID.format(5)].structures[0].bbox_xyxy_px == (1000, 0, 1024, 30)
    assert {s.label for record in records.values() for s in record.structures} == {"pneumothorax"}


def test_pixels_that_two_annotations_mark_count_once(mini):
    area = 100 * 100 + 70 * 200 - 50 * 50 + 4 * 124
    share = by_id(SIIM_ACR.scan(mini))[UID.format(3)].meta["mask_area_share"]
    assert float(share) == pytest.approx(area / 1024**2, abs=1e-6)


def test_facts_come_from_the_header(mini):
    records = by_id(SIIM_ACR.scan(mini))
    facts = records[UID.format(1)].meta
    assert (facts["sex"], facts["age"], facts["view"]) == ("M", "62", "PA")


def test_pictures_of_one_patient_id_are_one_group(mini):
    records = by_id(SIIM_ACR.scan(mini))
    assert {name: records[name].group for name in PATIENTS} == PATIENTS


def test_an_absent_picture_is_its_own_group(mini):
    record = by_id(SIIM_ACR.scan(mini))[UID.format(5)]
    assert not record.is_present
    assert record.group == UID.format(5)


def test_pictures_without_a_patient_id_are_their_own_groups(mini):
    write_dicom(next(mini.rglob(f"{UID.format(1)}.dcm")), UID.format(1), "")
    assert by_id(SIIM_ACR.scan(mini))[UID.format(1)].group == UID.format(1)


def test_a_placeholder_for_the_patient_id_groups_nothing(tmp_path):
    names = [UID.format(number) for number in range(20)]
    (tmp_path / TABLE).write_text("ImageId, EncodedPixels\n" + "".join(f"{name}, -1\n" for name in names))
    for name in names:
        write_dicom(tmp_path / "dicom-images-train" / f"{name}.dcm", name, "ANONYMOUS", side=8)
    scan = SIIM_ACR.scan(tmp_path)
    assert [record.group for record in scan.records] == names
    assert any("20 of 20 pictures have one PatientID" in warning for warning in scan.warnings)


def test_stage_2_says_the_same_and_finds_the_former_test_pictures(mini, tmp_path):
    second = write_mini_siim_acr(tmp_path / "second", stage=2)
    one, two = by_id(SIIM_ACR.scan(mini)), by_id(SIIM_ACR.scan(second))
    assert {k: (r.findings, r.structures, r.group) for k, r in two.items()} == {
        k: (r.findings, r.structures, r.group) for k, r in one.items()
    }
    assert two[UID.format(4)].picture.is_relative_to(second / "dicom-images-test")
    assert any("1 picture (ID_0011fe81e.dcm) without a row" in w for w in SIIM_ACR.scan(second).warnings)


def test_stage_2_is_read_where_both_tables_lie(mini):
    (mini / "stage_2_train.csv").write_text(f"ImageId,EncodedPixels\n{UID.format(1)},-1\n")
    assert len(SIIM_ACR.scan(mini).records) == 1


def test_the_table_may_be_gzipped_and_the_pictures_flat(mini):
    (mini / f"{TABLE}.gz").write_bytes(gzip.compress((mini / TABLE).read_bytes()))
    (mini / TABLE).unlink()
    for path in list(mini.rglob("*.dcm")):
        path.rename(mini / "dicom-images-train" / f"{path.stem}.DCM")
    assert SIIM_ACR.find(mini.parent) == mini
    assert sum(record.is_present for record in SIIM_ACR.scan(mini).records) == len(PATIENTS)


@pytest.mark.parametrize(
    ("delimiter", "encoding", "folder"),
    [(";", "utf-8", ""), ("\t", "latin-1", "dicom-images-train/"), (",", "utf-8-sig", "dicom-images-train\\")],
)
def test_tables_written_by_others_give_the_same_records(mini, delimiter, encoding, folder):
    expected = SIIM_ACR.scan(mini).records
    text = (mini / TABLE).read_text().replace("\n1.2", f"\n{folder}1.2").replace(",", delimiter)
    (mini / TABLE).write_bytes(text.encode(encoding))
    assert SIIM_ACR.scan(mini).records == expected


def test_a_linked_folder_of_pictures_is_named(mini, tmp_path):
    study = next(path for path in (mini / "dicom-images-train").iterdir() if path.is_dir())
    study.rename(tmp_path / "elsewhere")
    study.symlink_to(tmp_path / "elsewhere")
    scan = SIIM_ACR.scan(mini)
    assert any(f"1 folder ({study.name}) linked and not followed" in warning for warning in scan.warnings)


def test_a_broken_picture_is_kept_for_the_build_to_refuse(mini):
    next(mini.rglob(f"{UID.format(2)}.dcm")).write_bytes(b"no dicom")
    scan = SIIM_ACR.scan(mini)
    record = by_id(scan)[UID.format(2)]
    assert record.is_present
    assert record.findings == {"pneumothorax": True}
    assert any(f"1 picture ({UID.format(2)}.dcm) whose DICOM header cannot be read" in w for w in scan.warnings)


def test_a_resized_picture_loses_its_box(mini):
    write_dicom(next(mini.rglob(f"{UID.format(2)}.dcm")), UID.format(2), "a-2", side=256)
    scan = SIIM_ACR.scan(mini)
    assert by_id(scan)[UID.format(2)].structures == ()
    assert any("not of 1024 x 1024 px" in warning for warning in scan.warnings)


def test_an_archive_that_was_not_unpacked_is_named(mini):
    shutil.rmtree(mini / "dicom-images-train")
    (mini / "dicom-images-train.zip").touch()
    scan = SIIM_ACR.scan(mini)
    assert not any(record.is_present for record in scan.records)
    assert any("dicom-images-train.zip" in warning for warning in scan.warnings)


def test_the_archive_alone_is_found_and_named(tmp_path):
    (tmp_path / "siim-acr-pneumothorax-segmentation.zip").touch()
    assert SIIM_ACR.find(tmp_path) == tmp_path
    scan = SIIM_ACR.scan(tmp_path)
    assert scan.records == []
    assert scan.warnings[0].startswith(f"{tmp_path / 'siim-acr-pneumothorax-segmentation.zip'} is not unpacked")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (f"{UID.format(2)}, -1", "row 9: .*masks or -1, found both"),
        ("new, 5", "row 9 .new.: .*pairs"),
        ("new, 5 0", "row 9 .new.: .*lengths from 1"),
        ("new, -5 3", "row 9 .new.: .*offsets from 0"),
        ("new, 1048570 7", "row 9 .new.: .*ends at 1048577"),
        ("new, 5 x", "row 9 .new.: .*whole numbers"),
        ("new, ", "row 9"),
        (", -1", "row 9: expected an ImageId"),
        ("new, -1,3", "row 9: expected 2 fields"),
    ],
)
def test_a_broken_row_is_refused(mini, row, message):
    with (mini / TABLE).open("a") as table:
        table.write(f"{row}\n")
    with pytest.raises(DataError, match=f"{TABLE} {message}"):
        SIIM_ACR.scan(mini)


def test_the_dataset_is_found_below_the_root_and_not_elsewhere(mini, tmp_path_factory):
    assert SIIM_ACR.find(mini.parent) == mini
    assert SIIM_ACR.find(tmp_path_factory.mktemp("empty")) is None


def test_the_real_table_has_its_published_counts(shared_data):
    folder = SIIM_ACR.find(shared_data)
    assert folder == shared_data / "siim_acr"
    scan = SIIM_ACR.scan(folder)
    shares = [float(r.meta["mask_area_share"]) for r in scan.records if r.findings["pneumothorax"]]
    assert len(scan.records) == 12_047
    assert len(shares) == 2_669
    assert (min(shares), max(shares)) == (pytest.approx(0.00005, abs=1e-5), pytest.approx(0.154, abs=1e-3))
    assert statistics.median(shares) == pytest.approx(0.0082, abs=1e-4)
    (present,) = [record for record in scan.records if record.is_present]
    assert present.findings == {"pneumothorax": False}
    assert (present.meta["sex"], present.meta["age"], present.meta["view"]) == ("M", "62", "PA")
    assert present.group == "16d7f894-55d7-4d95-8957-d18987f0e981"
    assert scan.warnings == []
