"""What every family learns on a tiny checkpoint of its true architecture: the same as ever, question by question."""

import dataclasses

import pytest
import torch
from mini_batches import make_samples, make_variants
from torch.nn import functional as F

from medvl.batching.collator import IGNORED, Collator
from medvl.config.schema import LoraConfig, ModelConfig
from medvl.models.adapter import attach_adapter
from medvl.models.base import load_base
from medvl.models.shared_prefix import shared_logits
from medvl.models.specimens import SPECIMENS, build_specimen
from medvl.training.sft_module import answer_loss

QUICK = ("tiny_mllama", "tiny_qwen25vl", "tiny_gemma3")
"""In the fast tier; the others are in the slow one."""

CURVES = {
    "tiny_mllama": [7.8961, 3.42772, 1.12125, 0.48157, 0.2697, 0.15207, 0.09393, 0.04482, 0.02831, 0.02401],
    "tiny_qwen2_vl": [9.21286, 5.73452, 2.35943, 0.6584, 0.33639, 0.18929, 0.11466, 0.07637, 0.0469, 0.02804],
    "tiny_qwen25vl": [7.5918, 3.88205, 1.73062, 0.71317, 0.25536, 0.09294, 0.04959, 0.03527, 0.02046, 0.01129],
    "tiny_qwen3vl": [7.78568, 4.22073, 2.4142, 1.33999, 0.94559, 0.65039, 0.45016, 0.32114, 0.23491, 0.1743],
    "tiny_gemma3": [14.73624, 12.34885, 9.42083, 6.35803, 3.9393, 2.33234, 1.72285, 1.42079, 1.02511, 0.62827],
    "tiny_llava": [8.31318, 4.70509, 2.14348, 0.93122, 0.41305, 0.16937, 0.08614, 0.06705, 0.05288, 0.03455],
    "tiny_llava_next": [8.3255, 5.21068, 2.68839, 1.33383, 0.70083, 0.43779, 0.29377, 0.15535, 0.06088, 0.02788],
    "tiny_llava_onevision": [9.37988, 4.98734, 1.94359, 0.96825, 0.73751, 0.50169, 0.28673, 0.13902, 0.10096, 0.08613],
    "tiny_internvl": [8.81903, 5.68193, 3.21322, 1.47064, 0.73697, 0.47123, 0.33301, 0.20393, 0.09861, 0.07158],
    "tiny_smolvlm": [7.61475, 3.74293, 2.05347, 1.36152, 0.90049, 0.59734, 0.42598, 0.3101, 0.17432, 0.1007],
}
"""Losses of ten steps on seven questions, as they were when the families were checked against transformers."""


@pytest.fixture(params=[name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in SPECIMENS])
def base(request, tmp_path_factory):
    folder = build_specimen(request.param, tmp_path_factory.mktemp("specimens") / request.param)
    return load_base(ModelConfig(name=request.param, path=str(folder)))


def with_adapter(base):
    return attach_adapter(base, LoraConfig(r=4, dropout=0.0, parts=list(base.family.linear)), seed=0).train()


def collate(base, samples):
    return Collator(base.processor, with_answer=True, companions=base.family.companions)(samples)


def test_ten_steps_lose_what_they_always_did(base):
    model = with_adapter(base)
    batch = collate(base, [*make_samples(), *make_variants(((97, 60),))[:3]])
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-3)
    losses = []
    for _ in range(10):
        loss = answer_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == pytest.approx(CURVES[base.label], rel=1e-3)


def another_question_of_its_length(base, sample):
    words = sample.item.question
    for at in range(len(words) - 2, 0, -1):
        other = dataclasses.replace(sample.item, question=words[:at] + "z" + words[at + 1 :])
        changed = dataclasses.replace(sample, item=other)
        rows = collate(base, [sample, changed]).inputs["attention_mask"].sum(dim=1)
        if rows[0] == rows[1]:
            return changed
    raise AssertionError("no letter can be changed without changing the number of tokens")


def test_what_one_question_says_changes_no_other_of_its_picture(base):
    """To the bit: the questions stand in one row, and the one that changes keeps its length."""
    model = with_adapter(base)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05, generator=torch.Generator().manual_seed(len(name)))
    samples = make_variants(((97, 60),))[::2]
    found = []
    for asked in (samples, [samples[0], another_question_of_its_length(base, samples[1]), *samples[2:]]):
        batch = collate(base, asked)
        predicting = F.pad(batch.labels[:, 1:] != IGNORED, (0, 1))
        logits = shared_logits(model, batch.inputs, predicting, batch.picture_of)
        targets = batch.labels[batch.labels != IGNORED]
        losses = F.cross_entropy(logits, targets, reduction="none")
        found.append([losses[predicting.nonzero()[:, 0] == row] for row in range(4)])
    (before, after) = found
    assert not torch.equal(before[1], after[1])
    for row in (0, 2, 3):
        assert torch.equal(before[row], after[row]), row
