import json

import polars as pl
import pytest

from medvl.errors import DataError
from medvl.evaluation.comparison import compare
from medvl.evaluation.paired import exact_difference_ci

CELL = [
    *("zero_shot", "fine_tuned", "chance", "always_a", "majority", "n", "n_groups", "ci95_zero_shot"),
    *("ci95_fine_tuned", "difference", "invalid_rate_zero_shot", "uncommitted_rate_zero_shot"),
    *("invalid_rate_fine_tuned", "uncommitted_rate_fine_tuned"),
]
DIFFERENCE = [
    *("estimate", "ci95", "p", "p_mid", "p_clustered", "gained", "lost", "design_effect", "minimum_detectable"),
]


def comparison(before, after):
    return compare(before, after, split="test", scoring="letter", fingerprints={"adapter": "f00"})


def test_comparison_equals_the_hand_counted_table(thirty, golden, as_number):
    table = golden("thirty_predictions")
    result = comparison(thirty["before"], thirty["after"])
    for name in ("tasks", "box_tiers", "domains"):
        for key, expected in table["expected"]["comparison"][name].items():
            cell = result[name][key]
            if expected is None:
                assert cell is None
                continue
            gain = (expected["gained"] - expected["lost"]) / expected["of"]
            difference = cell["difference"]
            assert cell["n"] == expected["of"]
            assert difference["estimate"] == pytest.approx(gain, abs=table["tolerance"])
            assert cell["fine_tuned"] - cell["zero_shot"] == pytest.approx(gain, abs=table["tolerance"])
            assert (difference["gained"], difference["lost"]) == (expected["gained"], expected["lost"])
            for p in ("p", "p_mid", "p_clustered", "p_holm", "p_clustered_holm"):
                if p in expected:
                    assert difference[p] == pytest.approx(as_number(expected[p]), abs=table["tolerance"])
    overall, expected = result["overall"], table["expected"]["comparison"]["overall"]
    assert overall["difference"]["p"] == pytest.approx(as_number(expected["p"]), abs=table["tolerance"])
    for arm, model in (("zero_shot", "before"), ("fine_tuned", "after")):
        for key in ("accuracy", "macro_accuracy", "invalid_rate", "uncommitted_rate"):
            figure = as_number(table["expected"][model]["overall"][key])
            assert overall[arm][key] == pytest.approx(figure, abs=table["tolerance"])
    macro_gain = overall["fine_tuned"]["macro_accuracy"] - overall["zero_shot"]["macro_accuracy"]
    assert overall["macro_difference"]["estimate"] == pytest.approx(macro_gain)


def test_layout_is_the_documented_one_in_plain_json(thirty):
    result = comparison(thirty["before"], thirty["after"])
    assert list(result) == [
        *("schema_version", "split", "scoring", "overall", "tasks", "box_tiers", "box_terciles", "domains"),
        *("domain_gap", "sources", "devices", "operators", "centres", "fingerprints"),
    ]
    assert list(result["box_terciles"]) == ["lowest", "middle", "highest"]
    assert (list(result["sources"]), list(result["devices"])) == (
        ["boxes", "planes", "views"],
        ["scanner 1", "scanner 2"],
    )
    assert list(result["tasks"]) == ["PI", "VC", "FO", "CD", "VG"]
    assert list(result["box_tiers"]) == ["small", "medium", "large"]
    assert list(result["domains"]) == ["clinical", "phantom"]
    for name in ("tasks", "box_tiers", "box_terciles", "domains", "sources", "devices"):
        for cell in result[name].values():
            if cell is not None:
                assert list(cell) == CELL
                assert list(cell["difference"]) == [*DIFFERENCE, "p_holm", "p_clustered_holm"]
    overall = result["overall"]
    assert {"zero_shot", "fine_tuned", "difference", "n", "n_groups"} <= set(overall)
    assert {"accuracy", "macro_accuracy", "ci95"} <= set(overall["zero_shot"])
    assert list(overall["difference"]) == DIFFERENCE
    assert list(overall["macro_difference"]) == ["estimate", "ci95", "p", "p_clustered"]
    levels = {"chance", "always_a", "majority"}
    assert levels | {f"macro_{level}" for level in levels} <= set(overall)
    assert (overall["n"], overall["n_groups"]) == (30, 12)
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_items_are_matched_by_id_whatever_the_order(thirty):
    shuffled = thirty["after"].sample(fraction=1.0, shuffle=True, seed=1)
    expected = comparison(thirty["before"], thirty["after"])
    assert comparison(thirty["before"], shuffled) == expected
    assert comparison(thirty["before"].reverse(), thirty["after"]) == expected


