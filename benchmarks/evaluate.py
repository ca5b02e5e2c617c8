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
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import transformers
from PIL import Image

from medvl.answering.letters import score_batch
from medvl.batching.collator import Batch, Collator
from medvl.batching.dataset import ItemDataset, Sample
from medvl.batching.loading import QuestionLoader, WholeBatches
from medvl.batching.prompt import answer_tokens
from medvl.batching.question_batches import picture_key, question_batches, row_lengths
from medvl.benchmark.item import Item
from medvl.config.schema import ModelConfig
from medvl.evaluation.near_ties import NEAR_TIE
from medvl.imaging.reading import pixel_hash, read_picture
from medvl.models.answer_head import logits_at
from medvl.models.base import Base, load_base
from medvl.models.greedy import Decoding, end_of_turn_ids, write_replies
from medvl.models.shared_prefix import answer_logits
from medvl.models.specimens.writing import Specimen, write_checkpoint
from medvl.sources.record import Domain, Split, Task

SIDE_PX = 448
VOCABULARY = 152_064
PICTURES = {"Llama 3.2 Vision": 2}  # its tower takes seconds; the others are asked about 4
ASKED = (
    ("Which standard plane of the fetus is shown in this ultrasound picture?", ("brain", "abdomen", "femur", "thorax")),
    ("Does this view meet the standard for a measurement?", ("yes", "no")),
    ("What is the orientation of the fetus in this picture?", ("head up", "head down", "head left", "head right")),
    ("What is the diagnosis of this finding?", ("normal", "benign", "malignant")),
)
PARAPHRASES = (ASKED[0][0], "Name the standard plane of the fetus that this ultrasound picture shows.")
LIMITS = {"generation": 5.0, "variants": 3.2, "plain": 2.0, "memory": 0.10}


def qwen25_vl(specimen: Specimen) -> Specimen:
    """A picture of 448 px is 256 tokens and 1,024 tower positions."""
    specimen.processor.image_processor.size = {"shortest_edge": 4 * 28**2, "longest_edge": SIDE_PX**2}
    return specimen


def llava(specimen: Specimen) -> Specimen:
    """LLaVA 1.5: 336 px, 576 tokens."""
    specimen.config.vision_config.image_size = 336
    specimen.config.image_seq_length = 576
    images = specimen.processor.image_processor
    images.size, images.crop_size = {"shortest_edge": 336}, {"height": 336, "width": 336}
    return specimen


def gemma3(specimen: Specimen) -> Specimen:
    """Gemma 3: 896 px, 4,096 tower positions, 256 tokens, windows of 1,024 (4B)."""
    specimen.config.vision_config.image_size = 896
    specimen.config.mm_tokens_per_image = 256
    specimen.config.text_config.sliding_window = 1024
    specimen.processor.image_processor.size = {"height": 896, "width": 896}
    specimen.processor.image_processor.image_seq_length = 256
    processor = type(specimen.processor)(
        specimen.processor.image_processor,
        specimen.processor.tokenizer,
        chat_template=specimen.processor.chat_template,
        image_seq_length=256,
    )
    return replace(specimen, processor=processor)


def mllama(specimen: Specimen) -> Specimen:
    """Llama 3.2 Vision: tiles of 560 px, 1,601 states each; a picture of 448 px is one of up to four."""
    specimen.config.vision_config.image_size = 560
    specimen.processor.image_processor.size = {"height": 560, "width": 560}
    return specimen


FAMILIES: dict[str, tuple[str, Callable[[Specimen], Specimen], int | None]] = {
    "Qwen2.5-VL": ("qwen:qwen25_vl", qwen25_vl, VOCABULARY),
    "Llama 3.2 Vision": ("mllama:mllama", mllama, None),
    "LLaVA 1.5": ("llava:llava", llava, None),
    "Gemma 3": ("gemma:gemma3", gemma3, None),
}


def built(name: str, folder: Path) -> Base:
    """A random model with its processor."""
    place, change, vocabulary = FAMILIES[name]
    module, _, function = place.partition(":")
    builder = getattr(import_module(f"medvl.models.specimens.{module}"), function)
    write_checkpoint(lambda rows: change(builder(rows)), folder, seed=0, vocabulary=vocabulary)
    return load_base(ModelConfig(name="benchmark", path=str(folder)))


