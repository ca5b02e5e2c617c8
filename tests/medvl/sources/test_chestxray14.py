import gzip
import shutil
from collections import Counter

import pytest
from mini_chestxray14 import (
    ABSENT,
    BOXES,
    HEADER_2017,
    HEADER_SAMPLE,
    ROWS,
    write_chest,
    write_mini_chestxray14,
    write_table,
)

from medvl.errors import DataError
from medvl.sources import chestxray14
from medvl.sources.chestxray14 import CHESTXRAY14
from medvl.sources.loose_tables import read_loose_table
from medvl.sources.record import Domain, Split

TABLE = "Data_Entry_2017_v2020.csv"
FINDINGS = {
    "Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Effusion", "Emphysema", "Fibrosis", "Hernia",
    "Infiltration", "Mass", "Nodule", "Pleural_Thickening", "Pneumonia", "Pneumothorax",
}  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return write_mini_chestxray14(tmp_path_factory.mktemp("nih") / "nih")


@pytest.fixture
def mini(written, tmp_path):
    return shutil.copytree(written, tmp_path / "nih", copy_function=lambda a, b: shutil.copy(a, b))


def by_id(scan):
    return {record.record_id.removesuffix(".png"): record for record in scan.records}


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_every_row_gives_a_record_in_table_order(mini):
    scan = CHESTXRAY14.scan(mini)
    assert [record.record_id for record in scan.records] == [f"{name}.png" for name in ROWS]
    assert [record.where for record in scan.records][:2] == [f"{TABLE} row 2", f"{TABLE} row 3"]
    assert {(record.source, record.domain) for record in scan.records} == {("chestxray14", Domain.CLINICAL)}
    assert scan.warnings == []


def test_all_findings_are_stated_for_every_picture(mini):
    for name, record in by_id(CHESTXRAY14.scan(mini)).items():
        assert set(record.findings) == FINDINGS
        assert {label for label, present in record.findings.items() if present} == set(ROWS[name][0].split("|")) - {
            "No Finding"
        }


def test_facts_and_groups_come_from_the_row(mini):
    records = by_id(CHESTXRAY14.scan(mini))
    assert records["00000001_002"].meta == {"sex": "M", "age": "58", "view": "AP"}
    assert records["00000003_000"].meta["age"] == "0"
    assert {records[name].group for name in ("00000001_000", "00000001_001", "00000001_002")} == {"1"}


def test_pictures_that_are_not_there_are_absent(mini):
    records = by_id(CHESTXRAY14.scan(mini))
    assert [name for name, record in records.items() if not record.is_present] == list(ABSENT)
    assert all(record.picture.is_file() == record.is_present for record in records.values())


def test_boxes_keep_their_label_and_their_fractions_of_a_pixel(mini):
    records = by_id(CHESTXRAY14.scan(mini))
    for name, record in records.items():
        expected = [(label, (x, y, x + w, y + h)) for label, x, y, w, h in BOXES.get(name, [])]
        assert [(s.label, s.bbox_xyxy_px) for s in record.structures] == expected


def test_the_official_lists_give_the_sides(mini):
    records = by_id(CHESTXRAY14.scan(mini))
    assert {name for name, r in records.items() if r.official_split is Split.TEST} == {
        "00000002_000", "00000003_000", "00000004_000",
    }  # fmt: skip
    assert {r.official_split for r in records.values()} == {Split.TRAIN, Split.TEST}


def test_a_picture_that_no_list_names_goes_with_its_patient(mini):
    edit(mini / "train_val_list.txt", "00000001_001.png\n", "")
    assert by_id(CHESTXRAY14.scan(mini))["00000001_001"].official_split is Split.TRAIN


def test_one_list_alone_gives_no_side(mini):
    (mini / "test_list.txt").unlink()
    scan = CHESTXRAY14.scan(mini)
    assert {record.official_split for record in scan.records} == {None}
    assert "no test_list.txt" in scan.warnings[0]
    assert len(scan.warnings) == 1


def test_a_list_of_another_project_is_refused(mini):
    (mini / "test_list.txt").write_text("00000002_000.png 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n")
    with pytest.raises(DataError, match=r"test_list\.txt line 1: expected one file name"):
        CHESTXRAY14.scan(mini)


def test_a_picture_in_both_lists_is_refused(mini):
    with (mini / "test_list.txt").open("a") as file:
        file.write("\n00000001_000.png")
    with pytest.raises(DataError, match=r"test_list\.txt line 4: .*train_val_list\.txt line 1"):
        CHESTXRAY14.scan(mini)


