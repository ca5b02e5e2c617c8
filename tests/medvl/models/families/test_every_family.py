"""Every family on a tiny checkpoint of its true architecture: prompt, token count, collation, training, saving."""

import dataclasses
import re
import subprocess
import sys
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from mini_batches import make_samples, make_variants
from PIL import Image
from torch.nn import functional as F
from towers import pixels_encoded

from medvl.answering.letters import score_batch
from medvl.batching.collator import IGNORED, Collator
from medvl.batching.dataset import Sample
from medvl.batching.prompt import answer_tokens, conversation, question_text, render
from medvl.batching.question_batches import row_lengths
from medvl.config.schema import LoraConfig, ModelConfig
from medvl.errors import ModelError
from medvl.evaluation.near_ties import NEAR_TIE
from medvl.models.adapter import attach_adapter, b_norms, matched_layers
from medvl.models.adapter_files import save_adapter
from medvl.models.answer_head import logits_at
from medvl.models.base import load_base
from medvl.models.checkpointing import checkpoint_layers
from medvl.models.families import FAMILIES
from medvl.models.parts import part_of, part_sizes, whole_modules
from medvl.models.pictures import row_inputs
from medvl.models.shared_prefix import shared_logits
from medvl.models.specimens import SPECIMENS, build_specimen

SIZES = [(40, 30), (300, 60), (60, 180), (448, 448), (97, 411)]


QUICK = ("tiny_mllama", "tiny_qwen25vl", "tiny_gemma3")
"""In the fast tier: cross-attention, free resolution, masks per layer type. The others are in the slow one."""


@pytest.fixture(
    scope="module",
    params=[name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in SPECIMENS],
)
def folder(request, tmp_path_factory):
    return build_specimen(request.param, tmp_path_factory.mktemp("specimens") / request.param)


@pytest.fixture(scope="module")
def base(folder):
    """Shared: leave it as it is."""
    return load_base(ModelConfig(name=folder.name, path=str(folder)))


@pytest.fixture
def fresh(folder):
    return load_base(ModelConfig(name=folder.name, path=str(folder)))


def collate(base, samples, *, with_answer=False, side="right"):
    companions = base.family.companions
    return Collator(base.processor, with_answer=with_answer, companions=companions, padding_side=side)(samples)


def asked(base, samples, *, side="right", size=16, shared=True, model=None):
    """Predictions, `size` questions at a time."""
    ids = answer_tokens(base.processor).letter_ids
    batches = [collate(base, samples[k : k + size], side=side) for k in range(0, len(samples), size)]
    model = base.model if model is None else model
    return [answer for batch in batches for answer in score_batch(model, batch, ids, shared_prefix=shared)]


def scores(base, samples, side="right"):
    return torch.tensor([answer.option_logprobs for answer in asked(base, samples, side=side)])


def same_answers(found, expected):
    """Log-probabilities within 1e-4, and the same letters where no two are as good as equal."""
    for one, other in zip(found, expected, strict=True):
        assert one.item_id == other.item_id
        assert one.option_logprobs == pytest.approx(other.option_logprobs, abs=1e-4)
        best = sorted(other.option_logprobs)[-2:]
        assert one.answer == other.answer or best[1] - best[0] < NEAR_TIE


def loss_of(model, batch):
    supervised = batch.labels[:, 1:] != IGNORED
    logits = logits_at(model, batch.inputs, F.pad(supervised, (0, 1)), picture_of=batch.picture_of)
    return F.cross_entropy(logits, batch.labels[:, 1:][supervised])


def test_all_families_have_a_specimen_and_the_reverse(folder, base):
    assert base.family is FAMILIES[base.model.config.model_type]
    assert len(SPECIMENS) == len(FAMILIES)


def test_every_parameter_belongs_to_one_part(base):
    for name, _ in base.model.named_parameters():
        owners = [part for part, root in base.family.roots.items() if re.match(root, name)]
        assert len(owners) == 1, (name, owners)
    sizes = part_sizes(base.model, base.family)
    assert set(sizes) == {"language", "vision", "projector"}
    assert min(sizes.values()) > 0
    assert sum(sizes.values()) == sum(p.numel() for p in base.model.parameters())


