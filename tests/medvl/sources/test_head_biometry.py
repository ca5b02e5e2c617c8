import json

import numpy as np
import pytest
from mini_head_biometry import (
    BOXES,
    COLOURS,
    DIVERSE,
    MASK_FOLDERS,
    PICTURE_FOLDERS,
    PICTURES,
    SHAPE,
    YELLOW,
    shown,
    write_coco,
    write_mini_head_biometry,
)
from PIL import Image

from medvl.benchmark.groups import group_of
from medvl.errors import DataError
from medvl.imaging.masks import read_mask
from medvl.imaging.reading import read_picture
from medvl.sources.fetal_planes_db import FETAL_PLANES_DB
from medvl.sources.hc18 import HC18
from medvl.sources.head_biometry import HEAD_BIOMETRY
from medvl.sources.record import Domain, Task

THALAMIC = "Trans-thalamic"


@pytest.fixture
def mini(tmp_path):
    return write_mini_head_biometry(tmp_path / "root" / "biometry")


def by_id(scan):
    return {record.record_id: record for record in scan.records}


def part_of(record) -> str:
    return record.record_id.partition("/")[0]


def stem_of(record) -> str:
    return record.picture.stem


def drop_masks(mini, part) -> None:
    (mini / part / MASK_FOLDERS[part]).rename(mini.parents[1] / f"elsewhere {part}")


def test_every_picture_of_the_four_parts_gives_a_record(mini):
    scan = HEAD_BIOMETRY.scan(mini)
    expected = {f"{part}/{PICTURE_FOLDERS[part]}/{name}.png" for part, names in PICTURES.items() for name in names}
    assert set(by_id(scan)) == expected
    assert len(scan.records) == len(expected)
    assert scan.records == HEAD_BIOMETRY.scan(mini).records
    assert scan.warnings == []
    assert all(r.source == "head_biometry" and r.domain is Domain.CLINICAL and r.is_present for r in scan.records)
    assert all(read_picture(r.picture).shape == (*SHAPE, 3) for r in scan.records)


def test_the_plane_is_the_folder_and_the_diverse_images_have_none(mini):
    for record in HEAD_BIOMETRY.scan(mini).records:
        part = part_of(record)
        assert record.labels == ({} if part == DIVERSE else {Task.PI: part})


def groups_of(scan):
    return {record.picture.stem: group_of(HEAD_BIOMETRY, record) for record in scan.records}


def test_pictures_of_a_patient_share_their_group_over_planes_and_hc18_numbers_are_not_patients(mini):
    groups = groups_of(HEAD_BIOMETRY.scan(mini))
    patient = {groups[name] for name in groups if name.startswith("Patient00168")}
    assert len(patient) == 1
    assert groups["010_HC"] == groups["010_2HC"]
    assert groups["168_HC"] not in patient
    assert len(set(groups.values())) == 5


def test_a_patient_and_a_subject_are_those_of_the_sources_the_pictures_are_from(mini, mini_fetal_planes, mini_hc18):
    groups = groups_of(HEAD_BIOMETRY.scan(mini))
    planes = {group_of(FETAL_PLANES_DB, record) for record in FETAL_PLANES_DB.scan(mini_fetal_planes).records}
    heads = {r.picture.stem: group_of(HC18, r) for r in HC18.scan(mini_hc18).records if r.structures}
    assert set(groups.values()) & planes == {groups["Patient00002_Plane3_1_of_1"]}
    assert set(groups.values()) & set(heads.values()) == {groups["010_HC"]}
    assert groups["010_HC"] == heads["010_2HC"]


def test_colours_are_those_of_the_masks(mini):
    for record in HEAD_BIOMETRY.scan(mini).records:
        assert [s.label for s in record.structures] == list(BOXES)
        mask = np.asarray(Image.open(record.structures[0].mask.path))
        for structure in record.structures:
            ys, xs = np.nonzero((mask == structure.mask.colour).all(axis=2))
            found = (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1) if len(xs) else None
            assert found == (BOXES[structure.label] if structure.label in shown(stem_of(record)) else None)


