import pytest
from mini_items import make_item

from medvl.answering.endpoint.answer import failed, read_answer
from medvl.answering.endpoint.reply import Reply
from medvl.answering.endpoint.votes import majority

ITEM = make_item()


def answers(said: str):
    """One a letter: A to C are options, c is C in words, x and i are invalid, t (timeout) and r (refusal) no reply."""
    reasons = {"t": "timeout", "r": "refusal"}
    words = {"c": "The answer is C.", "x": "?", "i": "I cannot tell."}
    return [
        failed(ITEM, reasons[one], 0.0)
        if one in reasons
        else read_answer(ITEM, Reply(words.get(one, one), (), "", None, None), 0.0)
        for one in said
    ]


@pytest.mark.parametrize(
    ("said", "index", "share"),
    [
        ("B", 0, 1.0),
        ("ABB", 1, 2 / 3),
        ("CAAC", 0, 0.5),
        ("ABC", 0, 1 / 3),
        ("xBx", 0, 2 / 3),
        ("xB", 0, 0.5),
        ("Bxi", 1, 2 / 3),
        ("AcC", 1, 2 / 3),
        ("tBB", 1, 2 / 3),
        ("ttB", 0, 2 / 3),
        ("trBB", 2, 0.5),
        ("txx", 1, 2 / 3),
    ],
)
def test_most_votes_win_and_of_equals_the_first(said, index, share):
    assert majority(answers(said)) == (index, pytest.approx(share))
