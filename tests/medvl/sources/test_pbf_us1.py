import shutil
from collections import Counter

import pytest
from mini_pbf_us1 import ABSENT, CLASSES, EXAMS, HEADER, frames, rows, write_mini_pbf_us1

from medvl.benchmark.groups import normalise_group
from medvl.errors import DataError
from medvl.imaging.reading import read_picture
from medvl.sources.pbf_us1 import PBF_US1
from medvl.sources.record import Domain, Task

TABLE = "resume.csv"
EXAM = "Obstetrics Exam - 02-May-2024_817_AM"


@pytest.fixture
def folder(tmp_path):
    return write_mini_pbf_us1(tmp_path / "root" / "pbf_us1" / "data")


def by_id(scan):
    return {record.record_id: record for record in scan.records}


def edit(folder, old: str, new: str, table: str = TABLE) -> None:
    text = (folder / table).read_text()
    assert text.count(old) == 1
    (folder / table).write_text(text.replace(old, new))


def test_every_row_gives_a_record_in_table_order(folder):
    scan = PBF_US1.scan(folder)
    assert [r.record_id for r in scan.records] == [f"{exam}/{name}" for exam, name, _ in frames()]
    assert scan.warnings == []
    assert {r.domain for r in scan.records} == {Domain.PHANTOM}
    assert [r.record_id for r in scan.records if not r.is_present] == [ABSENT]


def test_frames_carry_their_class_but_for_no_plane(folder):
    labels = Counter(r.labels.get(Task.PI) for r in PBF_US1.scan(folder).records)
    assert labels == {**dict.fromkeys(CLASSES[1:5], 1), CLASSES[0]: 2, None: 6}


def test_the_frames_of_an_exam_are_one_group_and_no_two_exams_are(folder):
    records = PBF_US1.scan(folder).records
    groups = {normalise_group("pbf_us1", r.group, r.where): r.record_id.partition("/")[0] for r in records}
    assert sorted(groups.values()) == sorted(EXAMS)


def test_a_record_carries_sweep_and_position_but_nothing_of_the_volunteer(folder):
    record = by_id(PBF_US1.scan(folder))[f"{EXAM}/cineframe_101_2024-05-02T12-19-10.jpeg"]
    assert record.meta == {"view": "Diagonal /", "position": "OP", "device": "Clarius C3 HD3"}
    assert record.where == f"{TABLE} row 4"
    assert read_picture(record.picture).shape == (50, 70, 3)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            f"{EXAM},Abdominal standard plane,1",
            f"{EXAM},Abdomen,1",
            "row 4 .cineframe_101_.*: expected class to be one of Biparietal standard plane, .*found 'Abdomen'",
        ),
        (
            f"{EXAM},Abdominal standard plane,1",
            f"{EXAM},Abdominal standard plane,2",
            "row 4 .*expected value 1 for class 'Abdominal standard plane', found '2'",
        ),
        (
            f"{EXAM},Abdominal standard plane,1",
            ",Abdominal standard plane,1",
            "row 4 .*expected an exam such as .*found ''. Without its exam",
        ),
        (
            f"{EXAM},Abdominal standard plane,1",
            f"{EXAM}/../x,Abdominal standard plane,1",
            "row 4 .*expected an exam such as .*found 'Obstetrics Exam .*x'",
        ),
        (
            f"cineframe_101_2024-05-02T12-19-10.jpeg,{EXAM}",
            f"frame.jpeg,{EXAM}",
            "row 4: expected a file_name such as .*found 'frame.jpeg'",
        ),
        (HEADER, "file_name,study,class,value,image", "expected column.s. 'studie', found .*Is 'study' the same"),
    ],
)
def test_unknown_values_and_frames_without_an_exam_are_refused(folder, old, new, message):
    edit(folder, old, new)
    with pytest.raises(DataError, match=rf"{TABLE}.*{message}"):
        PBF_US1.scan(folder)


def test_rows_that_repeat_count_once_and_rows_that_disagree_are_refused(folder):
    before = PBF_US1.scan(folder).records
    with (folder / TABLE).open("a") as table:
        table.write(rows()[0] + "\n")
    scan = PBF_US1.scan(folder)
    assert scan.records == before
    assert scan.warnings == [f"{TABLE}: 1 row (row {len(rows()) + 2}) repeated word for word; each counts once."]
    with (folder / TABLE).open("a") as table:
        table.write(rows()[0].replace("Biparietal", "Heart") + "\n")
    with pytest.raises(DataError, match=r"row 15: expected class 'Biparietal standard plane' for .* found 'Heart"):
        PBF_US1.scan(folder)