def test_a_structure_that_a_mask_does_not_show_is_no_fault(mini):
    hidden = []
    for record in HEAD_BIOMETRY.scan(mini).records:
        for structure in record.structures:
            assert structure.mask.may_be_empty
            if not read_mask(structure.mask.path, colour=structure.mask.colour).any():
                hidden.append((stem_of(record), structure.label))
    assert hidden == [("010_2HC", "LV")]


def test_without_a_label_map_the_published_colours_are_taken(mini):
    for path in mini.glob("*/*/labelmap.txt"):
        path.unlink()
    for record in HEAD_BIOMETRY.scan(mini).records:
        published = COLOURS | ({"CSP": YELLOW} if part_of(record) == DIVERSE else {})
        assert {s.label: s.mask.colour for s in record.structures} == published


def test_a_label_map_with_other_colours_wins(mini):
    (mini / THALAMIC / MASK_FOLDERS[THALAMIC] / "labelmap.txt").write_text(
        "# label\nCSP:0,128,0::\nbackground:0,0,0::\n"
    )
    record = next(r for r in HEAD_BIOMETRY.scan(mini).records if part_of(r) == THALAMIC)
    assert {s.label: s.mask.colour for s in record.structures} == COLOURS | {"CSP": (0, 128, 0)}


def paint(mini, part, name, colour, box=BOXES["CSP"]) -> None:
    path = mini / part / MASK_FOLDERS[part] / "SegmentationClass" / f"{name}.png"
    image = Image.open(path).convert("RGB")
    image.paste(colour, box)
    image.save(path)


@pytest.mark.parametrize(("part", "colour"), [(THALAMIC, YELLOW), (DIVERSE, COLOURS["CSP"])])
def test_a_colour_of_the_other_rule_is_a_warning_with_mask_and_colours(mini, part, colour):
    paint(mini, part, PICTURES[part][1], colour)
    (warning,) = HEAD_BIOMETRY.scan(mini).warnings
    assert warning.startswith(f"{mini / part}: 1 mask ({PICTURES[part][1]}.png) with colours that stand for nothing")
    assert f"({colour} in 1)" in warning
    csp = YELLOW if part == DIVERSE else COLOURS["CSP"]
    assert f"expected background (0, 0, 0), Brain (255, 0, 0), CSP {csp}, LV (0, 0, 255)." in warning


def test_many_strange_colours_of_many_masks_are_counted_and_the_commonest_named(mini):
    for shade in range(1, 6):
        paint(mini, THALAMIC, PICTURES[THALAMIC][0], (0, 0, shade), (shade, 0, shade + 1, 1))
    paint(mini, THALAMIC, PICTURES[THALAMIC][1], (0, 0, 5), (0, 0, 1, 1))
    (warning,) = HEAD_BIOMETRY.scan(mini).warnings
    assert "2 masks (" in warning
    assert "((0, 0, 5) in 2, " in warning
    assert "and 2 more colours" in warning


def test_colours_of_a_label_map_are_expected(mini):
    paint(mini, THALAMIC, PICTURES[THALAMIC][0], (0, 128, 0))
    paint(mini, THALAMIC, PICTURES[THALAMIC][1], (0, 128, 0))
    (mini / THALAMIC / MASK_FOLDERS[THALAMIC] / "labelmap.txt").write_text("CSP:0,128,0::\n")
    assert HEAD_BIOMETRY.scan(mini).warnings == []


def test_masks_that_are_not_used_or_broken_are_no_matter_of_colours(mini):
    name, other = PICTURES[THALAMIC]
    paint(mini, THALAMIC, name, YELLOW)
    (mini / THALAMIC / THALAMIC / f"{name}.png").unlink()
    path = mini / THALAMIC / MASK_FOLDERS[THALAMIC] / "SegmentationClass" / f"{other}.png"
    path.write_bytes(path.read_bytes()[:50])
    assert HEAD_BIOMETRY.scan(mini).warnings == []


