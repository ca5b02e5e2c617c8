import pytest

from medvl.answering.mentions import Options
from medvl.answering.named import affirmed, named_options, verdicts
from medvl.answering.polarity import Sentence

TEXTS = {"A": "head", "B": "abdomen", "C": "stomach", "D": "cyst", "E": "cyst"}
OPTIONS = Options(TEXTS, TEXTS)
LABELS = Options({"A": "B", "B": "D"}, {"A": "B", "B": "D"})


def groups(text, options=OPTIONS):
    named = named_options(Sentence(text, 0, 0), options)
    return [("".join(sorted(group.letters)), group.denied) for group in named]


def test_options_are_named_by_letter_or_words_and_grouped():
    assert groups("option A, (B) and the stomach") == [("ABC", False)]
    assert groups("the abdomen (B)") == [("B", False)]
    assert groups("no head, but option b") == [("A", True), ("B", False)]
    assert groups("answer a question, option A large") == []
    assert groups("f(A) and Option (K)") == []


def test_labels_that_are_options_are_found_after_what_they_label():
    assert groups("region D is", LABELS) == [("B", False)]
    assert groups("the parts B, C and D", LABELS) == [("A", False), ("B", False)]
    assert groups("region D") == []


@pytest.mark.parametrize(
    ("text", "letter", "reason"),
    [
        ("It shows the head.", "A", ""),
        ("It shows the abdomen with the stomach.", "B", ""),
        ("Not the head but the abdomen.", "B", ""),
        ("The head and the abdomen.", None, "two_picks"),
        ("A cyst.", None, "duplicate_option_text"),
        ("The cyst (D).", "D", ""),
    ],
)
def test_a_sentence_affirms_what_it_does_not_deny(text, letter, reason):
    pick = affirmed(Sentence(text, 0, 0), OPTIONS)
    assert pick is not None
    assert (pick.letter, pick.reason) == (letter, reason)


def test_a_sentence_that_denies_or_names_nothing_affirms_nothing():
    assert affirmed(Sentence("There is no head.", 0, 0), OPTIONS) is None
    assert affirmed(Sentence("There is a kidney.", 0, 0), OPTIONS) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("B is the correct answer", [("B", True, False)]),
        ("(B) abdomen is correct", [("B", False, False)]),
        ("the abdomen is the best answer", [("B", True, False)]),
        ("only option B is true", [("B", False, True)]),
        ("A is true and B is true", [("A", False, False), ("B", False, False)]),
        ("B is not correct", []),
        ("I believe that it is right", []),
        ("A diagnosis is correct", []),
    ],
)
def test_options_that_are_called_right_are_found(text, found):
    assert [(v.letter, v.is_answer, v.alone) for v in verdicts(Sentence(text, 0, 0), OPTIONS)] == found