def test_equal_file_names_of_two_exams_are_two_frames(folder):
    names = Counter(name for _, name, _ in frames())
    assert max(names.values()) == 2
    assert len(by_id(PBF_US1.scan(folder))) == len(frames())


def test_paths_of_another_system_and_upper_case_endings_are_found(folder):
    expected = PBF_US1.scan(folder).records
    name = "cineframe_101_2024-05-02T12-19-10.jpeg"
    edit(folder, f"{name},{EXAM}", rf"{EXAM}\{name},{EXAM}")
    assert PBF_US1.scan(folder).records == expected
    path = folder / EXAM / name
    path.rename(path.with_suffix(".JPEG"))
    record = by_id(PBF_US1.scan(folder))[f"{EXAM}/{path.name}"]
    assert record.is_present
    assert record.picture.suffix == ".JPEG"


def test_a_copy_without_the_table_of_exams_is_usable(folder):
    (folder / "metadata.csv").unlink()
    scan = PBF_US1.scan(folder)
    assert [f"{folder}: no metadata.csv" in warning for warning in scan.warnings] == [True]
    assert not any(r.meta for r in scan.records)
    assert PBF_US1.find(folder) == folder


def test_frames_without_a_row_and_archives_are_named(folder):
    (folder / EXAM / "cineframe_7_x.jpeg").touch()
    (warning,) = PBF_US1.scan(folder).warnings
    assert f"1 frame ({EXAM}/cineframe_7_x.jpeg) without a row in {TABLE}" in warning
    for exam in EXAMS:
        shutil.rmtree(folder / exam)
    (folder / "NatalIA_PBFUS1.zip").touch()
    scan = PBF_US1.scan(folder)
    assert ["NatalIA_PBFUS1.zip is not unpacked" in warning for warning in scan.warnings] == [True]
    assert not any(r.is_present for r in scan.records)


def test_an_exam_that_is_a_link_out_of_the_dataset_is_not_followed(folder, tmp_path):
    (folder / EXAM).rename(tmp_path / "elsewhere")
    (folder / EXAM).symlink_to(tmp_path / "elsewhere")
    scan = PBF_US1.scan(folder)
    assert {r.group for r in scan.records if not r.is_present} == {EXAM, ABSENT.partition("/")[0]}
    assert [f"{EXAM} is a link out of the dataset" in warning for warning in scan.warnings] == [True]


def test_the_dataset_is_found_below_the_root_and_not_by_the_name_of_one_table(folder, tmp_path_factory):
    assert PBF_US1.find(folder.parents[1]) == PBF_US1.find(folder) == folder
    other = tmp_path_factory.mktemp("other")
    (other / TABLE).write_text("file_name,studie\n")
    assert PBF_US1.find(other) is None


def test_the_real_sample_without_tables_is_not_taken_for_the_dataset(shared_data):
    # Frames that another repository renamed and resized; the tables are not among them.
    assert (shared_data / "pbf_us1").is_dir()
    assert PBF_US1.find(shared_data / "pbf_us1") is None


def test_real_frames_in_the_published_layout_are_read(shared_data, tmp_path):
    exam = "Obstetrics Exam - 03-May-2024_1216_PM"
    prefix = exam.removeprefix("Obstetrics Exam - ") + "_"
    frames = sorted((shared_data / "pbf_us1").glob(f"{prefix}cineframe_*.png"))
    (tmp_path / exam).mkdir()
    lines = [HEADER]
    for path in frames:
        name = path.name.removeprefix(prefix).replace(".png", ".jpeg")
        (tmp_path / exam / name).write_bytes(path.read_bytes())
        lines.append(f"{name},{exam},No plane,5,")
    (tmp_path / TABLE).write_text("\n".join(lines) + "\n")
    records = PBF_US1.scan(tmp_path).records
    assert len(records) == 12
    assert {r.group for r in records} == {exam}
    assert {read_picture(r.picture).shape for r in records} == {(224, 224, 3)}
