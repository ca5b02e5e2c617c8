import math

import numpy as np
import polars as pl
import pytest
from scipy.special import log_softmax

from medvl.evaluation.option_scores import normalised, option_scores


def table(*rows):
    return pl.DataFrame({"option_logprobs": list(rows)}, schema={"option_logprobs": pl.List(pl.Float64)})


def test_rows_of_different_length_are_filled_with_minus_infinity():
    scores = option_scores(table([-1.0, -2.0], [-3.0, -4.0, -5.0]))
    assert scores.tolist() == [[-1.0, -2.0, -math.inf], [-3.0, -4.0, -5.0]]


@pytest.mark.parametrize(
    "rows", [[], [[-1.0], []], [[-1.0], None], [[-1.0, math.nan]], [[-1.0, None]], [[-math.inf, -1.0]]]
)
def test_absent_or_not_finite_scores_give_none(rows):
    assert option_scores(table(*rows)) is None


def test_normalised_equals_scipys_log_softmax_also_beside_absent_options_and_far_from_zero():
    scores = np.array([[-1.0, -2.0, -math.inf], [-2000.0, -2001.0, -2002.0]])
    assert normalised(scores) == pytest.approx(log_softmax(scores, axis=1))
