import numpy as np
import pytest

from medvl.evaluation.difference import adjust, paired_figures
from medvl.evaluation.paired import holm, mcnemar_exact, mcnemar_mid_p, paired_bootstrap_difference
from medvl.evaluation.power import design_effect, minimum_detectable_difference
from medvl.evaluation.sign_flip import sign_flip_exact


def test_figures_are_those_of_the_functions_behind_them():
    rng = np.random.default_rng(0)
    before, after = (rng.random(200) < rate for rate in (0.5, 0.6))
    before, after, groups = before.astype(float), after.astype(float), rng.integers(0, 30, 200)
    result = paired_figures(before, after, groups)
    gained, lost = int((after > before).sum()), int((after < before).sum())
    effect = design_effect(after - before, groups)
    assert result == {
        "estimate": pytest.approx((gained - lost) / 200),
        "ci95": list(paired_bootstrap_difference(before, after, groups)[1:]),
        "p": mcnemar_exact(before, after),
        "p_mid": mcnemar_mid_p(before, after),
        "p_clustered": sign_flip_exact(after - before, groups),
        "gained": gained,
        "lost": lost,
        "design_effect": effect,
        "minimum_detectable": minimum_detectable_difference(200, (gained + lost) / 200, design_effect=effect),
    }


@pytest.mark.parametrize(
    ("before", "after", "estimate"),
    [([1.0], [1.0], 0), ([0.0], [1.0], 1), ([1.0, 0.0], [1.0, 0.0], 0), ([0.0] * 3, [1.0] * 3, 1)],
)
def test_one_item_and_full_agreement_have_figures_and_null_for_what_cannot_be_told(before, after, estimate):
    result = paired_figures(np.array(before), np.array(after), np.zeros(len(before), dtype=np.int64))
    assert result["estimate"] == estimate
    assert (result["p_clustered"], result["design_effect"]) == (1.0, None)
    assert result["ci95"][0] < result["ci95"][1]


def test_each_p_is_adjusted_on_its_own_and_absent_cells_do_not_count():
    cells = {
        "a": {"difference": {"p": 0.01, "p_clustered": 0.2}},
        "b": None,
        "c": {"difference": {"p": 0.04, "p_clustered": 0.02}},
    }
    adjust(cells, "p", "p_clustered")
    assert [cells[name]["difference"]["p_holm"] for name in "ac"] == holm([0.01, 0.04])
    assert [cells[name]["difference"]["p_clustered_holm"] for name in "ac"] == holm([0.2, 0.02])
    assert cells["b"] is None
