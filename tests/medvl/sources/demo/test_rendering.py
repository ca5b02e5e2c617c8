import numpy as np
import pytest

from medvl.sources.demo.rendering import draw_device, lay_fan, render
from medvl.sources.demo.scene import Pose, Scene, ellipse
from medvl.sources.record import Domain


def _device(seed=0, domain=Domain.CLINICAL):
    return draw_device(np.random.default_rng(seed), domain)


def _flat(device, tone=0.4):
    return Scene.blank(device.height, device.width, tone)


@pytest.mark.parametrize("seed", range(8))
def test_the_fan_fills_a_good_part_of_the_picture_and_stays_inside(seed):
    device = _device(seed)
    fan = lay_fan(np.random.default_rng(seed), device)
    assert 0.45 < fan.inside.mean() < 0.95
    assert not fan.inside[0].any()
    assert (fan.clearance_px[~fan.inside] == 0).all()
    assert fan.clearance_px.max() > 30


def test_outside_the_fan_is_black_but_for_the_ticks():
    device = _device()
    fan = lay_fan(np.random.default_rng(0), device)
    grey = render(_flat(device), fan, device, np.random.default_rng(1))
    outside = np.where(fan.inside, 0, grey)
    assert grey.dtype == np.uint8
    assert grey.shape == (device.height, device.width)
    ticks = slice(0, 6) if device.ticks_left else slice(device.width - 6, None)
    outside[:, ticks] = 0
    assert not outside.any()


def test_bone_throws_a_shadow_away_from_the_probe():
    device = _device()
    fan = lay_fan(np.random.default_rng(0), device)
    scene = _flat(device)
    bone_y, x = device.height // 2, device.width // 2
    scene.fill(Pose(x, bone_y, 12).place(ellipse(b=0.3)), 1.0, bone=0.4)
    lit = render(_flat(device), fan, device, np.random.default_rng(1)).astype(float)
    dark = render(scene, fan, device, np.random.default_rng(1)).astype(float)
    behind = (slice(bone_y + 12, bone_y + 40), slice(x - 4, x + 4))
    before = (slice(bone_y - 30, bone_y - 10), slice(x - 4, x + 4))
    assert dark[behind].mean() < lit[behind].mean() - 25
    assert dark[before].mean() == pytest.approx(lit[before].mean(), abs=2)


def test_phantoms_have_less_speckle():
    spread = {}
    for domain in Domain:
        grains = []
        for seed in range(6):
            device = _device(seed, domain)
            fan = lay_fan(np.random.default_rng(seed), device)
            grey = render(_flat(device), fan, device, np.random.default_rng(seed)).astype(float)
            y, x = device.height // 2, device.width // 2
            grains.append(np.diff(grey[y - 15 : y + 15, x - 15 : x + 15], axis=0).std())
        spread[domain] = np.mean(grains)
    assert spread[Domain.PHANTOM] < 0.85 * spread[Domain.CLINICAL]
