import json

import pytest
from own_data import HEIGHT, WIDTH, own, write_picture

from medvl.errors import DataError
from medvl.sources.record import Domain, Split

IMAGES = [
    {"id": 1, "file_name": "P1_a.png", "width": WIDTH, "height": HEIGHT, "patient": "P1"},
    {"id": "2", "file_name": "P1_b.png", "width": WIDTH, "height": HEIGHT, "patient": "P1"},
    {"id": 3, "file_name": "P2_a.png", "width": WIDTH, "height": HEIGHT, "patient": "P2"},
]
CATEGORIES = [{"id": 0, "name": "head"}, {"id": "7", "name": "femur "}]
ANNOTATIONS = [
    {"id": "a", "image_id": "1", "category_id": 7, "bbox": [1, 2, 10.5, 20], "iscrowd": 0},
    {"id": "b", "image_id": 1, "category_id": "0", "bbox": [5, 5, 10, 10]},
    {"id": 9, "image_id": 2, "category_id": 0, "bbox": [0, 0, WIDTH, HEIGHT]},
]


def write(path, *, prefix="", **parts):
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"images": IMAGES, "annotations": ANNOTATIONS, "categories": CATEGORIES, **parts}
    images = content["images"]
    if prefix:
        content["images"] = [{**image, "file_name": prefix + image["file_name"]} for image in images]
    path.write_text(json.dumps(content))
    for image in content["images"]:
        if isinstance(image, dict) and image.get("file_name"):
            write_picture(path.parent / image["file_name"])
    return path


def scan(root, **config):
    return own(root, **{"format": "coco", "path": "lab/coco.json", "group": "patient", **config})


def test_boxes_become_structures_of_their_picture(tmp_path):
    write(tmp_path / "lab" / "coco.json")
    records = scan(tmp_path).records
    assert [record.record_id for record in records] == ["P1_a.png", "P1_b.png", "P2_a.png"]
    assert [[(s.label, s.bbox_xyxy_px) for s in record.structures] for record in records] == [
        [("femur", (1, 2, 11.5, 22)), ("head", (5, 5, 15, 15))],
        [("head", (0, 0, WIDTH, HEIGHT))],
        [],
    ]
    assert [record.group for record in records] == ["P1", "P1", "P2"]
    assert {record.domain for record in records} == {Domain.CLINICAL}
    assert records[0].where == "coco.json images[0]"


def test_pictures_without_an_annotation_are_named(tmp_path):
    write(tmp_path / "lab" / "coco.json")
    assert scan(tmp_path).warnings == ["coco.json: 1 picture (P2_a.png) without an annotation; no question is asked."]


def test_pictures_may_lie_elsewhere_or_be_absent(tmp_path):
    write(tmp_path / "lab" / "coco.json")
    (tmp_path / "lab" / "P1_a.png").rename(write_picture(tmp_path / "img" / "P1_a.png"))
    assert [record.is_present for record in scan(tmp_path, pictures="img").records] == [True, False, False]


def test_a_picture_of_another_size_than_stated_is_refused(tmp_path):
    images = [{**IMAGES[0], "width": 2 * WIDTH, "height": 2 * HEIGHT}, *IMAGES[1:]]
    write(tmp_path / "lab" / "coco.json", images=images)
    with pytest.raises(DataError, match=r"images\[0\]: expected P1_a\.png to have 80 x 60 px .*found 40 x 30 px"):
        scan(tmp_path)


@pytest.mark.parametrize("side", [None, "40", 0, -1, float("nan"), 10**400])
def test_where_no_size_is_stated_the_picture_tells_it(tmp_path, side):
    images = [{**image, "width": side} for image in IMAGES]
    write(tmp_path / "lab" / "coco.json", images=images)
    assert scan(tmp_path).records[1].structures[0].bbox_xyxy_px == (0, 0, WIDTH, HEIGHT)
    outside = [{**ANNOTATIONS[2], "bbox": [0, 0, WIDTH + 9, HEIGHT]}]
    write(tmp_path / "lab" / "coco.json", images=images, annotations=outside)
    with pytest.raises(DataError, match=r"annotations\[0\]: expected a box inside 40 x 30 px"):
        scan(tmp_path)


def test_groups_may_come_from_the_file_name(tmp_path):
    write(tmp_path / "lab" / "coco.json")
    assert [r.group for r in scan(tmp_path, group=None, group_pattern=r"(P\d)_").records] == ["P1", "P1", "P2"]


def test_without_a_rule_for_groups_it_is_refused(tmp_path):
    write(tmp_path / "lab" / "coco.json")
    with pytest.raises(DataError, match=r"coco\.json images\[0\]: expected a group"):
        scan(tmp_path, group=None)


