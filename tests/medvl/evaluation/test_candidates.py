"""Several fine-tuned models, each against one baseline, and what is read back of them."""

import json

import numpy as np
import pytest

from medvl.errors import DataError
from medvl.evaluation.candidates import TABLES, candidates, read_candidates
from medvl.evaluation.files import write_json
from medvl.evaluation.paired import holm
from medvl.evaluation.seeds import compare_seeds
from medvl.evaluation.summary import summarise

WORDS = {"split": "test", "scoring": "letter"}


def answered(build, rate, seed, n=80, tasks=("PI", "FO"), **words):
    """Answers of one run to the same items, right at a rate."""
    rng = np.random.default_rng(seed)
    rows = [
        ("A" if rng.random() < rate else "B", {"task": tasks[i % len(tasks)], "group": f"g{i % 16}", **words})
        for i in range(n)
    ]
    return build.scored(rows)


@pytest.fixture
def base(build):
    return answered(build, 0.3, 0)


@pytest.fixture
def recipes(build):
    """Two recipes, one with three seeds."""
    return {
        "r16": [answered(build, 0.8, seed) for seed in (1, 2, 3)],
        "r2 ü": [answered(build, 0.45, 4)],
    }


def compared(base, recipes):
    runs = {name: [{"label": f"{name}-{i}", "seed": i} for i in range(len(found))] for name, found in recipes.items()}
    return candidates(base, recipes, **WORDS, about={"label": "zero-shot"}, runs=runs)


def test_each_candidate_has_the_figures_of_its_own_comparison(base, recipes):
    content = compared(base, recipes)
    for name, tables in recipes.items():
        mine = content["candidates"][name]
        alone = compare_seeds([base], tables, **WORDS, fingerprints={})
        assert mine["n_seeds"] == len(tables) == len(mine["runs"])
        assert mine["overall"]["accuracy"] == alone["overall"]["fine_tuned"]
        assert mine["overall"]["macro_accuracy"] == alone["overall"]["macro_fine_tuned"]
        for key in ("estimate", "ci95", "p_clustered"):
            assert mine["overall"]["macro_difference"][key] == alone["overall"]["macro_difference"][key]
            assert mine["tasks"]["PI"]["difference"][key] == alone["tasks"]["PI"]["difference"][key]
        assert mine["tasks"]["PI"]["accuracy"] == alone["tasks"]["PI"]["fine_tuned"]
        assert mine["tasks"]["VG"] is None


def test_the_spread_over_seeds_is_that_of_numpy(base, recipes):
    overall = compared(base, recipes)["candidates"]["r16"]["overall"]["accuracy"]
    values = [table["is_correct"].mean() for table in recipes["r16"]]
    assert overall["values"] == values
    assert overall["sd"] == pytest.approx(np.std(values, ddof=1))
    assert compared(base, recipes)["candidates"]["r2 ü"]["overall"]["accuracy"]["sd"] is None


def test_the_baseline_has_the_figures_of_its_metrics(base, recipes):
    mine, alone = compared(base, recipes)["baseline"], summarise(base, **WORDS, fingerprints={})
    assert mine["label"] == "zero-shot"
    for key, value in mine["overall"].items():
        assert alone["overall"][key] == value, key
    for key, value in mine["tasks"]["PI"].items():
        assert alone["tasks"]["PI"][key] == value, key
    assert mine["box_tiers"]["small"] is None


def test_p_is_adjusted_over_the_candidates_and_in_tables_over_all_cells_of_all(base, recipes):
    content = compared(base, recipes)
    models = list(content["candidates"].values())
    families = [
        [model["overall"]["difference"] for model in models],
        [model["overall"]["macro_difference"] for model in models],
        [cell["difference"] for model in models for cell in model["tasks"].values() if cell],
    ]
    for family in families:
        assert [part["p_clustered_holm"] for part in family] == holm([part["p_clustered"] for part in family])
    assert content["tests"] == {"candidates": 2, "tasks": 4, "box_tiers": 0, "domains": 2}


def test_a_single_candidate_keeps_its_p(base, recipes):
    content = compared(base, {"r16": recipes["r16"]})
    overall = content["candidates"]["r16"]["overall"]
    assert overall["difference"]["p_clustered_holm"] == overall["difference"]["p_clustered"]


def test_where_no_task_counts_the_macro_figures_are_absent(build):
    base, tuned = (answered(build, rate, 1, constant=True) for rate in (0.2, 0.9))
    content = compared(base, {"a": [tuned]})
    overall = content["candidates"]["a"]["overall"]
    assert (overall["macro_accuracy"], overall["macro_difference"]) == (None, None)
    assert content["baseline"]["overall"]["macro_accuracy"] is None
    assert overall["difference"]["p_clustered_holm"] is not None


def test_invalid_answers_stand_apart(build, base):
    silent = build.scored([(None, {"group": "g0"})] * 4)
    content = compared(silent, {"a": [silent, silent]})
    assert content["candidates"]["a"]["overall"]["invalid_rate"] == 1
    assert content["baseline"]["overall"]["invalid_rate"] == 1
    assert content["candidates"]["a"]["overall"]["accuracy"]["mean"] == 0


def test_other_items_and_no_candidates_are_refused(build, base, recipes):
    with pytest.raises(DataError, match="no candidate"):
        compared(base, {})
    with pytest.raises(DataError, match="no counterpart"):
        compared(base, {**recipes, "short": [answered(build, 0.5, 1, n=40)]})
    with pytest.raises(DataError, match="at least one table of answers on each side, got 1 and 0"):
        compared(base, {"empty": []})


def test_the_file_is_read_back_whole(base, recipes, tmp_path):
    content = compared(base, recipes)
    write_json(tmp_path / "candidates.json", content)
    assert read_candidates(tmp_path / "candidates.json") == content


def without(*keys):
    def change(content):
        node = content
        for key in keys[:-1]:
            node = node[key]
        del node[keys[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("baseline"), "the file lacks baseline"),
        (without("baseline", "overall", "ci95"), "baseline.overall lacks ci95"),
        (without("candidates", "r16", "runs"), "candidates.r16 lacks runs"),
        (without("candidates", "r16", "overall", "macro_accuracy"), "candidates.r16.overall lacks macro_accuracy"),
        (without("candidates", "r16", "tasks", "PI", "accuracy"), "tasks.PI lacks accuracy"),
        (without("candidates", "r16", "tasks", "PI", "difference", "ci95"), "r16.tasks.PI.difference lacks ci95"),
        (lambda content: content.update(schema_version=2), "has schema_version 2, this version reads 1"),
        (lambda content: content.update(candidates={}), "holds no candidate"),
        (lambda content: content.update(candidates=[]), "'candidates' should be an object, got list"),
    ],
)
def test_a_file_that_is_not_whole_is_refused_by_name(base, recipes, tmp_path, change, message):
    content = json.loads(json.dumps(compared(base, recipes)))
    change(content)
    (tmp_path / "candidates.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=message):
        read_candidates(tmp_path / "candidates.json")


def test_the_tables_are_the_same_for_baseline_and_candidates(base, recipes):
    content = compared(base, recipes)
    for table in TABLES:
        for model in content["candidates"].values():
            assert list(model[table]) == list(content["baseline"][table])
