import os

import pytest
from own_data import HEIGHT, WIDTH, own, write_picture

from medvl.errors import DataError
from medvl.sources.record import Split

LINES = "0 0.5 0.5 0.5 0.2\n\n1 0.25 0.5 0.5 1.0\n"
BOXES = [("head", (10, 12, 30, 18)), ("femur", (0, 0, 20, 30))]


def write(folder, *, pictures="images", labels="labels", name="P1_a", text=LINES, names="names: [head, femur]\n"):
    write_picture(folder / pictures / f"{name}.png")
    (folder / labels).mkdir(parents=True, exist_ok=True)
    if text is not None:
        (folder / labels / f"{name}.txt").write_text(text)
    if names is not None:
        (folder / "data.yaml").write_text(names)


def scan(root, **config):
    return own(root, **{"format": "yolo", "path": "lab", "group_pattern": r"(P\d+)_", **config})


def shown(record):
    return [(s.label, pytest.approx(s.bbox_xyxy_px)) for s in record.structures]


@pytest.mark.parametrize(
    ("pictures", "labels", "side"),
    [
        ("images", "labels", None),
        ("images/train", "labels/train", Split.TRAIN),
        ("test/images", "test/labels", Split.TEST),
        ("Images/Test", "Labels/Test", Split.TEST),
        ("images/P1/images", "images/P1/labels", None),
    ],
)
def test_every_usual_layout_is_read(tmp_path, pictures, labels, side):
    write(tmp_path / "lab", pictures=pictures, labels=labels)
    (record,) = scan(tmp_path).records
    assert record.record_id == f"{pictures}/P1_a.png"
    assert [(label, box) for label, box in BOXES] == shown(record)
    assert (record.group, record.official_split, record.is_present) == ("P1", side, True)


def test_validation_pictures_go_to_train(tmp_path):
    write(tmp_path / "lab", pictures="images/val", labels="labels/val")
    scanned = scan(tmp_path)
    assert scanned.records[0].official_split is Split.TRAIN
    assert any("validation side" in warning for warning in scanned.warnings)


@pytest.mark.parametrize(
    "names", ["names: {0: head, 1: femur}", "names:\n- head\n- femur\nnc: 2\n", "path: ../x\nnames: [head, femur]"]
)
def test_names_are_a_list_or_numbered(tmp_path, names):
    write(tmp_path / "lab", names=names)
    assert [s.label for s in scan(tmp_path).records[0].structures] == ["head", "femur"]


@pytest.mark.parametrize("place", ["classes.txt", "labels/classes.txt"])
def test_names_may_be_a_text(tmp_path, place):
    write(tmp_path / "lab", names=None)
    (tmp_path / "lab" / place).write_text("head\r\nfemur\r\n")
    scanned = scan(tmp_path)
    assert [s.label for s in scanned.records[0].structures] == ["head", "femur"]
    assert scanned.warnings == []


def test_names_can_be_replaced(tmp_path):
    write(tmp_path / "lab")
    assert scan(tmp_path, labels={"head": "fetal head"}).records[0].structures[0].label == "fetal head"
    with pytest.raises(DataError, match="the class 'hed'"):
        scan(tmp_path, labels={"hed": "fetal head"})


def test_an_outline_gives_its_enclosing_box(tmp_path):
    write(tmp_path / "lab", text="1 0.1 0.2 0.5 0.1 0.4 0.9\n")
    assert shown(scan(tmp_path).records[0]) == [("femur", (4, 3, 20, 27))]


def test_rounded_shares_are_cut_to_the_picture(tmp_path):
    write(tmp_path / "lab", text="0 0.5 0.5 1.00001 1.0\n")
    assert scan(tmp_path).records[0].structures[0].bbox_xyxy_px == (0, 0, WIDTH, HEIGHT)


def test_pictures_without_labels_and_labels_without_pictures_are_named(tmp_path):
    write(tmp_path / "lab")
    write(tmp_path / "lab", name="P2_a", text=None)
    write(tmp_path / "lab", name="P3_a", text="")
    (tmp_path / "lab" / "labels" / "P4_a.txt").write_text(LINES)
    scanned = scan(tmp_path)
    assert [len(record.structures) for record in scanned.records] == [2, 0, 0]
    assert any("1 picture (images/P2_a.png) without a label file" in warning for warning in scanned.warnings)
    assert any("1 label file (P4_a.txt) without a picture" in warning for warning in scanned.warnings)


