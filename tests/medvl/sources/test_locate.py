import pytest

from medvl.errors import DataError
from medvl.sources.locate import (
    entry,
    find_any,
    find_archives,
    find_folder,
    find_inside,
    find_where,
    holds,
    list_files,
    list_pictures,
    not_unpacked,
    or_archive,
    subfolders,
)


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


def test_links_within_the_root_are_followed(tmp_path):
    root = tmp_path / "root"
    put(root, "z/y/deep/table.csv")
    (root / "near").symlink_to(root / "z" / "y" / "deep")
    assert find_folder(root, ["table.csv"]) == root / "near"


@pytest.fixture
def outside(tmp_path):
    """A root without a dataset, and a dataset beside it."""
    put(tmp_path, "disk/hc18/table.csv", "root/other/notes.txt")
    return tmp_path / "disk"


@pytest.mark.parametrize(
    ("link", "target"), [("hc18", "hc18"), ("all", "."), ("data/hc18", "hc18")], ids=["dataset", "above it", "deeper"]
)
def test_a_dataset_behind_a_link_out_of_the_root_is_refused_with_link_and_target(outside, tmp_path, link, target):
    root, target = tmp_path / "root", (outside / target).resolve()
    (root / link).parent.mkdir(exist_ok=True)
    (root / link).symlink_to(target)
    for find in (lambda: find_folder(root, ["table.csv"]), lambda: find_any(root, ["new.csv", "table.csv"])):
        with pytest.raises(DataError) as caught:
            find()
        assert str(caught.value) == (
            f"{root / link}: expected a dataset below {root}, found a link that leads out of it, to {target}. Copy the "
            f"folder there in place of the link, or make {target.parent} the data root."
        )
        assert find_folder(target.parent, ["table.csv"]) is not None


def test_links_out_of_the_root_do_no_harm_where_the_dataset_lies_in_it_or_not_behind_them(outside, tmp_path):
    root = tmp_path / "root"
    (root / "a").symlink_to(outside / "hc18")
    assert find_folder(root, ["other.csv"]) is None
    (root / ".hidden").symlink_to(outside / "hc18")
    (root / "gone").symlink_to(tmp_path / "nowhere")
    put(root, "z/hc18/table.csv")
    assert find_folder(root, ["table.csv"]) == find_any(root, ["new.csv", "table.csv"]) == root / "z" / "hc18"


def test_what_lies_too_deep_behind_a_link_is_not_looked_for(outside, tmp_path):
    put(outside, "a/b/table.csv")
    (tmp_path / "root" / "other" / "link").symlink_to(outside / "a")
    assert find_folder(tmp_path / "root", ["table.csv"]) is None


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


