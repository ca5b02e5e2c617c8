import pytest

from medvl.errors import DataError
from medvl.sources.locate import entry, find_archives, find_folder, list_files


def put(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@pytest.mark.parametrize("place", [".", "hc18", "downloads/HC 18 (1)"])
def test_a_dataset_is_found_at_the_root_and_two_levels_below(tmp_path, place):
    put(tmp_path / place, "table.csv", "Images/a.png")
    put(tmp_path, "other/readme.txt")
    assert find_folder(tmp_path, ["table.csv", "Images"]) == (tmp_path / place)


def test_three_levels_below_is_not_looked_at(tmp_path):
    put(tmp_path, "a/b/c/table.csv")
    assert find_folder(tmp_path, ["table.csv"]) is None


def test_all_markers_must_be_in_one_folder(tmp_path):
    put(tmp_path, "a/table.csv", "b/Images/x.png")
    assert find_folder(tmp_path, ["table.csv", "Images"]) is None


def test_markers_match_in_any_case_and_may_be_paths(tmp_path):
    put(tmp_path, "x/TABLE.CSV", "x/Labels/Train.txt")
    assert find_folder(tmp_path, ["table.csv", "labels/train.TXT"]) == tmp_path / "x"


def test_of_several_copies_the_highest_and_then_the_first_by_name_is_taken(tmp_path):
    put(tmp_path, "b/table.csv", "a/deep/table.csv", "c/table.csv")
    assert find_folder(tmp_path, ["table.csv"]) == tmp_path / "b"


def test_links_out_of_the_root_are_not_followed_and_links_within_are(tmp_path):
    root = tmp_path / "root"
    put(tmp_path, "outside/table.csv")
    put(root, "z/y/deep/table.csv")
    (root / "link").symlink_to(tmp_path / "outside")
    assert find_folder(root, ["table.csv"]) is None
    (root / "near").symlink_to(root / "z" / "y" / "deep")
    assert find_folder(root, ["table.csv"]) == root / "near"


def test_the_root_itself_may_be_a_link(tmp_path):
    put(tmp_path, "disk/hc18/table.csv")
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    assert find_folder(tmp_path / "data", ["table.csv"]) == tmp_path / "data" / "hc18"


def test_hidden_folders_and_leftovers_of_archives_are_passed_over(tmp_path):
    put(tmp_path, ".cache/table.csv", "__MACOSX/table.csv")
    assert find_folder(tmp_path, ["table.csv"]) is None


def test_a_relative_root_gives_an_absolute_folder(tmp_path, monkeypatch):
    put(tmp_path, "data/hc18/table.csv")
    monkeypatch.chdir(tmp_path)
    found = find_folder(tmp_path.relative_to(tmp_path) / "data", ["table.csv"])
    assert found == tmp_path / "data" / "hc18"


def test_a_root_that_is_no_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"nowhere.*data\.root"):
        find_folder(tmp_path / "nowhere", ["x"])


def test_archives_with_a_telling_name_are_listed(tmp_path):
    put(tmp_path, "Training_Set.ZIP", "sub/training_set.tar.gz", "training_set.txt", "other.zip")
    assert find_archives(tmp_path, ["training_set"]) == [
        tmp_path / "Training_Set.ZIP",
        tmp_path / "sub" / "training_set.tar.gz",
    ]


def test_an_entry_prefers_its_exact_name(tmp_path):
    put(tmp_path, "A.png", "a.png")
    assert entry(tmp_path, "a.png") == tmp_path / "a.png"
    assert entry(tmp_path, "A.PNG") == tmp_path / "A.png"
    assert entry(tmp_path, "b.png") is None


def test_files_are_listed_by_lower_case_name_without_hidden_ones(tmp_path):
    put(tmp_path, "B.PNG", "a.png", "._a.png")
    assert list(list_files(tmp_path).items()) == [("b.png", tmp_path / "B.PNG"), ("a.png", tmp_path / "a.png")]
    assert list_files(tmp_path / "none") == {}
