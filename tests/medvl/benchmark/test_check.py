from dataclasses import replace

import numpy as np
from mini_items import make_item
from PIL import Image

from medvl.benchmark.check import check_items, check_pictures
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
    good = check_pictures(made, tmp_path, lambda done, total: seen.append((done, total)))
    assert good.is_ok
    assert seen == [(1, 3), (2, 3), (3, 3)]
    Image.new("L", (40, 30)).save(tmp_path / "0.png")
    (tmp_path / "1.png").unlink()
    bad = check_pictures(made, tmp_path)
    assert not bad.is_ok
    assert "0.png has other pixels" in bad.text
    assert "1.png" in bad.text
