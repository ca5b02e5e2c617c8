from dataclasses import replace

import numpy as np
import pytest
from mini_items import make_item
from PIL import Image

from medvl.benchmark.check import check_items, check_pictures, find_leaks, near_finding
from medvl.imaging.reading import pixel_hash
from medvl.sources.record import Split, Task


def items(count=60):
    """Sound items: six answers positions even, groups and pictures of their own."""
    options = ("head", "abdomen", "femur")
    return [
        replace(
            make_item(number=n),
            options=options[n % 3 :] + options[: n % 3],
            answer="femur",
            answer_index=2 - n % 3,
            split=list(Split)[n % 3],
        )
        for n in range(count)
    ]


def faults(found):
    return {finding.check: finding.text for finding in found if not finding.is_ok}


def test_the_demo_benchmark_is_sound(demo_items):
    assert faults(check_items(demo_items)) == {}


def test_a_sound_benchmark_has_no_fault_and_says_what_each_side_holds():
    found = check_items(items())
    assert faults(found) == {}
    texts = {finding.check: finding.text for finding in found}
    assert texts["test side"] == "every task (PI)"
    assert texts["groups"] == "60 groups, none on two sides"


def test_a_group_on_two_sides_is_a_fault_and_not_named():
    made = items()
    made[1] = replace(made[1], group=made[0].group)
    found = faults(check_items(made))
    assert found == {"groups": "1 of 59 groups lie on two sides"}


def test_a_picture_on_two_sides_is_a_fault():
    made = items()
    made[1] = replace(made[1], sha256_pixels=made[0].sha256_pixels)
    assert list(faults(check_items(made))) == ["identical pictures"]


def test_repeated_ids_and_options_and_a_wrong_pointer_are_faults():
    made = items()
    made[1] = replace(made[1], item_id=made[0].item_id)
    made[2] = replace(made[2], options=("femur", "Femur", "head"))
    made[3] = replace(made[3], answer_index=1)
    text = faults(check_items(made))["questions"]
    assert "is there 2 times" in text
    assert "one option twice" in text
    assert "not the option it points to" in text


def test_a_box_outside_its_picture_is_a_fault():
    made = items()
    made[0] = replace(made[0], bbox_xyxy_px=(1.0, 1.0, 41.0, 20.0))
    assert list(faults(check_items(made))) == ["boxes"]


def test_uneven_gold_letters_are_a_fault():
    made = [replace(item, options=("femur", "head", "abdomen"), answer_index=0) for item in items()]
    assert list(faults(check_items(made))) == ["gold letters"]


def test_a_dominant_answer_and_a_side_without_a_task_are_remarks():
    made = [*items(), *(make_item(Task.VC, 100 + n, split=Split.TRAIN) for n in range(3))]
    made += [make_item(Task.CD, 200, split=Split.TEST)]
    found = check_items(made)
    assert "no item of CD, VC" in {f.check: f.text for f in found}["val side"]
    assert faults(found) == {}


def test_every_picture_is_compared_with_what_was_built(tmp_path):
    rng = np.random.default_rng(0)
    made = []
    for number in range(3):
        grey = rng.integers(0, 255, (30, 40), dtype=np.uint8)
        Image.fromarray(grey).save(tmp_path / f"{number}.png")
        digest = pixel_hash(np.repeat(grey[..., None], 3, axis=2))
        made.append(make_item(number=number, picture=f"{number}.png", sha256_pixels=digest))
    seen = []
    good, signatures = check_pictures(made, tmp_path, lambda done, total: seen.append((done, total)))
    assert good.is_ok
    assert set(signatures) == {item.sha256_pixels for item in made}
    assert seen == [(1, 3), (2, 3), (3, 3)]
    Image.new("L", (40, 30)).save(tmp_path / "0.png")
    (tmp_path / "1.png").unlink()
    bad, signatures = check_pictures(made, tmp_path)
    assert set(signatures) == {made[2].sha256_pixels}
    assert not bad.is_ok
    assert "0.png has other pixels" in bad.text
    assert "1.png" in bad.text


def test_a_sound_benchmark_has_no_leaks():
    assert find_leaks(items()) == []


def test_a_shared_group_and_identical_pixels_on_two_sides_are_listed_as_left():
    made = items()
    train, test = (next(item for item in made if item.split is split) for split in (Split.TRAIN, Split.TEST))
    made += [replace(test, item_id="same picture", picture="copy.png", split=Split.VAL, group="other")]
    made += [replace(train, item_id="same group", picture="x.png", sha256_pixels="new", split=Split.VAL)]
    rows = {row["kind"]: row for row in find_leaks(made)}
    assert set(rows) == {"identical", "group"}
    assert {row["done"] for row in rows.values()} == {"left"}
    assert (rows["identical"]["kept_picture"], rows["identical"]["copy_picture"]) == (test.picture, "copy.png")
    assert (rows["group"]["kept_split"], rows["group"]["copy_split"]) == ("val", "train")
    assert rows["group"]["copy_picture"] == train.picture


def test_one_file_on_two_sides_is_a_leak_of_itself():
    made = items()
    made[1] = replace(made[0], item_id="again", split=Split.VAL)
    (row,) = find_leaks(made)
    assert row["kept_picture"] == row["copy_picture"] == made[0].picture


@pytest.mark.parametrize("sides", [(Split.TRAIN, Split.TEST), (Split.TEST, Split.TEST)])
def test_near_copies_are_found_when_pictures_were_read(tmp_path, sides):
    rng = np.random.default_rng(1)
    grey = np.kron(rng.integers(0, 255, (16, 20), dtype=np.uint8), np.ones((6, 6), np.uint8))
    made = []
    for number, side in enumerate(sides):
        shown = np.clip(grey.astype(int) + 9 * number, 0, 255).astype(np.uint8)
        Image.fromarray(shown).save(tmp_path / f"{number}.png")
        digest = pixel_hash(np.repeat(shown[..., None], 3, axis=2))
        made.append(
            replace(
                make_item(number=number, picture=f"{number}.png", sha256_pixels=digest), split=side, group=f"g{number}"
            )
        )
    _, signatures = check_pictures(made, tmp_path)
    rows = find_leaks(made, signatures)
    crosses = sides[0] is not sides[1]
    assert [(row["kind"], row["copy_picture"]) for row in rows] == ([("near", "0.png")] if crosses else [])
    assert near_finding(rows, 2).is_ok is not crosses
    assert find_leaks(made) == []
