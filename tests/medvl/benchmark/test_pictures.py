from pathlib import Path

import cv2
import numpy as np
import pytest
from drawn_source import SIZE, draw
from PIL import Image

from medvl.benchmark.pictures import read_records, small_box_warnings
from medvl.benchmark.readings import Readings
from medvl.config.schema import BoxConfig
from medvl.imaging.reading import pixel_hash, read_picture
from medvl.sources.record import Domain, MaskFile, Record, Structure


def record(path: Path, *structures: Structure, where: str = "") -> Record:
    return Record("s", path.stem, path, "g", Domain.CLINICAL, structures=structures, where=where)


def rings(path: Path, *ellipses) -> MaskFile:
    mask = np.zeros(SIZE[::-1], np.uint8)
    for centre, axes in ellipses:
        cv2.ellipse(mask, centre, axes, 0, 0, 360, 255, 1)
    Image.fromarray(mask).save(path)
    return MaskFile(path, is_outline=True)


@pytest.fixture
def picture(tmp_path):
    draw(tmp_path / "a.png", 1)
    return tmp_path / "a.png"


def test_size_and_hash_are_those_of_the_decoded_pixels(picture):
    (read,), broken = read_records([record(picture)], BoxConfig())
    assert (read.width, read.height) == SIZE
    assert read.sha256_pixels == pixel_hash(read_picture(picture))
    assert broken == []


def test_a_resaved_copy_has_the_same_hash_a_mirrored_one_has_not(picture, tmp_path):
    with Image.open(picture) as image:
        image.save(tmp_path / "b.bmp")
        image.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(tmp_path / "c.png")
    read, _ = read_records([record(picture), record(tmp_path / "b.bmp"), record(tmp_path / "c.png")], BoxConfig())
    assert read[0].sha256_pixels == read[1].sha256_pixels != read[2].sha256_pixels


def test_masks_become_boxes_and_repeats_fall_away(picture, tmp_path):
    mask = rings(tmp_path / "m.png", ((20, 20), (9, 6)))
    (read,), _ = read_records(
        [record(picture, Structure("head", mask=mask), Structure("head", mask=mask))], BoxConfig()
    )
    assert read.boxes == (("head", (11.0, 14.0, 30.0, 27.0)),)


def test_components_give_one_box_each(picture, tmp_path):
    mask = rings(tmp_path / "m.png", ((12, 12), (5, 5)), ((45, 30), (7, 7)))
    structure = Structure("arm", mask=mask)
    (read,), _ = read_records([record(picture, structure)], BoxConfig(per="component"))
    assert len(read.boxes) == 2
    (read,), _ = read_records([record(picture, structure)], BoxConfig())
    assert len(read.boxes) == 1


@pytest.mark.parametrize(
    "box", [(-1, 0, 5, 5), (0, 0, 65, 5), (5, 5, 5, 9), (9, 0, 4, 5), (0, 0, float("nan"), 4), (0, 0, 4, 49)]
)
def test_a_box_outside_its_picture_or_empty_is_listed(picture, box):
    read, broken = read_records([record(picture, Structure("heart", box))], BoxConfig())
    assert read == []
    assert "s: a, heart: expected a box with an area inside the picture (64 x 48 px), found x" in broken[0]


def test_a_box_that_fills_the_picture_is_fine(picture):
    (read,), _ = read_records([record(picture, Structure("heart", (0, 0, *SIZE)))], BoxConfig())
    assert read.boxes == (("heart", (0, 0, *SIZE)),)


def test_what_cannot_be_read_is_listed_by_name_and_the_rest_kept_in_order(picture, tmp_path):
    cut = tmp_path / "cut.png"
    cut.write_bytes(picture.read_bytes()[:200])
    small = tmp_path / "small_mask.png"
    Image.new("L", (8, 8), 255).save(small)
    nothing = Structure("spine")
    records = [
        record(cut),
        record(picture),
        record(picture, Structure("head", mask=MaskFile(small))),
        record(picture, nothing),
        record(tmp_path / "absent.png"),
        record(picture),
    ]
    read, broken = read_records(records, BoxConfig())
    assert [r.record.record_id for r in read] == ["a", "a"]
    names = ("cut.png", "small_mask.png", "neither a box nor a mask", "absent.png")
    assert all(name in sentence for name, sentence in zip(names, broken, strict=True))


def test_the_row_is_named_unless_it_is_the_picture_itself(tmp_path):
    path = tmp_path / "Images" / "a.png"
    records = [record(path, where="table.csv row 7"), record(path, where="images/A.png")]
    of_row, of_picture = read_records(records, BoxConfig())[1]
    assert of_row.startswith(f"s, table.csv row 7: {path}: expected a picture, found no file")
    assert of_picture.startswith(f"s: {path}: ")


def test_a_link_that_leads_out_is_listed_although_it_was_read_before(picture, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "link.png").symlink_to(picture)
    with Readings(tmp_path / "readings.sqlite") as readings:
        assert read_records([record(home / "link.png")], BoxConfig(), readings=readings)[1] == []
        read, broken = read_records([record(home / "link.png")], BoxConfig(), readings=readings, within=[home])
    assert read == []
    assert broken == [
        f"s: {home / 'link.png'}: expected a file below {home}, found a link that leads out of it. Copy the file there."
    ]


def test_boxes_under_one_visual_patch_are_counted_and_the_first_named(picture):
    side = 64 / 40  # of a picture of 64 x 48 px
    boxes = [(0, 0, 1, 1), (3, 3, 4.5, 4), (0, 0, side, 1), (0, 0, 1, 9)]
    structures = [Structure(f"part {i}", box) for i, box in enumerate(boxes)]
    read, _ = read_records([record(picture, *structures)], BoxConfig())
    (warning,) = small_box_warnings(read)
    assert warning.startswith("2 structures (a part 0, a part 1) with a box under one visual patch (2.5% of")
    assert small_box_warnings([]) == []


def test_the_result_does_not_depend_on_the_threads_and_progress_counts_all(tmp_path):
    for i in range(12):
        draw(tmp_path / f"{i}.png", i)
    records = [record(tmp_path / f"{i}.png") for i in range(12)]
    seen: list[tuple[int, int]] = []
    one = read_records(records, BoxConfig(), lambda done, n: seen.append((done, n)), threads=1)
    assert one == read_records(records, BoxConfig(), threads=4)
    assert seen == [(i, 12) for i in range(1, 13)]
