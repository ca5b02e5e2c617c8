import shutil
from collections import Counter

import pytest
from mini_fetus_framework import HEADER, PICTURES, ROWS, SET1, SET2, SIZE, write_mini_fetus_framework, write_table

from medvl.benchmark.groups import normalise_group
from medvl.benchmark.split import official_split_problem
from medvl.errors import DataError
from medvl.imaging.reading import read_picture
from medvl.sources.fetus_framework import FETUS_FRAMEWORK
from medvl.sources.record import Domain, Split, Structure, Task

TABLE = "ObjectDetection.xlsx"
SHORT = {SET1: "Set1", SET2: "Set2"}


@pytest.fixture
def folder(tmp_path):
    return write_mini_fetus_framework(tmp_path / "root" / "Dataset for Fetus Framework")


def by_id(scan):
    return {record.record_id: record for record in scan.records}


def listed() -> set[str]:
    places = {place: place.partition("/") for place in PICTURES}
    short = {place: f"{SHORT.get(home, home)}/{view}" for place, (home, _, view) in places.items()}
    return {f"{short[place]}/{stem}.png" for place, stems in PICTURES.items() for stem in stems}


def test_every_picture_gives_a_record_with_the_name_of_its_folder(folder):
    present = [r for r in FETUS_FRAMEWORK.scan(folder).records if r.is_present]
    assert {r.record_id for r in present} == listed()
    assert len(present) == len(listed())
    assert all(r.labels == {Task.VC: r.record_id.split("/")[1]} for r in present)
    assert Counter(r.labels[Task.VC] for r in present) == {"Standard": 9, "Non-standard": 4}
    assert {r.domain for r in present} == {Domain.CLINICAL}
    assert {read_picture(r.picture).shape for r in present} == {(*SIZE[::-1], 3)}


def test_boxes_are_turned_from_y_before_x(folder):
    records = by_id(FETUS_FRAMEWORK.scan(folder))
    assert records["Set1/Standard/1.png"].structures == (
        Structure("thalami", (10, 5, 30, 15)),
        Structure("NT", (12, 20, 40, 24)),
        Structure("nasal bone", (0, 0, 60, 45)),
    )
    assert [s.bbox_xyxy_px for s in records["Set1/Standard/2.png"].structures] == [(10.5, 5, 30, 15), (8, 7, 10, 9)]
    assert records["Set2/Non-standard/4.png"].structures == (Structure("palate", (2, 1, 4, 3)),)
    assert records["Set2/Non-standard/9.png"].structures == ()


def test_boxes_of_a_name_that_two_pictures_have_are_left_out_and_named(folder):
    scan = FETUS_FRAMEWORK.scan(folder)
    records = by_id(scan)
    assert records["Set1/Standard/7.png"].structures == records["Internal Test Set/Standard/7.png"].structures == ()
    assert [f"{TABLE}: 1 name (7.png) that different pictures" in warning for warning in scan.warnings] == [True]


def test_copies_of_one_file_share_its_boxes(folder):
    records = by_id(FETUS_FRAMEWORK.scan(folder))
    expected = (Structure("nasal skin", (2, 1, 4, 3)),)
    assert records["Set2/Standard/8.png"].structures == expected
    assert records["Internal Test Set/Standard/8.png"].structures == expected


def test_names_of_the_table_without_a_picture_are_absent_and_carry_nothing(folder):
    (record,) = [r for r in FETUS_FRAMEWORK.scan(folder).records if not r.is_present]
    assert record.record_id == f"{TABLE}/1500.png"
    assert not record.structures
    assert not record.labels


def test_sets_give_the_side_and_the_centre_and_the_split_can_be_used(folder):
    records = FETUS_FRAMEWORK.scan(folder).records
    sides = {r.record_id.partition("/")[0]: (r.official_split, r.meta["centre"][:8]) for r in records if r.is_present}
    assert sides == {
        "Set1": (Split.TRAIN, "Shenzhen"),
        "Set2": (Split.TRAIN, "Shenzhen"),
        "Internal Test Set": (Split.TEST, "Shenzhen"),
        "External Test Set": (Split.TEST, "Longhua "),
    }
    askable = [r for r in records if r.labels or r.structures]
    assert official_split_problem(FETUS_FRAMEWORK, askable) is None


def test_every_picture_is_its_own_group(folder):
    records = FETUS_FRAMEWORK.scan(folder).records
    assert len({normalise_group("fetus_framework", r.group, r.where) for r in records}) == len(records)


def facts(scan):
    return [(r.record_id, r.labels, r.structures, r.group, r.official_split) for r in scan.records]


def test_other_spellings_of_the_folders_give_the_same_records(folder):
    expected = facts(FETUS_FRAMEWORK.scan(folder))
    (folder / SET2 / "Non-standard").rename(folder / SET2 / "Non_Standard")
    (folder / SET1).rename(folder / "Set1-Training&ValidationSetsCNN")
    (folder / SET2).rename(folder / "Set2_Training-Validation Sets ANN Scoring system")
    (folder / "Internal Test Set").rename(folder / "Internal_Test_Set")
    assert facts(FETUS_FRAMEWORK.scan(folder)) == expected


def test_sets_one_folder_deeper_than_the_table_give_the_same_records(folder):
    expected = facts(FETUS_FRAMEWORK.scan(folder))
    inner = folder / "Dataset for Fetus Framework"
    inner.mkdir()
    for place in {place.partition("/")[0] for place in PICTURES}:
        (folder / place).rename(inner / place)
    assert facts(FETUS_FRAMEWORK.scan(folder)) == expected
    assert FETUS_FRAMEWORK.find(folder.parent) == folder


