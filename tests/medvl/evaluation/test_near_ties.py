import polars as pl
import pytest

from medvl.evaluation.near_ties import NEAR_TIE, near_ties


def table(*rows):
    return pl.DataFrame({"option_logprobs": list(rows)}, schema={"option_logprobs": pl.List(pl.Float64)})


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        ([[-1.0, -1.0, -9.0]], 1),
        ([[-9.0, -1.0, -1.0 - NEAR_TIE / 2], [-1.0, -2.0]], 1),
        ([[-1.0, -1.0 - 2 * NEAR_TIE]], 0),
        ([[-1.0, -5.0, -5.0]], 0),  # the two that tie are not the likeliest
        ([[-1.0]], 0),
        ([[-2.0], [-1.0, -1.0]], 1),
    ],
)
def test_the_two_likeliest_options_are_compared(rows, count):
    assert near_ties(table(*rows)) == count


def test_the_margin_can_be_another():
    assert near_ties(table([-1.0, -1.05], [-1.0, -1.2]), margin=0.1) == 1


@pytest.mark.parametrize("rows", [[], [[]], [[-1.0, -1.0], []]])
def test_without_option_scores_there_is_no_count(rows):
    assert near_ties(table(*rows)) is None
