import json

import pytest
from own_data import own, write_picture

from medvl.errors import DataError
from medvl.sources.own.slake import alternatives
from medvl.sources.record import Split, Task

ROW = {
    "img_id": 102,
    "img_name": "xmlab102/source.jpg",
    "question": "Is the lung healthy?",
    "answer": "No",
    "q_lang": "en",
    "location": "Lung",
    "modality": "X-Ray",
    "answer_type": "CLOSED",
    "base_type": "vqa",
    "content_type": "Abnormality",
    "triple": ["vhead", "_", "_"],
    "qid": 1,
}
TEST = [
    ROW,
    {**ROW, "qid": 2, "question": "Which organ is abnormal, heart or lung?", "answer": "Heart"},
    {**ROW, "qid": 3, "question": "Which modality?", "answer": "CT", "answer_type": "OPEN"},
    {**ROW, "qid": 4, "q_lang": "zh", "question": "肺部健康吗?", "answer": "不"},
    {**ROW, "qid": 5, "question": "Which is bigger, kidney or spleen?", "answer": "Liver", "modality": "CT"},
]
VALIDATE = [{**ROW, "qid": 6, "img_name": "xmlab0/source.jpg", "question": "Does the lung look abnormal?"}]
TRAIN = [{**ROW, "qid": 7, "img_name": "xmlab1/source.jpg", "question": "Is this a CT scan?", "modality": "CT"}]


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "Slake1.0"
    write_picture(folder / "imgs" / "xmlab102" / "source.jpg")
    for name, rows in (("train", TRAIN), ("validate", VALIDATE), ("test", TEST)):
        (folder / f"{name}.json").write_text(json.dumps(rows))
    return tmp_path


def scan(root, **config):
    return own(root, **{"format": "slake", "path": "Slake1.0", "task": "FD", **config})


def by_id(scanned):
    return {record.record_id.split("/")[0]: record for record in scanned.records}


def test_closed_english_questions_are_asked(root):
    record = by_id(scan(root))["xmlab102"]
    assert [(q.question_id, q.options, q.answer_index) for q in record.questions] == [
        ("1", ("Yes", "No"), 1),
        ("2", ("heart", "lung"), 0),
    ]
    assert {q.task for q in record.questions} == {Task.FD}


def test_yes_means_present_or_absent_as_the_question_is_put(root):
    records = by_id(scan(root))
    assert [q.polarity for q in records["xmlab102"].questions] == [False, None]
    assert records["xmlab0"].questions[0].polarity is True
    assert records["xmlab1"].questions[0].polarity is None
    assert by_id(scan(root, task="CD"))["xmlab0"].questions[0].polarity is None


def test_sides_are_those_of_the_files(root):
    records = by_id(scan(root))
    assert {name: record.official_split for name, record in records.items()} == {
        "xmlab1": Split.TRAIN,
        "xmlab0": Split.TRAIN,
        "xmlab102": Split.TEST,
    }
    assert {record.official_split for record in scan(root, use_split=False).records} == {None}


def test_pictures_are_looked_for_below_imgs(root):
    records = by_id(scan(root))
    assert records["xmlab102"].picture == root / "Slake1.0" / "imgs" / "xmlab102" / "source.jpg"
    assert [name for name, record in records.items() if record.is_present] == ["xmlab102"]
    assert records["xmlab102"].group == "xmlab102/source.jpg"


def test_questions_without_alternatives_are_counted(root):
    (warning,) = [warning for warning in scan(root).warnings if "left out" in warning]
    assert "1 closed question(s)" in warning
    assert "test.json row 5" in warning


def test_kinds_can_be_asked_for(root):
    assert [r.record_id for r in scan(root, only={"modality": ["X-Ray"]}).records] == [
        "xmlab0/source.jpg",
        "xmlab102/source.jpg",
    ]
    with pytest.raises(DataError, match="expected closed English questions, found none"):
        scan(root, only={"modality": ["US"]})


def test_one_file_can_be_asked_for(root):
    (record,) = scan(root, path="Slake1.0/test.json").records
    assert record.official_split is Split.TEST


@pytest.mark.parametrize(
    ("question", "answer", "options"),
    [
        ("Is it healthy?", "yes", ("Yes", "No")),
        ("Which is the biggest in this image,lung,liver or heart?", "Lung", ("lung", "liver", "heart")),
        ("Which is smaller in this image, liver or right kidney ?", "Right Kidney", ("liver", "right kidney")),
        ("Which type is shown, MRI, CT or X-Ray?", "X-Ray", ("MRI", "CT", "X-Ray")),
        ("Is this a T1 weighted or T2 weighted MRI image?", "T2", ("T1", "T2")),
        ("Is the abnormality hyperdense or hypodense?", "Hyperdense", ("hyperdense", "hypodense")),
        ("Which is bigger, kidney or spleen?", "Liver", ()),
        ("Which is bigger, spleen or spleen?", "Spleen", ()),
        ("What organ is it?", "Liver", ()),
    ],
)
def test_alternatives_are_those_that_the_question_names(question, answer, options):
    assert alternatives(question, answer) == options


def test_a_row_that_is_not_as_published_is_refused(root):
    (root / "Slake1.0" / "test.json").write_text(json.dumps([{"img_name": "a.png"}]))
    with pytest.raises(DataError, match=r"test\.json row 1: expected question, answer, q_lang, answer_type"):
        scan(root)


def test_a_folder_without_the_files_is_refused(root):
    with pytest.raises(DataError, match=r"expected train\.json, validate\.json, test\.json"):
        scan(root, path="Slake1.0/imgs")


def test_the_real_files_are_read(shared_data):
    scanned = scan(shared_data, path="slake/Slake1.0")
    questions = [question for record in scanned.records for question in record.questions]
    assert len(questions) == 416 + 422 - 1
    assert sum(question.options == ("Yes", "No") for question in questions) == 713
    assert len(scanned.records) == 96 + 96
    assert any("1 closed question(s) left out" in warning for warning in scanned.warnings)
