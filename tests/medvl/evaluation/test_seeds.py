import json

import numpy as np
import polars as pl
import pytest

from medvl.errors import DataError
from medvl.evaluation.comparison import compare
from medvl.evaluation.seeds import compare_seeds, spread

WORDS = {"split": "test", "scoring": "letter", "fingerprints": {"recipe": "f00"}}


def answered(build, rate, seed, *, n=120, patients=20, tasks=("PI", "FO")):
    """Answers of one run to the same items; patients differ in how hard they are."""
    rng = np.random.default_rng(seed)
    hard = np.random.default_rng(99).normal(0, 0.15, patients)
    rows = []
    for i in range(n):
        patient = i % patients
        letter = "A" if rng.random() < rate + hard[patient] else "B"
        rows.append((letter, {"task": tasks[i % len(tasks)], "group": f"g{patient}"}))
    return build.scored(rows)


@pytest.fixture
def runs(build):
    return {
        "base": answered(build, 0.3, 0),
        "tuned": [answered(build, 0.6, seed) for seed in (1, 2, 3)],
        "other": [answered(build, 0.5, seed) for seed in (4, 5)],
    }


def test_mean_and_spread_over_seeds_are_those_of_numpy(runs):
    result = compare_seeds([runs["base"]], runs["tuned"], **WORDS)["overall"]
    accuracies = [table["is_correct"].mean() for table in runs["tuned"]]
    assert result["fine_tuned"] == {
        "mean": pytest.approx(np.mean(accuracies)),
        "sd": pytest.approx(np.std(accuracies, ddof=1)),
        "least": min(accuracies),
        "most": max(accuracies),
        "values": accuracies,
    }
    assert result["zero_shot"]["sd"] is None
    assert result["difference"]["estimate"] == pytest.approx(np.mean(accuracies) - runs["base"]["is_correct"].mean())


def test_one_seed_on_each_side_gives_the_figures_of_the_comparison(runs):
    pooled = compare_seeds([runs["base"]], runs["tuned"][:1], **WORDS)
    single = compare(runs["base"], runs["tuned"][0], **WORDS)
    for table in ("tasks", "box_tiers", "box_terciles", "domains"):
        assert list(pooled[table]) == list(single[table])
        for name, cell in single[table].items():
            if cell is None:
                assert pooled[table][name] is None
                continue
            mine = pooled[table][name]
            assert mine["fine_tuned"]["mean"] == pytest.approx(cell["fine_tuned"])
            assert (mine["n"], mine["n_groups"], mine["chance"]) == (cell["n"], cell["n_groups"], cell["chance"])
            for key in ("estimate", "p_clustered", "p_clustered_holm"):
                assert mine["difference"][key] == pytest.approx(cell["difference"][key])
            assert mine["difference"]["ci95"] == pytest.approx(cell["difference"]["ci95"], abs=0.02)
    macro = single["overall"]["macro_difference"]
    mine = pooled["overall"]["macro_difference"]
    assert mine["estimate"] == pytest.approx(macro["estimate"])
    assert mine["p_clustered"] == macro["p_clustered"]
    assert mine["ci95"] == pytest.approx(macro["ci95"], abs=0.02)


def test_more_seeds_narrow_the_interval_but_one_run_repeated_does_not(runs):
    def width(tables):
        low, high = compare_seeds([runs["base"]], tables, **WORDS)["overall"]["difference"]["ci95"]
        return high - low

    one = width(runs["tuned"][:1])
    assert width(runs["tuned"]) < one
    assert width(runs["tuned"][:1] * 5) == pytest.approx(one, rel=0.1)


def test_interval_covers_new_seeds_and_new_patients(build):
    covered = 0
    template = build.scored([("A", {"group": f"g{i // 4}"}) for i in range(120)])
    for trial in range(25):
        rng = np.random.default_rng(trial)
        skill = rng.normal(0, 0.08, 5)  # what a seed adds for better or worse
        ease = rng.normal(0, 0.15, 30)
        base = rng.random((30, 4)) < 0.4
        tuned = [rng.random((30, 4)) < 0.6 + extra + ease[:, None] for extra in skill]
        tables = [template.with_columns(is_correct=pl.Series(right.ravel())) for right in (base, *tuned)]
        low, high = compare_seeds(tables[:1], tables[1:], **WORDS)["overall"]["difference"]["ci95"]
        covered += low <= 0.2 <= high
    assert covered >= 20


