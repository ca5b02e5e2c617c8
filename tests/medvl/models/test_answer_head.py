import copy

import pytest
import torch
from mini_batches import make_samples
from towers import pixels_encoded

from medvl.batching.collator import IGNORED, Batch, Collator
from medvl.batching.dataset import Sample
from medvl.models import answer_head
from medvl.models.answer_head import logits_at
from medvl.models.pictures import row_inputs

TOLERANCE = 1e-4


def answers(base, samples, **options) -> torch.Tensor:
    """[B, V] at the answer position."""
    batch = Collator(base.processor, with_answer=False)(samples)
    with torch.inference_mode():
        return logits_at(base.model, batch.inputs, at_answer(batch), **options)


def at_answer(batch: Batch) -> torch.Tensor:
    positions = torch.zeros_like(batch.inputs["input_ids"], dtype=torch.bool)
    positions[torch.arange(len(batch.items)), batch.answer_position] = True
    return positions


@torch.inference_mode()
def test_they_equal_the_models_own_logits_at_those_positions(family_base):
    batch = Collator(family_base.processor, with_answer=True)(make_samples())
    positions = batch.inputs["attention_mask"].bool() & (torch.rand(batch.labels.shape) < 0.2)
    full = family_base.model(**batch.inputs).logits
    found = logits_at(family_base.model, batch.inputs, positions)
    assert found.dtype == torch.float32
    assert torch.allclose(found, full[positions], atol=1e-6)
    assert full[positions].std() > 0.01


@torch.inference_mode()
def test_the_answer_position_predicts_the_letter(family_base):
    batch = Collator(family_base.processor, with_answer=True)(make_samples())
    full = family_base.model(**batch.inputs).logits
    before_letter = (batch.labels != IGNORED).int().argmax(dim=1) - 1
    expected = full[torch.arange(len(batch.items)), before_letter]
    assert torch.allclose(logits_at(family_base.model, batch.inputs, at_answer(batch)), expected, atol=1e-6)
    letters = batch.labels[torch.arange(len(batch.items)), before_letter + 1]
    ids = Collator(family_base.processor, with_answer=True).tokens.letter_ids
    assert letters.tolist() == [ids[item.answer_letter] for item in batch.items]


def test_a_question_has_the_same_logits_with_and_without_its_answer_behind(family_base):
    batch = Collator(family_base.processor, with_answer=True)(make_samples())
    with torch.inference_mode():
        behind = logits_at(family_base.model, batch.inputs, at_answer(batch))
    assert torch.allclose(answers(family_base, make_samples()), behind, atol=TOLERANCE)


def test_the_batch_size_changes_nothing(family_base):
    samples = make_samples()
    alone = torch.cat([answers(family_base, [sample]) for sample in samples])
    assert (alone[0] - alone[1]).abs().max() > 100 * TOLERANCE  # otherwise rows could be swapped unseen
    assert torch.allclose(answers(family_base, samples), alone, atol=TOLERANCE)
    assert torch.allclose(answers(family_base, samples[::-1]), alone.flip(0), atol=TOLERANCE)


@torch.inference_mode()
def test_the_padding_side_changes_nothing(family_base):
    samples = make_samples()
    collator = Collator(family_base.processor, with_answer=False)
    encoded = family_base.processor(
        text=[collator_text(collator, sample) for sample in samples],
        images=[[picture(sample)] for sample in samples],
        padding=True,
        padding_side="left",
        add_special_tokens=collator.tokens.adds_special_tokens,
        return_tensors="pt",
    )
    mask = encoded["attention_mask"]
    assert mask[:, -1].all()
    assert not mask[:, 0].all()
    position_ids = (mask.cumsum(dim=1) - 1).clamp(min=0)
    left = family_base.model(**encoded, position_ids=position_ids).logits[:, -1]
    assert torch.allclose(answers(family_base, samples), left, atol=TOLERANCE)


def collator_text(collator: Collator, sample: Sample) -> str:
    from medvl.batching.prompt import question_text, render

    return render(collator._processor, question_text(sample.item))


def picture(sample: Sample):
    from PIL import Image

    return Image.fromarray(sample.pixels)


