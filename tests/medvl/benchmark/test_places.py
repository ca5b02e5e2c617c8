import os

import pytest

from medvl.benchmark.places import Places
from medvl.sources.record import Domain, MaskFile, Record, Structure


@pytest.fixture
def home(tmp_path):
    """A folder with a picture, and one beside it."""
    for place in ("home/pictures", "elsewhere"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "a.png").touch()
    return tmp_path / "home"


def record(picture, mask=None):
    structures = () if mask is None else (Structure("heart", mask=MaskFile(mask)),)
    return Record("s", "r", picture, "g", Domain.CLINICAL, structures=structures)


def test_files_and_links_inside_are_fine(home):
    (home / "link.png").symlink_to(home / "pictures" / "a.png")
    (home / "folder").symlink_to(home / "pictures")
    places = Places([home])
    for path in (home / "pictures" / "a.png", home / "link.png", home / "folder" / "a.png", home / "absent.png"):
        assert places.problem(record(path)) is None


@pytest.mark.parametrize("link", ["pictures/b.png", "linked"])
def test_links_that_lead_out_are_named_whether_file_or_folder(home, link):
    is_file = link.endswith(".png")
    path = home / link if is_file else home / link / "a.png"
    (home / link).symlink_to(home.parent / "elsewhere" / ("a.png" if is_file else ""))
    for made in (record(path), record(home / "pictures" / "a.png", mask=path)):
        problem = Places([home]).problem(made)
        assert problem.startswith(f"{path}: expected a file below {home}, found a link that leads out of it")
        assert "elsewhere" not in problem  # what lies there is nobody's business
    assert Places([home, home.parent / "elsewhere"]).problem(record(path)) is None
    assert Places().problem(record(path)) is None


def test_a_folder_of_which_another_is_the_beginning_is_outside(home):
    (home.parent / "home2").mkdir()
    (home / "link").symlink_to(home.parent / "home2")
    assert Places([home]).problem(record(home / "link" / "a.png")) is not None


def test_the_home_itself_may_be_a_link(home):
    (home.parent / "root").symlink_to(home)
    assert Places([home.parent / "root"]).problem(record(home.parent / "root" / "pictures" / "a.png")) is None


def test_a_name_that_is_not_utf8_is_named_so_that_it_can_be_printed(home):
    path = home / os.fsdecode(b"Kopf_\xfc.png")
    problem = Places().problem(record(path))
    assert (
        problem == f"{home}/Kopf_\\udcfc.png: expected a path in UTF-8, found other bytes. Rename the file or folder."
    )
    problem.encode()
