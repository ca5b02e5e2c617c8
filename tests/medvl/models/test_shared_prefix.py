import copy
import dataclasses

import pytest
import torch
from mini_batches import make_samples, make_variants
from torch.nn import functional as F
from towers import pixels_encoded

from medvl.batching.collator import IGNORED, Collator
from medvl.config.schema import LoraConfig
from medvl.models.adapter import attach_adapter
from medvl.models.shared_prefix import answer_logits, can_branch, shared_logits

TOLERANCE = 1e-4


def collated(base, samples, side="right"):
    return Collator(base.processor, with_answer=False, padding_side=side)(samples)


@torch.inference_mode()
def logits(base, batch, *, shared=True, model=None):
    return answer_logits(
        base.model if model is None else model,
        batch.inputs,
        batch.answer_position,
        batch.picture_of,
        shared_prefix=shared,
    )


def tokens_decoded(base, batch, **options):
    """Tokens that go through the decoder's layers, what fills rows up included."""
    seen = []
    decoder = base.model.model.language_model
    hook = decoder.layers[0].register_forward_pre_hook(
        lambda module, args, options: seen.append((args[0] if args else options["hidden_states"]).shape[:2].numel()),
        with_kwargs=True,
    )
    try:
        logits(base, batch, **options)
    finally:
        hook.remove()
    return sum(seen)


def test_sharing_changes_nothing_but_the_work(family_base):
    batch = collated(family_base, make_variants())
    assert torch.allclose(logits(family_base, batch), logits(family_base, batch, shared=False), atol=TOLERANCE)
    assert tokens_decoded(family_base, batch) < 0.75 * tokens_decoded(family_base, batch, shared=False)


def test_the_order_of_the_rows_changes_nothing(family_base):
    samples = make_variants()
    straight = logits(family_base, collated(family_base, samples))
    turned = logits(family_base, collated(family_base, samples[::-1]))
    assert (straight[0] - straight[1]).abs().max() > 100 * TOLERANCE  # otherwise rows could be swapped unseen
    assert torch.allclose(straight, turned.flip(0), atol=TOLERANCE)


def test_questions_that_share_nothing_are_rows_as_ever(family_base):
    batch = collated(family_base, make_samples())
    assert tokens_decoded(family_base, batch) == batch.inputs["input_ids"].numel()
    assert torch.equal(logits(family_base, batch), logits(family_base, batch, shared=False))


def test_a_question_alone_beside_shared_ones_is_not_filled_up_to_them(family_base):
    samples = make_variants()
    batch = collated(family_base, [*samples[:8], make_samples(((50, 40),), seed=5)[0]])
    assert torch.allclose(logits(family_base, batch), logits(family_base, batch, shared=False), atol=TOLERANCE)
    alone = collated(family_base, samples[:8])
    assert tokens_decoded(family_base, batch) < tokens_decoded(family_base, alone) * 1.5


def test_each_picture_is_encoded_once_also_where_its_questions_need_several_rows(family_base, monkeypatch):
    from medvl.models import shared_prefix

    def divided(rows, width):
        numbers = list(rows)
        return [numbers[:3], numbers[3:4], numbers[4:]]

    monkeypatch.setattr(shared_prefix, "worth_sharing", divided)
    batch = collated(family_base, make_variants())
    with pixels_encoded(family_base.model) as seen:
        torn = logits(family_base, batch)
    assert sum(seen) == batch.inputs["pixel_values"].numel()
    assert torch.allclose(torn, logits(family_base, batch, shared=False), atol=TOLERANCE)


def test_eager_attention_gives_the_same(family_base):
    eager = copy.deepcopy(family_base.model)
    eager.set_attn_implementation("eager")
    batch = collated(family_base, make_variants())
    expected = logits(family_base, batch, shared=False)
    assert torch.allclose(logits(family_base, batch, model=eager), expected, atol=TOLERANCE)


def test_another_attention_is_lent_one_that_takes_masks_and_is_given_back(family_base):
    other = copy.deepcopy(family_base.model)
    text = other.config.get_text_config()
    text._attn_implementation_internal = "flex_attention"
    batch = collated(family_base, make_variants())
    expected = logits(family_base, batch, shared=False)
    assert torch.allclose(logits(family_base, batch, model=other), expected, atol=TOLERANCE)
    assert text._attn_implementation == "flex_attention"


def test_half_precision_shares_within_its_rounding(family_base):
    half = copy.deepcopy(family_base.model).to(torch.bfloat16)
    batch = collated(family_base, make_variants())
    shared, plain = (torch.log_softmax(logits(family_base, batch, shared=s, model=half), -1) for s in (True, False))
    assert shared.dtype == torch.float32
    assert (shared - plain).abs().max() < 0.2