def test_a_broken_label_map_is_refused_with_its_line(mini):
    (mini / THALAMIC / MASK_FOLDERS[THALAMIC] / "labelmap.txt").write_text("Brain:255,0,0::\nCSP:green::\n")
    with pytest.raises(DataError, match=r"labelmap\.txt line 2: expected a label and its colour.*found 'CSP:green::'"):
        HEAD_BIOMETRY.scan(mini)


def test_masks_unpacked_straight_into_the_folder_of_the_plane_are_found(mini):
    home = mini / THALAMIC
    for name in ("SegmentationClass", "labelmap.txt"):
        (home / MASK_FOLDERS[THALAMIC] / name).rename(home / name)
    record = next(r for r in HEAD_BIOMETRY.scan(mini).records if part_of(r) == THALAMIC)
    assert record.structures[0].mask.path.parent == home / "SegmentationClass"


def test_masks_of_the_segmentation_copy_come_before_those_of_another_format(mini):
    (mini / DIVERSE / "A-Test-Dataset-PASCAL" / "SegmentationClass").mkdir(parents=True)
    record = next(r for r in HEAD_BIOMETRY.scan(mini).records if part_of(r) == DIVERSE)
    assert record.structures[0].mask.path.parents[1].name == MASK_FOLDERS[DIVERSE]


def test_without_masks_the_coco_copy_gives_the_boxes(mini):
    drop_masks(mini, DIVERSE)
    write_coco(mini, DIVERSE)
    scan = HEAD_BIOMETRY.scan(mini)
    assert scan.warnings == []
    for record in (r for r in scan.records if part_of(r) == DIVERSE):
        assert {s.label: s.bbox_xyxy_px for s in record.structures} == {s: BOXES[s] for s in shown(stem_of(record))}


def test_the_coco_copy_names_absent_pictures_and_may_hold_windows_paths(mini):
    drop_masks(mini, THALAMIC)
    path = write_coco(mini, THALAMIC)
    content = json.loads(path.read_text())
    content["images"][0]["file_name"] = "Trans-thalamic\\" + content["images"][0]["file_name"]
    path.write_text(json.dumps(content))
    gone, kept = (f"{THALAMIC}/{THALAMIC}/{name}.png" for name in PICTURES[THALAMIC])
    (mini / gone).unlink()
    records = by_id(HEAD_BIOMETRY.scan(mini))
    assert [name for name, r in records.items() if not r.is_present] == [gone]
    assert records[kept].is_present


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bbox": [10, 8, 0, 20]}, "expected a box inside the picture"),
        ({"bbox": [90, 8, 10, 20]}, r"picture \(96 x 66 px\), found x 90, y 8, 10 x 20 px"),
        ({"bbox": [-1, 8, 10, 20]}, "expected a box inside the picture"),
        ({"bbox": [1, 8, 10]}, "expected COCO annotations"),
        ({"category_id": 9}, "expected a listed image and one of the categories Brain, CSP, LV"),
        ({"image_id": 77}, "found image 77"),
    ],
)
def test_a_broken_annotation_is_refused_with_its_file(mini, change, message):
    drop_masks(mini, THALAMIC)
    path = write_coco(mini, THALAMIC)
    content = json.loads(path.read_text())
    content["annotations"][0] |= change
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=rf"instances_default\.json.*{message}"):
        HEAD_BIOMETRY.scan(mini)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"images": [], "annotations": []}'])
def test_a_file_that_holds_no_coco_annotations_is_refused(mini, content):
    drop_masks(mini, THALAMIC)
    write_coco(mini, THALAMIC).write_text(content)
    with pytest.raises(DataError, match=r"instances_default\.json: expected COCO annotations"):
        HEAD_BIOMETRY.scan(mini)