def question(number: int, asked: tuple[str, tuple[str, ...]], picture: int, **changes: Any) -> Item:
    """One question on a numbered picture."""
    text, options = asked
    facts: dict[str, Any] = {"item_id": f"q{number}", "picture": f"{picture}.png", "sha256_pixels": f"{picture:064x}"}
    facts |= {"width": SIDE_PX, "height": SIDE_PX, "task": Task.PI, "question": text, "options": options}
    facts |= {"answer_index": 0, "raw_label": "", "answer": options[0], "group": f"g{picture}", "source": "drawn"}
    return Item(**{**facts, "domain": Domain.CLINICAL, "split": Split.TEST, **changes})


def noise(picture: int, side: int = SIDE_PX) -> np.ndarray:
    """uint8 [side, side, 3]."""
    return np.random.default_rng(picture).integers(0, 256, (side, side, 3), dtype=np.uint8)


def samples_of(pictures: int) -> list[Sample]:
    """Every question on every picture."""
    pairs = [(picture, asked) for picture in range(pictures) for asked in ASKED]
    return [Sample(question(n, asked, picture), noise(picture)) for n, (picture, asked) in enumerate(pairs)]


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
    chosen = torch.zeros_like(batch.inputs["input_ids"], dtype=torch.bool)
    chosen[torch.arange(len(batch.items)), batch.answer_position] = True
    return logits_at(base.model, batch.inputs, chosen)


@torch.inference_mode()
def logits(base: Base, batch: Batch, *, shared_prefix: bool) -> torch.Tensor:
    """Logits [B, V] at the answer position."""
    inputs, position, same = batch.inputs, batch.answer_position, batch.same_picture
    return answer_logits(base.model, inputs, position, same, shared_prefix=shared_prefix)


def interleaved(ways: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median CPU seconds of each way, which other work on the machine disturbs least; run in turn, once to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(repeats + 1):
        for name, action in ways.items():
            start = time.process_time()
            action()
            if repeat:
                seconds[name].append(time.process_time() - start)
    return {name: statistics.median(found) for name, found in seconds.items()}


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


def describe(name: str, base: Base, batch: Batch) -> None:
    text, vision = base.model.config.get_text_config(), base.model.config.vision_config
    depth = getattr(vision, "num_hidden_layers", None) or vision.depth
    size = sum(parameter.numel() for parameter in base.model.parameters()) / 1e6
    print(
        f"\n{name}: {size:.1f} million parameters; decoder {text.num_hidden_layers} layers of {text.hidden_size}, "
        f"vocabulary {text.vocab_size:,}; tower {depth} layers of {vision.hidden_size}; "
        f"{len(set(batch.same_picture))} pictures, {len(batch.items)} questions, rows of up to "
        f"{batch.inputs['input_ids'].shape[1]} tokens"
    )


def generated(base: Base, batch: Batch, new_tokens: int) -> torch.Tensor:
    """Replies of transformers' own greedy generation, [B, new tokens]."""
    options = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None, "repetition_penalty": None}
    with torch.inference_mode():
        rows: torch.Tensor = base.model.generate(**batch.inputs, max_new_tokens=new_tokens, **options)
    return rows[:, batch.inputs["input_ids"].shape[1] :]


def against_generation(base: Base, repeats: int) -> list[tuple[str, float, bool]]:
    """Letter scoring against a reply of up to 16 tokens, and the cost of variants."""
    samples = samples_of(4)
    right, left = collated(base, samples), collated(base, samples, "left")
    describe("Qwen2.5-VL", base, right)
    check_same(base, right)
    tokens = answer_tokens(base.processor)
    ends = end_of_turn_ids(base.model, tokens)
    reply = partial(write_replies, base.model, left.inputs, base.processor.tokenizer, ends, Decoding(max_new_tokens=16))
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
        figures, limits = [], [LIMITS["generation"]] * 2 + [LIMITS["variants"]] + [LIMITS["plain"]] * 3
        for name in FAMILIES:
            with tempfile.TemporaryDirectory() as work:
                base = built(name, Path(work) / "model")
                if name == "Qwen2.5-VL":
                    figures += against_generation(base, arguments.repeats)
                else:
                    figures += against_plain(name, base, arguments.repeats)
    print()
    for (name, figure, at_least), limit in zip(figures, limits, strict=True):
        kept = figure >= limit if at_least else figure <= limit
        print(f"{name:50} {figure:5.2f} ({'at least' if at_least else 'at most'} {limit}){'' if kept else '  MISSED'}")


if __name__ == "__main__":
    main()
