"""What asking costs: letter scoring with shared beginnings against generation and against a row a question.

`python benchmarks/evaluate.py` from the project's folder; `--memory` measures peak memory against the number of items
instead. Needs no GPU, no download and no data. The models are random, with the true architecture and picture geometry
of their families (picture tokens, tower positions and tiles as in the released checkpoints) but narrow and with few
layers; the pictures are noise. Each repeat runs all ways in turn on one thread; medians of CPU time are printed.
Answers are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from drawn_models import ASKED, FAMILIES, built, describe, interleaved, noise, question, samples_of
from PIL import Image

from medvl.answering.letters import score_batch
from medvl.batching.collator import Batch, Collator
from medvl.batching.dataset import ItemDataset, Sample
from medvl.batching.loading import QuestionLoader, WholeBatches
from medvl.batching.prompt import answer_tokens
from medvl.batching.question_batches import picture_key, question_batches, row_lengths
from medvl.config.schema import ModelConfig
from medvl.evaluation.near_ties import NEAR_TIE
from medvl.imaging.reading import pixel_hash, read_picture
from medvl.models.answer_head import answer_mask, logits_at
from medvl.models.base import Base, load_base
from medvl.models.greedy import Decoding, end_of_turn_ids, write_replies
from medvl.models.pictures import row_inputs
from medvl.models.shared_prefix import answer_logits
from medvl.models.specimens.writing import write_checkpoint

PICTURES = {"Llama 3.2 Vision": 2}  # its tower takes seconds; the others are asked about 4
PARAPHRASES = (ASKED[0][0], "Name the standard plane of the fetus that this ultrasound picture shows.")
LIMITS = {"generation": 5.0, "variants": 3.2, "tower": 1.2, "plain": 2.0, "memory": 0.10}


def variants() -> list[Sample]:
    """One question in two wordings, the options of each in four rotations."""
    options = ASKED[0][1]
    asked = [(text, options[k:] + options[:k]) for text in PARAPHRASES for k in range(4)]
    return [Sample(question(n, one, 0), noise(0)) for n, one in enumerate(asked)]


def collated(base: Base, samples: list[Sample], side: Literal["left", "right"] = "right") -> Batch:
    companions = base.family.companions
    return Collator(base.processor, with_answer=False, companions=companions, padding_side=side)(samples)


@torch.inference_mode()
def plain_logits(base: Base, batch: Batch) -> torch.Tensor:
    """Logits [B, V] at the answer position, every row and every picture computed for itself."""
    inputs = row_inputs(base.model, batch.inputs, batch.picture_of)
    return logits_at(base.model, inputs, answer_mask(inputs, batch.answer_position))


@torch.inference_mode()
def logits(base: Base, batch: Batch, *, shared_prefix: bool) -> torch.Tensor:
    """Logits [B, V] at the answer position."""
    inputs, position, pictures = batch.inputs, batch.answer_position, batch.picture_of
    return answer_logits(base.model, inputs, position, pictures, shared_prefix=shared_prefix)


def check_same(base: Base, batch: Batch) -> None:
    """Refuse to time ways of asking whose answers differ."""
    plain = torch.log_softmax(plain_logits(base, batch), dim=-1)
    shared = torch.log_softmax(logits(base, batch, shared_prefix=True), dim=-1)
    furthest = float((shared - plain).abs().max())
    assert furthest <= 1e-4, furthest
    ids = answer_tokens(base.processor).letter_ids
    for item, one, other in zip(batch.items, plain, shared, strict=True):
        options = [ids[letter] for letter in item.letters]
        best = one[options].sort().values[-2:]
        assert one[options].argmax() == other[options].argmax() or best[1] - best[0] < NEAR_TIE
    print(f"  log-probabilities of {len(batch.items)} questions differ by at most {furthest:.1e}; same letters")


def generated(base: Base, batch: Batch, new_tokens: int) -> torch.Tensor:
    """Replies of transformers' own greedy generation, [B, new tokens]."""
    options = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None, "repetition_penalty": None}
    with torch.inference_mode():
        inputs = row_inputs(base.model, batch.inputs, batch.picture_of)
        rows: torch.Tensor = base.model.generate(**inputs, max_new_tokens=new_tokens, **options)
    return rows[:, batch.inputs["input_ids"].shape[1] :]


