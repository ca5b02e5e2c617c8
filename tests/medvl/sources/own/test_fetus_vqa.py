import json

import pytest
from own_data import own, write_picture

from medvl.errors import DataError
from medvl.sources.record import Task

PLANES = ["(A) Fetal abdomen", "(B) Fetal femur", "(C) Fetal brain", "(D) Fetal thorax"]
FILES = {
    "vqa_plane_multi.json": [
        {
            "image_id": "patient001_DZA_plane2",
            "question": "Which anatomical plane is shown? (A) Fetal abdomen, (B) Fetal femur, (C) Fetal brain, "
            "(D) Fetal thorax.",
            "options": PLANES,
            "answer": "B",
        },
        {"image_id": "patient001_EGY_plane1", "question": "Which plane is it?", "options": PLANES, "answer": "C"},
    ],
    "vqa_plane_binary.json": [
        {
            "image_id": "patient001_DZA_plane2",
            "question": "Does this image belong to the plane: Fetal abdomen? (A) Yes, (B) No.",
            "options": ["(A) Yes", "(B) No"],
            "answer": "B",
        }
    ],
    "vqa_brain_subplane_multi.json": [
        {
            "image_id": "transcereb_126",
            "question": "Identify the plane: (A) Trans-cerebellum, (B) Trans-thalamic, (C) Trans-ventricular.",
            "options": ["(A) Trans-cerebellum", "(B) Trans-thalamic", "(C) Trans-ventricular"],
            "answer": "A",
        }
    ],
    "vqa_ac_estimation.json": [
        {
            "image_id": "0001.png",
            "question": "How long?",
            "options": ["(A) 514", "(B) 625"],
            "answer": "A",
            "ground_truth_pixel": 514.2,
        }
    ],
}


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "FetUS-VQA"
    for name in ("Algeria/patient001_DZA_plane2.png", "deep/er/transcereb_126.JPG.png", "patient001_EGY_plane1.PNG"):
        write_picture(folder / "pictures" / name)
    (folder / "pictures" / "deep" / "er" / "transcereb_126.JPG.png").rename(folder / "pictures" / "transcereb_126.bmp")
    for name, rows in FILES.items():
        (folder / name).write_text(json.dumps(rows))
    return tmp_path


def scan(root, **config):
    return own(root, **{"format": "fetus_vqa", "path": "FetUS-VQA", **config})


def by_id(scanned):
    return {record.record_id: record for record in scanned.records}


def test_questions_on_planes_are_asked_without_their_letters(root):
    record = by_id(scan(root))["patient001_DZA_plane2"]
    assert [(q.question, q.options, q.answer_index) for q in record.questions] == [
        ("Does this image belong to the plane: Fetal abdomen?", ("Yes", "No"), 1),
        ("Which anatomical plane is shown?", ("Fetal abdomen", "Fetal femur", "Fetal brain", "Fetal thorax"), 1),
    ]
    assert {q.task for q in record.questions} == {Task.PI}
    assert [q.question_id for q in record.questions] == [
        "vqa_plane_binary/patient001_DZA_plane2",
        "vqa_plane_multi/patient001_DZA_plane2",
    ]


def test_questions_of_no_task_are_counted(root):
    scanned = scan(root)
    assert len(scanned.records) == 3
    assert scanned.warnings == ["vqa_ac_estimation.json: 1 questions belong to none of the tasks; left out."]


def test_pictures_are_found_by_name_wherever_they_lie(root):
    assert all(record.is_present for record in scan(root).records)
    (root / "FetUS-VQA" / "pictures" / "transcereb_126.bmp").unlink()
    scanned = scan(root)
    assert not by_id(scanned)["transcereb_126"].is_present
    assert any("1 of 3 pictures are absent" in warning for warning in scanned.warnings)


def test_patients_are_told_apart_by_country(root):
    groups = {record_id: record.group for record_id, record in by_id(scan(root)).items()}
    assert groups == {
        "patient001_DZA_plane2": "patient001_DZA",
        "patient001_EGY_plane1": "patient001_EGY",
        "transcereb_126": "transcereb_126",
    }


def test_one_file_can_be_asked_for(root):
    records = scan(root, path="FetUS-VQA/vqa_plane_multi.json", pictures="FetUS-VQA/pictures").records
    assert [len(record.questions) for record in records] == [1, 1]


def test_two_pictures_of_one_name_are_refused(root):
    write_picture(root / "FetUS-VQA" / "copy" / "patient001_DZA_plane2.png")
    with pytest.raises(DataError, match=r"row 1: expected one picture named patient001_DZA_plane2"):
        scan(root)


def test_of_two_pictures_that_differ_in_case_the_exact_one_is_meant(root):
    write_picture(root / "FetUS-VQA" / "copy" / "Patient001_DZA_plane2.PNG")
    record = by_id(scan(root))["patient001_DZA_plane2"]
    assert record.picture.stem == "patient001_DZA_plane2"
    assert not record.is_in_other_case
    record.picture.unlink()
    record = by_id(scan(root))["patient001_DZA_plane2"]
    assert (record.picture.name, record.is_in_other_case) == ("Patient001_DZA_plane2.PNG", True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": "E"}, r"vqa_plane_binary\.json row 1: expected an answer written as letter"),
        ({"answer": None}, r"row 1: expected answer, found none"),
        ({"options": ["(A) Yes"]}, r"row 1: expected 2 to 10 options"),
        ({"image_id": ""}, r"row 1: expected image_id, found none"),
    ],
)
def test_a_row_that_is_not_as_published_is_refused(root, change, message):
    rows = [{**FILES["vqa_plane_binary.json"][0], **change}]
    (root / "FetUS-VQA" / "vqa_plane_binary.json").write_text(json.dumps(rows))
    with pytest.raises(DataError, match=message):
        scan(root)


def test_a_folder_without_question_files_is_refused(root):
    with pytest.raises(DataError, match=r"expected files such as vqa_plane_multi\.json"):
        scan(root, path="FetUS-VQA/pictures")


def test_the_real_files_are_read(shared_data):
    scanned = scan(shared_data, path="fetus_vqa")
    questions = [question for record in scanned.records for question in record.questions]
    assert len(questions) == 2 * 569 + 2 * 233
    assert len(scanned.records) == 569 + 233
    assert sum(len(question.options) == 2 for question in questions) == 569 + 233
    assert not any("(A)" in question.question for question in questions)
    assert len({record.group for record in scanned.records}) == 635
    assert any("vqa_GA_multi.json: 511 questions" in warning for warning in scanned.warnings)
    assert any("vqa_ac_estimation.json: 187 questions" in warning for warning in scanned.warnings)
