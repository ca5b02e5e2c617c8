import pytest

from medvl.answering.mentions import Options
from medvl.answering.picks import Place, is_no_article, leading_pick, more_letters, skip_own_text

TEXTS = {"A": "Head", "B": "Abdomen", "C": "both A and B", "I": "E. coli"}
OPTIONS = Options(TEXTS, TEXTS)


@pytest.mark.parametrize(
    ("text", "place", "letters"),
    [
        ("B. it shows", Place.LINE, "B"),
        ("A head", Place.LINE, "A"),
        ("A, since", Place.LINE, "A"),
        ("Abdomen, since", Place.LINE, "B"),
        ("both A and B", Place.LINE, "C"),
        ("E. coli", Place.LINE, "I"),
        ("option b", Place.ANSWER, "B"),
        ("most likely the abdomen of", Place.ANSWER, "B"),
        ("not A but B", Place.ANSWER, "B"),
        ("a.", Place.ANSWER, "A"),
        ("B", Place.CLAUSE, "B"),
        ("the abdomen.", Place.CLAUSE, "B"),
    ],
)
def test_a_pick_at_the_beginning_is_found(text, place, letters):
    pick = leading_pick(text, OPTIONS, place)
    assert pick is not None
    assert pick.letter == letters


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("A large mass", Place.LINE),
        ("A is bigger than B", Place.LINE),
        ("B is not right", Place.LINE),
        ("Abdomen and more", Place.LINE),
        ("I am unsure", Place.LINE),
        ("I, as an AI", Place.LINE),
        ("B-lines", Place.LINE),
        ("a large mass", Place.ANSWER),
        ("not B", Place.ANSWER),
        ("the abdomen is not visible", Place.CLAUSE),
        ("the abdomen of the fetus lies", Place.CLAUSE),
        ("", Place.ANSWER),
    ],
)
def test_what_is_no_pick_is_none(text, place):
    assert leading_pick(text, OPTIONS, place) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("A and B", "two_picks"),
        ("A, B", "two_picks"),
        ("A. Head and B. Abdomen", "two_picks"),
        ("A: 10 %, B: 90 %", "two_picks"),
        ("A. Abdomen", "letter_contradicts_text"),
        ("D", "not_an_option"),
    ],
)
def test_a_pick_that_is_no_single_option_says_why(text, reason):
    pick = leading_pick(text, OPTIONS, Place.ANSWER)
    assert pick is not None
    assert (pick.letter, pick.reason) == (None, reason)


def test_a_list_of_letters_goes_on_after_commas_and_and():
    assert [m["letter"] for m in more_letters("A, (B) and C are", 1)] == ["B", "C"]
    assert more_letters("A is", 1) == []


def test_articles_and_pronouns_are_told_from_letters():
    assert is_no_article("A", " is right")
    assert is_no_article("B", " large mass")
    assert not is_no_article("A", " large mass")
    assert not is_no_article("I", " think")


def test_the_text_of_an_option_after_its_letter_is_skipped():
    assert skip_own_text("B. Abdomen is", 1, "B", OPTIONS) == len("B. Abdomen")
    assert skip_own_text("B. Head is", 1, "B", OPTIONS) == 1
