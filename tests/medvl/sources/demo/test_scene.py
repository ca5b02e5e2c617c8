import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvl.sources.demo.scene import Pose, Scene, blob, ellipse, grains, streaks

finite = st.floats(-50, 50)


@given(finite, finite, st.floats(1, 40), st.floats(-7, 7), st.booleans(), st.booleans())
def test_placing_keeps_distances_up_to_the_scale(x, y, scale, angle, flip_x, flip_y):
    pose = Pose(x, y, scale, angle, flip_x, flip_y)
    a, b = pose.place(np.array([[0.3, -0.2], [1.1, 0.7]]))
    assert np.hypot(*(b - a)) == pytest.approx(scale * np.hypot(0.8, 0.9))


@given(finite, finite, st.floats(1, 40), st.floats(-7, 7), st.booleans(), st.booleans())
def test_a_part_lies_where_its_whole_puts_it(x, y, scale, angle, flip_x, flip_y):
    whole = Pose(x, y, scale, angle, flip_x, flip_y)
    part = whole.part(0.5, -0.25, 0.5)
    assert part.place(np.array([[1.0, 0.0]])) == pytest.approx(whole.place(np.array([[1.0, -0.25]])))


def test_a_mirror_turns_left_into_right():
    assert Pose(10, 10, 2, flip_x=True).place(np.array([[1.0, 1.0]])).tolist() == [[8.0, 12.0]]


def test_a_filled_shape_covers_its_area_and_gives_its_mask():
    scene = Scene.blank(60, 80, 0.2)
    mask = scene.fill(Pose(40, 30, 20).place(ellipse()), 0.9, bone=0.5)
    assert set(np.unique(mask)) == {0, 255}
    assert (mask > 0).sum() == pytest.approx(np.pi * 400, rel=0.06)
    assert scene.tone[30, 40] == pytest.approx(0.9)
    assert scene.tone[2, 2] == pytest.approx(0.2)
    assert scene.bone[30, 40] == pytest.approx(0.5)


def test_a_line_has_its_width():
    scene = Scene.blank(40, 40, 0.0)
    mask = scene.stroke(np.array([[5.0, 20.0], [35.0, 20.0]]), 4, 1.0)
    assert 3 <= (mask[:, 20] > 0).sum() <= 5


def test_a_rough_shape_keeps_its_centre():
    shape = blob(np.random.default_rng(0), ellipse(3, 4), 0.05)
    assert shape.mean(axis=0) == pytest.approx((3, 4), abs=0.15)
    assert not np.allclose(shape, ellipse(3, 4))


def test_textures_stay_between_their_tones():
    rng = np.random.default_rng(0)
    for texture in (grains(rng, (40, 50), 5, 0.2, 0.8), streaks(rng, (40, 50), 8, 0.2, 0.8)):
        assert texture.shape == (40, 50)
        assert texture.min() >= 0.2 - 1e-6
        assert texture.max() <= 0.8 + 1e-6
        assert texture.std() > 0.1


def test_streaks_run_down_the_picture():
    texture = streaks(np.random.default_rng(0), (40, 50), 8, 0, 1)
    assert np.ptp(texture, axis=0).max() == 0
    assert np.ptp(texture, axis=1).min() > 0.9
