import shutil
from collections import Counter

import pytest
from mini_ultrasound_fetus import PICTURES, write_mini_ultrasound_fetus

from medvl.benchmark.groups import normalise_group
from medvl.benchmark.split import official_split_problem
from medvl.errors import DataError
from medvl.imaging.reading import read_picture
from medvl.sources.record import Domain, Split, Task
from medvl.sources.ultrasound_fetus import ULTRASOUND_FETUS


@pytest.fixture
def folder(tmp_path):
    return write_mini_ultrasound_fetus(tmp_path / "root" / "downloads")


def by_id(scan):
    return {record.record_id: record for record in scan.records}


def test_each_picture_of_the_split_copy_is_there_once_with_the_name_of_its_folder(folder):
    scan = ULTRASOUND_FETUS.scan(folder)
    assert {r.record_id: r.labels for r in scan.records} == {
        f"{place}/{stem}.png": {Task.CD: place.partition("/")[2]} for place, stems in PICTURES.items() for stem in stems
    }
    assert len(scan.records) == sum(map(len, PICTURES.values()))
    assert scan.warnings == []
    assert {r.domain for r in scan.records} == {Domain.CLINICAL}
    assert not any(r.structures for r in scan.records)
    assert {read_picture(r.picture).shape for r in scan.records} == {(30, 40, 3)}


def test_drawn_annotations_are_no_pictures(folder):
    assert len(list(folder.rglob("*_Annotation.png"))) == 4
    assert not any("annotation" in r.record_id.casefold() for r in ULTRASOUND_FETUS.scan(folder).records)


def test_the_published_folders_give_the_side_and_validation_counts_as_train(folder):
    records = ULTRASOUND_FETUS.scan(folder).records
    sides = Counter((r.record_id.partition("/")[0], r.official_split) for r in records)
    assert sides == {("train", Split.TRAIN): 7, ("validation", Split.TRAIN): 2, ("test", Split.TEST): 4}
    assert official_split_problem(ULTRASOUND_FETUS, records) is None


def test_repeats_of_a_subject_share_their_group_and_equal_numbers_of_two_classes_do_not(folder):
    records = by_id(ULTRASOUND_FETUS.scan(folder))
    groups = {key: normalise_group("ultrasound_fetus", r.group, r.where) for key, r in records.items()}
    assert groups["train/benign/013_HC.png"] == groups["train/benign/013_2HC.png"]
    assert len(set(groups.values())) == len(groups) - 1


def test_a_published_split_with_a_subject_on_both_sides_is_refused(folder):
    (folder / "train/benign/013_2HC.png").rename(folder / "test/benign/013_2HC.png")
    records = ULTRASOUND_FETUS.scan(folder).records
    assert official_split_problem(ULTRASOUND_FETUS, records) == "1 groups lie on both sides of the published split"


def test_the_unsplit_copy_is_read_where_the_split_one_is_absent(folder):
    for part in ("train", "validation", "test"):
        shutil.rmtree(folder / part)
    scan = ULTRASOUND_FETUS.scan(folder)
    assert Counter(r.labels[Task.CD] for r in scan.records) == {"benign": 5, "malignant": 3, "normal": 5}
    assert all(r.record_id.startswith("Datasets/") and r.official_split is None for r in scan.records)
    assert not any("annotation" in r.record_id.casefold() for r in scan.records)
    assert ["the unsplit copy Datasets is read" in warning for warning in scan.warnings] == [True]


def test_what_does_not_fit_is_named(folder):
    (folder / "Datasets/normal/99_fetus.png").touch()
    (folder / "train/unsure").mkdir()
    warnings = ULTRASOUND_FETUS.scan(folder).warnings
    assert any("1 picture (Datasets/normal/99_fetus.png) only in the unsplit copy; left out" in w for w in warnings)
    assert any("1 folder (unsure) that the dataset does not have" in w for w in warnings)
    assert len(warnings) == 2


def test_other_cases_and_endings_are_read_alike(folder):
    (folder / "train/benign").rename(folder / "train/Benign")
    path = folder / "train/Benign/12_fetus.png"
    path.rename(path.with_suffix(".JPG"))
    record = by_id(ULTRASOUND_FETUS.scan(folder))["train/benign/12_fetus.JPG"]
    assert record.labels == {Task.CD: "benign"}
    assert record.is_present


def test_archives_that_were_not_unpacked_are_named(folder):
    for part in ("train", "validation", "test", "Datasets"):
        shutil.rmtree(folder / part)
    (folder / "Data.rar").touch()
    scan = ULTRASOUND_FETUS.scan(folder)
    assert scan.records == []
    assert scan.warnings == [f"{folder / 'Data.rar'} is not unpacked: expected the folders train, validation, test."]


def test_a_class_that_is_a_link_out_of_the_dataset_is_not_followed(folder, tmp_path):
    (folder / "test/normal").rename(tmp_path / "elsewhere")
    (folder / "test/normal").symlink_to(tmp_path / "elsewhere")
    scan = ULTRASOUND_FETUS.scan(folder)
    assert not any(r.record_id.startswith("test/normal") for r in scan.records)
    assert any("test/normal is a link out of the dataset" in warning for warning in scan.warnings)


@pytest.mark.parametrize("levels", range(5))
def test_the_dataset_is_found_by_its_table_however_deep_its_folders_are_nested(folder, levels):
    assert ULTRASOUND_FETUS.find([folder, *folder.parents][levels]) == folder


@pytest.mark.parametrize("levels", [2, 3, 4])
def test_the_dataset_is_found_by_its_name_where_the_table_is_absent(folder, levels):
    (folder / "FetusDataset.csv").unlink()
    assert ULTRASOUND_FETUS.find([folder, *folder.parents][levels]) == folder


def test_other_datasets_of_normal_benign_and_malignant_pictures_are_not_taken_for_it(folder, tmp_path):
    (folder / "FetusDataset.csv").unlink()
    breast = tmp_path / "fetus_and_breast" / "busi"
    folder.rename(tmp_path / "moved")
    breast.parent.mkdir()
    (tmp_path / "moved").rename(breast)
    assert ULTRASOUND_FETUS.find(breast.parent) is None
    assert ULTRASOUND_FETUS.find(breast) is None


def test_folders_of_others_that_differ_in_case_do_no_harm(tmp_path):
    for name in ("DATA", "data", "TRAIN", "train"):
        (tmp_path / name).mkdir()
    assert ULTRASOUND_FETUS.find(tmp_path) is None


def test_a_folder_that_is_a_link_out_of_the_root_is_refused(folder, tmp_path):
    root = tmp_path / "other" / "fetus"
    root.mkdir(parents=True)
    (root / "Data").symlink_to(folder.parent)
    with pytest.raises(DataError, match=r"fetus/Data: expected a dataset .* a link that leads out of it"):
        ULTRASOUND_FETUS.find(root)


def test_the_real_samples_of_other_datasets_are_not_taken_for_it(shared_data):
    assert ULTRASOUND_FETUS.find(shared_data) is None
