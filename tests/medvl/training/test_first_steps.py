from types import SimpleNamespace

import pytest
import torch
from mini_batches import make_samples
from trained_adapter import ALL, LORA, train

from medvl.batching.collator import Collator
from medvl.errors import TrainingError
from medvl.models.adapter import attach_adapter
from medvl.training.first_steps import PATIENCE, FirstStepsCallback


@pytest.fixture
def adapted(fresh_base):
    return attach_adapter(fresh_base, LORA, 0).train()


def looked_at(model, base, step):
    """What is recorded at the end of a batch after some steps."""
    found = []
    batch = Collator(base.processor, with_answer=True)(make_samples())
    callback = FirstStepsCallback(model, base, found.append)
    for _ in range(2):
        callback.on_train_batch_end(SimpleNamespace(global_step=step), None, None, batch, 0)
    return found


def test_a_live_adapter_is_recorded_once_and_left_as_it_was(adapted, fresh_base):
    model = train(adapted, fresh_base).train()
    before = {name: p.clone() for name, p in model.named_parameters()}
    (found,) = looked_at(model, fresh_base, 2)
    assert found["step"] == 2
    assert found["logit_change"] > 0
    assert {part: norms["zero"] for part, norms in found["b_norms"].items()} == dict.fromkeys(ALL, 0)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert model.training


def test_nothing_is_looked_at_before_the_second_step(adapted, fresh_base):
    assert looked_at(adapted, fresh_base, 1) == []


def test_a_part_that_has_not_moved_yet_is_given_time(adapted, fresh_base):
    assert looked_at(adapted, fresh_base, PATIENCE - 1) == []


def test_a_part_that_never_moves_stops_the_run(adapted, fresh_base):
    model = train(adapted, fresh_base)
    for name, parameter in model.named_parameters():
        if "lora_B" in name and "vision_" in name:
            parameter.data.zero_()
    with pytest.raises(TrainingError, match=f"after {PATIENCE} steps no matrix of the adapter on vision has moved"):
        looked_at(model, fresh_base, PATIENCE)
