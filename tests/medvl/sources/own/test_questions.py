import json
from pathlib import Path

import polars as pl
import pytest
from own_data import HEIGHT, WIDTH, own, picture_bytes, write_lines, write_picture, write_saved

from medvl.errors import DataError, StorageError
from medvl.imaging.reading import read_picture
from medvl.sources.own import embedded
from medvl.sources.record import Domain, Split, Task

ROWS = [
    {
        "picture": "img/P1_a.png", "question": "Which plane? (A) Brain, (B) Femur",
        "options": ["(A) Brain", "(B) Femur"], "answer": "B", "group": "P1", "task": "PI", "split": "train",
        "sex": "F", "age": 31,
    },
    {
        "picture": "img/P1_a.png", "question": "What is in the box?", "options": ["head", "femur", "spine"],
        "answer": "spine", "group": "P1", "task": "VG", "box": [1, 2, 11.5, 20], "split": "train",
    },
    {
        "picture": "img/P2_a.png", "question": "Is it normal?", "options": ["yes", "no"],
        "answer": 0, "group": "P2", "task": "CD", "split": "test", "domain": "phantom",
    },
]  # fmt: skip


@pytest.fixture
def root(tmp_path):
    for name in ("P1_a", "P2_a"):
        write_picture(tmp_path / "img" / f"{name}.png")
    return tmp_path


def scan(root, rows=ROWS, **config):
    write_lines(root / "q.jsonl", rows)
    return own(root, **{"format": "questions", "path": "q.jsonl", **config})


def changed(index=0, without=(), **values):
    rows = [dict(row) for row in ROWS]
    rows[index].update(values)
    for name in without:
        del rows[index][name]
    return rows


def test_a_picture_has_one_record_with_all_its_questions(root):
    first, second = scan(root).records
    assert (first.record_id, second.record_id) == ("img/P1_a.png", "img/P2_a.png")
    assert [question.task for question in first.questions] == [Task.PI, Task.VG]
    assert (first.source, first.where) == ("mylab", "q.jsonl row 1")
    assert first.picture == root / "img" / "P1_a.png"
    assert not any((first.labels, first.structures, first.findings))


def test_questions_are_asked_as_the_file_has_them(root):
    plane, box = scan(root).records[0].questions
    assert (plane.question, plane.options, plane.answer_index) == ("Which plane?", ("Brain", "Femur"), 1)
    assert (box.question, box.options, box.answer_index) == ("What is in the box?", ("head", "femur", "spine"), 2)
    assert (plane.bbox_xyxy_px, box.bbox_xyxy_px) == (None, (1, 2, 11.5, 20))


def test_facts_of_the_picture_come_along(root):
    first, second = scan(root).records
    assert (first.group, first.official_split, first.domain) == ("P1", Split.TRAIN, Domain.CLINICAL)
    assert (second.group, second.official_split, second.domain) == ("P2", Split.TEST, Domain.PHANTOM)
    assert first.meta == {"sex": "F", "age": "31"}


def test_columns_may_have_other_names(root):
    names = {"picture": "image", "question": "q", "options": "choices", "answer": "gold", "group": "patient"}
    rows = [{names.get(key, key): value for key, value in row.items()} for row in ROWS]
    assert scan(root, rows, columns=names).records == scan(root).records


def test_group_may_name_the_column_too(root):
    rows = [{("patient" if key == "group" else key): value for key, value in row.items()} for row in ROWS]
    assert [record.group for record in scan(root, rows, group="patient").records] == ["P1", "P2"]


def test_groups_may_come_from_the_file_name_or_be_the_picture(root):
    rows = [{key: value for key, value in row.items() if key != "group"} for row in ROWS]
    assert [r.group for r in scan(root, rows, group_pattern=r"/(P\d+)_").records] == ["P1", "P2"]
    assert [r.group for r in scan(root, rows, group="picture").records] == ["img/P1_a.png", "img/P2_a.png"]
    with pytest.raises(DataError, match=r"q\.jsonl row 1: expected a group.*group: picture"):
        scan(root, rows)


