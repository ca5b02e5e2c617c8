import shutil
from collections import Counter

import pytest
from mini_african_planes import ABSENT, CENTRES, HEADER, rows, write_mini_african_planes

from medvl.benchmark.split import official_split_problem
from medvl.errors import DataError
from medvl.imaging.reading import read_picture
from medvl.sources.african_planes import AFRICAN_PLANES
from medvl.sources.record import Domain, Split, Task

TABLE = "African_planes_database.csv"


@pytest.fixture
def folder(tmp_path):
    return write_mini_african_planes(tmp_path / "root" / "Zenodo_dataset")


def by_id(scan):
    return {record.record_id: record for record in scan.records}


def edit(folder, old: str, new: str) -> None:
    table = folder / TABLE
    text = table.read_text()
    assert text.count(old) == 1
    table.write_text(text.replace(old, new))


def test_every_row_gives_a_record_in_table_order(folder):
    scan = AFRICAN_PLANES.scan(folder)
    expected = [(f"{row.split(',')[3]}/{row.split(',')[4]}.png", row.split(",")[1]) for row in rows()]
    assert [(r.record_id, r.labels[Task.PI]) for r in scan.records] == expected
    assert scan.warnings == []
    assert {r.domain for r in scan.records} == {Domain.CLINICAL}
    assert [r.record_id for r in scan.records if not r.is_present] == [f"{ABSENT}.png"]


def test_a_record_carries_patient_and_centre_split_and_row(folder):
    record = by_id(AFRICAN_PLANES.scan(folder))["Egypt/patient002_EGY_plane3.png"]
    assert record.group == "Egypt 2"
    assert record.official_split is Split.TEST
    assert record.meta == {"centre": "Egypt"}
    assert record.where == f"{TABLE} row {2 + rows().index('2,Fetal thorax,0,Egypt,patient002_EGY_plane3')}"
    assert read_picture(record.picture).shape == (45, 40, 3)


def test_equal_numbers_of_two_centres_are_two_patients_and_the_split_keeps_them_apart(folder):
    records = AFRICAN_PLANES.scan(folder).records
    assert len({r.group for r in records}) == sum(len(numbers) for _, numbers, _ in CENTRES.values())
    assert official_split_problem(AFRICAN_PLANES, records) is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "1,Fetal femur,1,Algeria,",
            "1,Femur,1,Algeria,",
            "row 3 .patient001_DZA_plane2.: expected Plane to be one of Fetal abdomen, .*found 'Femur'",
        ),
        (
            "1,Fetal femur,1,Algeria,patient001_DZA",
            "1,Fetal femur,1,Kenya,patient001_DZA",
            "row 3 .*expected Center to be one of Algeria, .*found 'Kenya'",
        ),
        ("1,Fetal femur,1,Algeria,", "1,Fetal femur,yes,Algeria,", "row 3 .*expected Train to be .*found 'yes'"),
        (
            "1,Fetal femur,1,Algeria,patient001_DZA",
            "1,Fetal femur,1,Egypt,patient001_DZA",
            r"row 3: expected a Filename of Egypt .EGY., found patient001_DZA_plane2\. A shifted row mixes centres",
        ),
        ("1,Fetal femur,1,Algeria,", "2,Fetal femur,1,Algeria,", "row 3: expected Patient_num 1 .*found '2'"),
        ("1,Fetal femur,1,Algeria,", ",Fetal femur,1,Algeria,", "row 3: expected Patient_num 1 .*found ''"),
        ("patient001_DZA_plane2", "femur1", "row 3: expected a Filename such as .*found 'femur1'"),
        (
            HEADER,
            "Patient_num,Plane,Train,Centre,Filename",
            "expected column.s. 'Center', found .*Is 'Centre'",
        ),
    ],
)
def test_unknown_values_and_mixed_up_patients_are_refused(folder, old, new, message):
    edit(folder, old, new)
    with pytest.raises(DataError, match=rf"{TABLE}.*{message}"):
        AFRICAN_PLANES.scan(folder)


