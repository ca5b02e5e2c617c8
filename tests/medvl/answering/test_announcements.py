import pytest

from medvl.answering.announcements import announcements


@pytest.mark.parametrize(
    ("text", "after", "of_answer"),
    [
        ("The answer is B", "B", True),
        ("Answer: B", "B", True),
        ("The correct answer choice is: B", ": B", True),
        ("The answer to this question is B", "B", False),
        ("I would choose B", "B", False),
        ("I'll go with B", "B", False),
        ("Therefore, B", "B", False),
        ("final: B", "B", False),
        ("Die Antwort lautet B", "B", True),
        ("答案是B", "B", True),
    ],
)
def test_the_likeliest_announcement_comes_first(text, after, of_answer):
    first = announcements(text)[0]
    assert (text[first.end :].strip(), first.of_answer) == (after, of_answer)


def test_the_last_announcement_and_its_nearest_link_come_first():
    text = "The answer is A, no, the answer is B and the reason is C"
    assert [text[place.end :].strip()[0] for place in announcements(text)[:2]] == ["B", "C"]


def test_a_sentence_without_one_has_none():
    assert announcements("The head is visible.") == []