@pytest.mark.parametrize("tail", ["", ","])
def test_the_table_of_2017_says_the_same(mini, tail):
    new = CHESTXRAY14.scan(mini).records
    (mini / TABLE).unlink()
    write_table(mini / "Data_Entry_2017.csv", HEADER_2017, age="{:0>3}Y", tail=tail)
    old = CHESTXRAY14.scan(mini).records
    assert [(r.record_id, r.findings, r.meta, r.group) for r in old] == [
        (r.record_id, r.findings, r.meta, r.group) for r in new
    ]


def test_the_table_of_2020_is_preferred(mini):
    write_table(mini / "Data_Entry_2017.csv", HEADER_2017, age="{:0>3}Y")
    assert CHESTXRAY14.scan(mini).records[0].where.startswith(TABLE)


def test_kaggles_sample_table_is_read(mini):
    for name in (TABLE, "BBox_List_2017.csv", "train_val_list.txt", "test_list.txt"):
        (mini / name).unlink()
    write_table(mini / "sample_labels.csv", HEADER_SAMPLE, age="{:0>3}Y", end="\r\n")
    assert CHESTXRAY14.find(mini.parent) == mini
    scan = CHESTXRAY14.scan(mini)
    assert by_id(scan)["00000001_000"].meta == {"sex": "M", "age": "57", "view": "PA"}
    assert len(scan.records) == len(ROWS)


def test_headers_with_underscores_are_read(mini):
    edit(mini / TABLE, "Image Index,Finding Labels", "Image_Index,Finding_Labels")
    assert len(CHESTXRAY14.scan(mini).records) == len(ROWS)


def test_an_age_that_no_patient_has_is_left_out_and_counted(mini):
    edit(mini / TABLE, ",57,M", ",411Y,M")
    scan = CHESTXRAY14.scan(mini)
    assert by_id(scan)["00000001_000"].meta["age"] == ""
    assert scan.warnings == [f"{TABLE}: 1 age(s) that no patient has (411Y) are left out."]


def test_tables_may_be_gzipped(mini):
    plain = CHESTXRAY14.scan(mini).records
    for name in (TABLE, "BBox_List_2017.csv"):
        (mini / f"{name}.gz").write_bytes(gzip.compress((mini / name).read_bytes()))
        (mini / name).unlink()
    assert CHESTXRAY14.find(mini.parent) == mini
    packed = CHESTXRAY14.scan(mini).records
    assert [(r.record_id, r.findings, r.structures) for r in packed] == [
        (r.record_id, r.findings, r.structures) for r in plain
    ]


def test_a_gzipped_table_that_was_cut_is_refused(mini):
    packed = gzip.compress((mini / TABLE).read_bytes())
    (mini / TABLE).unlink()
    (mini / f"{TABLE}.gz").write_bytes(packed[:-20])
    with pytest.raises(DataError, match="expected a whole gzip file"):
        CHESTXRAY14.scan(mini)


def test_pictures_are_found_in_kaggles_numbered_folders(mini):
    for number, name in enumerate(("00000001_000", "00000002_000"), start=1):
        home = mini / f"images_{number:03d}" / "images"
        home.mkdir(parents=True)
        (mini / "images" / f"{name}.png").rename(home / f"{name}.PNG")
    records = by_id(CHESTXRAY14.scan(mini))
    assert [name for name, record in records.items() if not record.is_present] == list(ABSENT)
    assert records["00000002_000"].picture == mini / "images_002" / "images" / "00000002_000.PNG"


def test_each_folder_is_listed_once(mini, monkeypatch):
    listed = []
    real = chestxray14.list_files
    monkeypatch.setattr(chestxray14, "list_files", lambda folder: listed.append(folder) or real(folder))
    CHESTXRAY14.scan(mini)
    assert sorted(listed) == [mini, mini / "images"]


def test_an_archive_beside_absent_pictures_is_named(mini):
    (mini / "images" / "images_002.tar.gz").touch()
    assert any("images_002.tar.gz" in w and "unpack" in w for w in CHESTXRAY14.scan(mini).warnings)
    write_chest(mini / "images" / f"{ABSENT[0]}.png", 6)
    assert CHESTXRAY14.scan(mini).warnings == []


def test_a_picture_without_a_row_is_named(mini):
    write_chest(mini / "images" / "00000009_000.png", 9)
    scan = CHESTXRAY14.scan(mini)
    assert len(scan.records) == len(ROWS)
    assert any("1 picture (00000009_000.png) without a row" in warning for warning in scan.warnings)


def test_a_picture_named_otherwise_is_named(mini):
    (mini / "images" / "chest.png").touch()
    assert CHESTXRAY14.scan(mini).warnings == [f"{mini}: 1 picture (chest.png) without a row in the table; left out."]


