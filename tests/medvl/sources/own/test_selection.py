import pytest

from medvl.config.own_data import OwnDataConfig
from medvl.errors import DataError
from medvl.sources.own.selection import is_selected


def config(**only):
    return OwnDataConfig(name="mylab", format="questions", path="q.jsonl", only=only)


def test_a_row_must_have_a_wanted_value_in_every_named_column():
    wanted = config(organ=["lung", "heart"], view=["1"])
    assert is_selected(wanted, {"organ": " lung ", "view": 1}, "row 1")
    assert not is_selected(wanted, {"organ": "lung", "view": 2}, "row 1")
    assert not is_selected(wanted, {"organ": "liver", "view": 1}, "row 1")
    assert is_selected(config(), {}, "row 1")


def test_a_column_that_is_not_there_is_named_with_what_was_meant():
    with pytest.raises(DataError, match=r"row 1: expected the column 'orgn' .*did you mean organ\?"):
        is_selected(config(orgn=["lung"]), {"organ": "lung"}, "row 1")