def test_rows_that_repeat_count_once_and_rows_that_disagree_are_refused(folder):
    before = AFRICAN_PLANES.scan(folder).records
    with (folder / TABLE).open("a") as table:
        table.write(rows()[3] + "\n")
    scan = AFRICAN_PLANES.scan(folder)
    assert scan.records == before
    assert ["repeated word for word" in warning for warning in scan.warnings] == [True]
    with (folder / TABLE).open("a") as table:
        table.write(rows()[3].replace("abdomen", "brain") + "\n")
    with pytest.raises(DataError, match=rf"row {len(rows()) + 3}: expected Plane 'Fetal abdomen' .* as in row 5"):
        AFRICAN_PLANES.scan(folder)


def test_a_name_that_tells_another_plane_is_kept_and_named(folder):
    edit(folder, "1,Fetal femur,1,Algeria,", "1,Fetal brain,1,Algeria,")
    scan = AFRICAN_PLANES.scan(folder)
    assert by_id(scan)["Algeria/patient001_DZA_plane2.png"].labels == {Task.PI: "Fetal brain"}
    assert len(scan.warnings) == 1
    assert f"1 picture ({TABLE} row 3) named for another plane than the table says" in scan.warnings[0]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1"])
def test_tables_saved_again_by_a_spreadsheet_give_the_same_records(folder, encoding):
    expected = AFRICAN_PLANES.scan(folder).records
    text = (folder / TABLE).read_text().replace(",", ";").replace("\n", "\r\n")
    text = text.replace("patient001_DZA_plane2", r"Algeria\patient001_DZA_plane2.png")
    (folder / TABLE).write_bytes(text.encode(encoding))
    assert AFRICAN_PLANES.scan(folder).records == expected


def test_upper_case_extensions_are_found_and_pictures_without_a_row_named(folder):
    (folder / "Egypt/patient001_EGY_plane0.png").rename(folder / "Egypt/patient001_EGY_plane0.PNG")
    (folder / "Egypt/patient009_EGY_plane0.png").touch()
    scan = AFRICAN_PLANES.scan(folder)
    assert by_id(scan)["Egypt/patient001_EGY_plane0.png"].picture.name == "patient001_EGY_plane0.PNG"
    (warning,) = scan.warnings
    assert f"1 picture (patient009_EGY_plane0.png) without a row in {TABLE}; left out" in warning


def test_an_archive_that_was_not_unpacked_is_named(folder):
    for centre in CENTRES:
        shutil.rmtree(folder / centre)
    (folder / "Zenodo_dataset.tar.xz").touch()
    scan = AFRICAN_PLANES.scan(folder)
    assert not any(r.is_present for r in scan.records)
    assert ["Zenodo_dataset.tar.xz is not unpacked" in warning for warning in scan.warnings] == [True]


def test_the_dataset_is_found_below_the_root_and_not_elsewhere(folder, tmp_path_factory):
    assert AFRICAN_PLANES.find(folder.parent) == AFRICAN_PLANES.find(folder) == folder
    assert AFRICAN_PLANES.find(tmp_path_factory.mktemp("empty")) is None


def test_the_real_rows_are_read(shared_data, tmp_path):
    # An excerpt of the published table, under another name there.
    shutil.copy(shared_data / "african_planes" / "African_planes_database.excerpt.csv", tmp_path / TABLE)
    scan = AFRICAN_PLANES.scan(tmp_path)
    assert scan.warnings == []
    assert len(scan.records) == 61
    assert Counter(r.labels[Task.PI] for r in scan.records) == {
        "Fetal abdomen": 16,
        "Fetal brain": 16,
        "Fetal femur": 16,
        "Fetal thorax": 13,
    }
    assert Counter(r.meta["centre"] for r in scan.records) == {"Algeria": 20, "Egypt": 16, "Malawi": 16, "Uganda": 9}
    assert Counter(r.official_split for r in scan.records) == {Split.TRAIN: 27, Split.TEST: 34}
    assert len({r.group for r in scan.records}) == 18
    assert official_split_problem(AFRICAN_PLANES, scan.records) is None
    assert not any(r.is_present for r in scan.records)