def test_patterns_match_the_linear_layers_of_their_part_and_no_other(base):
    """Beside heads and patch filters, all linear layers of a part are named; layers that nothing uses are left out."""
    parts = list(base.family.linear)
    wanted = matched_layers(base.model, base.family, LoraConfig(parts=parts))
    linear = {n for n, m in base.model.named_modules() if isinstance(m, torch.nn.Linear) and n != "lm_head"}
    for part, names in wanted.items():
        assert {part_of(name, base.family) for name in names} == {part}
        rest = {name for name in linear if part_of(name, base.family) == part} - set(names)
        idle = base.family.idle(base.model.config) if base.family.idle else "$"
        assert all(re.match(idle, name) for name in rest), rest
    for part in base.family.attention:
        attention = matched_layers(base.model, base.family, LoraConfig(parts=[part], layers="attention"))[part]
        assert set(attention) < set(wanted[part])


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_tokens_of_a_row_are_known_without_reading_its_picture(base, width, height):
    (sample,) = make_samples(((width, height),))
    batch = collate(base, [sample])
    text = render(base.processor, question_text(sample.item))
    adds = answer_tokens(base.processor).adds_special_tokens
    counted = base.family.row_tokens(base.processor, text, height, width, adds_special_tokens=adds)
    assert counted == batch.inputs["input_ids"].shape[1]


def test_pictures_prepared_once_are_those_prepared_for_each_question(base):
    """Two questions a picture, the pictures of several sizes and in turn."""
    samples = [*make_samples(), *make_samples()[::-1]]
    twins = [
        dataclasses.replace(sample, item=dataclasses.replace(sample.item, sha256_pixels=str(number)))
        for number, sample in enumerate(samples)
    ]
    once, each = collate(base, samples), collate(base, twins)
    assert once.picture_of == [0, 1, 2, 3, 3, 2, 1, 0]
    assert each.picture_of == list(range(8))
    assert len(once.inputs["pixel_values"]) < len(each.inputs["pixel_values"])
    repeated = row_inputs(base.model, once.inputs, once.picture_of)
    assert repeated.keys() == each.inputs.keys()
    for name, value in each.inputs.items():
        assert torch.equal(repeated[name], value), name


def test_a_row_is_what_the_chat_template_of_the_processor_makes(base):
    for sample in make_samples():
        messages = conversation(question_text(sample.item))
        messages[0]["content"][0]["image"] = Image.fromarray(sample.pixels)
        expected = base.processor.apply_chat_template(
            messages, tokenize=True, add_generation_prompt=True, return_dict=True, return_tensors="pt"
        )
        inputs = collate(base, [sample]).inputs
        assert torch.equal(inputs["input_ids"], expected["input_ids"])
        begin = base.processor.tokenizer.bos_token_id
        if begin is not None:
            assert (inputs["input_ids"] == begin).sum() <= 1
        for name in base.family.companions.always + base.family.companions.with_pictures:
            assert torch.equal(inputs[name], expected[name]), name


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_supervised_tokens_are_the_letter_and_the_end_of_the_turn(base, side):
    samples = make_samples()
    batch = collate(base, samples, with_answer=True, side=side)
    tokenizer = base.processor.tokenizer
    for row, sample in enumerate(samples):
        ids = batch.labels[row][batch.labels[row] != IGNORED]
        assert len(ids) == 2
        assert tokenizer.decode(ids[:1]).strip() == sample.item.answer_letter
        full = render(base.processor, question_text(sample.item), sample.item.answer_letter)
        end = tokenizer.decode(ids[1:])
        assert full.rstrip().endswith(end) or end == tokenizer.eos_token
        assert batch.inputs["attention_mask"][row][batch.labels[row] != IGNORED].all()


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_batch_of_mixed_sizes_gives_the_answers_of_single_questions(base, side):
    samples = make_samples()
    together = scores(base, samples, side)
    alone = torch.cat([scores(base, [sample]) for sample in samples])
    assert torch.allclose(together, alone, atol=1e-4)


@pytest.fixture(scope="module")
def alone(base):
    """Questions of which some share a picture, and the answer to each alone."""
    samples = [*make_variants(((97, 60), (300, 60))), make_samples()[2]]
    plain = asked(base, samples, size=1, shared=False)
    assert len({answer.option_logprobs for answer in plain}) == len(samples)
    return samples, plain


