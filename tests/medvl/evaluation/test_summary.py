import json

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medvl.errors import DataError
from medvl.evaluation.intervals import exact_ci
from medvl.evaluation.summary import DOMAINS, TIERS, summarise

CELL = {
    *("accuracy", "ci95", "n", "n_groups", "chance", "always_a", "majority", "balanced_accuracy", "invalid_rate"),
    *("uncommitted_rate", "constant_answer_items", "ci_method", "top_letter", "top_answer", "is_small"),
}


ROW = st.tuples(
    st.sampled_from(["A", "B", None]),
    st.fixed_dictionaries(
        {
            "task": st.sampled_from(["PI", "VG"]),
            "right": st.sampled_from("AB"),
            "group": st.sampled_from(["g0", "g1", "g2"]),
            "domain": st.sampled_from(["clinical", "phantom"]),
            "tier": st.sampled_from([None, "small"]),
            "area_share": st.sampled_from([None, 0.01, 0.04]),
            "constant": st.booleans(),
            "meta": st.sampled_from([{}, {"device": "ä"}]),
        }
    ),
    st.sampled_from(
        [
            {},
            {"outside_mass": 0.9},
            {"probabilities": [0.25, 0.25, 0.25, 0.25]},
            {"probabilities": [0.4, 0.3, 0.1, 0.1], "outside_mass": 0.1},
        ]
    ),
)


def summary(scored, **words):
    return summarise(scored, **{"split": "test", "scoring": "letter", "fingerprints": {"benchmark": "f00"}, **words})


def check_cell(cell, expected, as_number, tolerance):
    if expected is None:
        assert cell is None
        return
    for key, figure in expected.items():
        assert cell[key] == pytest.approx(as_number(figure), abs=tolerance), key


@pytest.mark.parametrize("model", ["before", "after"])
def test_summary_equals_the_hand_counted_table(thirty, golden, as_number, model):
    table = golden("thirty_predictions")
    expected, result = table["expected"][model], summary(thirty[model])
    check_cell(result["overall"], expected["overall"], as_number, table["tolerance"])
    for key in ("tasks", "tiers", "terciles", "domains", "devices"):
        for name, cell in expected.get(key, {}).items():
            check_cell(result[key][name], cell, as_number, table["tolerance"])


def test_classes_and_letters_equal_the_hand_counted_table(thirty, golden):
    expected, result = golden("thirty_predictions")["expected"]["after"], summary(thirty["after"])
    assert result["letters"] == expected["letters"]
    assert {
        task: {answer: [round(row["recall"] * row["n"]), row["n"]] for answer, row in rows.items()}
        for task, rows in result["classes"].items()
    } == expected["classes"]


def test_layout_is_the_documented_one_in_plain_json(thirty):
    result = summary(thirty["after"])
    assert list(result) == [
        *("schema_version", "split", "scoring", "overall", "tasks", "tiers", "terciles", "area_curve", "domains"),
        *("domain_gap", "sources", "devices", "operators", "centres", "classes", "confusion", "letters"),
        *("letter_bias", "calibration", "selective_risk", "fingerprints"),
    ]
    macro = {"macro_accuracy", "macro_ci95", "macro_chance", "macro_always_a", "macro_majority"}
    assert set(result["overall"]) == CELL | macro | {"loss", "near_ties", "calibration", "selective_risk"}
    sized = {"area_share", "median_area_share"}
    more = {"tasks": {"balanced_ci95"}, "terciles": sized, "tiers": set(), "domains": set(), "sources": set()}
    for table, extra in more.items():
        assert all(set(cell) == CELL | extra for cell in result[table].values() if cell is not None)
    assert [set(point) for point in result["area_curve"]] == [CELL | sized]
    for table in ("classes", "confusion", "letter_bias", "calibration", "selective_risk"):
        assert list(result[table]) == ["PI", "VC", "VG"]
    assert (list(result["devices"]), result["operators"]) == (["scanner 1", "scanner 2"], {})
    assert list(result["tasks"]) == ["PI", "VC", "VG"]
    assert tuple(result["tiers"]) == TIERS
    assert tuple(result["domains"]) == DOMAINS
    assert list(result["sources"]) == ["boxes", "planes", "views"]
    assert result["fingerprints"] == {"benchmark": "f00"}
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_result_does_not_depend_on_the_order_of_rows(thirty):
    assert summary(thirty["after"].sample(fraction=1.0, shuffle=True, seed=3)) == summary(thirty["after"])


