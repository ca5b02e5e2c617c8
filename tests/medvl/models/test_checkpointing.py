import pytest
import torch
from mini_batches import make_samples
from torch.nn import functional as F

from medvl.batching.collator import IGNORED, Collator
from medvl.config.schema import LoraConfig, ModelConfig
from medvl.models.adapter import attach_adapter
from medvl.models.answer_head import logits_at
from medvl.models.base import load_base
from medvl.models.checkpointing import checkpoint_layers
from medvl.models.layers import transformer_layers
from medvl.models.specimens import SPECIMENS, specimen_folder

BOTH = ["language", "vision"]


def step(base, parts, *, lora=None, train_parts=(), checkpointing=()):
    """One backward pass. Returns loss, gradients, and how often the layers of each part were computed."""
    model = attach_adapter(base, lora or LoraConfig(r=4, dropout=0.0, parts=parts), 0, train_parts)
    found = checkpoint_layers(model, base.family, checkpointing)
    model.train()
    torch.manual_seed(0)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.05)  # at zero, A would get no gradient
    calls = dict.fromkeys(BOTH, 0)

    def count(part):
        def hook(*_):
            calls[part] += 1

        return hook

    for part in BOTH:
        for layer in transformer_layers(model.get_base_model(), base.family, part).values():
            layer.mlp.register_forward_pre_hook(count(part))
    batch = Collator(base.processor, with_answer=True, companions=base.family.companions)(make_samples())
    torch.manual_seed(1)
    logits = logits_at(model, batch.inputs, F.pad(batch.labels[:, 1:] != IGNORED, (0, 1)))
    loss = F.cross_entropy(logits, batch.labels[batch.labels != IGNORED])
    loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.requires_grad}
    return loss.item(), gradients, calls, found


def check_same(load, parts, checkpointing, **options):
    plain_loss, plain, plain_calls, _ = step(load(), parts, **options)
    base = load()
    layers = {part: len(transformer_layers(base.model, base.family, part)) for part in BOTH}
    loss, again, calls, found = step(base, parts, checkpointing=checkpointing, **options)
    assert found == {part: layers[part] for part in checkpointing}
    assert loss == pytest.approx(plain_loss, abs=1e-6)
    assert plain.keys() == again.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(again[name], gradient, atol=1e-6, rtol=1e-5)
    assert all(gradient.abs().max() > 0 for name, gradient in again.items() if "lora_B" in name)
    return plain_calls, calls


@pytest.mark.parametrize("checkpointing", [["language"], ["vision"], BOTH], ids="+".join)
def test_loss_and_gradients_stay_and_layers_of_the_parts_are_computed_twice(family_folder, checkpointing):
    load = lambda: load_base(ModelConfig(name="tiny", path=str(family_folder)))  # noqa: E731
    plain, calls = check_same(load, BOTH, checkpointing)
    expected = {part: 2 * plain[part] if part in checkpointing else plain[part] for part in BOTH}
    idle = 1 if load().family.idle is not None and "vision" in checkpointing else 0  # nobody asks for its gradient
    assert calls["language"] == expected["language"]
    assert expected["vision"] - idle <= calls["vision"] <= expected["vision"]


def test_an_adapter_in_the_tower_alone_learns_through_a_checkpointed_decoder(family_folder):
    load = lambda: load_base(ModelConfig(name="tiny", path=str(family_folder)))  # noqa: E731
    check_same(load, ["vision"], BOTH)


def test_dropout_falls_the_same_way_the_second_time(family_folder):
    load = lambda: load_base(ModelConfig(name="tiny", path=str(family_folder)))  # noqa: E731
    check_same(load, BOTH, BOTH, lora=LoraConfig(r=4, dropout=0.5, parts=BOTH))


def test_a_tower_that_is_trained_in_full_can_be_checkpointed(family_folder):
    load = lambda: load_base(ModelConfig(name="tiny", path=str(family_folder)))  # noqa: E731
    lora = LoraConfig(r=4, dropout=0.0, parts=["language"])
    plain, calls = check_same(load, ["language"], ["vision"], lora=lora, train_parts=["vision"])
    assert calls["vision"] > 1.4 * plain["vision"]


def test_nothing_is_computed_twice_in_evaluation(fresh_base):
    checkpoint_layers(fresh_base.model, fresh_base.family, BOTH)
    batch = Collator(fresh_base.processor, with_answer=False)(make_samples())
    calls = []
    for layer in transformer_layers(fresh_base.model, fresh_base.family, "language").values():
        layer.register_forward_pre_hook(lambda *_: calls.append(1))
    fresh_base.model.eval()
    logits_at(fresh_base.model, batch.inputs, batch.inputs["attention_mask"].bool())
    assert len(calls) == fresh_base.model.config.text_config.num_hidden_layers


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECIMENS)
def test_every_family_can_be_checkpointed(name):
    load = lambda: load_base(ModelConfig(name=name, path=str(specimen_folder(name))))  # noqa: E731
    plain, calls = check_same(load, BOTH, BOTH)
    assert calls["language"] == 2 * plain["language"]
    assert calls["vision"] > 1.4 * plain["vision"]