@pytest.mark.parametrize(("delimiter", "encoding"), [(";", "utf-8"), ("\t", "latin-1"), (",", "utf-8-sig")])
def test_tables_saved_again_by_a_spreadsheet_give_the_same_records(mini, delimiter, encoding):
    expected = CHESTXRAY14.scan(mini).records
    for name in (TABLE, "BBox_List_2017.csv"):
        text = (mini / name).read_text().replace(",", delimiter)
        (mini / name).write_bytes(text.encode(encoding))
    assert CHESTXRAY14.scan(mini).records == expected


def test_names_with_a_windows_folder_are_the_same_pictures(mini):
    expected = CHESTXRAY14.scan(mini).records
    (mini / TABLE).write_text((mini / TABLE).read_text().replace("\n0", "\nimages\\0"))
    assert CHESTXRAY14.scan(mini).records == expected


def test_archives_alone_are_found_and_the_first_is_named(tmp_path):
    for number in (1, 2):
        (tmp_path / f"images_{number:03d}.tar.gz").touch()
    assert CHESTXRAY14.find(tmp_path) == tmp_path
    scan = CHESTXRAY14.scan(tmp_path)
    assert scan.records == []
    (warning,) = scan.warnings
    assert warning.startswith(f"{tmp_path / 'images_001.tar.gz'} is not unpacked: expected the table")


def test_a_resized_copy_keeps_its_findings_and_loses_its_boxes(tmp_path):
    scan = CHESTXRAY14.scan(write_mini_chestxray14(tmp_path / "nih", side=224))
    assert any(record.findings["Pneumothorax"] for record in scan.records)
    assert not any(record.structures for record in scan.records)
    assert any("224 x 224 px instead of 1024 x 1024" in warning for warning in scan.warnings)


def test_a_broken_picture_is_kept_for_the_build_to_refuse(mini):
    (mini / "images" / "00000003_000.png").write_bytes(b"no picture")
    scan = CHESTXRAY14.scan(mini)
    assert by_id(scan)["00000003_000"].is_present
    assert len(by_id(scan)["00000003_000"].structures) == 1
    assert scan.warnings == []


def test_a_box_of_a_finding_that_the_row_does_not_name_is_kept_and_named(mini):
    edit(mini / TABLE, "Infiltration|Pneumonia", "Pneumonia")
    scan = CHESTXRAY14.scan(mini)
    assert len(by_id(scan)["00000003_000"].structures) == 1
    assert any("1 picture (00000003_000.png) with a box of a finding that" in warning for warning in scan.warnings)


def test_boxes_of_pictures_that_the_table_lacks_are_named(mini):
    table = mini / TABLE
    table.write_text("".join(line for line in table.open() if not line.startswith("00000003")))
    warnings = CHESTXRAY14.scan(mini).warnings
    assert any("1 picture (00000003_000.png) with a box but without a row" in warning for warning in warnings)


def test_a_repeated_row_counts_once(mini):
    row = (mini / TABLE).read_text().splitlines()[1]
    with (mini / TABLE).open("a") as table:
        table.write(f"{row}\n")
    scan = CHESTXRAY14.scan(mini)
    assert len(scan.records) == len(ROWS)
    assert scan.warnings == [f"{TABLE}: 1 row(s) repeat another ({TABLE} row 9); each counts once."]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("png,Cardiomegaly,", "png,Cardiomegalia,", rf"{TABLE} row 2: .*found 'Cardiomegalia'"),
        ("png,Cardiomegaly,", "png,No Finding|Edema,", rf"{TABLE} row 2: .*No Finding alone"),
        ("png,Cardiomegaly,", "png,,", rf"{TABLE} row 2: .*found ''"),
        ("0,1,57", "0,2,57", rf"{TABLE} row 2: .*Patient ID 1.*with '2'"),
        ("0,1,57", "0,,57", rf"{TABLE} row 2: .*with ''"),
        ("0,1,57", f"0,{'1' * 5000},57", rf"{TABLE} row 2: .*Patient ID 1"),
        ("00000001_000.png", "chest.png", rf"{TABLE} row 2: .*found 'chest\.png'"),
        (",57,M,PA", ",57,PA,M", rf"{TABLE} row 2: .*Patient Gender"),
        (",57,M,PA", ",57,M,LL", rf"{TABLE} row 2: .*View Position.*found 'LL'"),
        ("Patient ID", "Person", "expected column.s. 'Patient ID'"),
        (",57,M,PA,2500,2048,0.168,0.168", ",57,M", rf"{TABLE} row 2: expected 11 fields"),
        (",57,M,PA,2500,", ",57,M,PA,2500,2048,1,2,", rf"{TABLE} row 2: expected 11 fields"),
        ("00000001_001.png,Cardiomegaly|", "00000001_000.png,", rf"{TABLE} row 3: .*{TABLE} row 2.*found others"),
        ("00000001_001.png,", '"00000001_001.png,', rf"{TABLE} row 3: .*[Qq]uotes"),
    ],
)
def test_a_broken_table_is_refused_naming_the_row(mini, old, new, message):
    edit(mini / TABLE, old, new)
    with pytest.raises(DataError, match=message):
        CHESTXRAY14.scan(mini)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Infiltrate", "Opacity", "row 2: .*found 'Opacity'"),
        ("300.25,500.0", "300.25,", "row 3: expected"),
        ("300.25,500.0", "300.25,high", "row 3: expected the numbers"),
        ("300.25,500.0", "300.25,nan", "row 3: expected a box inside"),
        ("300.25,500.0", "0,500.0", "row 3: expected a box inside"),
        ("100.5,50.0", "-100.5,50.0", "row 3: expected a box inside"),
        ("100.5,50.0", "800.5,50.0", "row 3: expected a box inside"),
    ],
)
def test_a_broken_box_list_is_refused_naming_the_row(mini, old, new, message):
    edit(mini / "BBox_List_2017.csv", old, new)
    with pytest.raises(DataError, match=f"BBox_List_2017.csv {message}"):
        CHESTXRAY14.scan(mini)


