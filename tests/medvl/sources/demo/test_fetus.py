import numpy as np
import pytest

from medvl.sources.demo.fetus import draw_fetus
from medvl.sources.demo.scene import Pose, Scene


def _centre(mask):
    y, x = np.nonzero(mask)
    return float(x.mean()), float(y.mean())


@pytest.mark.parametrize("tilt_rad", [-0.3, 0.0, 0.3])
@pytest.mark.parametrize("orientation", ["hdvb", "hdvf", "huvb", "huvf"])
def test_head_down_is_on_the_right_and_the_back_is_above_when_toward_the_probe(orientation, tilt_rad):
    scene = Scene.blank(150, 150, 0.2)
    draw_fetus(scene, Pose(75, 75, 22, tilt_rad), np.random.default_rng(0), orientation)
    head, stomach = _centre(scene.masks["skull"]), _centre(scene.masks["stomach"])
    assert (head[0] > stomach[0]) == orientation.startswith("hd")
    # along the body's own axis, so that the tilt does not matter
    spine, femur = _centre(scene.masks["spine"]), _centre(scene.masks["femur"])
    down = np.array([-np.sin(tilt_rad), np.cos(tilt_rad)])
    assert (down @ spine < down @ femur) == orientation.endswith("vb")


def test_all_its_structures_are_seen():
    scene = Scene.blank(150, 150, 0.2)
    draw_fetus(scene, Pose(75, 75, 22), np.random.default_rng(0), "hdvb")
    assert set(scene.masks) == {"skull", "spine", "heart", "stomach", "femur"}
    assert all(mask.any() for mask in scene.masks.values())