def test_an_adapter_is_part_of_it(fresh_base):
    batch = collated(fresh_base, make_variants())
    before = logits(fresh_base, batch)
    model = attach_adapter(fresh_base, LoraConfig(r=2, parts=["language", "vision", "projector"]), 0).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.1)
    shared, plain = (logits(fresh_base, batch, shared=s, model=model) for s in (True, False))
    assert torch.allclose(shared, plain, atol=TOLERANCE)
    assert (shared - before).abs().max() > 100 * TOLERANCE


def test_it_holds_for_gradients(fresh_base):
    model = attach_adapter(fresh_base, LoraConfig(r=2, dropout=0.0, parts=["language", "vision", "projector"]), 0)
    batch = collated(fresh_base, make_variants())
    gradients = []
    for shared in (True, False):
        model.zero_grad()
        found = answer_logits(model, batch.inputs, batch.answer_position, batch.picture_of, shared_prefix=shared)
        found.square().mean().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert gradients[0].norm() > 0
    assert torch.allclose(gradients[0], gradients[1], atol=1e-6, rtol=1e-3)


def test_a_family_that_does_not_claim_it_and_an_unknown_decoder_go_the_plain_way(family_base):
    family = family_base.family
    assert can_branch(family_base.model, family)
    abilities = dataclasses.replace(family.abilities, branched_rows=False)
    assert not can_branch(family_base.model, dataclasses.replace(family, abilities=abilities))
    other = copy.deepcopy(family_base.model)
    other.config.get_text_config().model_type = "phi"
    assert not can_branch(other, family)


@pytest.mark.parametrize("side", ["right", "left"])
def test_questions_without_pictures_share_their_stems(family_base, side):
    blind = [dataclasses.replace(sample, pixels=None) for sample in make_variants()]
    batch = collated(family_base, blind, side)
    assert torch.allclose(logits(family_base, batch), logits(family_base, batch, shared=False), atol=TOLERANCE)


def learnt(model, base, samples, shared, side="right"):
    """Loss of each row's answer, and the gradients of all that learns."""
    batch = Collator(base.processor, with_answer=True, padding_side=side)(samples)
    predicting = F.pad(batch.labels[:, 1:] != IGNORED, (0, 1))
    model.zero_grad()
    logits = shared_logits(model, batch.inputs, predicting, batch.picture_of, shared_prefix=shared)
    losses = F.cross_entropy(logits, batch.labels[batch.labels != IGNORED], reduction="none")
    losses.mean().backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return losses.detach().view(len(samples), -1).sum(dim=1), gradients


@pytest.fixture
def learning(fresh_base):
    """A model with an adapter on every part, moved from its start, without dropout."""
    config = LoraConfig(r=2, dropout=0.0, parts=["language", "vision", "projector"])
    model = attach_adapter(fresh_base, config, 0).train()
    draw = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data.add_(torch.randn(parameter.shape, generator=draw), alpha=0.05)
    return model


@pytest.mark.parametrize("side", ["left", "right"])
def test_what_is_learnt_is_the_same(learning, fresh_base, side):
    (losses, gradients), (plain_losses, plain) = (
        learnt(learning, fresh_base, make_variants(), shared, side) for shared in (True, False)
    )
    assert torch.allclose(losses, plain_losses, rtol=1e-4)
    assert set(gradients) == set(plain)
    for name, gradient in plain.items():
        assert (gradients[name] - gradient).norm() <= 1e-4 * gradient.norm() + 1e-9, name


def test_a_branch_sees_nothing_of_its_sisters(learning, fresh_base):
    samples = make_variants()
    changed = [
        dataclasses.replace(s, item=dataclasses.replace(s.item, question=s.item.question[::-1])) if n == 2 else s
        for n, s in enumerate(samples)
    ]
    before, _ = learnt(learning, fresh_base, samples, True)
    after, _ = learnt(learning, fresh_base, changed, True)
    others = [n for n in range(len(samples)) if n != 2]
    assert before[2] != after[2]
    assert torch.allclose(before[others], after[others], rtol=1e-6)


def test_rows_without_anything_to_learn_are_left_out(fresh_base):
    samples = make_variants()
    batch = Collator(fresh_base.processor, with_answer=True)(samples)
    positions = F.pad(batch.labels[:, 1:] != IGNORED, (0, 1))
    positions[1] = False
    with torch.inference_mode():
        found, plain = (
            shared_logits(fresh_base.model, batch.inputs, positions, batch.picture_of, shared_prefix=shared)
            for shared in (True, False)
        )
    assert torch.allclose(found, plain, atol=TOLERANCE)
