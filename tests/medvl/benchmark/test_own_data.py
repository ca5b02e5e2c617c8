"""From what a configuration says about own data to items, groups and sides."""

import json
from collections import Counter
from pathlib import Path

import pytest
from drawn_source import SIZE, draw
from own_data import write_lines

from medvl.benchmark.prepare import benchmark_folder, prepare_benchmark
from medvl.config.schema import BuildConfig
from medvl.errors import ConfigError, DataError
from medvl.sources.record import Split, Task

QUESTIONS = {"name": "mylab", "format": "questions", "path": "lab/questions.jsonl", "group": "patient_id"}
COCO = {"name": "boxes", "format": "coco", "path": "coco/instances.json", "group": "patient"}
YOLO = {"name": "detector", "format": "yolo", "path": "yolo", "group_pattern": r"(P\d+)_"}
FOLDERS = {"name": "planes", "format": "folders", "path": "planes", "task": "PI", "group_pattern": r"/(P\d+)_"}
PATIENTS = 12
PICTURES = [(patient, f"P{patient}_{shot}.png") for patient in range(PATIENTS) for shot in "ab"]
DISEASES = ("normal", "benign", "malignant")


def write_questions(folder: Path) -> None:
    rows = []
    for seed, (patient, name) in enumerate(PICTURES):
        draw(folder / "img" / name, 1000 + seed)
        about = {"picture": f"img/{name}", "patient_id": f"P{patient:03d}"}
        disease = {"task": "CD", "question": "What is it?", "options": DISEASES, "answer": DISEASES[patient % 3]}
        mass = {"task": "FD", "question": "A mass?", "options": ["Yes", "No"], "answer": "AB"[patient % 2]}
        rows += [about | disease, about | mass]
    write_lines(folder / "questions.jsonl", rows)


def write_coco(folder: Path) -> None:
    images, annotations = [], []
    for number, (patient, name) in enumerate(PICTURES):
        draw(folder / name, 2000 + number)
        size = {"width": SIZE[0], "height": SIZE[1]}
        images.append({"id": number, "file_name": name, "patient": f"P{patient}", **size})
        for kind, box in ((0, [2, 2, 20, 20]), (1, [30, 20, 30, 20])):
            annotations.append({"id": len(annotations), "image_id": number, "category_id": kind, "bbox": box})
    categories = [{"id": 0, "name": "heart"}, {"id": 1, "name": "spine"}]
    content = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "instances.json").write_text(json.dumps(content))


def write_yolo(folder: Path) -> None:
    """Patients 0, 3, 6, ... are the test side, 1, 4, ... the validation side."""
    for seed, (patient, name) in enumerate(PICTURES):
        side = ("test", "val", "train")[patient % 3]
        draw(folder / "images" / side / name, 3000 + seed)
        text = folder / "labels" / side / name.replace(".png", ".txt")
        text.parent.mkdir(parents=True, exist_ok=True)
        text.write_text(f"{seed % 2} 0.25 0.5 0.5 0.5\n")
    (folder / "data.yaml").write_text("names: [stomach, femur]\n")


