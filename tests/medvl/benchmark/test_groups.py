from dataclasses import replace
from pathlib import Path

import pytest
from drawn_source import drawn_source
from hypothesis import given
from hypothesis import strategies as st

from medvl.benchmark.groups import group_of, normalise_group
from medvl.errors import DataError
from medvl.sources.record import Domain, Record


@pytest.mark.parametrize("raw", ["P7", "p007 ", "P-7", "p_07", " P 7", "P0007"])
def test_spellings_of_one_patient_are_one_group(raw):
    assert normalise_group("a", raw, "row 2") == "a:p7"


@pytest.mark.parametrize(
    ("one", "other"), [("P7", "P70"), ("7", "700"), ("1_23", "12_3"), ("P1-1", "P11"), ("P0", "P"), ("10", "1")]
)
def test_different_patients_stay_apart(one, other):
    assert normalise_group("a", one, "") != normalise_group("a", other, "")


def test_zero_is_an_id():
    assert normalise_group("a", "000", "") == "a:0"


def test_groups_of_two_sources_are_never_one():
    assert normalise_group("a", "P7", "") != normalise_group("b", "P7", "")


@pytest.mark.parametrize("raw", ["", "  ", "-", "_ -"])
def test_an_absent_id_is_refused_with_its_place(raw):
    with pytest.raises(DataError, match=r"hc18, table\.csv row 4: no group id"):
        normalise_group("hc18", raw, "table.csv row 4")


@given(st.text(alphabet="pPaZ019_- \t", min_size=1).filter(lambda raw: raw.strip("_- \t")))
def test_normalising_twice_changes_nothing(raw):
    once = normalise_group("s", raw, "").removeprefix("s:")
    assert normalise_group("s", once, "") == f"s:{once}"


@given(st.integers(0, 10**9), st.integers(0, 6))
def test_leading_zeros_never_matter(number, zeros):
    assert normalise_group("s", f"P{'0' * zeros}{number}", "") == f"s:p{number}"


def grouped(group, shares=()):
    record = Record("b", "1.png", Path("1.png"), group, Domain.CLINICAL, where="row 4")
    return group_of(replace(drawn_source("b", []), shares_groups_with=shares), record)


def test_a_group_that_is_shared_carries_the_name_of_the_source_it_is_of():
    assert grouped("a:P007", ("a", "c")) == normalise_group("a", "P7", "")


@pytest.mark.parametrize(("group", "shares"), [("P007", ("a",)), ("a:P007", ()), ("a:P007", ("c",)), ("A:7", ("a",))])
def test_any_other_group_is_of_its_own_source(group, shares):
    assert grouped(group, shares) == normalise_group("b", group, "")
    assert grouped(group, shares).startswith("b:")


def test_a_shared_group_without_an_id_is_refused():
    with pytest.raises(DataError, match="a, row 4: no group id"):
        grouped("a: ", ("a",))
