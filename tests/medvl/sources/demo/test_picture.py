from collections import Counter
from dataclasses import replace

import cv2
import numpy as np
import pytest
from scipy.stats import kruskal

from medvl.sources.demo import picture
from medvl.sources.demo.picture import MARK_CHANCE, TIER_EDGES, draw_picture, draw_pose
from medvl.sources.demo.plan import CONFORMITIES, DIAGNOSES, ORIENTATIONS, PLANES, PicturePlan, plan_dataset
from medvl.sources.demo.rendering import draw_device, lay_fan
from medvl.sources.record import Domain

PLAN = PicturePlan(0, 5, 1, Domain.CLINICAL, "fetal head", "conforming", "", "normal")


@pytest.fixture(scope="module")
def drawn():
    plans = plan_dataset(0, 40)
    return [(plan, draw_picture(plan)) for plan in plans]


def test_the_same_plan_gives_the_same_bytes():
    first, second = draw_picture(PLAN), draw_picture(PLAN)
    assert first.grey.tobytes() == second.grey.tobytes()
    assert {k: m.tobytes() for k, m in first.masks.items()} == {k: m.tobytes() for k, m in second.masks.items()}


def test_masks_fit_their_picture_and_are_filled(drawn):
    seen = Counter()
    for _, one in drawn:
        for name, mask in one.masks.items():
            seen[name] += 1
            assert mask.shape == one.grey.shape
            assert mask.dtype == np.uint8
            assert set(np.unique(mask)) == {0, 255}
    assert set(seen) == set(MARK_CHANCE)


def test_small_medium_and_large_structures_are_all_common(drawn):
    tiers = Counter()
    for _, one in drawn:
        for mask in one.masks.values():
            _, _, width, height = cv2.boundingRect(mask)
            tiers[int(np.searchsorted(TIER_EDGES, width * height / mask.size, side="right"))] += 1
    assert set(tiers) == {0, 1, 2}
    # 40 of the default 250 patients: at least 250 of each tier there
    assert min(tiers.values()) >= 32


@pytest.mark.parametrize(
    ("column", "values"),
    [("plane", PLANES), ("conformity", CONFORMITIES), ("diagnosis", DIAGNOSES)],
)
def test_each_label_draws_its_own_picture(column, values):
    looks = {draw_picture(replace(PLAN, **{column: value})).grey.tobytes() for value in values}
    assert len(looks) == len(values)


def test_each_orientation_draws_its_own_picture():
    plan = replace(PLAN, plane="", conformity="", diagnosis="")
    assert len({draw_picture(replace(plan, orientation=o)).grey.tobytes() for o in ORIENTATIONS}) == 4


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_the_mother_stands_so_a_head_that_is_down_is_below_and_the_probe_is_on_the_right(orientation, monkeypatch):
    monkeypatch.setattr(picture, "MARK_CHANCE", dict.fromkeys(MARK_CHANCE, (1.0, 1.0, 1.0)))
    seen = 0
    for seed in range(6):
        plan = replace(PLAN, seed=seed, plane="", conformity="", diagnosis="", orientation=orientation)
        middle = {name: np.argwhere(mask).mean(axis=0) for name, mask in draw_picture(plan).masks.items()}
        if {"skull", "spine", "stomach"} <= set(middle):
            seen += 1
            assert (middle["skull"][0] > middle["stomach"][0]) == orientation.startswith("hd")
            assert (middle["spine"][1] > middle["stomach"][1]) == orientation.endswith("vb")
    assert seen >= 3


def test_an_unasked_conformity_draws_a_conforming_view():
    assert draw_picture(replace(PLAN, conformity="")).grey.tobytes() == draw_picture(PLAN).grey.tobytes()


def test_what_the_lesion_hides_is_not_marked():
    healthy, ill = Counter(), Counter()
    for patient in range(40):
        plan = replace(PLAN, patient=patient, plane="fetal head")
        for diagnosis, seen in (("normal", healthy), ("malignant", ill)):
            seen.update(list(draw_picture(replace(plan, diagnosis=diagnosis)).masks))
    assert 0 < ill["thalami"] < 0.9 * healthy["thalami"]


def test_pose_device_and_fan_do_not_know_the_label():
    one, other = PLAN, replace(PLAN, plane="fetal thorax", conformity="non-conforming", diagnosis="malignant")
    poses = []
    for plan in (one, other):
        device = draw_device(plan.patient_rng(), plan.domain)
        streams = plan.look_rng().spawn(7)
        fan = lay_fan(streams[0], device)
        poses.append((device, draw_pose(streams[2], fan, is_fetus=False), fan.inside.tobytes()))
    assert poses[0] == poses[1]


@pytest.mark.parametrize("column", ["plane", "orientation"])
def test_brightness_of_the_surroundings_does_not_tell_the_label(drawn, column):
    by_label = {}
    for plan, one in drawn:
        label = getattr(plan, column)
        if label:
            grey = one.grey if plan.plane else np.rot90(one.grey)
            # the corner of the fan that no body reaches: the first rows below the probe
            rows = grey[6:18][grey[6:18] > 0]
            by_label.setdefault(label, []).append(rows.mean())
    assert kruskal(*by_label.values()).pvalue > 0.001
