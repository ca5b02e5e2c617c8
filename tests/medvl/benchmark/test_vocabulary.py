import copy

import pytest
import yaml

from medvl.benchmark.vocabulary import load_vocabulary, normalise_label, parse_vocabulary, vocabulary_text
from medvl.errors import DataError
from medvl.sources.record import Task


def table(**answers):
    return {"CD": {"question": "What?", "num_options": 2, "answers": answers}}


def test_the_shipped_table_covers_every_task_and_can_fill_its_options():
    vocabulary = load_vocabulary()
    assert set(vocabulary) == set(Task)
    options = {"PI": 4, "VC": 2, "FO": 4, "CD": 3, "VG": 4, "FD": 2}
    assert {task: v.num_options for task, v in vocabulary.items()} == options
    assert all(len(v.answers) >= v.num_options for v in vocabulary.values())


def test_a_broader_answer_is_never_itself_narrower_so_one_step_finds_all_conflicts():
    for node in yaml.safe_load(vocabulary_text()).values():
        broader = {facts["is_a"] for facts in node["answers"].values() if "is_a" in facts}
        assert not [name for name in broader if "is_a" in node["answers"][name]]


def test_conflicts_hold_both_ways_and_never_with_oneself():
    for vocabulary in load_vocabulary().values():
        for answer, others in vocabulary.conflicts.items():
            assert answer not in others
            assert all(answer in vocabulary.conflicts[other] for other in others)


@pytest.mark.parametrize("raw", ["Trans-thalamic", "trans_thalamic", " TRANS  thalamic ", "trans-thalamic plane"])
def test_spellings_of_a_label_mean_one_answer(raw):
    assert load_vocabulary()[Task.PI].answer_to(raw) == "trans-thalamic plane"


def test_an_unknown_label_means_nothing():
    assert load_vocabulary()[Task.PI].answer_to("four chamber") is None


def test_generic_answers_are_marked():
    generic = load_vocabulary()[Task.PI].generic
    assert "fetal head plane" in generic
    assert "trans-thalamic plane" not in generic


def test_labels_are_compared_without_case_and_separators():
    assert normalise_label(" Non-Standard_View ") == "non standard view"


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({"a": {"labels": ["X-1"]}, "b": {"labels": ["x 1"]}}, "the label 'x 1' means both 'a' and 'b'"),
        ({"a": {"labels": ["b"]}, "b": {}}, "means both"),
        ({"a": {"is_a": "c"}, "b": {}}, "refers to 'c', which is not an answer"),
        ({"a": {"not_beside": ["z"]}, "b": {}}, "refers to 'z'"),
        ({"a": {"lables": ["x"]}, "b": {}}, "lables"),
        ({"a": None, "b": {}}, "'a': unknown None"),
        ({"a": {}}, "needs two answers"),
    ],
)
def test_faults_of_a_table_are_named(answers, says):
    with pytest.raises(DataError, match="CD") as caught:
        parse_vocabulary(table(**answers))
    assert says in str(caught.value)


def test_an_unknown_task_and_a_missing_key_are_named():
    with pytest.raises(DataError, match="unknown task"):
        parse_vocabulary({"XX": table(a={}, b={})["CD"]})
    lacking = copy.deepcopy(table(a={}, b={}))
    del lacking["CD"]["num_options"]
    with pytest.raises(DataError, match="num_options"):
        parse_vocabulary(lacking)


def test_answers_of_another_field_are_no_distractors():
    boxes = load_vocabulary()[Task.VG]
    assert "nodule" in boxes.conflicts["fetal head"]
    assert "stomach" not in boxes.conflicts["fetal head"]
    assert "fetal head" in boxes.conflicts["pneumothorax"]