def test_swapping_the_recipes_turns_the_sign_and_keeps_the_p(runs):
    there = compare_seeds(runs["other"], runs["tuned"], **WORDS)["overall"]
    back = compare_seeds(runs["tuned"], runs["other"], **WORDS)["overall"]
    assert there["difference"]["estimate"] == pytest.approx(-back["difference"]["estimate"])
    assert there["difference"]["p_clustered"] == pytest.approx(back["difference"]["p_clustered"])
    low, high = back["difference"]["ci95"]
    assert there["difference"]["ci95"] == pytest.approx([-high, -low], abs=0.03)


def test_result_is_plain_json_with_the_documented_layout(runs):
    result = compare_seeds(runs["other"], runs["tuned"], **WORDS)
    assert list(result) == [
        *("schema_version", "split", "scoring", "n_seeds", "overall", "tasks", "box_tiers", "box_terciles", "domains"),
        "fingerprints",
    ]
    assert result["n_seeds"] == {"zero_shot": 2, "fine_tuned": 3}
    assert list(result["tasks"]) == ["PI", "VC", "FO", "CD", "VG"]
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_runs_that_agree_everywhere_still_have_an_interval_with_width(build):
    same = [answered(build, 1.5, 0)] * 3
    overall = compare_seeds(same, same, **WORDS)["overall"]
    for key in ("difference", "macro_difference"):
        assert overall[key]["estimate"] == 0
        assert overall[key]["ci95"][0] < 0 < overall[key]["ci95"][1]
        assert overall[key]["p_clustered"] == 1.0


def test_seeds_on_one_patient_are_no_more_sure_than_one_seed(build):
    base, tuned = (answered(build, rate, 0, n=20, patients=1) for rate in (0.4, 0.6))
    alone = compare_seeds([base], [tuned], **WORDS)["overall"]["difference"]["ci95"]
    assert compare_seeds([base], [tuned] * 4, **WORDS)["overall"]["difference"]["ci95"] == alone


def test_one_item_and_constant_answers_leave_null_where_nothing_is_known(build):
    scored = build.scored([("A", {"constant": True})])
    overall = compare_seeds([scored], [scored, scored], **WORDS)["overall"]
    assert (overall["macro_fine_tuned"], overall["macro_difference"]) == (None, None)
    assert overall["difference"]["estimate"] == 0


def test_invalid_and_uncommitted_stand_apart_as_means_over_seeds(build):
    one = build.scored([("A", {}), (None, {})])
    two = build.scored([("A", {}), ("A", {}, {"outside_mass": 0.9})])
    overall = compare_seeds([one], [one, two], **WORDS)["overall"]
    assert (overall["invalid_rate_fine_tuned"], overall["uncommitted_rate_fine_tuned"]) == (0.25, 0.25)
    assert overall["fine_tuned"]["mean"] == 0.5


def test_spread_is_absent_without_values_or_with_an_absent_one():
    assert spread([]) is None
    assert spread([0.5, None]) is None
    assert spread([0.5]) == {"mean": 0.5, "sd": None, "least": 0.5, "most": 0.5, "values": [0.5]}


def test_no_run_or_runs_on_different_items_are_refused(runs):
    with pytest.raises(DataError, match="at least one table of answers on each side, got 1 and 0"):
        compare_seeds([runs["base"]], [], **WORDS)
    with pytest.raises(DataError, match="2 of 120 run 1 answers and 0 of 118 run 3 answers"):
        compare_seeds([runs["base"]], [runs["tuned"][0], runs["tuned"][1].slice(2)], **WORDS)
    with pytest.raises(DataError, match="split 'val'"):
        compare_seeds([runs["base"]], runs["tuned"], **{**WORDS, "split": "val"})
