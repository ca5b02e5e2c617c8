import pytest

from medvl.answering.polarity import Sentence, is_cut_off, is_denied, sentences


def texts(text):
    return [sentence.text for sentence in sentences(text)]


def test_sentences_end_at_sentence_ends_and_lines():
    assert texts("One. Two! Three?\nFour") == ["One.", "Two!", "Three?", "Four"]
    assert texts("B. Abdomen") == ["B. Abdomen"]
    assert texts("by I. M. Pei, e.g. This") == ["by I. M. Pei, e.g. This"]
    assert texts("") == []


def test_what_cannot_be_told_is_parted_from_what_is_said_all_the_same():
    assert texts("I cannot be certain, but it is a femur.") == ["I cannot be certain", "it is a femur."]


def test_a_sentence_knows_its_place():
    first, second = sentences("One. Two.\nThree.")[1:]
    assert (first.start, first.line, second.start, second.line) == (5, 0, 10, 1)


@pytest.mark.parametrize(
    ("text", "denied"),
    [
        ("There is no X", True),
        ("X is not seen", True),
        ("X isn't seen", True),
        ("X: not seen", True),
        ("no Y, X or Z", True),
        ("rather than X", True),
        ("X can be ruled out", True),
        ("ruling out X", True),
        ("it could be X", True),
        ("the other options, X and more", True),
        ("X is less likely", True),
        ("There is X", False),
        ("not only X", False),
        ("no doubt X", False),
        ("no Y, but X", False),
        ("not visible here, suggesting X", False),
        ("compared with the other options, X fits", False),
        ("X is seen, Y is not", False),
        ("on the other hand X fits", False),
    ],
)
def test_a_denial_is_told_from_an_affirmation(text, denied):
    words = Sentence(text, 0, 0).tokens
    at = [word.raw for word in words].index("X")
    assert (
        is_denied(words, at, at, 0, next((i for i, w in enumerate(words) if w.raw == "Y" and i > at), len(words)))
        is denied
    )


@pytest.mark.parametrize(
    ("text", "trait"),
    [
        ("Is it B?", "is_question"),
        ("I'm sorry.", "refuses"),
        ("It is not possible to determine the plane.", "refuses"),
        ("I don't have access to it.", "refuses"),
        ("It may be B.", "leaves_open"),
        ("Please consult a doctor.", "advises"),
        ("If it were so, the answer would be B.", "is_hypothetical"),
    ],
)
def test_sentences_that_commit_to_nothing_are_known(text, trait):
    assert getattr(Sentence(text, 0, 0), trait)
    assert not getattr(Sentence("This is a femur.", 0, 0), trait)


def test_a_text_that_stops_in_a_sentence_is_cut_off():
    assert is_cut_off("The image shows a section of the fetal body with a")
    assert not is_cut_off("The image shows a section of the fetal body with a femur.")
    assert not is_cut_off("a femur")
