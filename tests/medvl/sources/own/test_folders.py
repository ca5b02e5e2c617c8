import pytest
from own_data import own, write_picture

from medvl.errors import DataError
from medvl.sources.record import Domain, Split, Task


def write(root, *names):
    for name in names:
        write_picture(root / "lab" / name)


def scan(root, **config):
    return own(root, **{"format": "folders", "path": "lab", "task": "PI", "group_pattern": r"(P\d+)", **config})


def test_the_name_of_a_folder_is_the_label(tmp_path):
    write(tmp_path, "fetal brain/P1_a.png", "fetal brain/P1_b.JPG.png", "femur/P2_a.BMP")
    records = scan(tmp_path, domain="phantom").records
    assert [(r.record_id, r.labels, r.group) for r in records] == [
        ("femur/P2_a.BMP", {Task.PI: "femur"}, "P2"),
        ("fetal brain/P1_a.png", {Task.PI: "fetal brain"}, "P1"),
        ("fetal brain/P1_b.JPG.png", {Task.PI: "fetal brain"}, "P1"),
    ]
    assert {(r.domain, r.official_split, r.is_present) for r in records} == {(Domain.PHANTOM, None, True)}


def test_folders_of_sides_lie_above_the_classes(tmp_path):
    write(tmp_path, "Train/brain/P1.png", "valid/brain/P2.png", "test/femur/P3.png")
    scanned = scan(tmp_path)
    assert [(r.labels[Task.PI], r.official_split) for r in scanned.records] == [
        ("brain", Split.TRAIN),
        ("femur", Split.TEST),
        ("brain", Split.TRAIN),
    ]
    assert any("1 picture (valid/brain/P2.png) of a validation side" in warning for warning in scanned.warnings)
    assert {r.official_split for r in scan(tmp_path, use_split=False).records} == {None}


def test_pictures_may_lie_deeper_than_their_class(tmp_path):
    write(tmp_path, "brain/P1/sweep/1.png", "femur/P2/1.png")
    assert [(r.labels[Task.PI], r.group) for r in scan(tmp_path).records] == [("brain", "P1"), ("femur", "P2")]


def test_classes_can_be_renamed(tmp_path):
    write(tmp_path, "ac/P1.png", "fl/P2.png")
    labels = scan(tmp_path, labels={"ac": "abdomcirc"}).records
    assert [r.labels[Task.PI] for r in labels] == ["abdomcirc", "fl"]
    with pytest.raises(DataError, match=r"the class 'bpd'.*known: ac, fl"):
        scan(tmp_path, labels={"bpd": "brain"})


def test_pictures_in_no_class_are_named(tmp_path):
    write(tmp_path, "cover.png", "brain/P1.png")
    scanned = scan(tmp_path)
    assert len(scanned.records) == 1
    assert any("1 picture (cover.png) in no folder of a class" in warning for warning in scanned.warnings)


def test_hidden_files_and_others_are_no_pictures(tmp_path):
    write(tmp_path, "brain/P1.png", "__MACOSX/P2.png", ".trash/P3.png", "brain/.P4.png")
    (tmp_path / "lab" / "brain" / "notes.docx").touch()
    assert [record.record_id for record in scan(tmp_path).records] == ["brain/P1.png"]


@pytest.mark.parametrize(
    ("names", "config", "message"),
    [
        (["cover.png"], {}, "expected a folder with pictures for each class"),
        (["train/brain/P1.png", "femur/P2.png"], {}, r"found both \(train beside femur\)"),
        (["brain/a.png"], {}, r"brain/a\.png: expected a name that fits group_pattern"),
        (["brain/a.png"], {"group_pattern": None}, r"brain/a\.png: expected a group"),
    ],
)
def test_what_is_no_folder_of_classes_is_refused(tmp_path, names, config, message):
    write(tmp_path, *names)
    with pytest.raises(DataError, match=message):
        scan(tmp_path, **config)
