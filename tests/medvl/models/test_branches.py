import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvl.models.branches import alike_in_length, branch, shared_length, worth_sharing

token_rows = st.dictionaries(
    st.integers(0, 30), st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=8
)
"""Few kinds of tokens, so that rows share beginnings, are equal, or end within another."""


def seen_from(branched, token):
    return [other for other in range(token + 1) if token < branched.ends[other]]


@given(token_rows)
def test_every_row_sees_its_own_tokens_in_their_places_and_no_other(rows):
    branched = branch(rows)
    for row, tokens in rows.items():
        seen = seen_from(branched, branched.paths[row][-1])
        assert seen == branched.paths[row]
        assert [rows[branched.rows[k]][branched.depths[k]] for k in seen] == tokens
        assert [branched.depths[k] for k in seen] == list(range(len(tokens)))


@given(token_rows)
def test_a_beginning_that_rows_share_stands_there_once(rows):
    beginnings = {tuple(tokens[: k + 1]) for tokens in rows.values() for k in range(len(tokens))}
    assert len(branch(rows)) == len(beginnings)


def test_variants_share_the_stem_of_their_question_beside_the_picture():
    picture, stem, other = [9] * 10, [1, 2], [3, 4]
    branched = branch({0: [*picture, *stem, 5], 1: [*picture, *stem, 6], 2: [*picture, *other, 5]})
    assert len(branched) == 10 + 2 + 2 + 3


@given(token_rows)
def test_rows_are_divided_and_none_is_lost(rows):
    parts = worth_sharing(rows, width=64)
    assert sorted(row for part in parts for row in part) == sorted(rows)


def test_a_long_beginning_is_shared_and_a_short_one_beside_much_text_is_not():
    picture = {row: [7] * 300 + [row] * 60 for row in range(8)}
    assert len(worth_sharing(picture, width=64)) == 1
    bare = {row: [7] + [row] * 900 for row in range(8)}
    assert len(worth_sharing(bare, width=64)) == 8


def test_more_branches_than_pay_go_into_rows_of_their_own():
    many = {row: [7] * 100 + [row] * 80 for row in range(200)}
    parts = worth_sharing(many, width=64)
    assert 1 < len(parts) < 100


@pytest.mark.parametrize(("one", "other", "shared"), [([], [1], 0), ([1, 2], [1, 2], 2), ([1, 2, 3], [1, 3, 3], 1)])
def test_the_shared_length_is_that_of_the_common_beginning(one, other, shared):
    assert shared_length(one, other) == shared


def test_rows_of_very_different_length_are_not_filled_up_to_one_another():
    lengths = (100, 30, 90, 29, 74)
    branched = [branch({0: list(range(length))}) for length in lengths]
    batches = alike_in_length(branched, 0.75)
    assert [[lengths[n] for n in batch] for batch in batches] == [[100, 90], [74], [30, 29]]
