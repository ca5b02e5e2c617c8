import numpy as np
import pytest

from medvl.sources.demo.plan import PLANES
from medvl.sources.demo.planes import DRAW_PLANE, lose_side
from medvl.sources.demo.scene import Pose, Scene

POSE = Pose(80, 75, 45, 0.4)

LANDMARKS = {
    "fetal head": {"thalami"},
    "fetal abdomen": {"stomach", "umbilical vein"},
    "fetal femur": set(),
    "fetal thorax": {"heart"},
}


def _draw(plane, is_conforming):
    scene = Scene.blank(150, 160, 0.2)
    DRAW_PLANE[plane](scene, POSE, np.random.default_rng(0), is_conforming)
    return scene


def test_every_plane_can_be_drawn():
    assert set(DRAW_PLANE) == set(PLANES)


@pytest.mark.parametrize("plane", PLANES)
def test_the_landmark_is_seen_in_conforming_views_only(plane):
    conforming, other = _draw(plane, True), _draw(plane, False)
    assert set(conforming.masks) - set(other.masks) == LANDMARKS[plane]
    assert all(mask.any() for mask in conforming.masks.values())
    assert np.abs(conforming.tone - other.tone).max() > 0.3


@pytest.mark.parametrize("plane", PLANES)
def test_bone_is_only_drawn_where_the_picture_is_bright(plane):
    scene = _draw(plane, True)
    assert scene.tone[scene.bone > 0.01].mean() > 0.6


@pytest.mark.parametrize("angle_rad", [0.0, 1.0, -2.5])
def test_the_lost_side_keeps_neither_mask_nor_bone(angle_rad):
    scene = _draw("fetal head", False)
    whole = scene.masks["skull"].copy()
    lose_side(scene, POSE, np.random.default_rng(0), angle_rad)
    y, x = np.nonzero(scene.masks["skull"])
    assert 0.25 < len(y) / np.count_nonzero(whole) < 0.8
    along = (x - POSE.x_px) * np.cos(angle_rad) + (y - POSE.y_px) * np.sin(angle_rad)
    assert along.max() < 0.4 * POSE.scale_px
    at = round(POSE.x_px + 0.8 * 45 * np.cos(angle_rad)), round(POSE.y_px + 0.8 * 45 * np.sin(angle_rad))
    assert scene.bone[at[1], at[0]] < 0.01


def test_a_structure_of_which_hardly_anything_is_left_is_not_seen():
    scene = _draw("fetal abdomen", False)
    # the spine lies at +x of the pose
    lose_side(scene, POSE, np.random.default_rng(0), POSE.angle_rad)
    assert not scene.masks["spine"].any()
    assert scene.masks["abdomen"].any()
