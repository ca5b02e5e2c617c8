import numpy as np
import pytest

from medvl.evaluation.domain_gap import domain_gap, gap_of
from medvl.evaluation.scored import correct_array


def rows(domain, right, wrong, *, task="PI", patients=5, start=0):
    words = {"domain": domain, "task": task}
    answers = ["A"] * right + ["B"] * wrong
    return [(a, {**words, "group": f"{domain} {start + n % patients}"}) for n, a in enumerate(answers)]


@pytest.mark.parametrize("model", ["before", "after"])
def test_gap_equals_the_hand_counted_table(thirty, golden, as_number, model):
    expected, result = golden("thirty_predictions")["expected"][model]["domain_gap"], domain_gap(thirty[model])
    assert result["estimate"] == pytest.approx(as_number(expected["estimate"]))
    assert result["chance_difference"] == pytest.approx(as_number(expected["chance_difference"]))
    assert (result["same_tasks"], result["tasks"]) == (None, {})
    assert result["ci95"][0] < result["estimate"] < result["ci95"][1]


def test_gap_within_tasks_is_not_fooled_by_another_mix_of_tasks(build):
    # Within each task both domains are equal, but phantom items are mostly of the task that is harder.
    scored = build.scored(
        [
            *rows("clinical", 40, 10, task="PI"),
            *rows("clinical", 2, 8, task="FO"),
            *rows("phantom", 8, 2, task="PI"),
            *rows("phantom", 10, 40, task="FO"),
        ]
    )
    result = domain_gap(scored)
    assert result["estimate"] == pytest.approx(18 / 60 - 42 / 60)
    assert result["same_tasks"]["estimate"] == pytest.approx(0)
    assert {task: gap["estimate"] for task, gap in result["tasks"].items()} == pytest.approx({"FO": 0, "PI": 0})


def test_interval_equals_a_plain_resampling_loop(build):
    rng = np.random.default_rng(3)
    answers = []
    for domain, rate in (("clinical", 0.8), ("phantom", 0.4)):
        for patient in range(30):
            right = rng.random(6) < rng.beta(4 * rate, 4 * (1 - rate))
            answers += [("A" if r else "B", {"domain": domain, "group": f"{domain}{patient}"}) for r in right]
    scored = build.scored(answers)
    right = correct_array(scored).reshape(60, 6)
    plain = []
    for _ in range(4000):
        picked = rng.integers(0, 60, 60)
        phantom = picked >= 30
        plain.append(right[picked[phantom]].mean() - right[picked[~phantom]].mean())
    assert domain_gap(scored)["ci95"] == pytest.approx(np.quantile(plain, [0.025, 0.975]), abs=0.015)


def test_all_right_against_all_wrong_keeps_an_interval_with_width(build):
    result = domain_gap(build.scored([*rows("clinical", 10, 0), *rows("phantom", 0, 10)]))
    assert (result["estimate"], result["ci95"][0]) == (-1, -1)
    assert result["ci95"][1] > -0.95


def test_one_item_of_each_is_wide_open(build):
    low, high = domain_gap(build.scored([*rows("clinical", 1, 0), *rows("phantom", 1, 0)]))["ci95"]
    assert low < -0.5
    assert high > 0.5


@pytest.mark.parametrize("domain", ["clinical", "phantom"])
def test_one_domain_alone_has_no_gap(build, domain):
    scored = build.scored(rows(domain, 3, 1))
    assert domain_gap(scored) is None
    assert domain_gap(scored.clear()) is None


def test_gap_of_a_paired_difference_takes_negative_values(build):
    scored = build.scored([*rows("clinical", 6, 0), *rows("phantom", 6, 0)])
    values = np.array([-1.0] * 6 + [1.0] * 6)
    result = gap_of(scored, values, support=(-1.0, 0.0, 1.0))
    assert (result["estimate"], result["ci95"][1]) == (2, 2)
    assert result["ci95"][0] < 1.9
