from pathlib import Path

import pytest

from medvl.sources.listing import counted, warn_of, without_structures
from medvl.sources.record import Domain, Record, Structure


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], "0 stacks ()"),
        (["a"], "1 stack (a)"),
        (["a", "b", "c"], "3 stacks (a, b, c)"),
        (["a", "b", "c", "d"], "4 stacks (a, b, c, ...)"),
    ],
)
def test_files_are_counted_and_the_first_three_named(names, text):
    assert counted(names, "stack") == text


def test_a_warning_names_its_place_and_without_names_there_is_none():
    assert warn_of(Path("images"), ["a", "b"], "picture", "without a mask.") == [
        "images: 2 pictures (a, b) without a mask."
    ]
    assert warn_of("images", [], "picture", "without a mask.") == []


def test_pictures_without_structures_are_those_that_are_there():
    def record(name, structures=(), is_present=True):
        picture = Path(f"{name}.png")
        return Record("x", name, picture, name, Domain.CLINICAL, structures=structures, is_present=is_present)

    records = [record("bare"), record("marked", (Structure("head", (0, 0, 1, 1)),)), record("gone", is_present=False)]
    assert without_structures(records) == ["bare"]
