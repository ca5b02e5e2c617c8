from dataclasses import replace

import pytest
from kept import kept_bytes, training_batch

from medvl.config.schema import LoraConfig, ModelConfig
from medvl.models.adapter import attach_adapter
from medvl.models.base import load_base
from medvl.models.layer_memory import Numbers, Setting, layer_memory
from medvl.models.layers import transformer_layers
from medvl.models.longest import rows_of
from medvl.models.memory import numbers_of
from medvl.models.plan import plan_training
from medvl.models.specimens import SPECIMENS, specimen_folder

BOTH = ["language", "vision"]


def counted(base, lora, numbers, attention, size, rows):
    """What the layers keep by the formula."""
    plan = plan_training(base.model, base.family, lora)
    setting = Setting(
        numbers=numbers,
        adapted=frozenset(name for names in plan.layers.values() for name in names),
        rank=lora.r,
        dropout=lora.dropout > 0,
        dora=lora.dora,
        attention=attention,
        padded=rows > 1,
        mask_bytes=0,
    )
    return rows * sum(
        layer_memory(
            layer,
            name,
            base.family.attention[part],
            setting if part == "language" else replace(setting, padded=False),
            size.tokens if part == "language" else size.patches,
            size.states,
            trained=False,
        ).kept
        for part in lora.parts
        for name, layer in transformer_layers(base.model, base.family, part).items()
    )


def compare(folder, dtype, lora, attention="sdpa"):
    base = load_base(ModelConfig(name="tiny", path=str(folder), dtype=dtype, attention=attention))
    batch = training_batch(base)
    size = rows_of(batch, base.family, base.model.config)
    formula = counted(base, lora, numbers_of(dtype, "32-true"), attention, size, len(batch.items))
    model = attach_adapter(base, lora, 0).train()
    return formula / kept_bytes(model, batch)


@pytest.mark.parametrize(
    ("dtype", "lora", "attention"),
    [
        ("float32", LoraConfig(r=4, dropout=0.0, parts=BOTH), "sdpa"),
        ("bfloat16", LoraConfig(r=4, dropout=0.1, parts=BOTH), "sdpa"),
        ("bfloat16", LoraConfig(r=4, dropout=0.0), "eager"),
        ("float32", LoraConfig(r=4, dropout=0.0, dora=True), "sdpa"),
    ],
    ids=["plain", "half with dropout", "eager", "dora"],
)
def test_the_count_is_what_autograd_keeps(family_folder, dtype, lora, attention):
    assert compare(family_folder, dtype, lora, attention) == pytest.approx(1.0, abs=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECIMENS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_count_is_what_autograd_keeps_in_every_family(name, dtype):
    lora = LoraConfig(r=4, dropout=0.1 if dtype == "bfloat16" else 0.0, parts=BOTH)
    assert compare(specimen_folder(name), dtype, lora) == pytest.approx(1.0, abs=0.2)


@pytest.fixture
def decoder_layer(tiny_base):
    """The first decoder layer of the tiny model: (layer, name, attention pattern)."""
    name, layer = next(iter(transformer_layers(tiny_base.model, tiny_base.family, "language").items()))
    return layer, name, tiny_base.family.attention["language"]


PLAIN = Setting(Numbers(2, 2, 2), frozenset(), 16, False, False, "sdpa", False, 1)


@pytest.mark.parametrize("attention", ["sdpa", "flash_attention_2"])
def test_without_padding_memory_grows_with_the_row_and_not_faster(decoder_layer, attention):
    setting = replace(PLAIN, attention=attention)
    one, two = (layer_memory(*decoder_layer, setting, tokens, 0, trained=False) for tokens in (100, 200))
    assert two.kept == 2 * one.kept
    assert two.entry == 2 * one.entry == 200 * 64 * 2


def test_eager_attention_and_masks_of_padded_rows_grow_with_its_square(decoder_layer):
    for setting in (replace(PLAIN, attention="eager"), replace(PLAIN, padded=True)):
        one, two, four = (layer_memory(*decoder_layer, setting, n, 0, trained=False).kept for n in (100, 200, 400))
        assert four - 2 * two == pytest.approx(4 * (two - 2 * one), abs=0)
        assert two > 2 * one


def test_what_needs_more_is_counted_as_more(decoder_layer):
    layer, name, _ = decoder_layer
    every = frozenset(f"{name}.{n}" for n, m in layer.named_modules() if type(m).__name__ == "Linear")

    def kept(setting, *, trained=False):
        return layer_memory(*decoder_layer, setting, 100, 0, trained=trained).kept

    adapted = replace(PLAIN, adapted=every)
    ladder = [
        kept(PLAIN),
        kept(adapted),
        kept(replace(adapted, dropout=True)),
        kept(replace(adapted, dropout=True, numbers=Numbers(2, 4, 2))),
        kept(replace(adapted, dropout=True, numbers=Numbers(2, 4, 2), dora=True)),
    ]
    assert ladder == sorted(set(ladder))
    assert kept(PLAIN, trained=True) > kept(PLAIN)
    assert layer_memory(*decoder_layer, PLAIN, 100, 0, trained=False).entry < kept(PLAIN)
