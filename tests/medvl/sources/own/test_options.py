import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvl.sources.own.options import (
    LETTERS,
    answer_index,
    option_columns,
    plain_text,
    read_options,
    without_options,
)

WORDS = st.lists(
    st.text(string.ascii_lowercase + " ", min_size=3, max_size=12).filter(lambda text: len(text.strip()) > 2),
    min_size=2,
    max_size=10,
    unique_by=plain_text,
)


@given(WORDS, st.sampled_from(["({}) {}", "{}) {}", "{}. {}", "{}: {}"]))
def test_letters_before_options_are_dropped(words, form):
    lettered = [form.format(letter, word) for letter, word in zip(LETTERS, words, strict=False)]
    assert read_options(lettered) == tuple(word.strip() for word in words) == read_options(words)


@given(WORDS, st.data())
def test_letter_index_number_and_text_name_one_option(words, data):
    options = read_options(words)
    index = data.draw(st.integers(0, len(options) - 1))
    assert answer_index(LETTERS[index], options, "auto") == index
    assert answer_index(f"({LETTERS[index].lower()})", options, "letter") == index
    assert answer_index(index, options, "auto") == index
    assert answer_index(index + 1, options, "number") == index
    assert answer_index(f" {options[index].upper()}. ", options, "auto") == index
    assert answer_index(f"({LETTERS[index]}) {options[index]}", options, "auto") == index


@pytest.mark.parametrize(
    "value",
    [["a", "b"], ("a ", " b"), '["a", "b"]', "a|b", {"A": "a", "B": "b"}, '{"B": "b", "A": "a"}', ["a", "b", None]],
)
def test_options_are_read_in_every_form(value):
    assert read_options(value) == ("a", "b")


def test_letters_that_belong_to_the_text_stay():
    assert read_options(["A. fumigatus", "E. coli"]) == ("A. fumigatus", "E. coli")
    assert read_options(["B) one", "A) two"]) == ("B) one", "A) two")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (["only"], "2 to 10 options, found 1"),
        ([], "found 0"),
        ("one text", "found 1"),
        (None, "list of options"),
        (7, "list of options"),
        ("[broken", "JSON list"),
        ([str(n) for n in range(11)], "found 11"),
        (["a", "", "b"], "a text for every option"),
        (["Lung", "lung."], "more than once"),
        (["(A) x", "(B) x"], "more than once"),
    ],
)
def test_what_are_no_options_is_refused(value, message):
    with pytest.raises(ValueError, match=message):
        read_options(value)


@pytest.mark.parametrize(
    ("value", "options", "message"),
    [
        ("E", ("x", "y"), "expected the answer to be one of 'x', 'y'"),
        (2, ("x", "y"), "expected the answer"),
        (None, ("x", "y"), "found ''"),
        ("A", ("B", "A"), "read as text and as letter"),
        (1, ("1", "2"), "read as text and as index"),
        ("(B) x", ("x", "y"), "expected the answer"),
    ],
)
def test_no_answer_is_guessed(value, options, message):
    with pytest.raises(ValueError, match=message):
        answer_index(value, options, "auto")


def test_a_kind_settles_what_can_be_read_in_two_ways():
    assert answer_index("A", ("B", "A"), "letter") == 0
    assert answer_index("A", ("B", "A"), "text") == 1
    assert answer_index("1", ("1", "2"), "index") == 1
    assert answer_index("1", ("2", "1"), "number") == 0
    assert answer_index(1.0, ("x", "y"), "index") == 1
    with pytest.raises(ValueError, match="written as number"):
        answer_index(0, ("x", "y"), "number")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["image", "A", "B", "C"], ["A", "B", "C"]),
        (["option_B", "option_A", "answer"], ["option_A", "option_B"]),
        (["Option C", "Option A", "Option B"], ["Option A", "Option B", "Option C"]),
        (["A", "question"], []),
    ],
)
def test_columns_of_options_are_known_by_their_letters(columns, expected):
    assert option_columns(columns) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which plane? (A) Brain, (B) Femur.", "Which plane?"),
        ("Name the plane: (A) Brain, (B) Femur", "Name the plane."),
        ("Which plane is it: A. Brain B. Femur", "Which plane is it?"),
        ("Which plane?\nA) Brain\nB) Femur", "Which plane?"),
        ("Is it? Options: (A) brain, (B) femur.", "Is it?"),
        ("Brain or femur?", "Brain or femur?"),
        ("Which is (A) Brain?", "Which is (A) Brain?"),
        ("(A) Brain (B) Femur", "(A) Brain (B) Femur"),
        (" What now? ", "What now?"),
    ],
)
def test_options_are_cut_from_the_question(question, expected):
    assert without_options(question, ("Brain", "Femur")) == expected