def test_a_box_list_with_a_short_header_is_read(mini):
    edit(mini / "BBox_List_2017.csv", "h],,,", "h]")
    assert len(by_id(CHESTXRAY14.scan(mini))["00000004_000"].structures) == 2


def test_the_dataset_is_found_below_the_root_and_not_elsewhere(mini, tmp_path_factory):
    assert CHESTXRAY14.find(mini.parent) == mini
    assert CHESTXRAY14.find(tmp_path_factory.mktemp("empty")) is None


@pytest.fixture(scope="module")
def real(shared_data, tmp_path_factory):
    """The real tables beside the real pictures, under their official names."""
    there = shared_data / "nih_chestxray14"
    folder = tmp_path_factory.mktemp("real")
    for name in (f"{TABLE}.gz", "BBox_List_2017.csv", "train_val_list.txt"):
        (folder / name).symlink_to(there / name)
    (folder / "test_list.txt").symlink_to(there / "test_list.derived.txt")
    (folder / "images").symlink_to(there / "images")
    return CHESTXRAY14.scan(folder)


def test_the_real_table_has_its_published_counts(real):
    assert len(real.records) == CHESTXRAY14.published_pictures == 112_120
    assert len({record.group for record in real.records}) == 30_805
    assert sum(record.findings["Pneumothorax"] for record in real.records) == 5_302
    assert sum(record.findings["Hernia"] for record in real.records) == 227
    assert sum(not any(record.findings.values()) for record in real.records) == 60_361
    assert sum(record.meta["age"] == "0" for record in real.records) == 14
    assert sum(record.is_present for record in real.records) == 9
    assert real.warnings == []


def test_the_real_table_has_eleven_columns_in_every_row(shared_data):
    table = read_loose_table(shared_data / "nih_chestxray14" / f"{TABLE}.gz", ["Image Index"])
    assert Counter(len(fields) for _, fields in table.rows) == {11: 112_120}


def test_the_real_boxes_have_their_published_counts(real):
    labels = [structure.label for record in real.records for structure in record.structures]
    assert len(labels) == 984
    assert (labels.count("Infiltrate"), labels.count("Nodule"), labels.count("Infiltration")) == (123, 79, 0)
    assert {record.official_split for record in real.records if record.structures} == {Split.TEST}


def test_the_real_lists_split_by_patient(real):
    sides = {split: {r.group for r in real.records if r.official_split is split} for split in Split}
    assert sum(record.official_split is Split.TRAIN for record in real.records) == 86_524
    assert sum(record.official_split is Split.TEST for record in real.records) == 25_596
    assert not sides[Split.TRAIN] & sides[Split.TEST]


def test_the_real_kaggle_sample_is_read(shared_data, tmp_path):
    (tmp_path / "sample_labels.csv").symlink_to(shared_data / "nih_chestxray14" / "sample_labels.csv")
    scan = CHESTXRAY14.scan(tmp_path)
    ages = {record.record_id: record.meta["age"] for record in scan.records}
    assert len(ages) == 5_600
    assert (ages["00019045_003.png"], ages["00024680_000.png"]) == ("1", "0")
    assert any("1 age(s) that no patient has (411Y)" in warning for warning in scan.warnings)


def test_the_real_variant_headers_are_read(shared_data, tmp_path):
    there = shared_data / "nih_chestxray14"
    (tmp_path / "sample_labels.csv").symlink_to(there / "variants" / "sample_labels.underscore_header.csv")
    (tmp_path / "BBox_List_2017.csv").symlink_to(there / "variants" / "BBox_List_2017.rounded_header.csv")
    assert len(CHESTXRAY14.scan(tmp_path).records) == 299
