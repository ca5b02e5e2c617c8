import os

import pytest
from own_data import write_picture

from medvl.config.own_data import OwnDataConfig
from medvl.errors import DataError
from medvl.sources.own.place import PictureFinder, find_place, place_in


def config(**values):
    return OwnDataConfig(**{"name": "mylab", "format": "questions", "group": "picture", **values})


def places(root, **values):
    made = config(**values)
    folder = find_place(made, root)
    place = place_in(made, folder)
    return [p and p.relative_to(root).as_posix() for p in (folder, place.path, place.pictures, place.cache)]


@pytest.fixture
def root(tmp_path):
    (tmp_path / "lab" / "img").mkdir(parents=True)
    (tmp_path / "saved").mkdir()
    for name in ("q.jsonl", "lab/q.jsonl"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"path": "lab/q.jsonl"}, ["lab", "lab/q.jsonl", "lab", None]),
        ({"path": "q.jsonl"}, [".", "q.jsonl", ".", None]),
        ({"path": "lab/q.jsonl", "pictures": "lab/img"}, ["lab", "lab/q.jsonl", "lab/img", None]),
        ({"path": "lab/q.jsonl", "pictures": "saved"}, [".", "lab/q.jsonl", "saved", None]),
        ({"path": "lab/q.jsonl", "pictures": "."}, [".", "lab/q.jsonl", ".", None]),
        ({"path": "saved"}, ["saved", "saved", "saved", None]),
        ({"path": "saved", "cache": "made/here"}, ["saved", "saved", "saved", "made/here"]),
    ],
)
def test_paths_are_relative_to_the_data_root(root, values, expected):
    assert places(root, **values) == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"path": "none.jsonl"}, "path: expected the file .*none.jsonl, found nothing"),
        ({"path": "lab/none"}, "expected the folder .*, found nothing"),
        ({"path": "lab/q.jsonl", "pictures": "lab/none"}, "pictures: expected the folder"),
        ({"path": "lab/q.jsonl", "pictures": "q.jsonl"}, "found a file"),
    ],
)
def test_what_is_not_there_is_named(root, values, message):
    with pytest.raises(DataError, match=message):
        places(root, **values)


@pytest.mark.parametrize(
    ("archive", "path"), [("set.zip", "set"), ("Set.ZIP", "set"), ("set.zip", "set.zip"), ("q.csv.gz", "q.csv")]
)
def test_an_archive_in_the_place_of_the_data_is_named(root, archive, path):
    (root / archive).touch()
    with pytest.raises(
        DataError, match=rf"path: expected .*{path}, found the archive {archive}, which is not unpacked"
    ):
        places(root, path=path)


@pytest.fixture
def finder(tmp_path):
    write_picture(tmp_path / "img" / "a" / "One.PNG")
    write_picture(tmp_path / "img" / "two.png")
    write_picture(tmp_path / "outside" / "three.png")
    return PictureFinder(tmp_path / "img")


@pytest.mark.parametrize("name", ["a/One.PNG", "./a/One.PNG", "A/one.png", r"a\One.PNG", " a//One.PNG "])
def test_a_picture_is_found_however_its_path_is_written(finder, name):
    found = finder.find(name, "row 1")
    assert (found.name, found.is_present) == ("a/One.PNG", True)
    assert found.path == finder.folder / "a" / "One.PNG"


def test_an_absolute_path_below_the_folder_is_found(finder):
    assert finder.find(str(finder.folder / "two.png"), "row 1").name == "two.png"


def test_an_exact_name_wins_over_one_that_differs_in_case(finder):
    write_picture(finder.folder / "TWO.png")
    assert finder.find("two.png", "row 1").name == "two.png"
    assert finder.find("TWO.png", "row 1").name == "TWO.png"


def test_a_name_that_fits_several_in_another_case_is_refused_with_both(finder):
    one, other = (write_picture(finder.folder / name) for name in ("FOUR.png", "Four.png"))
    with pytest.raises(DataError) as caught:
        finder.find("four.png", "q.csv row 7")
    assert str(caught.value).startswith(f"q.csv row 7: expected one four.png, found {one} and {other}.")


def test_a_picture_knows_by_which_path_it_was_asked_for(finder):
    assert finder.find(r"A\one.png", "row 1").listed_as == "A/one.png"
    assert finder.find("a/none.png", "row 1").listed_as == "a/none.png"


@pytest.mark.parametrize("name", ["a/none.png", "none/One.PNG", "two.png/x.png", "a"])
def test_what_is_no_file_is_absent(finder, name):
    found = finder.find(name, "row 1")
    assert (found.name, found.is_present) == (name, False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../outside/three.png", "relative to"),
        ("a/../two.png", "relative to"),
        ("/etc/passwd", "relative to"),
        (r"C:\pictures\a.png", "relative to"),
        (".", "relative to"),
        ("a\0.png", "relative to"),
        ("https://example.org/a.png", "address"),
        ("iVBORw0KGgo" * 200, "base64"),
    ],
)
def test_what_leads_elsewhere_is_refused(finder, name, message):
    with pytest.raises(DataError, match=f"row 7: .*{message}"):
        finder.find(name, "row 7")


def test_links_are_followed_inside_the_folder_only(finder):
    os.symlink(finder.folder / "two.png", finder.folder / "inside.png")
    os.symlink(finder.folder.parent / "outside", finder.folder / "out")
    os.symlink(finder.folder / "gone.png", finder.folder / "broken.png")
    assert finder.find("inside.png", "row 1").is_present
    assert not finder.find("broken.png", "row 1").is_present
    with pytest.raises(DataError, match="a link that leads out"):
        finder.find("out/three.png", "row 1")


def test_each_folder_is_listed_once(finder, monkeypatch):
    listed = []
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: listed.append(folder) or real(folder))
    for name in ("a/One.PNG", "a/none.png", "two.png", "a/One.PNG"):
        finder.find(name, "row 1")
    assert listed == [finder.folder, finder.folder / "a"]
