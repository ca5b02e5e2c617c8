import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvl.answering.option_likelihoods import OptionLikelihoods, shared_out

FOUND = OptionLikelihoods(sums=(-2.0, -6.0), tokens=(2, 8), text_only_sums=(-1.0, -7.5))
NUMBERS = st.floats(-5000, 50)


@pytest.mark.parametrize(
    ("name", "scores"), [("sum", (-2.0, -6.0)), ("per_token", (-1.0, -0.75)), ("relative", (-1.0, 1.5))]
)
def test_each_score_is_what_its_name_says(name, scores):
    assert FOUND.scores(name) == scores


def test_the_relative_score_needs_the_text_only_question():
    with pytest.raises(ValueError, match="text-only"):
        OptionLikelihoods((-1.0,), (2,)).scores("relative")


@given(st.lists(st.tuples(NUMBERS, st.integers(1, 99), NUMBERS), min_size=1), st.booleans())
def test_what_is_written_is_read_back(rows, with_text_only):
    sums, tokens, blind = zip(*rows, strict=True)
    found = OptionLikelihoods(sums, tokens, blind if with_text_only else None)
    assert OptionLikelihoods.from_json(found.to_json()) == found


@given(st.lists(NUMBERS, min_size=1, max_size=10))
def test_shared_out_scores_are_a_distribution_in_the_same_order(scores):
    logs = shared_out(scores)
    assert math.fsum(map(math.exp, logs)) == pytest.approx(1.0)
    assert all(math.isfinite(log) and log <= 0 for log in logs)
    for one, other in itertools.pairwise(scores):
        a, b = logs[scores.index(one)], logs[scores.index(other)]
        assert a - b == pytest.approx(one - other, abs=1e-9)
