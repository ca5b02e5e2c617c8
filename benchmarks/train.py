"""What a training step costs: branched rows against a row a question, and against a model's own loss.

`python benchmarks/train.py` from the project's folder. Needs no GPU, no download and no data; see `drawn_models.py` for
the models. A step is forward, backward and AdamW on LoRA r16 of the language part, batches ready. Each repeat runs all
ways in turn on one thread; medians of CPU time are printed. Losses and gradients are compared before anything is timed.

"plain" is what a trainer does that knows nothing of questions: every row and every picture for itself, the model's own
loss over the logits of all positions.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from drawn_models import FAMILIES, built, describe, interleaved, samples_of
from torch import Tensor

from medvl.batching.collator import Batch, Collator
from medvl.config.schema import LoraConfig
from medvl.models.adapter import attach_adapter
from medvl.models.base import Base
from medvl.models.pictures import row_inputs
from medvl.training.sft_module import answer_loss

QUESTIONS = 16
"""In a batch, on 4, 8 or 16 pictures."""
FEWER = {"Llama 3.2 Vision": 8}
"""Its tower takes seconds."""


def plain_loss(model: Any, batch: Batch) -> Tensor:
    """The model's own loss."""
    inputs = row_inputs(model, batch.inputs, batch.picture_of)
    loss: Tensor = model(**inputs, labels=batch.labels, use_cache=False).loss
    return loss


def gradients(model: Any, loss: Tensor) -> dict[str, Tensor]:
    """Gradients of everything that learns."""
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def check_same(model: Any, batch: Batch) -> None:
    """Refuse to time ways of training that learn different things."""
    plain = plain_loss(model, batch)
    shared = answer_loss(model, batch)
    off = abs(float(plain.detach() - shared.detach())) / float(plain.detach())
    one, other = gradients(model, plain), gradients(model, shared)
    furthest = max(float((other[name] - g).norm() / g.norm()) for name, g in one.items() if g.norm() > 0)
    assert off <= 1e-4, off
    assert furthest <= 1e-3, furthest
    print(f"  loss differs by {off:.1e}, gradients by at most {furthest:.1e} (relative)")


def measured(name: str, base: Base, questions: int, repeats: int) -> float:
    """Times of one model at so many questions a picture; how much faster branched rows are than plain ones."""
    samples = samples_of(FEWER.get(name, QUESTIONS) // questions, questions)
    batch = Collator(base.processor, with_answer=True, companions=base.family.companions)(samples)
    model = attach_adapter(base, LoraConfig(r=16, dropout=0.0), seed=0).train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    describe(f"{name}, {questions} questions a picture", base, batch)
    check_same(model, batch)

    def step(loss: Callable[[], Tensor]) -> Callable[[], None]:
        def take() -> None:
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()

        return take

    found = interleaved(
        {
            "branched rows": step(lambda: answer_loss(model, batch)),
            "a row a question, pictures encoded once": step(lambda: answer_loss(model, batch, shared_prefix=False)),
            "plain": step(lambda: plain_loss(model, batch)),
        },
        repeats,
    )
    for way, seconds in found.items():
        ratio = found["plain"] / seconds
        print(f"  {way:40} {seconds * 1e3:8.0f} ms, {len(samples) / seconds:7.1f} items/s, {ratio:.2f} times plain")
    return found["plain"] / found["branched rows"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}, "
        f"one thread, float32, LoRA r16, medians of {arguments.repeats} interleaved repeats"
    )
    rows = [("Qwen2.5-VL", vocabulary, asked) for vocabulary in (152_064, 4_096) for asked in (4, 2, 1)]
    rows += [(name, None, 4) for name in FAMILIES if name != "Qwen2.5-VL"]
    figures = []
    for name, vocabulary, asked in rows:
        with tempfile.TemporaryDirectory() as work:
            base = built(name, Path(work) / "model", vocabulary)
            figures.append((name, vocabulary, asked, measured(name, base, asked, arguments.repeats)))
    print()
    for name, vocabulary, asked, ratio in figures:
        words = "" if vocabulary is None else f", vocabulary {vocabulary:,}"
        print(f"{name}{words}, {asked} questions a picture: {ratio:.2f} times plain")


if __name__ == "__main__":
    main()