def against_generation(base: Base, repeats: int) -> list[tuple[str, float, bool]]:
    """Letter scoring against a reply of up to 16 tokens, and the cost of variants."""
    samples = samples_of(4)
    right, left = collated(base, samples), collated(base, samples, "left")
    describe("Qwen2.5-VL", base, right)
    check_same(base, right)
    tokens = answer_tokens(base.processor)
    ends = end_of_turn_ids(base.model, tokens)
    inputs = row_inputs(base.model, left.inputs, left.picture_of)
    reply = partial(write_replies, base.model, inputs, base.processor.tokenizer, ends, Decoding(max_new_tokens=16))
    first = logits(base, right, shared_prefix=True).argmax(dim=-1).tolist()
    assert generated(base, left, 1)[:, 0].tolist() == first, "generation starts with another token"
    assert [written.ids[0] for written in reply()] == first, "our generation starts with another token"
    print("  the likeliest token is the first one of both kinds of generation, for every question")
    one, eight = collated(base, variants()[:1]), collated(base, variants())
    check_same(base, eight)
    ways: dict[str, Callable[[], Any]] = {
        "letter": lambda: score_batch(base.model, right, tokens.letter_ids),
        "letter, a row a question": lambda: score_batch(base.model, right, tokens.letter_ids, shared_prefix=False),
        "our generation": reply,
        "transformers generate": lambda: generated(base, left, 16),
        "one question": lambda: score_batch(base.model, one, tokens.letter_ids),
        "its 8 variants": lambda: score_batch(base.model, eight, tokens.letter_ids),
        "one question, made ready and asked": lambda: score_batch(
            base.model, collated(base, variants()[:1]), tokens.letter_ids
        ),
        "its 8 variants, made ready and asked": lambda: score_batch(
            base.model, collated(base, variants()), tokens.letter_ids
        ),
    }
    found = interleaved(ways, repeats)
    for name, seconds in found.items():
        print(f"  {name:40} {seconds * 1e3:8.0f} ms")
    kinds = ("our generation", "transformers generate")
    figures = [(f"letter scoring against {kind}", found[kind] / found["letter"], True) for kind in kinds]
    share = found["its 8 variants"] / found["one question"]
    return [*figures, ("8 variants against one question", share, False)]


def against_plain(name: str, base: Base, repeats: int) -> list[tuple[str, float, bool]]:
    """Letter scoring with shared beginnings, with shared pictures only, and with nothing shared."""
    batch = collated(base, samples_of(PICTURES.get(name, 4)))
    describe(name, base, batch)
    check_same(base, batch)
    found = interleaved(
        {
            "shared": lambda: logits(base, batch, shared_prefix=True),
            "pictures encoded once": lambda: logits(base, batch, shared_prefix=False),
            "plain": lambda: plain_logits(base, batch),
        },
        repeats,
    )
    for way, seconds in found.items():
        print(f"  {way:40} {seconds * 1e3:8.0f} ms, {found['plain'] / seconds:.2f} times the questions of plain")
    return [(f"{name}: shared against plain", found["plain"] / found["shared"], True)]