def write_folders(folder: Path) -> None:
    for seed, (patient, name) in enumerate(PICTURES):
        draw(folder / ("ac", "Fetal femur")[patient % 2] / name, 4000 + seed)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Own data in four formats. Shared: leave them as they are."""
    folder = tmp_path_factory.mktemp("own") / "my data"
    write_questions(folder / "lab")
    write_coco(folder / "coco")
    write_yolo(folder / "yolo")
    write_folders(folder / "planes")
    return folder


def config(root, tmp_path, *own, **data):
    facts = {"data": {"name": "own", "root": str(root), "own": list(own), **data}}
    return BuildConfig.model_validate({**facts, "paths": {"data": str(tmp_path / "data"), "run": ""}})


@pytest.fixture(scope="module")
def built(root, tmp_path_factory):
    folders = {**FOLDERS, "labels": {"ac": "abdomcirc"}}
    return prepare_benchmark(config(root, tmp_path_factory.mktemp("built"), QUESTIONS, COCO, YOLO, folders))


def items_of(built, source):
    return [item for item in built.items if item.source == source]


def sides_of(items):
    sides = {}
    for item in items:
        sides.setdefault(item.group, set()).add(item.split)
    assert all(len(found) == 1 for found in sides.values())
    return {group: found.pop() for group, found in sides.items()}


def test_every_set_gives_its_items(built):
    assert Counter((item.source, item.task) for item in built.items) == {
        ("mylab", Task.CD): 24,
        ("mylab", Task.FD): 24,
        ("boxes", Task.VG): 48,
        ("detector", Task.VG): 24,
        ("planes", Task.PI): 24,
    }


def test_questions_keep_their_text_options_and_answer(built):
    for item in items_of(built, "mylab"):
        patient = int(item.group.removeprefix("mylab:p"))
        if item.task is Task.CD:
            assert (item.question, sorted(item.options)) == ("What is it?", sorted(DISEASES))
            assert item.answer == DISEASES[patient % 3]
        else:
            assert (item.question, sorted(item.options), item.polarity) == ("A mass?", ["No", "Yes"], True)
            assert item.answer == ("Yes", "No")[patient % 2]
        assert item.options[item.answer_index] == item.answer


def test_boxes_and_classes_get_question_and_answers_of_their_task(built):
    assert {(i.answer, i.bbox_xyxy_px) for i in items_of(built, "boxes")} == {
        ("heart", (2, 2, 22, 22)),
        ("spine", (30, 20, 60, 40)),
    }
    assert {(i.answer, i.bbox_xyxy_px) for i in items_of(built, "detector")} == {
        ("stomach", (0, 12, 32, 36)),
        ("femur", (0, 12, 32, 36)),
    }
    assert {i.question for i in items_of(built, "boxes")} == {"What does the red bounding box represent?"}
    answers = Counter((i.raw_label, i.answer) for i in items_of(built, "planes"))
    assert answers == {("abdomcirc", "abdominal circumference plane"): 12, ("Fetal femur", "fetal femur plane"): 12}


@pytest.mark.parametrize("source", ["mylab", "boxes", "planes"])
def test_patients_of_data_without_sides_are_split_anew(built, source):
    sides = sides_of(items_of(built, source))
    assert set(sides) == {f"{source}:p{patient}" for patient in range(PATIENTS)}
    assert set(sides.values()) == set(Split)
    entry = built.card["sources"][source]
    assert (entry["official_split"], entry["warnings"]) == (False, [])


def test_stated_sides_are_kept_and_the_validation_side_counts_as_train(built):
    sides = sides_of(items_of(built, "detector"))
    tested = {group for group, side in sides.items() if side is Split.TEST}
    assert tested == {f"detector:p{patient}" for patient in range(0, PATIENTS, 3)}
    assert set(sides.values()) == set(Split)
    entry = built.card["sources"]["detector"]
    assert entry["official_split"] is True
    assert ["validation side" in warning for warning in entry["warnings"]] == [True]


def test_pictures_are_named_below_the_root_and_nothing_says_where_that_is(built, root):
    assert all((root / item.picture).is_file() for item in built.items)
    for name in ("card.json", "items.parquet"):
        assert str(root.parent).encode() not in (built.folder / name).read_bytes()


def test_the_card_keeps_what_was_said_about_the_data(built):
    said = {one["name"]: one for one in built.card["settings"]["own"]}
    assert said["mylab"]["group"] == "patient_id"
    assert said["planes"]["labels"] == {"ac": "abdomcirc"}


def test_a_second_build_reads_the_first_back(root, tmp_path):
    first = prepare_benchmark(config(root, tmp_path, COCO))
    seen = []
    assert prepare_benchmark(config(root, tmp_path, COCO), lambda *step: seen.append(step)) == first
    assert seen == []


def test_another_setting_is_another_benchmark(root, tmp_path):
    first = benchmark_folder(config(root, tmp_path, YOLO))
    assert first != benchmark_folder(config(root, tmp_path, {**YOLO, "use_split": False}))
    assert first == benchmark_folder(config(root, tmp_path, dict(reversed(YOLO.items()))))


def test_own_data_stand_beside_a_source(root, tmp_path, mini_hc18):
    (tmp_path / "coco").symlink_to(root / "coco")
    mixed = prepare_benchmark(config(tmp_path, tmp_path / "out", COCO, sources=["hc18"]))
    assert {item.source for item in mixed.items} == {"boxes", "hc18"}


def test_data_for_testing_only_go_there(root, tmp_path):
    tested = prepare_benchmark(config(root, tmp_path, {**COCO, "is_test_only": True}))
    assert {item.split for item in tested.items} == {Split.TEST}


def test_own_data_can_be_held_out(root, tmp_path):
    facts = config(root, tmp_path, COCO, YOLO).model_dump()
    facts["benchmark"]["split"]["test_sources"] = ["detector"]
    held = prepare_benchmark(BuildConfig.model_validate(facts))
    assert {item.split for item in items_of(held, "detector")} == {Split.TEST}
    assert {item.split for item in items_of(held, "boxes")} == {Split.TRAIN, Split.VAL}


def test_the_name_of_a_source_is_refused(root, tmp_path):
    with pytest.raises(ConfigError, match=r"data\.own: 'hc18' is the name of a source"):
        prepare_benchmark(config(root, tmp_path, {**COCO, "name": "hc18"}))


def test_data_that_are_not_there_are_an_error_though_others_are(root, tmp_path):
    with pytest.raises(DataError, match=r"detector: path: expected the folder .*olo, found nothing"):
        prepare_benchmark(config(root, tmp_path, COCO, {**YOLO, "path": "olo"}))