def test_masks_still_in_their_archive_are_named_and_the_planes_remain(mini):
    drop_masks(mini, THALAMIC)
    (mini / THALAMIC / "Trans-thalamic-Segmentation.zip").touch()
    (mini / THALAMIC / "Trans-thalamic-YOLO.zip").touch()
    scan = HEAD_BIOMETRY.scan(mini)
    assert any("Trans-thalamic-Segmentation.zip is not unpacked" in warning for warning in scan.warnings)
    assert not any("YOLO" in warning for warning in scan.warnings)
    records = [r for r in scan.records if part_of(r) == THALAMIC]
    assert len(records) == 2
    assert all(r.labels and not r.structures for r in records)


def test_a_part_that_is_absent_or_packed_is_named(mini):
    for part in ("Trans-cerebellum", "Trans-ventricular"):
        (mini / part).rename(mini.parents[1] / part)
    (mini / "Trans-ventricular.zip").touch()
    packed, absent = sorted(HEAD_BIOMETRY.scan(mini).warnings, key=lambda warning: "no folder" in warning)
    assert "Trans-ventricular.zip is not unpacked" in packed
    assert "no folder Trans-cerebellum" in absent


def test_a_picture_without_a_mask_is_named_and_keeps_its_plane(mini):
    name = PICTURES[THALAMIC][0]
    (mini / THALAMIC / MASK_FOLDERS[THALAMIC] / "SegmentationClass" / f"{name}.png").unlink()
    scan = HEAD_BIOMETRY.scan(mini)
    record = by_id(scan)[f"{THALAMIC}/{THALAMIC}/{name}.png"]
    assert record.structures == ()
    assert record.labels == {Task.PI: THALAMIC}
    assert f"1 picture ({record.record_id}) without an annotation" in scan.warnings[0]


def test_a_mask_without_a_picture_is_an_absent_picture_of_the_same_id(mini):
    gone = f"{THALAMIC}/{THALAMIC}/{PICTURES[THALAMIC][0]}.png"
    before = [r.record_id for r in HEAD_BIOMETRY.scan(mini).records]
    (mini / gone).rename(mini.parents[1] / "elsewhere.png")
    records = by_id(HEAD_BIOMETRY.scan(mini))
    assert list(records) == before
    assert [name for name, r in records.items() if not r.is_present] == [gone]


def test_upper_case_extensions_are_found(mini):
    name = f"{THALAMIC}/{THALAMIC}/{PICTURES[THALAMIC][0]}"
    (mini / f"{name}.png").rename(mini / f"{name}.PNG")
    record = by_id(HEAD_BIOMETRY.scan(mini))[f"{name}.png"]
    assert record.is_present
    assert record.picture == mini / f"{name}.PNG"
    assert len(record.structures) == 3


def test_a_name_that_tells_no_patient_is_refused(mini):
    pictures = mini / THALAMIC / THALAMIC
    (pictures / f"{PICTURES[THALAMIC][0]}.png").rename(pictures / "brain1.png")
    with pytest.raises(DataError, match=r"Trans-thalamic/Trans-thalamic/brain1\.png: expected a name such as"):
        HEAD_BIOMETRY.scan(mini)


def test_the_dataset_is_found_by_any_of_its_parts(mini, tmp_path_factory):
    assert HEAD_BIOMETRY.find(mini.parent) == HEAD_BIOMETRY.find(mini) == mini
    for part in list(PICTURES)[:3]:
        (mini / part).rename(mini.parents[1] / part)
    assert HEAD_BIOMETRY.find(mini.parent) == mini
    empty = tmp_path_factory.mktemp("empty")
    assert HEAD_BIOMETRY.find(empty) is None
    (empty / "Trans-thalamic.zip").touch()
    assert HEAD_BIOMETRY.find(empty) == empty