def test_categories_can_be_renamed(tmp_path):
    write(tmp_path / "lab" / "coco.json")
    records = scan(tmp_path, labels={"head": "fetal head"}).records
    assert [s.label for s in records[0].structures] == ["femur", "fetal head"]
    with pytest.raises(DataError, match=r"the class 'haed'.*did you mean head"):
        scan(tmp_path, labels={"haed": "fetal head"})


def test_an_export_with_sides_keeps_them(tmp_path):
    for side in ("train", "valid", "test"):
        write(tmp_path / "lab" / side / "_annotations.coco.json", prefix=f"{side}_")
    scanned = scan(tmp_path, path="lab")
    assert [record.record_id for record in scanned.records][::3] == [
        "train/train_P1_a.png",
        "valid/valid_P1_a.png",
        "test/test_P1_a.png",
    ]
    assert [record.official_split for record in scanned.records][::3] == [Split.TRAIN, Split.TRAIN, Split.TEST]
    assert all(record.is_present for record in scanned.records)
    assert any("3 pictures" in warning and "validation side" in warning for warning in scanned.warnings)
    assert {record.official_split for record in scan(tmp_path, path="lab", use_split=False).records} == {None}


def test_crowds_are_left_out_and_counted(tmp_path):
    write(tmp_path / "lab" / "coco.json", annotations=[{**ANNOTATIONS[0], "iscrowd": 1}, *ANNOTATIONS[1:]])
    scanned = scan(tmp_path)
    assert [s.label for s in scanned.records[0].structures] == ["head"]
    assert any("1 annotation (coco.json annotations[0]) of crowds" in warning for warning in scanned.warnings)


def changed(values, index=0, **change):
    return [{**value, **change} if number == index else value for number, value in enumerate(values)]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"annotations": changed(ANNOTATIONS, image_id=8)},
            r"annotations\[0\]: expected an image_id of the file, found 8",
        ),
        ({"annotations": changed(ANNOTATIONS, category_id=8)}, r"annotations\[0\]: expected a category_id of 0, 7"),
        ({"annotations": changed(ANNOTATIONS, bbox=[1, 2, 3])}, r"annotations\[0\]: expected a bbox"),
        ({"annotations": changed(ANNOTATIONS, bbox=None)}, r"annotations\[0\]: expected a bbox"),
        ({"annotations": changed(ANNOTATIONS, bbox=[1, 2, 0, 5])}, r"annotations\[0\]: expected a box with an area"),
        ({"annotations": changed(ANNOTATIONS, bbox=[1, 2, 50, 5])}, r"annotations\[0\]: expected a box inside 40 x 30"),
        ({"annotations": changed(ANNOTATIONS, bbox=[-9, 2, 12, 5])}, r"annotations\[0\]: expected a box inside"),
        ({"annotations": {"a": 1}}, "expected a list of objects"),
        ({"annotations": [1]}, "expected an object"),
        ({"images": changed(IMAGES, 1, id=1)}, r"images\[1\]: expected each image id once"),
        ({"images": changed(IMAGES, 1, file_name="P1_a.png")}, r"images\[1\]: expected each picture once"),
        ({"images": changed(IMAGES, file_name="")}, r"images\[0\]: expected a file_name"),
        ({"images": changed(IMAGES, id=None)}, r"images\[0\]: expected id to be a number or a text"),
        ({"images": changed(IMAGES, patient="")}, r"images\[0\]: .*empty field"),
        ({"categories": [{"id": 0}]}, r"categories\[0\]: expected a name"),
    ],
)
def test_a_broken_file_is_refused_naming_the_place(tmp_path, parts, message):
    write(tmp_path / "lab" / "coco.json", **parts)
    with pytest.raises(DataError, match=message):
        scan(tmp_path)


@pytest.mark.parametrize("content", ["[]", "{}", '{"images": []}', "7"])
def test_what_is_no_coco_file_is_refused(tmp_path, content):
    write(tmp_path / "lab" / "coco.json").write_text(content)
    with pytest.raises(DataError, match="expected a COCO file with images, annotations and categories"):
        scan(tmp_path)


def test_a_folder_without_an_export_is_refused(tmp_path):
    (tmp_path / "lab").mkdir()
    with pytest.raises(DataError, match=r"_annotations\.coco\.json there or in train"):
        scan(tmp_path, path="lab")


def test_the_real_sample_is_read(shared_data):
    scanned = own(
        shared_data,
        format="coco",
        path="mmotu_coco/sample_coco_MMOTU2D.json",
        pictures="mmotu_coco/sample_images",
        group="picture",
    )
    assert len(scanned.records) == sum(record.is_present for record in scanned.records) == 10
    assert [s.label for record in scanned.records for s in record.structures] == ["object"] * 10
    assert scanned.records[0].structures[0].bbox_xyxy_px == (326, 155, 436, 282)
    assert scanned.warnings == []