def test_task_and_domain_of_the_configuration_hold_where_no_column_says_them(root):
    rows = changed(0, without=["task"])
    assert scan(root, rows, task="VC", domain="phantom").records[0].questions[0].task is Task.VC
    assert [record.domain for record in scan(root, domain="phantom").records] == [Domain.PHANTOM, Domain.PHANTOM]
    with pytest.raises(DataError, match="row 1: expected a task, found none"):
        scan(root, rows)


def test_an_absent_picture_is_counted_as_absent(root):
    (root / "img" / "P2_a.png").unlink()
    assert [record.is_present for record in scan(root).records] == [True, False]


def test_pictures_may_lie_in_a_folder_of_their_own(root):
    rows = [{**row, "picture": Path(row["picture"]).name} for row in ROWS]
    records = scan(root, rows, pictures="img").records
    assert [record.record_id for record in records] == ["P1_a.png", "P2_a.png"]
    assert all(record.is_present for record in records)


def test_sides_can_be_ignored(root):
    assert {record.official_split for record in scan(root, use_split=False).records} == {None}


def test_validation_pictures_go_to_train(root):
    scanned = scan(root, changed(2, split="validation"))
    assert [record.official_split for record in scanned.records] == [Split.TRAIN, Split.TRAIN]
    assert scanned.warnings == [
        "1 picture (img/P2_a.png) of a validation side count as training pictures; val is carved from train by group."
    ]


def test_ids_are_stable_and_differ(root):
    ids = [q.question_id for record in scan(root).records for q in record.questions]
    assert len(set(ids)) == 3
    turned = scan(root, ROWS[::-1])
    assert {q.question_id for record in turned.records for q in record.questions} == set(ids)


def test_ids_of_the_file_are_kept(root):
    rows = [{**row, "id": f"q{n}"} for n, row in enumerate(ROWS)]
    assert [q.question_id for r in scan(root, rows).records for q in r.questions] == ["q0", "q1", "q2"]


def test_a_repeated_row_counts_once(root):
    scanned = scan(root, [*ROWS, ROWS[0]])
    assert len(scanned.records[0].questions) == 2
    assert scanned.warnings == ["1 question (q.jsonl row 4) repeated word for word; each counts once."]


def test_only_some_rows_can_be_asked_for(root):
    assert [len(record.questions) for record in scan(root, only={"task": ["PI", "CD"]}).records] == [1, 1]
    with pytest.raises(DataError, match=r"row 1: expected the column 'tusk'.*did you mean task"):
        scan(root, only={"tusk": ["PI"]})


def test_yes_means_present_unless_the_row_says_otherwise(root):
    rows = [{**ROWS[2], "task": "FD"}, {**ROWS[2], "task": "FD", "question": "Is it free?", "polarity": "absent"}]
    assert [question.polarity for question in scan(root, rows).records[0].questions] == [True, False]
    assert scan(root).records[0].questions[0].polarity is None


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (changed(0, group="P9"), r"row 2: expected the group P9 for img/P1_a\.png as in q\.jsonl row 1, found P1"),
        (changed(0, split="test"), "row 2: expected the side test"),
        (changed(0, domain="phantom"), "row 2: expected the domain phantom"),
        (changed(0, group=""), "row 1: .*empty field"),
        (changed(0, group=None), "row 1: .*empty field"),
        (changed(0, picture="../a.png"), "row 1: .*relative to"),
        (changed(0, picture=""), "row 1: expected the path of a picture"),
        (changed(0, picture=["a.png", "b.png"]), "row 1: expected one picture, found 2"),
        (changed(0, question=" "), "row 1: expected a question"),
        (changed(0, options=["x"]), "row 1: expected 2 to 10 options"),
        (changed(0, without=["options"]), "row 1: expected options in a column 'options'"),
        (changed(0, answer="C"), "row 1: expected the answer"),
        (changed(0, without=["answer"]), "row 1: expected 'answer'"),
        (changed(0, task="plane"), "row 1: expected a task of PI, VC"),
        (changed(0, split="both"), "row 1: expected a split"),
        (changed(0, domain="rubber"), "row 1: expected a domain"),
        (changed(0, box=[1, 2, 3]), "row 1: expected a box of four numbers"),
        (changed(1, without=["box"]), "row 2: expected a box, because a VG question"),
        ([*ROWS, {**ROWS[0], "answer": "A"}], "row 4: expected each question once"),
        ([{**row, "id": "same"} for row in ROWS], "row 2: expected each question once, found 'same'"),
        ([{**ROWS[2], "task": "FD", "polarity": "maybe"}], "row 1: expected a polarity"),
    ],
)
def test_a_row_that_does_not_say_what_it_must_is_refused(root, rows, message):
    with pytest.raises(DataError, match=rf"q\.jsonl {message}"):
        scan(root, rows)


