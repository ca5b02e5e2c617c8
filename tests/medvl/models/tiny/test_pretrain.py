from __future__ import annotations

import csv
import dataclasses

import pytest
import torch

from medvl.errors import ModelError
from medvl.models.tiny.architecture import TinySize
from medvl.models.tiny.curriculum import PARTS, Plan
from medvl.models.tiny.pretrain import CURVE_COLUMNS, curve_path, pretrain_part, state_path

SIZE = TinySize(hidden=32, layers=1, heads=2, inner=32)
PLAN = Plan(steps=(4, 4, 4), tower_pictures=3, lookup_items=4, pictures=2, questions=2, kept_lookup_items=(2, 1))


def run(out, part, **options):
    return pretrain_part(out, part, PLAN, SIZE, curve_every=2, workers=0, report=lambda line: None, **options)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    for part in PARTS:
        run(out, part)
    return out


def weights(out, part):
    return torch.load(state_path(out, part), weights_only=True)


@pytest.mark.parametrize("part", PARTS)
def test_a_resumed_part_equals_an_uninterrupted_one(done, tmp_path, part):
    for earlier in PARTS[: PARTS.index(part)]:
        state_path(tmp_path, earlier).write_bytes(state_path(done, earlier).read_bytes())
    run(tmp_path, part, stop_after_steps=2)
    assert weights(tmp_path, part)["step"] == 2
    run(tmp_path, part, resume=True)
    one, two = weights(done, part), weights(tmp_path, part)
    assert one["step"] == two["step"] == 4
    assert all(torch.equal(one["weights"][k], two["weights"][k]) for k in one["weights"])


def test_every_part_changes_what_it_trains(done):
    lookup, tower, joint = (weights(done, part)["weights"] for part in PARTS)
    changed = {
        "tower.encoder.layers.0.mlp.fc1.weight": tower,
        "projector.linear_1.weight": tower,
        "decoder.embed_tokens.weight": lookup,
    }
    names = {"tower": "vision_tower", "projector": "multi_modal_projector", "decoder": "language_model"}
    for key, before in changed.items():
        head, _, rest = key.partition(".")
        assert not torch.equal(before[key], joint[f"whole.model.{names[head]}.{rest}"])


def test_the_curve_has_rows_for_every_part(done):
    for part in PARTS:
        with curve_path(done, part).open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert tuple(rows[0]) == CURVE_COLUMNS
        assert {row["step"] for row in rows} == {"2", "4"}
        assert all(0 <= float(row["accuracy"]) <= 1 for row in rows)


def test_resuming_with_another_plan_is_refused(done):
    other = dataclasses.replace(PLAN, seed=1)
    with pytest.raises(ModelError, match="saved by another plan"):
        pretrain_part(done, "tower", other, SIZE, resume=True, workers=0)


def test_a_longer_plan_goes_on_from_the_state_of_a_shorter_one(done, tmp_path):
    for part in ("lookup", "tower"):
        state_path(tmp_path, part).write_bytes(state_path(done, part).read_bytes())
    longer = dataclasses.replace(PLAN, steps=(4, 6, 4), horizons=(4, 6, 4))
    pretrain_part(tmp_path, "tower", longer, SIZE, resume=True, workers=0, report=lambda line: None)
    assert weights(tmp_path, "tower")["step"] == 6


def test_the_joint_part_needs_the_earlier_ones(tmp_path):
    with pytest.raises(ModelError, match="run those parts first"):
        run(tmp_path, "joint")
