from dataclasses import replace
from pathlib import Path

import pytest

from medvl.errors import DataError
from medvl.sources.own.asked import Asked, as_task, gather, official, read_side
from medvl.sources.record import Domain, Question, Split, Task

QUESTION = Question("", Task.CD, "What is it?", ("normal", "benign"), 0)


def asked(row, picture="a.png", question=QUESTION, **facts):
    place = Path("/root") / picture
    return Asked(f"q.csv row {row}", place, picture, is_present=True, group="P1", question=question, **facts)


def test_questions_about_one_picture_are_one_record_in_the_order_of_first_mention():
    other = replace(QUESTION, question="Where is it?")
    rows = [asked(1, "b.png"), asked(2), asked(3, "b.png", other)]
    records = gather("mylab", rows, warnings := [])
    assert [(r.record_id, [q.question for q in r.questions], r.where) for r in records] == [
        ("b.png", ["What is it?", "Where is it?"], "q.csv row 1"),
        ("a.png", ["What is it?"], "q.csv row 2"),
    ]
    assert len({q.question_id for r in records for q in r.questions}) == 3
    assert warnings == []


def test_a_question_repeated_word_for_word_counts_once():
    (record,) = gather("mylab", [asked(1), asked(2)], warnings := [])
    assert len(record.questions) == 1
    assert warnings == ["1 question (q.csv row 2) repeated word for word; each counts once."]


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (asked(2, question=replace(QUESTION, answer_index=1)), "found .* again after q.csv row 1 with other content"),
        (asked(2, side=Split.TEST), "expected the side None for a.png as in q.csv row 1, found test"),
        (asked(2, domain=Domain.PHANTOM), "expected the domain clinical .* found phantom"),
        (replace(asked(2), group="P2"), "expected the group P1 .* found P2"),
    ],
)
def test_rows_that_contradict_each_other_are_refused(second, says):
    with pytest.raises(DataError, match=f"q.csv row 2: .*{says}"):
        gather("mylab", [asked(1), second], [])


def test_one_id_is_for_one_question():
    named = replace(QUESTION, question_id="7")
    with pytest.raises(DataError, match=r"'7' again after q\.csv row 1"):
        gather("mylab", [asked(1, question=named), asked(2, "b.png", named)], [])


@pytest.mark.parametrize(
    ("text", "side"),
    [("Train", Split.TRAIN), (" valid ", Split.VAL), ("dev", Split.VAL), ("TEST", Split.TEST), ("", None)],
)
def test_sides_have_several_names(text, side):
    assert read_side(text, "row 1") is side


def test_an_unknown_side_or_task_is_refused():
    with pytest.raises(DataError, match=r"row 1: expected a split of train, .*found 'left'"):
        read_side("left", "row 1")
    with pytest.raises(DataError, match=r"row 1: expected a task of PI, .*found 'QA'"):
        as_task("QA", "row 1")
    assert as_task(" vg", "row 1") is Task.VG


def test_validation_pictures_are_training_pictures():
    assert [official(side) for side in (*Split, None)] == [Split.TRAIN, Split.TRAIN, Split.TEST, None]
