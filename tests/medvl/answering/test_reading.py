import pytest
from hypothesis import given
from hypothesis import strategies as st
from mini_items import make_item

from medvl.answering.parsing import Parsed, parse_choice
from medvl.answering.reading import read_reply
from medvl.sources.record import Task

PLANE = make_item()


def finding(options=("yes", "no"), question="Is there a nodule?"):
    return make_item(Task.FD, question=question, options=options, answer_index=0, answer=options[0])


@pytest.mark.parametrize(
    ("reply", "answer"),
    [("B", "B"), ("The answer is C.", "C"), ("abdomen", "B"), ("K", None), ("I cannot tell.", None), ("", None)],
)
def test_a_letter_of_the_item_or_nothing(reply, answer):
    assert read_reply(PLANE, reply).answer == answer


@pytest.mark.parametrize("options", [("yes", "no"), ("No", "Yes"), ("YES", "NO"), (" yes", "no ")])
@pytest.mark.parametrize(
    ("reply", "said"),
    [("Yes.", "yes"), ("no", "no"), ("There is a nodule.", "yes"), ("No nodule is seen.", "no"), ("Not present", "no")],
)
def test_yes_and_no_are_read_from_the_word_or_from_what_is_stated(options, reply, said):
    found = read_reply(finding(options), reply)
    assert options["AB".index(found.answer)].strip().casefold() == said


def test_a_letter_goes_before_a_word():
    assert read_reply(finding(("no", "yes")), "A").answer == "A"


def test_a_statement_answers_the_question_as_it_was_asked():
    denied = finding(question="Is there no nodule?")
    assert read_reply(denied, "There is no nodule.") == Parsed("A", "statement")
    assert read_reply(finding(), "There is no nodule.") == Parsed("B", "statement")


@pytest.mark.parametrize(
    ("reply", "rule"),
    [
        ("B. Yes", "letter_contradicts_text"),
        ("Yes, there is no nodule.", "contradiction"),
        ("Answer: none of these", "no_option_fits"),
        ("I cannot tell.", "refusal"),
        ("yes or no", "no_commitment"),
    ],
)
def test_a_reply_that_contradicts_itself_or_declines_is_no_answer(reply, rule):
    assert read_reply(finding(), reply) == Parsed(None, rule)


@pytest.mark.parametrize("options", [("yes", "no", "unclear"), ("present", "absent"), ("yes", "yes")])
def test_statements_are_read_for_yes_and_no_only(options):
    item = finding(options)
    expected = parse_choice("There is a nodule.", dict(zip(item.letters, options, strict=True)))
    assert read_reply(item, "There is a nodule.") == expected


def test_the_word_in_which_a_reply_was_cut_counts_for_nothing():
    assert read_reply(PLANE, "The answer is A") == Parsed("A", "declared")
    assert read_reply(PLANE, "The answer is A", is_cut=True) == Parsed(None, "truncated")
    assert read_reply(PLANE, "The answer is B. It shows the stom", is_cut=True) == Parsed("B", "declared")
    assert read_reply(finding(), "No", is_cut=True) == Parsed(None, "truncated")  # "Nodules are absent"


@pytest.mark.parametrize(
    ("reply", "rule"),
    [
        ("", "truncated"),
        ("The image", "truncated"),
        ("I'm sorry, I cannot tell from", "refusal"),
        ("<think>B or", None),
    ],
)
def test_a_cut_reply_without_an_answer_says_why(reply, rule):
    assert read_reply(PLANE, reply, is_cut=True) == Parsed(None, rule or "unfinished_thought")


@given(st.text(), st.booleans())
def test_every_reply_gives_an_option_or_none_and_a_rule(reply, is_cut):
    for item in (PLANE, finding()):
        found = read_reply(item, reply, is_cut=is_cut)
        assert found.answer is None or found.answer in item.letters
        assert found.rule
