"""Validations fall on the end, the best weights come back, and a torn checkpoint is named."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from medvl.batching.prompt import answer_tokens
from medvl.config.schema import LoraConfig, OptimConfig, TrainConfig, TrainerConfig
from medvl.errors import ConfigError, ModelError, TrainingError
from medvl.models.adapter import attach_adapter
from medvl.models.base import load_base
from medvl.training import engine
from medvl.training.sft_module import SftModule


@given(
    steps=st.integers(1, 5000),
    every=st.integers(1, 500),
    accumulate=st.integers(1, 4),
)
def test_validations_are_spread_so_that_the_last_is_near_the_end(steps, every, accumulate):
    config = TrainerConfig(max_steps=steps, val_every_steps=every, accumulate_batches=accumulate)
    interval = engine.val_interval(config, batches_per_epoch=10)
    assert interval % accumulate == 0
    in_steps = interval // accumulate
    assert 1 <= in_steps <= steps
    rounds = steps // in_steps
    assert steps - rounds * in_steps < in_steps
    assert in_steps <= 2 * every


def test_steps_follow_from_epochs_or_are_given():
    assert engine.planned_steps(TrainerConfig(max_epochs=3), 11) == 33
    assert engine.planned_steps(TrainerConfig(max_epochs=3, accumulate_batches=4), 11) == 9
    assert engine.planned_steps(TrainerConfig(max_epochs=3, max_steps=5), 11) == 5


@pytest.fixture
def module(tiny_config, demo_data):
    model = attach_adapter(load_base(tiny_config), LoraConfig(r=2, alpha=4, dropout=0.0), seed=0)
    return SftModule(model, OptimConfig(), answer_tokens(demo_data.processor).letter_ids)


def test_a_checkpoint_cut_short_is_named(module, tmp_path):
    path = tmp_path / "step-3.ckpt"
    torch.save({"state_dict": {n: p for n, p in module.named_parameters() if p.requires_grad}}, path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ModelError, match=r"step-3\.ckpt cannot be read"):
        engine.load_weights(module, path)


def test_a_checkpoint_of_another_adapter_is_refused(module, tmp_path):
    path = tmp_path / "step-3.ckpt"
    torch.save({"state_dict": {"model.other": torch.zeros(2)}}, path)
    with pytest.raises(ModelError, match="holds 1 weights"):
        engine.load_weights(module, path)


def test_a_checkpoint_brings_its_weights_back(module, tmp_path):
    path = tmp_path / "step-3.ckpt"
    trained = {n: torch.randn_like(p) for n, p in module.named_parameters() if p.requires_grad}
    torch.save({"state_dict": trained}, path)
    engine.load_weights(module, path)
    assert all(torch.equal(p, trained[n]) for n, p in module.named_parameters() if p.requires_grad)


@pytest.mark.parametrize("name", ["lightning", "trl_sft"])
def test_a_run_without_a_step_says_so(module, demo_data, tmp_path, name):
    config = TrainerConfig(engine=name, accelerator="cpu", max_steps=0)
    with pytest.raises(TrainingError, match="not one optimiser step"):
        engine.fit(config, module, demo_data, [], [], tmp_path)


def test_epochs_that_are_no_whole_number_of_steps_are_not_exceeded(module, demo_data, tmp_path):
    batches = len(demo_data.train_dataloader())
    assert batches % 3
    config = TrainerConfig(accelerator="cpu", max_epochs=2, accumulate_batches=3, val_every_steps=99, progress=False)
    fitted = engine.fit(config, module, demo_data, [], [], tmp_path)
    assert fitted.steps == engine.planned_steps(config, batches)
    assert math.isnan(fitted.best)


def config_of(**trainer):
    base = {"name": "m", "path": "p"}, {"name": "d", "root": "r", "sources": ["s"]}
    return TrainConfig(name="n", model=base[0], data=base[1], paths={"run": "x"}, trainer=trainer)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("limit_train_batchs", "Lightning's Trainer does not take it; did you mean limit_train_batches"),
        ("precision", "medvl decides this itself; leave it out"),
        ("callbacks", "medvl decides this itself; leave it out"),
    ],
)
def test_what_lightning_is_given_beside_is_checked(name, said):
    with pytest.raises(ConfigError, match=said):
        engine.check(config_of(extra={name: 1}))
    engine.check(config_of(extra={"deterministic": True}))