def test_pictures_that_lie_in_a_set_itself_have_boxes_but_no_class(folder):
    (folder / SET1 / "Standard/1.png").rename(folder / SET1 / "1.png")
    record = by_id(FETUS_FRAMEWORK.scan(folder))["Set1/1.png"]
    assert record.labels == {}
    assert len(record.structures) == 3
    assert record.official_split is Split.TRAIN


def test_upper_case_endings_and_paths_in_the_table_are_matched(folder):
    (folder / SET1 / "Standard/1.png").rename(folder / SET1 / "Standard/1.PNG")
    write_table(folder / TABLE, [(rf"Set1\Standard\{row[0]}", *row[1:]) for row in ROWS])
    assert len(by_id(FETUS_FRAMEWORK.scan(folder))["Set1/Standard/1.PNG"].structures) == 3


def test_names_that_a_spreadsheet_made_numbers_are_matched(folder):
    write_table(folder / TABLE, [(1, "NT", 1, 2, 3, 4)])
    assert by_id(FETUS_FRAMEWORK.scan(folder))["Set1/Standard/1.png"].structures == (Structure("NT", (2, 1, 4, 3)),)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("1.png", "nose", 1, 2, 3, 4), "expected structure to be one of thalami, .*found 'nose'"),
        (("1.png", "NT", 3, 2, 3, 4), "expected 0 <= h_min < h_max .*found h 3 to 3, w 2 to 4"),
        (("1.png", "NT", 1, 4, 3, 2), "expected 0 <= h_min < h_max .*found h 1 to 3, w 4 to 2"),
        (("1.png", "NT", -1, 2, 3, 4), "expected 0 <= h_min < h_max .*found h -1 to 3"),
        (("1.png", "NT", None, 2, 3, 4), "expected a number in column h_min, found None"),
        ((None, "NT", 1, 2, 3, 4), "expected a file name in column fname, found none"),
    ],
)
def test_broken_rows_are_refused(folder, row, message):
    write_table(folder / TABLE, [*ROWS, row])
    with pytest.raises(DataError, match=rf"{TABLE} row {len(ROWS) + 2}.*{message}"):
        FETUS_FRAMEWORK.scan(folder)


def test_a_table_without_a_column_is_refused(folder):
    write_table(folder / TABLE, ROWS, [*HEADER[:2], "y_min", *HEADER[3:]])
    with pytest.raises(DataError, match=r"ObjectDetection\.xlsx: expected column\(s\) 'h_min'"):
        FETUS_FRAMEWORK.scan(folder)


def test_rows_that_repeat_count_once_and_boxes_that_disagree_are_left_out(folder):
    write_table(folder / TABLE, [*ROWS, ROWS[0], ("2.png", "CM", 7, 8, 9, 11)])
    scan = FETUS_FRAMEWORK.scan(folder)
    records = by_id(scan)
    assert [s.label for s in records["Set1/Standard/1.png"].structures] == ["thalami", "NT", "nasal bone"]
    assert [s.label for s in records["Set1/Standard/2.png"].structures] == ["IT"]
    assert f"{TABLE}: 1 row (row 14) repeated word for word; each counts once." in scan.warnings
    assert any("1 structure (2.png CM) with several boxes under one file name" in w for w in scan.warnings)


def test_a_partial_copy_is_usable_and_says_what_it_lacks(folder):
    shutil.rmtree(folder / SET2)
    (folder / TABLE).unlink()
    scan = FETUS_FRAMEWORK.scan(folder)
    assert len(scan.records) == 9
    assert any(f"no {TABLE}; no box is asked about" in warning for warning in scan.warnings)
    assert any("without Set2; complete the copy" in warning for warning in scan.warnings)
    assert FETUS_FRAMEWORK.find(folder.parent) == folder


def test_two_folders_of_one_set_are_refused(folder):
    shutil.copytree(folder / "Internal Test Set", folder / "Internal_Test_Set")
    with pytest.raises(DataError, match="expected one folder for Internal Test Set, found 'Internal Test Set' and"):
        FETUS_FRAMEWORK.scan(folder)


def test_unknown_folders_links_and_archives_are_named(folder, tmp_path):
    (folder / SET1 / "Unsure").mkdir()
    (folder / "External Test Set").rename(tmp_path / "elsewhere")
    (folder / "External Test Set").symlink_to(tmp_path / "elsewhere")
    warnings = FETUS_FRAMEWORK.scan(folder).warnings
    assert any("1 folder (Unsure) that the dataset does not have" in warning for warning in warnings)
    assert any("External Test Set is a link out of the dataset" in warning for warning in warnings)
    for place in (SET1, SET2, "Internal Test Set"):
        shutil.rmtree(folder / place)
    (folder / "Dataset for Fetus Framework.zip").touch()
    scan = FETUS_FRAMEWORK.scan(folder)
    assert any("Dataset for Fetus Framework.zip is not unpacked" in warning for warning in scan.warnings)
    assert not any(r.is_present for r in scan.records)


def test_the_dataset_is_found_below_the_root_and_not_elsewhere(folder, tmp_path_factory):
    assert FETUS_FRAMEWORK.find(folder.parent) == FETUS_FRAMEWORK.find(folder) == folder
    other = tmp_path_factory.mktemp("other")
    for name in ("set1", "set2", "Internal Test Set"):
        (other / name).mkdir()
    assert FETUS_FRAMEWORK.find(other) is None