@pytest.mark.parametrize(
    ("side", "size", "shared"), [*product(("right", "left"), (16,), (True, False)), ("left", 1, True)]
)
def test_questions_that_share_a_picture_are_answered_as_each_is_alone(base, alone, side, size, shared):
    samples, plain = alone
    same_answers(asked(base, samples, side=side, size=size, shared=shared), plain)


@pytest.mark.parametrize("shared", [True, False])
def test_a_picture_goes_through_the_tower_once_a_batch(base, shared):
    samples = make_variants(((97, 60), (300, 60)))
    with pixels_encoded(base.model) as once:
        asked(base, samples, shared=shared)
    with pixels_encoded(base.model) as each:
        asked(base, samples[:2], shared=False)
    assert sum(once) == sum(each)


@pytest.mark.parametrize("checkpointed", [False, True])
def test_training_on_a_shared_picture_gives_the_same_loss_and_gradients(fresh, checkpointed):
    model = attach_adapter(fresh, LoraConfig(r=2, dropout=0.0, parts=list(fresh.family.linear)), seed=0).train()
    draw = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data.add_(torch.randn(parameter.shape, generator=draw), alpha=0.05)
    if checkpointed:
        checkpoint_layers(model, fresh.family, ["language", "vision"])
    batch = collate(fresh, make_variants(((97, 60), (300, 60)))[:6], with_answer=True)
    predicting = F.pad(batch.labels[:, 1:] != IGNORED, (0, 1))

    def learnt(inputs, picture_of, shared_prefix):
        model.zero_grad()
        logits = shared_logits(model, inputs, predicting, picture_of, shared_prefix=shared_prefix)
        loss = F.cross_entropy(logits, batch.labels[batch.labels != IGNORED])
        loss.backward()
        return float(loss.detach()), {
            name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None
        }

    loss, plain = learnt(row_inputs(model, batch.inputs, batch.picture_of), list(range(6)), False)
    assert {part_of(name, fresh.family) for name in plain} == set(fresh.family.linear)
    for shared_prefix in (False, True):
        found, gradients = learnt(batch.inputs, batch.picture_of, shared_prefix)
        assert found == pytest.approx(loss, rel=1e-4)
        assert set(gradients) == set(plain)
        for name, gradient in plain.items():
            assert (gradients[name] - gradient).norm() <= 1e-4 * gradient.norm() + 1e-9, name


def test_an_adapter_on_every_part_shares_too(fresh):
    samples = make_variants(((97, 60),))
    before = asked(fresh, samples)
    model = attach_adapter(fresh, LoraConfig(r=2, parts=list(fresh.family.linear)), seed=0).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05)
    plain = asked(fresh, samples, size=1, shared=False, model=model)
    same_answers(asked(fresh, samples, model=model), plain)
    change = torch.tensor([a.option_logprobs[0] - b.option_logprobs[0] for a, b in zip(before, plain, strict=True)])
    assert change.abs().max() > 1e-2


def test_parts_that_are_trained_in_full_share_too(fresh):
    samples = make_variants(((97, 60),))
    parts = ["vision", "projector"]
    model = attach_adapter(fresh, LoraConfig(r=2, parts=["language"]), seed=0, train_parts=parts).eval()
    before = asked(fresh, samples, model=model)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter), alpha=0.02)
    plain = asked(fresh, samples, size=1, shared=False, model=model)
    same_answers(asked(fresh, samples, model=model), plain)
    change = torch.tensor([a.option_logprobs[0] - b.option_logprobs[0] for a, b in zip(before, plain, strict=True)])
    assert change.abs().max() > 1e-2


@pytest.mark.parametrize("shared", [True, False])
def test_pictures_that_differ_in_one_block_are_never_taken_for_each_other(base, shared):
    (sample,) = make_samples(((112, 112),))
    pixels = sample.pixels.copy()
    pixels[28:56, 28:56] = 255 - pixels[28:56, 28:56]
    twin = dataclasses.replace(sample.item, item_id="twin", sha256_pixels="f" * 64)
    pair = [sample, Sample(twin, pixels)]
    # Each twice, so that there is something to share.
    one, other, again, other_again = asked(base, [*pair, *pair], shared=shared)
    same_answers([one, other], asked(base, pair, size=1, shared=False))
    assert (one.option_logprobs, other.option_logprobs) == (again.option_logprobs, other_again.option_logprobs)
    assert max(abs(a - b) for a, b in zip(one.option_logprobs, other.option_logprobs, strict=True)) > 1e-3