def test_a_picture_has_the_label_file_of_exactly_its_name_else_the_only_one_in_another_case(tmp_path):
    write(tmp_path / "lab", name="P1_a", text="0 0.5 0.5 0.5 0.2\n")
    write(tmp_path / "lab", name="p1_A", text="1 0.5 0.5 0.5 0.2\n")
    write(tmp_path / "lab", name="P2_a")
    labels = tmp_path / "lab" / "labels"
    (labels / "P2_a.txt").rename(labels / "p2_A.TXT")
    scanned = scan(tmp_path, group_pattern=r"([Pp]\d+)_")
    found = {record.record_id: [s.label for s in record.structures] for record in scanned.records}
    assert found == {"images/P1_a.png": ["head"], "images/p1_A.png": ["femur"], "images/P2_a.png": ["head", "femur"]}
    assert scanned.warnings == []


def test_a_label_file_that_fits_two_pictures_or_a_picture_with_two_is_refused_with_both(tmp_path):
    write(tmp_path / "lab", name="P1_a")
    write_picture(tmp_path / "lab" / "images" / "P1_A.png")
    with pytest.raises(DataError, match=r"images/P1_a\.png: expected one picture for labels/P1_a\.txt, found .*P1_A"):
        scan(tmp_path)
    (tmp_path / "lab" / "images" / "P1_a.png").unlink()
    (tmp_path / "lab" / "labels" / "p1_a.txt").touch()
    with pytest.raises(
        DataError, match=r"images/P1_A\.png: expected one labels/P1_A\.txt, found .*P1_a\.txt and .*p1_a"
    ):
        scan(tmp_path)


def test_a_broken_picture_is_kept_for_the_build_to_refuse(tmp_path):
    write(tmp_path / "lab")
    (tmp_path / "lab" / "images" / "P1_a.png").write_bytes(b"no picture")
    (record,) = scan(tmp_path).records
    assert record.is_present
    assert [s.label for s in record.structures] == ["head", "femur"]


def test_links_that_lead_out_are_not_followed(tmp_path):
    write(tmp_path / "lab")
    secret = write_picture(tmp_path / "elsewhere" / "P9_a.png")
    os.symlink(secret, tmp_path / "lab" / "images" / "P9_a.png")
    os.symlink(secret.parent, tmp_path / "lab" / "images" / "more")
    scanned = scan(tmp_path)
    assert len(scanned.records) == 1
    assert any("2 links" in warning and "not followed" in warning for warning in scanned.warnings)


def test_augmented_copies_of_a_picture_are_one_group(tmp_path):
    for hashed in ("0123456789abcdef", "fedcba9876543210"):
        write(tmp_path / "lab", name=f"scan7_png.rf.{hashed}")
    records = scan(tmp_path, group_pattern=None, group="picture").records
    assert len({record.group for record in records}) == 1
    assert len(records) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 0.5 0.5 0.1 0.1", r"P1_a\.txt line 1: expected a class of 0, 1, found 2"),
        ("\n0 0.5 0.5 0.1", r"P1_a\.txt line 2: expected a class and cx, cy"),
        ("0 0.5 0.5 0.1 0.1 0.93", r"line 1: .*confidence"),
        ("head 0.5 0.5 0.1 0.1", "line 1: expected a class and"),
        ("0 0.5 0.5 0.1 x", "line 1: expected a class and"),
        ("0 0.5 0.5 0 0.1", "line 1: expected a box with an area"),
        ("0 0.9 0.5 0.5 0.1", "line 1: expected a box inside 40 x 30"),
        ("0 20 15 10 10", "line 1: expected a box inside 40 x 30"),
        ("0 nan 0.5 0.5 0.1", "line 1: expected a box with an area"),
    ],
)
def test_a_line_that_is_no_object_is_refused(tmp_path, text, message):
    write(tmp_path / "lab", text=text)
    with pytest.raises(DataError, match=message):
        scan(tmp_path)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (None, "expected class names in data.yaml or classes.txt"),
        ("nc: 2\n", "expected 'names'"),
        ("names: []\n", "expected a name for each class"),
        ("names: [head, '']\n", "expected a name for each class"),
        ("names: {a: head}\n", "expected 'names'"),
        ("names: [", "expected YAML"),
        ("!!python/object/apply:os.system ['true']", "expected YAML"),
    ],
)
def test_without_class_names_it_is_refused(tmp_path, names, message):
    write(tmp_path / "lab", names=names)
    with pytest.raises(DataError, match=message):
        scan(tmp_path)


def test_without_pictures_or_with_two_for_one_text_it_is_refused(tmp_path):
    write(tmp_path / "lab", pictures="frames")
    with pytest.raises(DataError, match="expected pictures in a folder 'images'"):
        scan(tmp_path)
    write(tmp_path / "lab")
    write_picture(tmp_path / "lab" / "images" / "P1_a.bmp")
    with pytest.raises(DataError, match="expected one picture for"):
        scan(tmp_path)


def test_without_a_rule_for_groups_it_is_refused(tmp_path):
    write(tmp_path / "lab")
    with pytest.raises(DataError, match=r"images/P1_a\.png: expected a group"):
        scan(tmp_path, group_pattern=None)
