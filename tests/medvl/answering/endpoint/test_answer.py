import math

import polars as pl
import pytest
from mini_items import make_item

from medvl.answering.endpoint.answer import failed, is_failed, read_answer
from medvl.answering.endpoint.reply import Reply, TokenScore
from medvl.answering.prediction import Scoring, predictions_to_frame
from medvl.benchmark.item import items_to_frame
from medvl.evaluation.scored import score_predictions
from medvl.sources.record import Task

ITEM = make_item(options=("head", "abdomen", "femur"))
YES_NO = make_item(Task.FD, question="Is there an effusion?", options=("yes", "no"), answer="yes", answer_index=0)


def reply(text, top=()):
    logs = tuple((token, math.log(p)) for token, p in top)
    return Reply(text, (TokenScore(*logs[0], logs),) if logs else (), "m", None, None)


def test_with_scores_the_likeliest_letter_is_the_answer():
    found = read_answer(ITEM, reply("B", [("B", 0.7), ("A", 0.2), ("C", 0.1)]), 1.5)
    assert (found.answer, found.rule, found.raw_text, found.latency_s) == ("B", "argmax", "B", 1.5)
    assert found.option_logprobs == pytest.approx([math.log(0.2), math.log(0.7), math.log(0.1)])
    assert found.outside_mass == pytest.approx(0.0)
    assert (found.scoring, found.item_fingerprint) == (Scoring.ENDPOINT, ITEM.fingerprint())


def test_without_scores_the_text_is_read():
    found = read_answer(ITEM, reply("The answer is C."), 0.0)
    assert (found.answer, found.option_logprobs, found.outside_mass) == ("C", (), None)


def test_a_reply_that_begins_with_words_is_read_as_text():
    found = read_answer(ITEM, reply("The answer is C.", [("The", 0.8), ("A", 0.1), ("B", 0.05), ("C", 0.01)]), 0.0)
    assert (found.answer, found.option_logprobs) == ("C", ())


def test_an_article_is_no_letter():
    found = read_answer(ITEM, reply("A femur is shown.", [("A", 0.9), ("B", 0.05), ("C", 0.01)]), 0.0)
    assert found.answer != "A"
    assert found.option_logprobs == ()


def test_letters_that_are_missing_from_the_list_leave_the_answer_to_the_text():
    found = read_answer(ITEM, reply("B", [("x", 0.5), ("y", 0.3)]), 0.0)
    assert (found.answer, found.option_logprobs, found.outside_mass) == ("B", (), None)


@pytest.mark.parametrize("text", ["I cannot tell.", "D", "A or B", "?"])
def test_a_reply_that_names_no_option_is_invalid_but_no_failure(text):
    found = read_answer(ITEM, reply(text), 0.0)
    assert found.answer is None
    assert found.raw_text == text
    assert not is_failed(found)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("A", "A"),
        ("No.", "B"),
        ("There is no effusion.", "B"),
        ("An effusion is present.", "A"),
        ("B (yes)", None),
        ("Yes and no", None),
    ],
)
def test_a_statement_answers_a_yes_no_question(text, answer):
    assert read_answer(YES_NO, reply(text), 0.0).answer == answer


def test_the_word_in_which_a_reply_was_cut_is_no_answer():
    cut = Reply("I see the A", (), "m", None, None, is_cut=True)
    assert (read_answer(ITEM, cut, 0.0).answer, read_answer(ITEM, cut, 0.0).rule) == (None, "truncated")


def test_the_order_of_yes_and_no_does_not_matter():
    item = make_item(Task.FD, question="Is there an effusion?", options=("No", "Yes"), answer="No", answer_index=0)
    assert read_answer(item, reply("There is no effusion."), 0.0).answer == "A"


def test_a_failed_item_is_an_invalid_answer_with_its_reason():
    found = failed(ITEM, "timeout", 2.0)
    assert (found.answer, found.rule, found.raw_text, found.latency_s) == (None, "failed:timeout", "", 2.0)
    assert is_failed(found)


def test_answers_can_be_scored():
    items = [ITEM, make_item(number=1), make_item(number=2)]
    found = [
        read_answer(items[0], reply("A", [("A", 0.98), ("x", 0.001)]), 0.0),
        read_answer(items[1], reply("B"), 0.0),
        failed(items[2], "refusal", 0.0),
    ]
    scored = score_predictions(items_to_frame(items), predictions_to_frame(found))
    assert scored["is_correct"].to_list() == [True, True, False]
    assert scored["is_invalid"].to_list() == [False, False, True]
    assert scored.select(pl.col("is_uncommitted").any()).item() is False
