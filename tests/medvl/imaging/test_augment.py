import copy
import json
import os
import random
import subprocess
import sys

import cv2
import numpy as np
import pytest

from medvl.errors import ConfigError
from medvl.imaging import augment
from medvl.imaging.augment import Moves, augmented, check_installed, fan_mask

FREE = Moves()
STILL = Moves(flip=False, turn=False, crop=False)


def picture(height=120, width=160, colour=False) -> np.ndarray:
    """Noise, grey unless asked otherwise."""
    values = np.random.default_rng(0).integers(60, 200, (height, width, 3 if colour else 1), dtype=np.uint8)
    return values if colour else np.repeat(values, 3, axis=2)


def marked(box, height=120, width=160) -> np.ndarray:
    """A white structure that fills a box, on black."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[box[1] : box[3], box[0] : box[2]] = 255
    return pixels


def bounds(pixels) -> np.ndarray:
    """Half-open box around what is bright."""
    ys, xs = np.nonzero(pixels[..., 0] > 128)
    return np.array([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1])


def draws(pixels, box=None, moves=FREE, level="light", n=40):
    return [augmented(pixels, box, level=level, moves=moves, seed=seed) for seed in range(n)]


class Only:
    """Chance that lets one artefact of the four happen."""

    def __init__(self, which: int, seed: int = 0) -> None:
        self.numbers = np.random.default_rng(seed)
        self._left = [which == number for number in range(4)]

    def falls(self, share: float) -> bool:
        return self._left.pop(0)


def fan(height=240, width=320) -> tuple[np.ndarray, np.ndarray]:
    """Speckle [H, W] in a triangle, black around it, and the triangle."""
    inside = np.abs(np.arange(width) - width / 2) < 20 + np.arange(height)[:, None] / 2
    tissue = np.random.default_rng(0).integers(40, 255, (height, width), dtype=np.uint8)
    return tissue * inside, inside


@pytest.mark.parametrize("level", ["light", "ultrasound"])
@pytest.mark.parametrize("colour", [False, True])
def test_a_seed_gives_one_copy_whatever_was_drawn_before(level, colour):
    pixels = picture(colour=colour)
    given = pixels.copy()
    first = draws(pixels, level=level, n=12)
    random.seed(9)
    np.random.seed(9)
    again = [augmented(pixels, None, level=level, moves=FREE, seed=seed) for seed in reversed(range(12))][::-1]
    assert all(np.array_equal(a, b) for (a, _), (b, _) in zip(first, again, strict=True))
    assert len({changed.tobytes() for changed, _ in first}) == 12
    assert np.array_equal(pixels, given)
    for changed, box in first:
        assert (changed.dtype, changed.shape, box) == (np.uint8, pixels.shape, None)
        assert (changed[..., 0] == changed[..., 1]).all() == (not colour)


def test_the_global_generators_are_left_alone():
    random.seed(3)
    np.random.seed(3)
    expected = (random.random(), np.random.random())
    random.seed(3)
    np.random.seed(3)
    draws(picture(), level="ultrasound", n=8)
    assert (random.random(), np.random.random()) == expected


@pytest.mark.parametrize("shape", [(1, 1), (1, 90), (7, 5), (3, 700)])
@pytest.mark.parametrize("level", ["light", "ultrasound"])
def test_very_small_and_narrow_pictures_keep_their_shape(shape, level):
    for changed, _ in draws(picture(*shape), level=level, n=25):
        assert changed.shape == (*shape, 3)


@pytest.mark.parametrize("box", [(60, 40, 100, 80), (2, 3, 40, 20), (130, 70, 160, 120)])
def test_the_box_goes_where_its_structure_goes(box):
    moved = 0
    for changed, found in draws(marked(box), tuple(map(float, box)), n=60):
        assert np.abs(bounds(changed) - found).max() <= 1.5
        moved += found != box
    assert moved > 15


@pytest.mark.parametrize("box", [(0, 0, 30, 20), (130, 100, 160, 120), (0, 100, 12, 120)])
def test_a_box_in_a_corner_keeps_its_structure(box):
    area = (box[2] - box[0]) * (box[3] - box[1])
    least = (1 - augment.MAX_LOST_SHARE) * (1 - augment.MAX_ZOOM) ** 2 * area
    for changed, (x0, y0, x1, y1) in draws(marked(box), tuple(map(float, box)), n=150):
        assert 0 <= x0 < x1 <= 160
        assert 0 <= y0 < y1 <= 120
        assert (x1 - x0) * (y1 - y0) > 0.97 * least
        assert (changed[..., 0] > 128).sum() > 0.93 * least


def test_a_long_thin_box_does_not_swell_until_it_holds_something_else():
    box = (20.0, 55.0, 140.0, 65.0)
    allowed = augment.MAX_LOOSENESS * (1 + augment.MAX_ZOOM) ** 2 * 120 * 10
    areas = [(b[2] - b[0]) * (b[3] - b[1]) for _, b in draws(marked((20, 55, 140, 65)), box, n=150)]
    assert max(areas) < allowed
    assert len(set(areas)) > 5


def test_a_picture_whose_box_no_draw_keeps_is_not_moved(monkeypatch):
    monkeypatch.setattr(augment, "MAX_LOST_SHARE", -1.0)
    box = (20.0, 30.0, 60.0, 70.0)
    for changed, found in draws(marked((20, 30, 60, 70)), box, n=30):
        assert found is box
        assert np.abs(bounds(changed) - box).max() <= 1


def test_a_box_that_ends_outside_the_picture_comes_back_cut_or_untouched():
    box = (-1.0, 40.0, 30.0, 80.0)
    for _, found in draws(picture(), box, n=60):
        assert found == box or (min(found) >= 0 and found[2] <= 160)


def test_a_mirrored_box_loses_no_precision(monkeypatch):
    monkeypatch.setattr(augment._Chance, "falls", lambda self, share: share == 0.5)
    changed, found = augmented(marked((20, 30, 61, 70)), (20.0, 30.0, 61.0, 70.0), level="light", moves=Moves(), seed=0)
    assert found == (99.0, 30.0, 140.0, 70.0)
    assert bounds(changed).tolist() == [99, 30, 140, 70]


def test_a_mirrored_picture_may_be_moved_as_well():
    boxes = [box for _, box in draws(marked((20, 30, 60, 70)), (20.0, 30.0, 60.0, 70.0))]
    mirrored = [box for box in boxes if box[0] > 80]
    assert (100.0, 30.0, 140.0, 70.0) in mirrored
    assert len(set(mirrored)) > 3


def test_only_where_it_is_allowed_a_picture_is_mirrored():
    left = marked((0, 0, 80, 120))
    is_left = {
        allowed: [
            c[..., 0][:, :75].mean() > c[..., 0][:, 85:].mean() for c, _ in draws(left, moves=Moves(flip=allowed))
        ]
        for allowed in (False, True)
    }
    assert all(is_left[False])
    assert 10 <= sum(is_left[True]) <= 30


@pytest.mark.parametrize("moves", [Moves(turn=False), Moves(crop=False)])
def test_where_turning_or_losing_corners_is_not_allowed_a_level_line_stays_level(moves):
    def tilt(pixels) -> float:
        return abs(float(bounds(pixels[:, 20:40])[1] - bounds(pixels[:, 120:140])[1]))

    line = marked((0, 50, 160, 70))
    assert max(tilt(changed) for changed, _ in draws(line, moves=moves)) <= 1  # grain at the edge of the line
    turned = [tilt(changed) for changed, _ in draws(line)]
    assert 5 < max(turned) <= 100 * np.tan(np.radians(augment.MAX_TURN_DEG)) + 2


def test_where_nothing_may_be_cropped_the_whole_picture_stays_in_view():
    def sides_seen(pixels) -> list[bool]:
        x0, y0, x1, y1 = bounds(pixels)
        edges = (pixels[y0 + 2], pixels[y1 - 3], pixels[:, x0 + 2], pixels[:, x1 - 3])
        ends = ((x0, x1), (x0, x1), (y0, y1), (y0, y1))
        return [float(np.median(e[a:b, 0])) > 128 for e, (a, b) in zip(edges, ends, strict=True)]

    frame = marked((0, 0, 160, 120))
    frame[6:-6, 6:-6] = 0
    kept = [changed for changed, _ in draws(frame, moves=Moves(crop=False))]
    assert all(all(sides_seen(changed)) for changed in kept)
    assert min((bounds(changed)[2] - bounds(changed)[0]) for changed in kept) < 155
    assert not all(all(sides_seen(changed)) for changed, _ in draws(frame))


def test_changes_fall_independently_of_each_other():
    middles = [
        changed[50:70, 60:100, 0] for changed, _ in draws(np.full((120, 160, 3), 100, np.uint8), moves=STILL, n=300)
    ]
    grainy, lit = ([m.std() > 0 for m in middles], [abs(np.median(m) - 100) >= 1 for m in middles])
    pairs = set(zip(grainy, lit, strict=True))
    assert pairs == {(False, False), (False, True), (True, False), (True, True)}


def test_grain_is_as_strong_for_the_model_in_a_large_picture_as_in_a_small_one():
    def grain(side) -> float:
        pixels = np.full((side, side), 100, np.uint8)
        transform = copy.deepcopy(augment._light(max(1, round(side / augment.SEEN_SIDE_PX))).transforms[-1])
        transform.set_random_seed(0)
        transform.p = 1.0
        noisy = transform(image=pixels)["image"]
        return float(augment._shrunk(noisy, 336, cv2.INTER_AREA).std())

    assert grain(1344) == pytest.approx(grain(336), rel=0.5)


@pytest.mark.parametrize(("which", "sign"), [(0, -1), (1, -1), (2, 1)], ids=["attenuation", "shadow", "haze"])
@pytest.mark.parametrize("colour", [False, True])
def test_an_artefact_darkens_or_brightens_the_fan_and_leaves_the_rest(which, sign, colour):
    values, inside = fan()
    values[5:15, 5:25] = 200  # lettering
    values = np.stack([values, values // 2, values], axis=2) if colour else values
    far = cv2.dilate(inside.astype(np.uint8), np.ones((11, 11))) == 0
    changes = [augment._add_artefacts(values, Only(which, seed)).astype(int) - values for seed in range(6)]
    assert all((sign * change >= -1).all() for change in changes)
    assert all((change[far] == 0).all() for change in changes)
    assert max(np.abs(change[inside]).max() for change in changes) > 20


def test_attenuation_drawn_small_is_that_of_the_whole_picture():
    values, inside = fan()
    small = augment._add_artefacts(values, Only(0, 5))
    direct = augment._artefacts()[0]
    chance = np.random.default_rng(5)
    with augment._global_seed(int(chance.integers(2**32))):
        whole = 255 * direct(image=values / 255, scan_mask=inside)["image"]
    middle = np.s_[60:220, 120:200]
    assert np.abs(small[middle] - whole[middle]).max() <= 2
    assert np.abs(whole[middle] - values[middle]).max() > 10


def test_reduced_speckle_is_smoother_and_as_bright():
    values, inside = fan()
    smooth = augment._add_artefacts(values, Only(3, 1))
    assert smooth[inside].std() < values[inside].std()
    assert abs(smooth[inside].mean() - values[inside].mean()) < 3
    assert (smooth[~inside] <= 60).all()


def test_a_black_picture_has_no_fan_and_no_artefacts():
    black = np.zeros((60, 80), np.uint8)
    assert not fan_mask(black).any()
    for which in range(4):
        assert not augment._add_artefacts(black, Only(which)).any()


def test_fluid_belongs_to_the_fan_and_lettering_does_not():
    values, inside = fan(128, 170)
    values[60:90, 70:100] = 0
    values[5:9, 150:165] = 255
    found = fan_mask(values)
    assert found[60:90, 70:100].all()
    assert not found[:12, 145:].any()
    assert (found == inside).mean() > 0.97
    assert np.array_equal(fan_mask(np.stack([values * 0, values, values * 0], axis=2)), found)


@pytest.mark.parametrize(("level", "absent"), [("light", "albumentations"), ("ultrasound", "usaugment.albumentations")])
def test_a_missing_package_is_refused_with_what_to_install(monkeypatch, level, absent):
    monkeypatch.setitem(sys.modules, absent, None)
    check_installed.cache_clear()
    with pytest.raises(ConfigError) as caught:
        check_installed(level)
    for part in (f"data.augment={level}", absent, "pip install 'albumentations==2.0.8' 'usaugment>=1.0.1'", "none"):
        assert part in str(caught.value)


def test_the_library_is_imported_late_and_asks_nobody_for_a_newer_version():
    code = (
        "import json, sys, urllib.request\n"
        "asked = []\n"
        "sys.modules['torch'] = None  # which takes seconds, and is asked for only where it is\n"
        "def opened(*args, **kwargs):\n"
        "    asked.append(str(args[1]))\n"
        "    raise OSError('no network')\n"
        "urllib.request.OpenerDirector.open = opened\n"
        "from medvl.imaging.augment import check_installed\n"
        "early = 'albumentations' in sys.modules\n"
        "check_installed('light')\n"
        "print(json.dumps([early, 'albumentations' in sys.modules, 'usaugment' in sys.modules, asked]))"
    )
    unset = {name: value for name, value in os.environ.items() if name != "NO_ALBUMENTATIONS_UPDATE"}
    done = subprocess.run([sys.executable, "-c", code], env=unset, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == [False, True, False, []]