def test_perfect_answers_give_one_with_an_interval_that_has_width(build):
    rows = [("A", {"group": f"g{n // 2}"}) for n in range(20)]
    result = summary(build.scored(rows))
    overall = result["overall"]
    assert (overall["accuracy"], overall["macro_accuracy"], overall["balanced_accuracy"]) == (1.0, 1.0, 1.0)
    assert overall["ci95"] == list(exact_ci(20, 20))
    assert overall["macro_ci95"][0] < overall["macro_ci95"][1] == 1.0


def test_all_wrong_and_all_invalid_give_zero_with_an_interval_that_has_width(build):
    for answer, invalid_rate in (("B", 0.0), (None, 1.0)):
        overall = summary(build.scored([(answer, {"group": "only"})] * 5))["overall"]
        assert (overall["accuracy"], overall["invalid_rate"], overall["n_groups"]) == (0.0, invalid_rate, 1)
        assert overall["ci95"] == list(exact_ci(0, 5))


def test_cells_without_items_are_null(build):
    result = summary(build.scored([("A", {"task": "VC", "options": ("yes", "no")})]))
    assert result["tiers"] == {"small": None, "medium": None, "large": None}
    assert result["domains"]["phantom"] is None
    assert list(result["tasks"]) == ["VC"]
    assert result["terciles"] == {"lowest": None, "middle": None, "highest": None}
    for absent in ("area_curve", "domain_gap"):
        assert result[absent] is None
    for absent in ("loss", "near_ties", "calibration", "selective_risk"):
        assert result["overall"][absent] is None
    assert (result["calibration"], result["selective_risk"]) == ({"VC": None}, {"VC": None})
    assert result["letter_bias"]["VC"]["prior_corrected_accuracy"] is None


def test_balanced_accuracy_is_left_out_of_cells_that_mix_tasks(thirty):
    result = summary(thirty["after"])
    assert result["overall"]["balanced_accuracy"] is None
    assert result["domains"]["clinical"]["balanced_accuracy"] is None
    assert result["tiers"]["small"]["balanced_accuracy"] is not None


def test_constant_answers_are_counted_and_left_out_of_macro_figures(build):
    rows = [("B", {}), ("A", {"group": "g1"}), ("A", {"group": "g2", "task": "CD", "constant": True})]
    result = summary(build.scored(rows))
    assert result["tasks"]["CD"]["constant_answer_items"] == 1
    assert result["tasks"]["PI"]["constant_answer_items"] == 0
    assert result["overall"]["macro_accuracy"] == pytest.approx(0.5)
    assert result["overall"]["accuracy"] == pytest.approx(2 / 3)
    only = summary(build.scored([("A", {"constant": True})]))
    assert only["overall"]["macro_accuracy"] is None
    assert only["overall"]["macro_ci95"] is None


def test_loss_and_calibration_are_there_with_option_scores(build):
    overall = summary(build.scored([("A", {}, {"probabilities": [0.5, 0.25, 0.125, 0.125]})]))["overall"]
    assert overall["loss"] == pytest.approx(0.6931, abs=1e-4)
    assert overall["calibration"]["n"] == 1


def test_a_further_task_follows_the_five(thirty):
    scored = thirty["after"].with_columns(pl.col("task").replace("PI", "FD"))
    assert list(summary(scored)["tasks"]) == ["VC", "VG", "FD"]


def test_an_empty_table_or_one_of_another_split_or_scoring_is_refused(thirty):
    with pytest.raises(DataError, match="no answered items of the split 'test'"):
        summary(thirty["after"].clear())
    with pytest.raises(DataError, match="split 'val', but 30 of 30 rows are of 'test'"):
        summary(thirty["after"], split="val")
    with pytest.raises(DataError, match="scoring 'generation', but 30 of 30 rows are of 'letter'"):
        summary(thirty["after"], scoring="generation")


def test_figures_by_task_are_those_of_its_own_rows(random_table):
    result = summary(pl.concat([random_table, random_table.head(0)]))
    assert result["calibration"]["PI"] == result["overall"]["calibration"]
    assert result["selective_risk"]["PI"] == result["overall"]["selective_risk"]
    balanced = result["tasks"]["PI"]
    assert balanced["balanced_ci95"][0] < balanced["balanced_accuracy"] < balanced["balanced_ci95"][1]


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_table_however_small_gives_plain_json(build, data):
    rows = data.draw(st.lists(ROW, min_size=1, max_size=6))
    result = summary(build.scored([(answer, words, rest) for answer, words, rest in rows]))
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    for table in ("tasks", "sources", "domains", "tiers", "terciles"):
        for cell in result[table].values():
            assert cell is None or cell["ci95"][0] <= cell["accuracy"] <= cell["ci95"][1]
