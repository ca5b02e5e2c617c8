from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from medvl.sources.demo.plan import CONFORMITIES, DIAGNOSES, ORIENTATIONS, PLANES, plan_dataset, plan_patient
from medvl.sources.record import Domain

PLANS = plan_dataset(0, 400)


def test_each_task_has_at_least_800_items_and_every_label_a_fair_share():
    for column, labels in (
        ("plane", PLANES),
        ("conformity", CONFORMITIES),
        ("orientation", ORIENTATIONS),
        ("diagnosis", DIAGNOSES),
    ):
        counts = Counter(getattr(plan, column) for plan in PLANS)
        asked = sum(counts[label] for label in labels)
        assert asked >= 800, column
        assert set(counts) == {*labels, ""}
        assert min(counts[label] for label in labels) >= 0.75 * asked / len(labels), column


def test_phantoms_are_a_third_of_the_pictures_of_every_task():
    for column in ("plane", "conformity", "orientation", "diagnosis"):
        asked = [plan for plan in PLANS if getattr(plan, column)]
        share = np.mean([plan.domain is Domain.PHANTOM for plan in asked])
        assert 0.28 <= share <= 0.42, column


def test_a_patient_keeps_one_style_and_has_several_pictures():
    for patient in range(30):
        plans = plan_patient(3, patient)
        assert 5 <= len(plans) <= 7
        assert len({plan.domain for plan in plans}) == 1
        assert len({plan.stem for plan in plans}) == len(plans)


def test_a_patient_does_not_depend_on_how_many_patients_there_are():
    assert plan_dataset(1, 4) == plan_dataset(1, 9)[: len(plan_dataset(1, 4))]


def test_seeds_give_different_plans():
    assert [p.plane for p in plan_dataset(0, 20)] != [p.plane for p in plan_dataset(1, 20)]


@pytest.mark.parametrize(
    ("first", "second"), [("plane", "conformity"), ("plane", "diagnosis"), ("conformity", "diagnosis")]
)
def test_labels_of_different_tasks_are_independent(first, second):
    pairs = Counter((getattr(p, first), getattr(p, second)) for p in plan_dataset(5, 600) if getattr(p, first))
    pairs = Counter({pair: n for pair, n in pairs.items() if all(pair)})
    rows, columns = sorted({a for a, _ in pairs}), sorted({b for _, b in pairs})
    table = [[pairs[a, b] for b in columns] for a in rows]
    assert chi2_contingency(table).pvalue > 0.001


def test_only_whole_fetus_pictures_have_an_orientation_and_only_planes_the_rest():
    for plan in PLANS:
        assert bool(plan.orientation) != bool(plan.plane)
        assert plan.plane or not (plan.conformity or plan.diagnosis)
