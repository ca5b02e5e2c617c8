import json

import pytest
from own_data import own, write_picture

from medvl.errors import DataError
from medvl.sources.record import Task

PUBLISHED = {
    "dataset": "Chest X-Ray PA",
    "question_id": "chest_0001",
    "question_type": "Disease Diagnosis",
    "question": "What is the diagnosis?",
    "gt_answer": "Pneumonia.",
    "image_path": "Images/Chest X-Ray PA/one.png",
    "option_A": "Normal",
    "option_B": "Pneumonia",
    "option_C": "Tuberculosis",
    "option_D": "",
    "modality_type": "X-Ray",
}
SUBSET = {
    "image": ["images/one.png"],
    "problem": "What is apparent?\nA) Hemorrhage\nB) Abscess",
    "solution": "B",
    "question": "What is apparent?",
    "options": ["Hemorrhage", "Abscess"],
    "answer": "Abscess",
    "dataset": "OmniMedVQA",
    "subset": "X-Ray",
}


def scan(root, **config):
    return own(root, **{"format": "omnimedvqa", "path": "OmniMedVQA", "task": "CD", **config})


def write(root, *rows, name="QA_information/Open-access/Chest.json"):
    path = root / "OmniMedVQA" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(list(rows)))


@pytest.fixture
def root(tmp_path):
    write_picture(tmp_path / "OmniMedVQA" / "Images" / "Chest X-Ray PA" / "one.png")
    write_picture(tmp_path / "OmniMedVQA" / "images" / "one.png")
    return tmp_path


def test_the_published_form_is_read(root):
    write(root, PUBLISHED, {**PUBLISHED, "question_id": "chest_0002", "question": "Is it normal?"})
    (record,) = scan(root).records
    assert record.is_present
    assert record.group == record.record_id == "Images/Chest X-Ray PA/one.png"
    assert [q.question_id for q in record.questions] == ["chest_0001", "chest_0002"]
    question = record.questions[0]
    assert (question.task, question.options, question.answer_index) == (
        Task.CD,
        ("Normal", "Pneumonia", "Tuberculosis"),
        1,
    )


def test_the_subset_of_medvlm_r1_is_read(root):
    write(root, SUBSET, name="subset.json")
    (record,) = scan(root, path="OmniMedVQA/subset.json").records
    assert record.is_present
    assert (record.questions[0].question, record.questions[0].answer_index) == ("What is apparent?", 1)


def test_kinds_can_be_asked_for(root):
    write(root, PUBLISHED, {**PUBLISHED, "question_id": "x", "question_type": "Modality Recognition"})
    (record,) = scan(root, only={"question_type": ["Disease Diagnosis"]}).records
    assert len(record.questions) == 1
    with pytest.raises(DataError, match="expected questions, found none"):
        scan(root, only={"question_type": ["Anatomy"]})


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({**PUBLISHED, "option_C": "pneumonia."}, "options that differ"),
        ({**PUBLISHED, "gt_answer": "Flu"}, "the answer is none of the options"),
        ({**SUBSET, "solution": "A"}, "its letter and its answer differ"),
        ({**PUBLISHED, "option_B": None, "option_C": None}, "2 to 10 options"),
    ],
)
def test_questions_that_cannot_be_asked_are_counted(root, row, reason):
    write(root, PUBLISHED, {**row, "question_id": "bad"})
    scanned = scan(root)
    assert sum(len(record.questions) for record in scanned.records) == 1
    assert len(scanned.warnings) == 1
    assert "1 question(s) left out" in scanned.warnings[0]
    assert reason in scanned.warnings[0]


def test_groups_may_come_from_the_name_or_a_key(root):
    rows = [{**PUBLISHED, "patient": "p7", "image_path": "Images/person19_virus_50.jpeg"}]
    write(root, *rows)
    assert scan(root, group_pattern=r"(person\d+)_").records[0].group == "person19"
    assert scan(root, group="patient").records[0].group == "p7"
    assert not scan(root).records[0].is_present


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**PUBLISHED, "image_path": ""}, r"Chest\.json row 1: expected one picture"),
        ({**SUBSET, "image": ["a", "b"]}, r"Chest\.json row 1: expected one picture"),
        ({**PUBLISHED, "image_path": "../x.png"}, r"Chest\.json row 1: .*relative to"),
        ({**PUBLISHED, "question": ""}, r"Chest\.json row 1: expected question"),
        ({**PUBLISHED, "gt_answer": None}, r"Chest\.json row 1: expected question and gt_answer"),
    ],
)
def test_a_row_that_is_not_as_published_is_refused(root, row, message):
    write(root, row)
    with pytest.raises(DataError, match=message):
        scan(root)


def test_a_folder_without_question_files_is_refused(root):
    with pytest.raises(DataError, match="QA_information"):
        scan(root)


def test_the_real_subset_is_read(shared_data):
    path = "omnimedvqa_medvlm_r1/MRI_CT_XRAY_300each_dataset.json"
    scanned = scan(shared_data, path=path)
    options = [len(question.options) for record in scanned.records for question in record.questions]
    assert (len(scanned.records), len(options)) == (900, 900)
    assert (options.count(4), options.count(2)) == (825, 75)
    assert scanned.warnings == []
    assert len(scan(shared_data, path=path, only={"subset": ["X-Ray"]}).records) == 300
