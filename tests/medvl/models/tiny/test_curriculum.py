from __future__ import annotations

import numpy as np
import pytest
import torch

from medvl.models.tiny.curriculum import PARTS, PHRASES_UNTIL_STEP, STRINGS_AT_STEP, Curriculum, Lessons, Plan
from medvl.models.tiny.tokenizer import train_tokenizer

PLAN = Plan(steps=(2000, 20, 200), tower_pictures=4, lookup_items=8, pictures=3, questions=2, kept_lookup_items=(6, 2))
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
    batch, _ = CURRICULUM.joint(150)
    rows = torch.cat([b.picture_of for b in batch.blocks if b.picture_of is not None]).tolist()
    assert len(rows) == 3 * PLAN.questions + 2
    assert all(rows.count(picture) >= PLAN.questions for picture in range(3))


def test_lookups_are_fewer_once_the_joint_part_is_under_way():
    early, late = (CURRICULUM.joint(step)[0].blocks[-1] for step in (0, 150))
    assert early.picture_of is None
    assert (len(early.exchanges), len(late.exchanges)) == (6, 2)


def test_naming_comes_before_letters():
    def share(step: int) -> float:
        forms = [e.form for s in range(step, step + 20) for b in CURRICULUM.joint(s)[0].blocks for e in b.exchanges]
        return forms.count("letter") / len(forms)

    assert share(0) < 0.6 < share(150)


def test_lookups_are_of_phrases_first_and_of_the_whole_vocabulary_later():
    def distinct(step: int) -> int:
        return len(
            {t for s in range(4) for e in CURRICULUM.lookup_batch(step + s).blocks[0].exchanges for t in e.prompt}
        )

    assert distinct(0) < 140 < distinct(STRINGS_AT_STEP)
    assert distinct(PHRASES_UNTIL_STEP - 4) < 140


def test_the_rate_warms_up_and_falls():
    for part in PARTS:
        rates = [Plan().rate_at(part, step) for step in (0, 25, 60)]
        assert rates[0] < rates[1] < rates[2] <= Plan().rate
    assert Plan().rate_at("joint", Plan().steps[2]) < 0.04 * Plan().rate
