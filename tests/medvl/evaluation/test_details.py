import json

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medvl.errors import DataError
from medvl.evaluation.cells import FEW_GROUPS, FEW_ITEMS
from medvl.evaluation.details import answer_counts, asked_fingerprint, details_of

TABLES = ("domains", "sources", "devices", "operators", "centres")

ROW = st.tuples(
    st.sampled_from(["A", "B", None]),
    st.fixed_dictionaries(
        {
            "task": st.sampled_from(["PI", "VG"]),
            "options": st.sampled_from([("w", "x"), ("w", "x", "y", "z")]),
            "group": st.sampled_from(["g0", "g1"]),
            "domain": st.sampled_from(["clinical", "phantom"]),
            "source": st.sampled_from(["s", "é"]),
            "meta": st.sampled_from([{}, {"device": "ä"}, {"centre": "c", "operator": "o"}]),
        }
    ),
    st.sampled_from([{}, {"outside_mass": 0.9}]),
)


def details(scored, **words):
    return details_of(scored, **{"split": "test", "scoring": "letter", "fingerprints": {"benchmark": "f00"}, **words})


def check(found, expected, as_number, tolerance):
    """Every figure that was counted by hand is there; more may be."""
    if isinstance(expected, dict):
        for key, value in expected.items():
            check(found[key], value, as_number, tolerance)
    elif expected is None:
        assert found is None
    else:
        assert found == pytest.approx(as_number(expected), abs=tolerance)


@pytest.mark.parametrize("model", ["before", "after"])
def test_details_equal_the_hand_counted_table(thirty, golden, as_number, model):
    table = golden("thirty_predictions")
    check(details(thirty[model]), table["expected"][model]["details"], as_number, table["tolerance"])


def test_layout_is_the_documented_one_in_plain_json(thirty):
    result = details(thirty["after"])
    assert list(result) == [*("schema_version", "split", "scoring", "few", "items", "overall", "tasks", "fingerprints")]
    assert set(result["overall"]) == {"counts", "unknown", "option_counts"}
    assert list(result["tasks"]) == ["PI", "VC", "VG"]
    assert all(set(part) == {"counts", "unknown", "option_counts", *TABLES} for part in result["tasks"].values())
    assert result["few"] == {"items": FEW_ITEMS, "groups": FEW_GROUPS}
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_no_figure_of_metrics_is_repeated(thirty):
    """What is overall here is not there: counts, unknown facts and numbers of options."""
    from medvl.evaluation.summary import summarise

    metrics = summarise(thirty["after"], split="test", scoring="letter", fingerprints={})
    assert not {"counts", "unknown", "option_counts"} & (set(metrics) | set(metrics["overall"]))
    assert all(not set(TABLES) & set(cell) for cell in metrics["tasks"].values())


def test_result_does_not_depend_on_the_order_of_rows(thirty):
    assert details(thirty["after"].sample(fraction=1.0, shuffle=True, seed=3)) == details(thirty["after"])


def test_a_source_with_the_easy_task_does_not_hide_that_it_is_worse_at_the_hard_one(build):
    """Within each task the sources are equal; over all tasks one looks better."""

    def rows(source, task, right, wrong):
        return [("A", {"source": source, "task": task})] * right + [("B", {"source": source, "task": task})] * wrong

    scored = build.scored(
        rows("a", "PI", 9, 1) + rows("a", "VG", 20, 80) + rows("b", "PI", 90, 10) + rows("b", "VG", 2, 8)
    )
    found = details(scored)["tasks"]
    for task, accuracy in (("PI", 0.9), ("VG", 0.2)):
        assert [found[task]["sources"][name]["accuracy"] for name in ("a", "b")] == [accuracy, accuracy]


def test_small_cells_are_kept_and_marked(build):
    many = [("A", {"group": f"g{n % FEW_GROUPS}", "meta": {"device": "often"}}) for n in range(FEW_ITEMS)]
    once = [("A", {"group": "g0", "meta": {"device": "once"}})]
    one_patient = [("A", {"group": "p", "meta": {"device": "one patient"}}) for n in range(FEW_ITEMS)]
    devices = details(build.scored(many + once + one_patient))["tasks"]["PI"]["devices"]
    assert {name: cell["is_small"] for name, cell in devices.items()} == {
        "often": False,
        "once": True,
        "one patient": True,
    }
    assert devices["once"]["n"] == 1


def test_an_answer_that_is_invalid_and_uncommitted_is_counted_once(build):
    scored = build.scored([(None, {}, {"outside_mass": 0.9}), ("A", {}, {"outside_mass": 0.9}), ("B", {}), ("A", {})])
    assert answer_counts(scored) == {"n": 4, "right": 1, "wrong": 1, "invalid": 1, "uncommitted": 1}


def test_the_hash_of_the_items_is_theirs_and_not_of_the_answers(thirty):
    first = asked_fingerprint(thirty["before"])
    assert first == asked_fingerprint(thirty["after"]) == asked_fingerprint(thirty["after"].reverse())
    assert first != asked_fingerprint(thirty["after"].head(29))
    other = thirty["after"].with_columns(pl.col("item_fingerprint").str.reverse())
    assert first != asked_fingerprint(other)


def test_an_empty_table_or_one_of_another_split_is_refused(thirty):
    with pytest.raises(DataError, match="no answered items of the split 'test'"):
        details(thirty["after"].clear())
    with pytest.raises(DataError, match="split 'val', but 30 of 30 rows are of 'test'"):
        details(thirty["after"], split="val")


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROW, min_size=1, max_size=8))
def test_cells_of_a_task_and_what_is_unknown_add_up_to_its_items(build, rows):
    result = details(build.scored(rows))
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    for part in result["tasks"].values():
        n = part["counts"]["n"]
        assert sum(part["counts"][key] for key in ("right", "wrong", "invalid", "uncommitted")) == n
        for table in ("domains", "sources", "option_counts"):
            assert sum(cell["n"] for cell in part[table].values() if cell) == n
        for table, fact in (("devices", "device"), ("operators", "operator"), ("centres", "centre")):
            assert sum(cell["n"] for cell in part[table].values()) + part["unknown"][fact] == n