def test_swapping_the_models_turns_the_sign_and_keeps_the_p(thirty):
    there = comparison(thirty["before"], thirty["after"])["overall"]
    back = comparison(thirty["after"], thirty["before"])["overall"]
    assert back["difference"]["estimate"] == pytest.approx(-there["difference"]["estimate"])
    assert back["macro_difference"]["estimate"] == pytest.approx(-there["macro_difference"]["estimate"])
    assert back["difference"]["p"] == there["difference"]["p"]


def test_a_model_against_itself_shows_no_difference_but_an_interval_with_width(thirty):
    result = comparison(thirty["after"], thirty["after"])
    difference = result["overall"]["difference"]
    assert (difference["estimate"], difference["p"]) == (0.0, 1.0)
    assert difference["ci95"] == list(exact_difference_ci(0, 0, 30))
    assert result["overall"]["macro_difference"]["ci95"][0] < 0 < result["overall"]["macro_difference"]["ci95"][1]


def test_a_further_task_stands_beside_the_five(thirty):
    before, after = (t.with_columns(pl.col("task").replace("PI", "FD")) for t in thirty.values())
    result = comparison(before, after)
    assert list(result["tasks"]) == ["PI", "VC", "FO", "CD", "VG", "FD"]
    assert result["tasks"]["PI"] is None
    assert result["tasks"]["FD"]["n"] == 10


def test_macro_difference_is_absent_when_only_constant_answers_are_there(build):
    scored = build.scored([("A", {"constant": True})] * 3)
    result = comparison(scored, scored)
    assert result["overall"]["macro_difference"] is None
    assert result["overall"]["zero_shot"]["macro_accuracy"] is None


def test_tables_of_different_items_are_refused_with_counts_and_ids(thirty):
    with pytest.raises(DataError, match=r"2 of 30 zero-shot answers and 0 of 28 .* \(q01, q02\)"):
        comparison(thirty["before"], thirty["after"].slice(2))
    other = thirty["after"].with_columns(pl.lit("changed").alias("item_fingerprint"))
    with pytest.raises(DataError, match="30 of 30 zero-shot answers and 30 of 30 fine-tuned answers"):
        comparison(thirty["before"], other)
    with pytest.raises(DataError, match="an item is listed twice"):
        comparison(thirty["before"], pl.concat([thirty["after"], thirty["after"].head(1)]))


def test_models_scored_in_different_ways_are_not_compared(thirty):
    generated = thirty["after"].with_columns(pl.lit("generation").alias("scoring"))
    with pytest.raises(DataError, match="scoring 'letter', but 30 of 30 rows are of 'generation'"):
        comparison(thirty["before"], generated)


def test_change_of_the_domain_gap_is_the_gap_after_minus_the_gap_before(thirty):
    gap = comparison(thirty["before"], thirty["after"])["domain_gap"]
    change = gap["fine_tuned"]["estimate"] - gap["zero_shot"]["estimate"]
    assert gap["change"]["estimate"] == pytest.approx(change)
    assert gap["change"]["ci95"][0] < change < gap["change"]["ci95"][1]
    clinical = (table.filter(domain="clinical") for table in (thirty["before"], thirty["after"]))
    assert comparison(*clinical)["domain_gap"] is None


def test_macro_difference_has_a_p_that_counts_patients(build):
    rows = [{"task": "PI", "group": "one"}] * 12
    before, after = (build.scored([(letter, words) for words in rows]) for letter in "BA")
    overall = comparison(before, after)["overall"]
    assert overall["difference"]["p"] < 0.001
    assert (overall["difference"]["p_clustered"], overall["macro_difference"]["p_clustered"]) == (1.0, 1.0)


def test_invalid_and_uncommitted_of_both_models_stand_in_every_cell(thirty):
    cell = comparison(thirty["before"], thirty["after"])["tasks"]["PI"]
    rates = [cell[f"{word}_rate_{arm}"] for word in ("invalid", "uncommitted") for arm in ("zero_shot", "fine_tuned")]
    assert rates == pytest.approx([0, 0.1, 0.1, 0])