def test_a_box_outside_its_picture_is_refused_and_rounding_is_cut(root):
    with pytest.raises(DataError, match=rf"q\.jsonl row 2: expected a box inside {WIDTH} x {HEIGHT} px"):
        scan(root, changed(1, box=[1, 2, WIDTH + 5, 20]))
    (_, box) = scan(root, changed(1, box=[1, 2, WIDTH + 0.5, 20])).records[0].questions
    assert box.bbox_xyxy_px == (1, 2, WIDTH, 20)


def test_a_renamed_column_that_no_row_has_is_refused(root):
    with pytest.raises(DataError, match=r"expected the column.s. patient_sex"):
        scan(root, columns={"sex": "patient_sex"})


def test_whole_numbers_that_never_are_zero_are_in_doubt(root):
    rows = [
        {**ROWS[2], "question": f"Question {n}?", "options": ["x", "y", "z"], "answer": 1 + n % 2} for n in range(20)
    ]
    with pytest.raises(DataError, match=r"found 20 without a single 0. Say answer: number"):
        scan(root, rows)
    assert {q.answer_index for q in scan(root, rows, answer="number").records[0].questions} == {0, 1}
    assert {q.answer_index for q in scan(root, rows, answer="index").records[0].questions} == {1, 2}


def test_numbers_that_are_the_option_itself_are_not_in_doubt(root):
    rows = [{**ROWS[2], "question": f"How wide, {n}?", "options": ["514", "625"], "answer": "625"} for n in range(20)]
    assert {q.answer_index for q in scan(root, rows).records[0].questions} == {1}


def test_a_table_with_columns_of_options_is_read(root):
    (root / "q.csv").write_text(
        "image;question;A;B;C;answer;patient\n"
        "img/P1_a.png;Which?;head;femur;;B;7\nimg/P2_a.png;Which?;head;femur;spine;C;8\n"
    )
    scanned = own(root, format="questions", path="q.csv", task="PI", group="patient", columns={"picture": "image"})
    assert [(r.group, r.questions[0].options, r.questions[0].answer_index) for r in scanned.records] == [
        ("7", ("head", "femur"), 1),
        ("8", ("head", "femur", "spine"), 2),
    ]
    assert scanned.records[1].where == "q.csv row 3"


def test_a_table_with_options_in_one_cell_is_read(root):
    cells = [("img/P1_a.png", "Which?", "head|femur", "femur", "1 2 11 20", "P1")]
    (root / "q.tsv").write_text(
        "\n".join("\t".join(row) for row in [("picture", "question", "options", "answer", "box", "group"), *cells])
    )
    (question,) = own(root, format="questions", path="q.tsv", task="VG").records[0].questions
    assert (question.options, question.answer_index, question.bbox_xyxy_px) == (("head", "femur"), 1, (1, 2, 11, 20))


