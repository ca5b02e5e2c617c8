from dataclasses import replace

import pytest
import torch
from kept import kept_bytes, training_batch

from medvl.config.schema import LoraConfig, ModelConfig
from medvl.models.adapter import attach_adapter, matched_layers
from medvl.models.base import load_base
from medvl.models.longest import RowSize, rows_of
from medvl.models.memory import LOST_SHARE, NF4_BYTES, Load, estimate_memory, numbers_of, quantised_size
from medvl.models.plan import plan_training

ROW = RowSize(tokens=500, patches=400, states=0, answer=2)
LOAD = Load(ROW, rows=4, asked=4, precision="32-true", attention="sdpa", device="cpu")
OPTION = ModelConfig(name="tiny", path="unused")
BOTH = ["language", "vision"]


@pytest.fixture
def estimate(family_base):
    """(changes of the option, of the load, of the recipe) -> the estimate."""

    def estimated(option=None, load=None, lora=None):
        config = OPTION.model_copy(update=option or {})
        recipe = LoraConfig(r=4, **(lora or {}))
        plan = plan_training(family_base.model, family_base.family, recipe, config.train_parts)
        return estimate_memory(
            family_base.model, family_base.family, plan, config, recipe, replace(LOAD, **(load or {}))
        )

    return estimated


def test_weights_are_as_wide_as_their_number_format(family_base, estimate):
    size = sum(p.numel() for p in family_base.model.parameters())
    assert estimate().weights == 4 * size
    assert estimate({"dtype": "bfloat16"}).weights == 2 * size
    layers = matched_layers(family_base.model, family_base.family, LoraConfig())["language"]
    in_4_bits = sum(family_base.model.get_submodule(name).weight.numel() for name in layers)
    assert quantised_size(family_base.model, family_base.family) == in_4_bits
    nf4 = estimate({"dtype": "bfloat16", "quantization": "nf4"}).weights
    assert nf4 == pytest.approx(2 * (size - in_4_bits) + 0.516 * in_4_bits, rel=1e-3)
    assert pytest.approx((4 + 0.127) / 8, abs=1e-3) == NF4_BYTES  # bits a weight, as the paper of QLoRA gives them


def test_a_trained_number_has_a_value_a_gradient_and_two_moments(family_base, estimate):
    adapter = plan_training(family_base.model, family_base.family, LoraConfig(r=4)).trained
    found = estimate()
    assert (found.trained, found.optimiser) == (8 * adapter, 8 * adapter)
    tower = plan_training(family_base.model, family_base.family, LoraConfig(r=4), ["vision"]).full["vision"]
    full = estimate({"train_parts": ["vision"], "dtype": "bfloat16"})
    assert (full.trained, full.optimiser) == (8 * adapter + 4 * tower, 8 * adapter + 4 * tower)


def test_the_total_is_the_sum_with_the_larger_of_training_and_asking(estimate):
    for load in ({"asked": 1}, {"asked": 4000}):
        m = estimate(load=load)
        assert m.total == m.weights + m.trained + m.optimiser + max(m.activations, m.asking) + m.overhead
    assert estimate(load={"asked": 1}).activations > estimate(load={"asked": 1}).asking
    assert estimate(load={"asked": 4000}).activations < estimate(load={"asked": 4000}).asking


def test_activations_are_what_autograd_keeps_and_little_more(fresh_base):
    lora = LoraConfig(r=4, dropout=0.0, parts=BOTH)
    plan = plan_training(fresh_base.model, fresh_base.family, lora)
    batch = training_batch(fresh_base)
    row = rows_of(batch, fresh_base.family, fresh_base.model.config)
    load = replace(LOAD, row=row)
    estimated = estimate_memory(fresh_base.model, fresh_base.family, plan, OPTION, lora, load).activations
    kept = kept_bytes(attach_adapter(fresh_base, lora, 0).train(), batch)
    assert 0.95 * kept < estimated < 1.5 * kept


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_activations_are_what_autograd_keeps_under_autocast(family_folder, dtype):
    option = ModelConfig(name="tiny", path=str(family_folder), dtype=dtype)
    base, lora = load_base(option), LoraConfig(r=4, dropout=0.05)
    plan = plan_training(base.model, base.family, lora)
    batch = training_batch(base)
    row = rows_of(batch, base.family, base.model.config)
    load = replace(LOAD, row=row, precision="bf16-mixed")
    estimated = estimate_memory(base.model, base.family, plan, option, lora, load).activations
    model = attach_adapter(base, lora, 0).train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        kept = kept_bytes(model, batch)
    assert 0.95 * kept < estimated < 1.5 * kept


def test_activations_grow_with_rows_and_tokens(estimate):
    few, many = estimate(load={"rows": 2}), estimate(load={"rows": 8})
    assert many.activations == pytest.approx(4 * few.activations, rel=0.01)
    longer = estimate(load={"row": replace(ROW, tokens=1000)})
    assert longer.activations > 1.5 * estimate().activations


@pytest.mark.parametrize("change", [{"dtype": "bfloat16"}, {"checkpointing": ["language"]}])
def test_ways_to_save_activations_are_estimated_lower(estimate, change):
    assert estimate(change).activations < 0.9 * estimate().activations


def test_the_tower_counts_only_where_it_is_trained(estimate):
    untrained, trained = estimate(), estimate(lora={"parts": BOTH})
    assert trained.activations > untrained.activations
    assert estimate({"checkpointing": ["vision"]}).activations == untrained.activations
    again = estimate({"checkpointing": BOTH}, lora={"parts": BOTH})
    assert again.activations < 0.8 * trained.activations
    full = estimate({"train_parts": ["vision"]})
    assert full.activations > untrained.activations


def test_autocast_copies_float32_weights(family_base, estimate):
    """Frozen weights are brought to half precision anew in each layer, and each copy is kept for the backward pass."""
    mixed = estimate(load={"precision": "bf16-mixed"}).activations
    half = estimate({"dtype": "bfloat16"}, {"precision": "bf16-mixed"}).activations
    copies = 2 * quantised_size(family_base.model, family_base.family)
    assert mixed - half == pytest.approx(copies * (1 + LOST_SHARE), rel=0.01)


@pytest.mark.parametrize(
    ("dtype", "precision", "compute", "adapter", "norm"),
    [
        ("float32", "32-true", 4, 4, 4),
        ("float32", "bf16-mixed", 2, 2, 4),
        ("bfloat16", "32-true", 2, 4, 2),
        ("bfloat16", "bf16-mixed", 2, 2, 4),
        ("bfloat16", "bf16-true", 2, 2, 2),
        ("float16", "16-mixed", 2, 2, 4),
    ],
)
def test_numbers_are_as_wide_as_dtype_and_precision_make_them(dtype, precision, compute, adapter, norm):
    numbers = numbers_of(dtype, precision)
    assert (numbers.compute, numbers.adapter, numbers.norm) == (compute, adapter, norm)