def test_another_picture_gives_other_logits(family_base):
    samples = make_samples()
    changed = [Sample(s.item, 255 - s.pixels) for s in samples]
    difference = (answers(family_base, samples) - answers(family_base, changed)).abs().amax(dim=1)
    assert (difference > TOLERANCE).all()


def test_each_row_sees_its_own_picture(family_base):
    samples = make_samples()
    changed = [Sample(samples[0].item, 255 - samples[0].pixels), *samples[1:]]
    difference = (answers(family_base, samples) - answers(family_base, changed)).abs().amax(dim=1)
    assert difference[0] > TOLERANCE
    assert (difference[1:] < TOLERANCE / 10).all()


def test_encoding_a_shared_picture_once_changes_nothing(family_base):
    one, other = make_samples(((80, 60), (50, 90)))
    batch = Collator(family_base.processor, with_answer=False)([one, other, one, other])
    inputs = row_inputs(family_base.model, batch.inputs, batch.picture_of)
    with torch.inference_mode(), pixels_encoded(family_base.model) as each:
        plain = logits_at(family_base.model, inputs, at_answer(batch))
    with torch.inference_mode(), pixels_encoded(family_base.model) as once:
        shared = logits_at(family_base.model, batch.inputs, at_answer(batch), picture_of=batch.picture_of)
    assert torch.allclose(shared, plain, atol=TOLERANCE)
    assert sum(once) == sum(each) / 2


def test_a_shared_picture_gives_the_same_gradients(fresh_base):
    from medvl.config.schema import LoraConfig
    from medvl.models.adapter import attach_adapter

    model = attach_adapter(fresh_base, LoraConfig(r=2, dropout=0.0, parts=["language", "vision", "projector"]), 0)
    (one,) = make_samples(((80, 60),))
    batch = Collator(fresh_base.processor, with_answer=False)([one, one])
    gradients = []
    for inputs, pictures in (
        (row_inputs(model, batch.inputs, batch.picture_of), None),
        (batch.inputs, batch.picture_of),
    ):
        model.zero_grad()
        logits_at(model, inputs, at_answer(batch), picture_of=pictures).square().mean().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert gradients[0].norm() > 0
    assert torch.allclose(gradients[0], gradients[1], atol=1e-6, rtol=1e-3)


def test_half_precision_does_not_make_options_tie(family_base):
    half = copy.deepcopy(family_base)
    half.model.to(torch.bfloat16)
    with torch.no_grad():
        half.model.lm_head.weight.mul_(40)  # logits of the size that real models have
    found = answers(half, make_samples())
    assert found.dtype == torch.float32
    assert found.abs().max() > 4
    rounded = found.to(torch.bfloat16).float()
    assert (found != rounded).float().mean() > 0.9


def test_parts_of_the_vocabulary_add_up_to_the_whole(family_base, monkeypatch):
    half = copy.deepcopy(family_base)
    half.model.to(torch.bfloat16)
    whole = answers(half, make_samples())
    monkeypatch.setattr(answer_head, "ROWS_AT_ONCE", 100)
    assert torch.allclose(answers(half, make_samples()), whole, atol=1e-6)


@pytest.mark.parametrize("autocast", [False, True])
def test_validation_inside_a_mixed_precision_run_reads_float32_logits(family_base, autocast):
    batch = Collator(family_base.processor, with_answer=False)(make_samples())
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        found = logits_at(family_base.model, batch.inputs, at_answer(batch))
    assert (found != found.to(torch.bfloat16).float()).float().mean() > 0.9


def test_the_output_layer_sees_the_chosen_positions_only(family_base):
    batch = Collator(family_base.processor, with_answer=False)(make_samples())
    seen = []
    hook = family_base.model.lm_head.register_forward_hook(lambda module, inputs, output: seen.append(output.shape[0]))
    try:
        with torch.inference_mode():
            logits_at(family_base.model, batch.inputs, at_answer(batch))
        with torch.enable_grad():
            logits_at(family_base.model, batch.inputs, at_answer(batch))
    finally:
        hook.remove()
    assert seen == [4, 4]
