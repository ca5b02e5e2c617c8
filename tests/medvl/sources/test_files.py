from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvl.errors import DataError
from medvl.sources.files import Files, one_of

HOME = Path("/d")


def files(*names):
    return Files({name: HOME / name for name in names})


@pytest.mark.parametrize("name", ["a.png", "A.png"])
def test_the_file_of_exactly_this_name_comes_first(name):
    assert files("A.png", "a.png").find(name, "row 1") == HOME / name


@pytest.mark.parametrize("name", ["img_1.png", "IMG_1.PNG", "Img_1.png"])
def test_the_only_file_that_differs_in_case_is_taken(name):
    assert files("img_1.PNG", "img_2.png").find(name, "row 1") == HOME / "img_1.PNG"


def test_two_that_differ_in_case_are_named_where_neither_is_exact():
    with pytest.raises(DataError) as caught:
        files("IMG_1.png", "Img_1.png", "a.png").find("img_1.png", "t.csv row 3")
    assert str(caught.value) == (
        "t.csv row 3: expected one img_1.png, found /d/IMG_1.png and /d/Img_1.png. Keep the right one, under exactly "
        "this name."
    )


def test_what_is_not_there_is_none():
    assert files("a.png").find("b.png", "row 1") is None
    assert files().find("b.png", "row 1") is None


@given(st.lists(st.text("aAbB", max_size=3), unique=True), st.text("aAbB", max_size=3))
def test_each_file_is_found_by_its_own_name_and_no_other_stands_for_it(names, wanted):
    there = files(*names)
    assert all(there.find(name, "") == HOME / name for name in names)
    alike = [name for name in names if name.casefold() == wanted.casefold()]
    if wanted in names or len(alike) < 2:
        found = there.find(wanted, "")
        assert found == (HOME / (wanted if wanted in names else alike[0]) if alike else None)
    else:
        with pytest.raises(DataError):
            there.find(wanted, "")


def test_what_nobody_used_is_listed_by_name():
    assert files("A.png", "a.png", "b.png").unused({HOME / "a.png"}) == ["A.png", "b.png"]


def test_by_lower_case_no_two_may_share_a_name():
    assert files("B.PNG", "a.png").by_lower_case() == {"b.png": HOME / "B.PNG", "a.png": HOME / "a.png"}
    with pytest.raises(DataError, match=r"/d/A\.png and /d/a\.png: expected one file, found two .* Remove the one"):
        files("A.png", "a.png", "b.png").by_lower_case()


def test_of_alike_paths_the_exact_one_is_taken_else_the_only_one():
    one, other = HOME / "frame_1.png", HOME / "frame_000001.png"
    assert one_of([one, other], "frame_000001.png", "s") == other
    assert one_of([one], "frame_000001.png", "s") == one
    with pytest.raises(DataError, match=r"s: expected one frame_01\.png, found /d/frame_1\.png and /d/frame_000001"):
        one_of([one, other], "frame_01.png", "s")