@pytest.mark.parametrize(
    "ending", [".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".gz", ".7z", ".rar", ".TAR.XZ", ".png", ".xz.part"]
)
def test_an_archive_is_known_by_its_ending(tmp_path, ending):
    put(tmp_path, f"data{ending}")
    assert bool(find_archives(tmp_path, ["data"])) == (ending not in (".png", ".xz.part"))


def test_archives_are_sought_no_deeper_than_asked_and_leftovers_of_systems_are_none(tmp_path):
    put(tmp_path, "a.zip", "._a.zip", "x/a.zip", "x/y/a.zip", "x/y/z/a.zip")
    assert find_archives(tmp_path, ["a"], depth=0) == [tmp_path / "a.zip"]
    assert find_archives(tmp_path, ["a"]) == [tmp_path / place / "a.zip" for place in ("", "x", "x/y")]


def test_each_archive_that_is_not_unpacked_gives_a_sentence(tmp_path):
    put(tmp_path, "a.zip", "b.rar", "x.zip")
    assert not_unpacked(tmp_path, ["a", "b"], "the folder a. Unpack it there.") == [
        f"{tmp_path / name} is not unpacked: expected the folder a. Unpack it there." for name in ("a.zip", "b.rar")
    ]


def test_where_there_is_no_folder_the_one_of_the_archive_is_given(tmp_path):
    put(tmp_path, "down/FASS.zip")
    assert or_archive(None, tmp_path, ["fass"]) == tmp_path / "down"
    assert or_archive(tmp_path, tmp_path, ["fass"]) == tmp_path
    assert or_archive(None, tmp_path, ["hc18"]) is None


def test_the_first_marker_wins_wherever_it_lies(tmp_path):
    put(tmp_path, "a/b/new.csv", "old.csv")
    assert find_any(tmp_path, ["new.csv", "old.csv"]) == tmp_path / "a" / "b"
    assert find_any(tmp_path, ["newer.csv", "old.csv"]) == tmp_path
    assert find_any(tmp_path, ["newer.csv"]) is None


def test_a_folder_of_a_known_name_is_found_one_level_deeper(tmp_path):
    put(tmp_path, "a/b/us_data/video/table.csv", "us_data/readme.txt")
    assert find_inside(tmp_path, "US_data") == tmp_path / "us_data"
    assert find_inside(tmp_path, "us_data", ["video/table.csv"]) == tmp_path / "a/b/us_data"
    assert find_inside(tmp_path, "us_data", ["video", "other"]) is None


@pytest.fixture
def tree(tmp_path):
    place = tmp_path / "root"
    for name in ("b/inner/deep", "a", ".hidden", "__MACOSX/x"):
        (place / name).mkdir(parents=True)
    return place


def test_the_shallowest_folder_that_fits_is_found_two_levels_below_at_most(tree):
    assert find_where(tree, lambda folder: True) == tree
    assert find_where(tree, lambda folder: folder.name in ("a", "inner")) == tree / "a"
    assert find_where(tree, lambda folder: folder.name == "inner") == tree / "b" / "inner"
    assert find_where(tree, lambda folder: folder.name in ("deep", ".hidden", "x")) is None


def test_links_are_followed_inside_and_named_where_they_lead_out(tree, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tree / "c").symlink_to(tmp_path / "elsewhere")
    (tree / "a" / "link").symlink_to(tree / "b")
    warnings: list[str] = []
    assert subfolders(tree, warnings=warnings) == [tree / "a", tree / "b"]
    assert [f"{tree / 'c'} is a link out of the dataset" in warning for warning in warnings] == [True]
    assert subfolders(tree / "a", within=tree) == [tree / "a" / "link"]
    assert subfolders(tree / "a" / "absent") == []
    with pytest.raises(DataError, match=rf"{tree / 'c'}: expected a dataset below .*, to {tmp_path / 'elsewhere'}\."):
        find_where(tree, lambda folder: folder.name == "c")


def test_pictures_are_known_by_any_case_of_their_ending_and_must_be_there(tree):
    put(tree / "a", "1.PNG", "2.jpeg", "notes.txt", ".3.png")
    (tree / "a" / "4.png").symlink_to(tree / "not_fetched")
    assert [path.name for path in list_pictures(tree / "a").values()] == ["1.PNG", "2.jpeg"]
    assert [path.name for path in list_pictures(tree / "a", (".png",)).values()] == ["1.PNG"]
    assert list_pictures(tree / "absent") == {}


def test_an_entry_prefers_its_exact_name(tmp_path):
    put(tmp_path, "A.png", "a.png")
    assert entry(tmp_path, "a.png") == tmp_path / "a.png"
    assert entry(tmp_path, "A.png") == tmp_path / "A.png"
    assert entry(tmp_path, "b.png") is None
    with pytest.raises(DataError, match=rf"{tmp_path}: expected one A\.PNG, found .*/A\.png and .*/a\.png"):
        entry(tmp_path, "A.PNG")


def test_whether_an_entry_is_there_does_not_depend_on_case_or_on_how_many_there_are(tmp_path):
    put(tmp_path, "Labels/a.txt", "labels/Train.csv", "x")
    assert holds(tmp_path, "LABELS/train.CSV")
    assert holds(tmp_path, "LABELS")
    assert not holds(tmp_path, "labels/b.txt")
    assert not holds(tmp_path, "x/y")


def test_files_are_listed_by_name_without_hidden_ones(tmp_path):
    put(tmp_path, "B.PNG", "a.png", "._a.png")
    assert list(list_files(tmp_path).items()) == [("B.PNG", tmp_path / "B.PNG"), ("a.png", tmp_path / "a.png")]
    assert list_files(tmp_path / "none") == {}
