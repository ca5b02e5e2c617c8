from collections import Counter

import pytest
from mini_fetal_planes import ABSENT, PATIENTS, PLANES, rows

from medvl.errors import DataError
from medvl.imaging.reading import read_picture
from medvl.sources.fetal_planes_db import FETAL_PLANES_DB
from medvl.sources.record import Domain, Split, Task

TABLE = "FETAL_PLANES_DB_data.csv"


def by_id(scan):
    return {record.record_id: record for record in scan.records}


def edit(folder, old: str, new: str) -> None:
    table = folder / TABLE
    text = table.read_text()
    assert text.count(old) == 1
    table.write_text(text.replace(old, new))


def test_every_row_gives_a_record_in_table_order(mini_fetal_planes):
    scan = FETAL_PLANES_DB.scan(mini_fetal_planes)
    assert [r.record_id for r in scan.records] == [f"Images/{row.split(';')[0]}.png" for row in rows()]
    assert len(scan.records) == PATIENTS * len(PLANES)
    assert scan.warnings == []
    assert {r.domain for r in scan.records} == {Domain.CLINICAL}
    assert not any(r.structures for r in scan.records)


def test_the_label_is_the_brain_plane_where_named_and_nothing_for_other_planes(mini_fetal_planes):
    records = FETAL_PLANES_DB.scan(mini_fetal_planes).records[: len(PLANES)]
    assert [r.labels.get(Task.PI) for r in records] == [
        None,
        "Fetal abdomen",
        "Trans-thalamic",
        "Trans-cerebellum",
        "Trans-ventricular",
        "Fetal brain",
        "Maternal cervix",
        "Fetal femur",
        "Fetal thorax",
    ]
    assert all(set(r.labels) <= {Task.PI} for r in records)


def test_a_record_carries_patient_split_machine_and_operator(mini_fetal_planes):
    record = by_id(FETAL_PLANES_DB.scan(mini_fetal_planes))["Images/Patient00002_Plane5_1_of_1.png"]
    assert record.group == "2"
    assert record.official_split is Split.TEST
    assert record.meta == {"device": "Voluson E6", "operator": "Op. 3"}
    assert record.where == f"{TABLE} row 18"
    assert read_picture(record.picture).shape == (48, 64, 3)


def test_rows_without_a_picture_are_absent_without_a_warning(mini_fetal_planes):
    scan = FETAL_PLANES_DB.scan(mini_fetal_planes)
    assert [r.record_id for r in scan.records if not r.is_present] == [f"Images/{ABSENT}.png"]


def test_upper_case_extensions_are_found(mini_fetal_planes):
    images = mini_fetal_planes / "Images"
    (images / "Patient00001_Plane5_1_of_1.png").rename(images / "Patient00001_Plane5_1_of_1.PNG")
    record = by_id(FETAL_PLANES_DB.scan(mini_fetal_planes))["Images/Patient00001_Plane5_1_of_1.png"]
    assert record.is_present
    assert record.picture.name.endswith(".PNG")


@pytest.mark.parametrize(
    ("delimiter", "encoding"), [(",", "utf-8"), ("\t", "utf-8"), (";", "utf-8-sig"), (";", "latin-1")]
)
def test_tables_saved_again_by_a_spreadsheet_give_the_same_records(mini_fetal_planes, delimiter, encoding):
    expected = FETAL_PLANES_DB.scan(mini_fetal_planes).records
    table = mini_fetal_planes / TABLE
    table.write_bytes(table.read_text().replace(";", delimiter).replace("\n", "\r\n").encode(encoding))
    assert FETAL_PLANES_DB.scan(mini_fetal_planes).records == expected


def test_image_names_with_an_extension_are_the_same_pictures(mini_fetal_planes):
    expected = FETAL_PLANES_DB.scan(mini_fetal_planes).records
    table = mini_fetal_planes / TABLE
    table.write_text(
        "\n".join(
            line.replace(";", ".png;", 1) if line.startswith("P") else line for line in table.read_text().split("\n")
        )
    )
    assert FETAL_PLANES_DB.scan(mini_fetal_planes).records == expected


