import pytest

from medvl.benchmark.item import META_FIELDS
from medvl.evaluation.cells import META_TABLES, cell, cells_by, known, with_meta
from medvl.evaluation.intervals import exact_ci


def test_meta_tables_are_made_by_facts_that_items_have():
    assert set(META_TABLES.values()) <= set(META_FIELDS)


def test_the_kind_of_interval_is_named(thirty, build):
    assert cell(thirty["after"])["ci_method"] == "clustered_bootstrap"
    right = cell(build.scored([("A", {"group": f"g{n}"}) for n in range(4)]))
    assert (right["ci_method"], right["ci95"]) == ("exact", list(exact_ci(4, 4)))


def test_an_answer_text_is_named_within_one_task_only(thirty):
    mixed, single = cell(thirty["before"]), cell(thirty["before"].filter(task="VC"))
    assert (mixed["top_answer"], mixed["balanced_accuracy"]) == (None, None)
    assert mixed["top_letter"]["letter"] == "A"
    assert single["top_answer"] == {"answer": "no", "share": 1.0, "one_answer": True}


def test_nothing_answered_leaves_no_top_letter(build):
    figures = cell(build.scored([(None, {})] * 2))
    assert (figures["top_letter"], figures["top_answer"], figures["invalid_rate"]) == (None, None, 1.0)


def test_unknown_facts_make_no_cell_and_known_ones_their_own(build):
    meta = [{"device": "a", "operator": "x"}, {"device": "b"}, {}, {"device": "a"}]
    scored = with_meta(build.scored([("A", {"meta": facts}) for facts in meta]))
    assert known(scored["device"]) == ["a", "b"]
    assert known(scored["centre"]) == []
    cells = cells_by(scored, "device", ["a", "b", "c"])
    assert {name: figures and figures["n"] for name, figures in cells.items()} == {"a": 2, "b": 1, "c": None}


@pytest.mark.parametrize("model", ["before", "after"])
def test_every_accuracy_has_its_levels_beside_it(thirty, model):
    figures = cell(thirty[model])
    for level in ("chance", "always_a", "majority", "invalid_rate", "uncommitted_rate"):
        assert 0 <= figures[level] <= 1
