import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvl.answering.endpoint.first_token import COMMITTED_MASS, MISSING_MASS, letter_scores
from medvl.answering.endpoint.reply import Reply, TokenScore


def reply(text, *tokens):
    return Reply(text, tuple(tokens), "m", None, None)


def token(*top, drawn=0):
    """The token that was drawn, among the likeliest ones: (text, probability)."""
    logs = tuple((text, math.log(p)) for text, p in top)
    return TokenScore(*logs[drawn], logs)


def test_every_letter_given_is_letter_scoring():
    scores = letter_scores(reply("B", token(("B", 0.6), ("A", 0.2), ("C", 0.1), ("The", 0.05))), "ABC")
    assert (scores.drawn, scores.answer, scores.rule) == ("B", "B", "argmax")
    assert scores.logprobs == pytest.approx([math.log(0.2), math.log(0.6), math.log(0.1)])
    assert scores.outside_mass == pytest.approx(0.1)


def test_letters_that_are_no_options_are_outside():
    scores = letter_scores(reply("B", token(("B", 0.6), ("D", 0.3), ("A", 0.1))), "AB")
    assert scores.outside_mass == pytest.approx(0.3)
    assert len(scores.logprobs) == 2


def test_of_equal_letters_the_first_is_taken():
    scores = letter_scores(reply("B", token(("B", 0.5), ("A", 0.5))), "AB")
    assert (scores.drawn, scores.answer) == ("B", "A")


@pytest.mark.parametrize("spelling", [" B", "\u2581B", "\u0120B", "B\n"])
def test_a_letter_counts_with_and_without_a_blank(spelling):
    scores = letter_scores(reply("B", token(("B", 0.4), (spelling, 0.3), ("A", 0.2))), "AB")
    assert scores.logprobs == pytest.approx([math.log(0.2), math.log(0.7)])


@pytest.mark.parametrize("other", ["b", "B.", "(B", "Both"])
def test_nothing_else_counts_as_the_letter(other):
    scores = letter_scores(reply("B", token(("B", 0.6), (other, 0.3), ("A", 0.1))), "AB")
    assert scores.logprobs[1] == pytest.approx(math.log(0.6))


def test_a_missing_letter_gets_its_upper_bound():
    scores = letter_scores(reply("A", token(("A", 0.95), ("B", 0.03), ("x", 0.001))), "ABC")
    assert (scores.answer, scores.rule) == ("A", "argmax_bounded")
    assert scores.logprobs == pytest.approx([math.log(0.95), math.log(0.03), math.log(0.001)])
    assert scores.outside_mass == pytest.approx(1 - 0.981)


def test_a_loose_bound_gives_no_scores_but_the_answer_stands():
    scores = letter_scores(reply("A", token(("A", 0.6), ("x", 0.3))), "ABC")
    assert scores == type(scores)("A", "A", (), None, "argmax_unscored")


def test_the_drawn_token_is_no_bound_for_others():
    """A server lists it though it is not among the likeliest: 1e-6 bounds nothing."""
    top = token(("C", 1e-6), ("A", 0.6), ("x", 0.3), drawn=0)
    assert letter_scores(reply("C", top), "ABC").rule == "argmax_unscored"


def test_one_token_alone_bounds_nothing():
    scores = letter_scores(reply("A", token(("A", 0.999))), "AB")
    assert (scores.answer, scores.rule) == ("A", "argmax_unscored")


@pytest.mark.parametrize("stand_in", [-9999.0, -3.4e38, -math.inf, math.nan, None])
def test_a_stand_in_is_no_probability(stand_in):
    top = TokenScore("A", 0.0, (("A", 0.0), ("B", stand_in), ("x", stand_in)))
    assert letter_scores(reply("A", top), "AB").rule == "argmax_unscored"


def test_a_drawn_letter_from_beyond_the_likeliest_counts():
    first = TokenScore("C", math.log(0.01), (("A", math.log(0.6)), ("B", math.log(0.3))))
    scores = letter_scores(reply("C", first), "ABC")
    assert (scores.drawn, scores.answer, scores.rule) == ("C", "A", "argmax")
    assert scores.logprobs[2] == pytest.approx(math.log(0.01))


def test_letters_below_half_decide_nothing():
    assert letter_scores(reply("The", token(("The", 0.7), ("A", 0.2), ("B", 0.1))), "AB") is None


def test_blanks_before_the_answer_are_passed_over():
    first = token(("\n", 0.9), ("A", 0.1))
    scores = letter_scores(reply("\nB", first, token(("B", 0.9), ("A", 0.1))), "AB")
    assert scores.answer == "B"


@pytest.mark.parametrize(
    "found",
    [
        reply("B"),
        reply("B", token((" ", 1.0))),
        reply("B", token(("<think>", 0.9), ("B", 0.1)), token(("B", 1.0))),
        reply("B", token(("A", 0.9), ("B", 0.1))),
    ],
)
def test_scores_of_other_text_are_not_used(found):
    assert letter_scores(found, "AB") is None


TOPS = st.lists(
    st.tuples(st.sampled_from([*"ABCDE", " A", " B", "x", "y", "z"]), st.floats(-9999, 0.0001) | st.just(-math.inf)),
    min_size=1,
    max_size=12,
)


@given(TOPS, st.sampled_from(["AB", "ABC", "ABCD"]))
def test_scores_are_valid_whatever_a_server_sends(tops, letters):
    scores = letter_scores(reply(tops[0][0], TokenScore(*tops[0], tuple(tops))), letters)
    if scores is None:
        return
    assert scores.answer in letters
    assert len(scores.logprobs) in (0, len(letters))
    assert all(math.isfinite(one) and one <= 0 for one in scores.logprobs)
    if scores.logprobs:
        assert 0 <= scores.outside_mass <= 1
        assert scores.logprobs[letters.index(scores.answer)] == max(scores.logprobs)


@given(st.lists(st.floats(0.001, 1), min_size=5, max_size=30), st.integers(1, 20))
def test_what_is_known_of_a_cut_distribution_is_true(weights, k):
    """Against the whole distribution: given letters are exact, bounds are above the truth, by little in all."""
    names = [*"ABCD", *(f"w{i}" for i in range(len(weights) - 4))]
    truth = {name: weight / sum(weights) for name, weight in zip(names, weights, strict=True)}
    ranked = sorted(truth.items(), key=lambda pair: -pair[1])
    scores = letter_scores(reply(ranked[0][0], token(*ranked[:k])), "ABCD")
    given_mass = sum(p for name, p in ranked[:k] if name in "ABCD")
    assert (scores is None) == (given_mass < COMMITTED_MASS)
    if scores is None:
        return
    assert truth[scores.answer] == pytest.approx(max(truth[letter] for letter in "ABCD"))
    for letter, logprob in zip("ABCD", scores.logprobs, strict=bool(scores.logprobs)):
        assert math.exp(logprob) >= truth[letter] - 1e-12
        assert math.exp(logprob) <= truth[letter] + MISSING_MASS
