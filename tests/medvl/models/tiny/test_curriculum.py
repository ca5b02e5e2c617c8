from __future__ import annotations

import numpy as np
import pytest
import torch

from medvl.models.tiny.curriculum import (
    GAPS_FROM_STEP,
    PARTIAL_FROM_STEP,
    PARTS,
    SAID_ALL_FROM_STEP,
    SAID_FROM_STEP,
    Curriculum,
    Lessons,
    Plan,
)
from medvl.models.tiny.tokenizer import train_tokenizer

PLAN = Plan(steps=(20, 2000, 20), tower_pictures=4, lookup_items=8, pictures=3, questions=2, kept_lookup_items=2)
CURRICULUM = Curriculum(PLAN, train_tokenizer())


def test_a_step_follows_from_seed_and_number_alone():
    (one, sight), (two, _) = CURRICULUM.joint(7), CURRICULUM.joint(7)
    assert np.array_equal(one.pictures, two.pictures)
    assert all(torch.equal(a.ids, b.ids) for a, b in zip(one.blocks, two.blocks, strict=True))
    assert one.pictures is sight.pictures
    other, _ = CURRICULUM.joint(8)
    assert not np.array_equal(one.pictures, other.pictures)


@pytest.mark.parametrize("part", PARTS)
def test_lessons_start_at_any_step(part):
    def facts(lesson):
        batch = lesson[0] if isinstance(lesson, tuple) else lesson
        return batch.pictures.tolist() if batch.pictures is not None else batch.blocks[0].ids.tolist()

    all_steps = [facts(lesson) for lesson in Lessons(CURRICULUM, part, 0, 4)]
    assert [facts(lesson) for lesson in Lessons(CURRICULUM, part, 2, 4)] == all_steps[2:]


def test_every_question_points_at_its_picture():
    batch, _ = CURRICULUM.joint(0)
    rows = torch.cat([b.picture_of for b in batch.blocks if b.picture_of is not None])
    assert sorted(rows.tolist()) == sorted([0, 1, 2] * PLAN.questions)


def test_the_rate_warms_up_and_falls():
    for part in PARTS:
        rates = [Plan().rate_at(part, step) for step in (0, 25, 60)]
        assert rates[0] < rates[1] < rates[2] <= Plan().rate
    assert Plan().rate_at("joint", Plan().steps[2]) < 0.04 * Plan().rate


def test_early_and_late_steps_of_the_joint_part_can_be_drawn():
    for step in (0, SAID_FROM_STEP, GAPS_FROM_STEP + 10, PARTIAL_FROM_STEP + 10, SAID_ALL_FROM_STEP + 10, 3000):
        batch, _ = CURRICULUM.joint(step)
        text = batch.blocks[-1]
        assert text.picture_of is None
        assert (text.positions is not None) == (GAPS_FROM_STEP <= step < PARTIAL_FROM_STEP)
        assert (text.inserted is not None) == (step >= PARTIAL_FROM_STEP)