def test_the_lengths_of_rows_are_known_before_they_are_made(base):
    samples = make_variants(((97, 60), (300, 60)))
    items = [sample.item for sample in samples]
    tokens = partial(base.family.picture_tokens, base.processor)
    for shown, pictures in ((items, samples), (None, [Sample(item, None) for item in items])):
        lengths = row_lengths(base.processor, items, shown, tokens)
        assert lengths == collate(base, pictures).inputs["attention_mask"].sum(dim=1).tolist()


def test_the_picture_matters(base):
    sample = make_samples()[3]
    other = Sample(sample.item, np.ascontiguousarray(255 - sample.pixels))
    assert (scores(base, [sample]) - scores(base, [other])).abs().max() > 1e-4


def test_a_batch_without_a_needed_input_is_refused(base):
    batch = collate(base, make_samples())
    for name in ("pixel_values", *base.family.companions.always, *base.family.companions.with_pictures):
        rest = {key: value for key, value in batch.inputs.items() if key != name}
        with pytest.raises(ModelError, match=name):
            base.family.companions.check(rest, pictures=True)


def test_questions_without_pictures_are_answered(base):
    assert base.family.abilities.text_only
    samples = [Sample(sample.item, None) for sample in make_samples()]
    assert torch.isfinite(scores(base, samples)).all()


def test_training_a_part_in_full_leaves_out_only_loose_parameters_and_tied_ends(base):
    ends = [base.model.get_input_embeddings(), base.model.get_output_embeddings()]
    tied = {id(end.weight) for end in ends} if ends[0].weight is ends[1].weight else set()
    for part in base.family.roots:
        names = whole_modules(base.model, base.family, [part])
        held = {f"{name}.{inner}" for name in names for inner, _ in base.model.get_submodule(name).named_parameters()}
        own = {name: p for name, p in base.model.named_parameters() if part_of(name, base.family) == part}
        assert held <= set(own)
        for name in set(own) - held:
            is_loose = any(base.model.get_submodule(name.rpartition(".")[0]).children())
            assert is_loose or id(own[name]) in tied, name


@pytest.mark.slow
def test_twenty_steps_lower_the_loss_and_the_adapter_gives_the_same_answers_elsewhere(fresh, folder, tmp_path):
    model = attach_adapter(fresh, LoraConfig(r=8, alpha=16, dropout=0.0, parts=list(fresh.family.linear)), seed=0)
    batch = collate(fresh, make_samples(), with_answer=True)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    model.train()
    losses = []
    for _ in range(20):
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    model.eval()
    assert all(part["zero"] == 0 for part in b_norms(model, fresh).values())

    questions = collate(fresh, make_samples())
    rows = F.one_hot(questions.answer_position, questions.inputs["input_ids"].shape[1]).bool()
    with torch.inference_mode():
        expected = logits_at(model, questions.inputs, rows)
    save_adapter(model, tmp_path / "adapter", {"base": fresh.label, "fingerprints": {}, "config": {}})
    torch.save({"inputs": questions.inputs, "rows": rows, "expected": expected}, tmp_path / "case.pt")
    merged = model.merge_and_unload()
    with torch.inference_mode():
        assert torch.allclose(logits_at(merged, questions.inputs, rows), expected, atol=1e-4)
    found = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(folder), str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert found.returncode == 0, found.stderr[-2000:]
    assert float(found.stdout.split()[-1]) < 1e-5


ELSEWHERE = """
import sys
import torch
from peft import PeftModel
from transformers import AutoModelForImageTextToText
folder, work = sys.argv[1:]
case = torch.load(work + "/case.pt", weights_only=True)
model = PeftModel.from_pretrained(AutoModelForImageTextToText.from_pretrained(folder), work + "/adapter").eval()
with torch.inference_mode():
    logits = model(**case["inputs"], use_cache=False).logits[case["rows"]]
print((logits - case["expected"]).abs().max().item())
"""