def test_image_names_with_a_windows_folder_are_the_same_pictures(mini_fetal_planes):
    expected = FETAL_PLANES_DB.scan(mini_fetal_planes).records
    table = mini_fetal_planes / TABLE
    table.write_text(table.read_text().replace("\nPatient", "\nC:\\data\\Images\\Patient"))
    assert FETAL_PLANES_DB.scan(mini_fetal_planes).records == expected


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "Patient00001_Plane5_1_of_1;1;Fetal femur;",
            "Patient00001_Plane5_1_of_1;1;Femur;",
            r"row 9 .Patient00001_Plane5_1_of_1.: expected Plane to be one of .*found 'Femur'",
        ),
        (
            "Patient00001_Plane3_1_of_4;1;Fetal brain;Trans-thalamic;",
            "Patient00001_Plane3_1_of_4;1;Fetal brain;Transthalamic;",
            "row 4 .*expected Brain_plane to be one of .*found 'Transthalamic'",
        ),
        (
            "Patient00001_Plane5_1_of_1;1;Fetal femur;Not A Brain;",
            "Patient00001_Plane5_1_of_1;1;Fetal femur;Trans-thalamic;",
            "row 9 .*expected Brain_plane to be one of Not A Brain, found 'Trans-thalamic'",
        ),
        (
            "Patient00001_Plane5_1_of_1;1;Fetal femur;Not A Brain;Op. 2;Voluson E6;1 ",
            "Patient00001_Plane5_1_of_1;1;Fetal femur;Not A Brain;Op. 2;Voluson E6;yes",
            "row 9 .*expected Train to be one of 1, 0, found 'yes'",
        ),
        ("Patient00001_Plane5_1_of_1;1;", "Patient00001_Plane5_1_of_1;2;", "row 9: expected Patient_num 1 .*found '2'"),
        ("Patient00001_Plane5_1_of_1;1;", "Patient00001_Plane5_1_of_1;;", "row 9: expected Patient_num 1 .*found ''"),
        ("Patient00001_Plane5_1_of_1;1;", "femur1;1;", "row 9: expected an Image_name .*found 'femur1'"),
        (";Train ", ";Split", "expected column.s. 'Train', found 'Image_name'"),
    ],
)
def test_unknown_values_and_mixed_up_patients_are_refused(mini_fetal_planes, old, new, message):
    edit(mini_fetal_planes, old, new)
    with pytest.raises(DataError, match=rf"{TABLE}.*{message}"):
        FETAL_PLANES_DB.scan(mini_fetal_planes)


def test_two_rows_of_one_picture_that_disagree_are_refused(mini_fetal_planes):
    with (mini_fetal_planes / TABLE).open("a") as table:
        table.write("Patient00001_Plane5_1_of_1;1;Fetal thorax;Not A Brain;Op. 2;Voluson E6;1 \n")
    with pytest.raises(DataError, match=rf"{TABLE} row 56: expected Plane 'Fetal femur' for .* as in row 9"):
        FETAL_PLANES_DB.scan(mini_fetal_planes)


def test_a_row_there_twice_counts_once_with_a_warning(mini_fetal_planes):
    before = FETAL_PLANES_DB.scan(mini_fetal_planes).records
    with (mini_fetal_planes / TABLE).open("a") as table:
        table.write(rows()[3] + "\n")
    scan = FETAL_PLANES_DB.scan(mini_fetal_planes)
    assert scan.records == before
    assert len(scan.warnings) == 1
    assert "1 row (row 56) repeated word for word; each counts once" in scan.warnings[0]


def test_pictures_without_a_row_are_left_out_and_counted(mini_fetal_planes):
    for name in ("x1.png", "x2.png", "notes.txt"):
        (mini_fetal_planes / "Images" / name).touch()
    scan = FETAL_PLANES_DB.scan(mini_fetal_planes)
    assert len(scan.records) == len(rows())
    assert len(scan.warnings) == 1
    assert "2 pictures (x1.png, x2.png) without a row in FETAL_PLANES_DB_data.csv" in scan.warnings[0]


def test_an_archive_that_was_not_unpacked_is_named(mini_fetal_planes):
    (mini_fetal_planes / "Images").rename(mini_fetal_planes.parent / "elsewhere")
    (mini_fetal_planes / "FETAL_PLANES_ZENODO.zip").touch()
    scan = FETAL_PLANES_DB.scan(mini_fetal_planes)
    assert "FETAL_PLANES_ZENODO.zip is not unpacked" in scan.warnings[0]
    assert not any(record.is_present for record in scan.records)


def test_the_archive_alone_is_found_and_named(tmp_path):
    (tmp_path / "FETAL_PLANES_ZENODO.zip").touch()
    assert FETAL_PLANES_DB.find(tmp_path) == tmp_path
    scan = FETAL_PLANES_DB.scan(tmp_path)
    assert scan.records == []
    assert scan.warnings == [
        f"{tmp_path / 'FETAL_PLANES_ZENODO.zip'} is not unpacked: expected the table {tmp_path / TABLE}. "
        "Unpack it there."
    ]


def test_the_real_table_is_read(shared_data):
    folder = FETAL_PLANES_DB.find(shared_data)
    assert folder == shared_data / "fetal_planes_db"
    scan = FETAL_PLANES_DB.scan(folder)
    assert len(scan.records) == FETAL_PLANES_DB.published_pictures == 12_400
    assert [r.record_id for r in scan.records if r.is_present] == ["Images/Patient01792_Plane5_1_of_1.png"]
    assert Counter(r.official_split for r in scan.records) == {Split.TRAIN: 7_129, Split.TEST: 5_271}
    patients = {
        split: {r.group for r in scan.records if r.official_split is split} for split in (Split.TRAIN, Split.TEST)
    }
    assert [len(p) for p in patients.values()] == [896, 896]
    assert not patients[Split.TRAIN] & patients[Split.TEST]
    assert Counter(r.labels.get(Task.PI) for r in scan.records) == {
        None: 4_213,
        "Fetal abdomen": 711,
        "Fetal brain": 143,
        "Fetal femur": 1_040,
        "Fetal thorax": 1_718,
        "Maternal cervix": 1_626,
        "Trans-cerebellum": 714,
        "Trans-thalamic": 1_638,
        "Trans-ventricular": 597,
    }
    assert scan.warnings == []