def against_transformers_tower(base: Base, folder: Path, repeats: int) -> list[tuple[str, float, bool]]:
    """The tower that medvl quickened against the one that transformers loads, 8 pictures."""
    other = load_base(ModelConfig(name="benchmark", path=str(folder), quick_tower=False))
    inputs = collated(base, samples_of(8, 1)).inputs

    @torch.inference_mode()
    def encoded(base: Base) -> torch.Tensor:
        states: torch.Tensor = base.model.model.visual(inputs["pixel_values"], inputs["image_grid_thw"]).pooler_output
        return states

    furthest = float((encoded(base) - encoded(other)).abs().max())
    assert furthest <= 1e-5, furthest
    found = interleaved({"tower": lambda: encoded(base), "transformers' tower": lambda: encoded(other)}, repeats)
    for name, seconds in found.items():
        print(f"  {name:40} {seconds * 1e3:8.0f} ms")
    return [("tower against transformers' own", found["transformers' tower"] / found["tower"], True)]


def ask_many(items: int, folder: Path) -> None:
    """Ask a number of questions on small pictures from files, and print the peak memory of this process in MiB."""
    base = load_base(ModelConfig(name="benchmark", path=str(folder)))
    listed = []
    for picture in range(items // len(ASKED)):
        path = folder / "pictures" / f"{picture}.png"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            Image.fromarray(noise(picture, 56)).save(path)
        facts = {"width": 56, "height": 56, "sha256_pixels": pixel_hash(read_picture(path))}
        listed += [question(len(ASKED) * picture + n, asked, picture, **facts) for n, asked in enumerate(ASKED)]
    dataset = ItemDataset(listed, folder / "pictures")
    lengths = row_lengths(base.processor, listed, listed, partial(base.family.picture_tokens, base.processor))
    batches = question_batches(map(picture_key, listed), lengths, rows=32, tokens=16_384)
    collate = Collator(base.processor, with_answer=False, companions=base.family.companions)
    ids = answer_tokens(base.processor).letter_ids
    start, answers = time.perf_counter(), 0
    kept = []
    whole: Any = WholeBatches(dataset, batches)
    for batch in QuestionLoader(whole, batch_size=None, collate_fn=collate):
        kept += score_batch(base.model, batch, ids)
        answers += len(batch.items)
    assert answers == len(listed)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{peak:.1f} {answers / (time.perf_counter() - start):.0f}")


def memory() -> list[tuple[str, float, bool]]:
    """Peak memory of a process that asks 2,000 questions and of one that asks 20,000."""
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "model"
        builder = import_module("medvl.models.specimens.qwen").qwen25_vl
        write_checkpoint(builder, folder, seed=0, vocabulary=None)
        peaks = []
        for items in (2_000, 20_000):
            command = [sys.executable, __file__, "--ask", str(items), str(folder)]
            peak, rate = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-2:]
            print(f"{items:6,} questions: peak {float(peak):.0f} MiB, {rate} questions/s")
            peaks.append(float(peak))
    return [("growth of the peak, 2,000 to 20,000 questions", peaks[1] / peaks[0] - 1, False)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--ask", nargs=2, metavar=("ITEMS", "MODEL"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.ask:
        ask_many(int(arguments.ask[0]), Path(arguments.ask[1]))
        return
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}, "
        f"one thread, float32, medians of {arguments.repeats} interleaved repeats"
    )
    if arguments.memory:
        figures = memory()
        limits = [LIMITS["memory"]]
    else:
        figures, limits = [], [LIMITS["generation"]] * 2 + [LIMITS["variants"], LIMITS["tower"]]
        limits += [LIMITS["plain"]] * 3
        for name in FAMILIES:
            with tempfile.TemporaryDirectory() as work:
                base = built(name, Path(work) / "model")
                if name == "Qwen2.5-VL":
                    figures += against_generation(base, arguments.repeats)
                    figures += against_transformers_tower(base, Path(work) / "model", arguments.repeats)
                else:
                    figures += against_plain(name, base, arguments.repeats)
    print()
    for (name, figure, at_least), limit in zip(figures, limits, strict=True):
        kept = figure >= limit if at_least else figure <= limit
        print(f"{name:50} {figure:5.2f} ({'at least' if at_least else 'at most'} {limit}){'' if kept else '  MISSED'}")


if __name__ == "__main__":
    main()
