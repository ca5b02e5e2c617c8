"""Paraphrases ask what the question asks."""

import pytest

from medvl.answering.parsing import parse_yes_no
from medvl.benchmark.paraphrases import ANY, GAP, load_paraphrases, wordings
from medvl.benchmark.vocabulary import load_vocabulary
from medvl.sources.record import Task

FINDINGS = load_vocabulary()[Task.FD].answers


def test_every_task_has_its_own_question_first():
    table = load_paraphrases()
    assert set(table) == {*Task, ANY}
    assert {task: table[task][0] for task in Task} == {
        task: words.question for task, words in load_vocabulary().items()
    }


@pytest.mark.parametrize("task", Task)
def test_the_wordings_of_a_task_differ_and_keep_its_gap(task):
    templates = load_paraphrases()[task]
    assert len({template.casefold() for template in templates}) == len(templates)
    assert {template.count(GAP) for template in templates} == {templates[0].count(GAP)}


@pytest.mark.parametrize("finding", FINDINGS)
def test_a_finding_stands_in_all_wordings_of_its_question(finding):
    found = wordings(Task.FD, load_vocabulary()[Task.FD].question.format(finding))
    assert found.is_known
    assert all(finding in text and GAP not in text for text in found.texts)
    assert f"Does this image show {finding}?" in found.texts


@pytest.mark.parametrize("template", load_paraphrases()[Task.FD])
@pytest.mark.parametrize("finding", FINDINGS)
def test_a_statement_answers_every_wording_alike(template, finding):
    question = template.replace(GAP, finding)
    bare = finding.removeprefix("a ")
    assert parse_yes_no(f"There is {finding}.", question).answer == "yes"
    assert parse_yes_no(f"There is no {bare}.", question).answer == "no"


def test_a_paraphrase_asked_by_own_data_has_the_others_as_paraphrases():
    own = "what does the red box in the image mark?"
    found = wordings(Task.VG, own)
    assert (found.is_known, found.texts[0]) == (True, own)
    assert found.texts[1:] == tuple(t for t in load_paraphrases()[Task.VG] if t.casefold() != own)


def test_a_question_of_another_task_is_not_known():
    assert not wordings(Task.CD, "What is the orientation of the fetus?").is_known


@pytest.mark.parametrize("question", ["Is there no nodule?", "What {} is this", "ä\\1 (?"])
def test_an_own_question_keeps_its_words_and_comes_first(question):
    found = wordings(Task.CD, question)
    assert not found.is_known
    assert found.texts[0] == question
    assert len(set(found.texts)) == len(load_paraphrases()[ANY])
    assert all(text.startswith(f"{question}\n") for text in found.texts[1:])


def test_what_is_added_to_an_own_question_does_not_change_how_its_replies_are_read():
    for text in wordings(Task.CD, "Is there no nodule?").texts:
        assert parse_yes_no("There is no nodule.", text).answer == "yes"