def embedded_rows():
    rows = [{"image": {"bytes": picture_bytes(60), "path": "P1_a.png"}, "patient": "P1"}] * 2
    rows += [{"image": {"bytes": picture_bytes(90), "path": "P2_a.png"}, "patient": "P2"}]
    return [{**row, "question": f"Q{n}?", "options": ["x", "y"], "answer": n % 2} for n, row in enumerate(rows)]


EMBEDDED = {"format": "questions", "task": "PI", "columns": {"picture": "image"}, "group": "patient"}


@pytest.mark.parametrize("form", ["parquet", "saved"])
def test_pictures_in_the_file_are_written_out_once(tmp_path, form):
    if form == "parquet":
        pl.DataFrame(embedded_rows()).write_parquet(tmp_path / "q.parquet")
    else:
        write_saved(tmp_path / "saved", embedded_rows())
    config = {**EMBEDDED, "path": "q.parquet" if form == "parquet" else "saved", "cache": "made/pictures"}
    scanned = own(tmp_path, **config)
    assert [len(record.questions) for record in scanned.records] == [2, 1]
    assert sorted((tmp_path / "made" / "pictures").iterdir()) == sorted(r.picture for r in scanned.records)
    assert [int(read_picture(record.picture)[0, 0, 0]) for record in scanned.records] == [60, 90]
    assert read_picture(scanned.records[0].picture).shape == (HEIGHT, WIDTH, 3)
    times = [record.picture.stat().st_mtime_ns for record in scanned.records]
    assert own(tmp_path, **config) == scanned
    assert [record.picture.stat().st_mtime_ns for record in scanned.records] == times


def test_the_name_beside_the_bytes_can_say_the_group(tmp_path):
    pl.DataFrame(embedded_rows()).write_parquet(tmp_path / "q.parquet")
    config = {key: value for key, value in EMBEDDED.items() if key != "group"}
    scanned = own(tmp_path, **config, path="q.parquet", cache="made", group_pattern=r"^(P\d+)_")
    assert [record.group for record in scanned.records] == ["P1", "P2"]


@pytest.mark.parametrize("value", [{"bytes": None, "path": "img/P1_a.png"}, ["img/P1_a.png"]])
def test_a_path_in_a_list_or_beside_no_bytes_is_a_path(root, value):
    assert scan(root, [{**ROWS[0], "picture": value}]).records[0].is_present


def test_pictures_in_the_file_need_a_cache(tmp_path):
    pl.DataFrame(embedded_rows()).write_parquet(tmp_path / "q.parquet")
    with pytest.raises(DataError, match=r"q\.parquet row 1: .*the picture itself.*cache: FOLDER"):
        own(tmp_path, **EMBEDDED, path="q.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["q.parquet"]


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    pl.DataFrame(embedded_rows()).write_parquet(tmp_path / "q.parquet")
    (tmp_path / "made").touch()
    with pytest.raises(StorageError, match=r"made/[0-9a-f]+\.png cannot be written"):
        own(tmp_path, **EMBEDDED, path="q.parquet", cache="made")


def test_a_picture_that_was_cut_short_in_the_cache_is_written_again(tmp_path):
    path = embedded.store_picture(picture_bytes(60), tmp_path)
    path.write_bytes(b"half")
    assert embedded.store_picture(picture_bytes(60), tmp_path).read_bytes() == picture_bytes(60)


@pytest.mark.parametrize(
    ("content", "ending"), [(b"\xff\xd8\xff", ".jpg"), (b"II*\x00", ".tif"), (b"GIF89a", ".gif"), (b"??", "")]
)
def test_the_ending_follows_the_content(tmp_path, content, ending):
    assert embedded.store_picture(content, tmp_path).suffix == ending


def test_numbers_and_lists_survive_json(root):
    path = root / "q.json"
    path.write_text(json.dumps({"version": 2, "questions": ROWS}))
    assert len(own(root, format="questions", path="q.json").records) == 2
