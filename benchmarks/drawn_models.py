"""Models and questions of the measurements.

The models are random, with the true architecture and picture geometry of their families (picture tokens, tower
positions and tiles as in the released checkpoints), but narrow and with few layers; the pictures are noise.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from medvl.batching.collator import Batch
from medvl.batching.dataset import Sample
from medvl.benchmark.item import Item
from medvl.config.schema import ModelConfig
from medvl.models.base import Base, load_base
from medvl.models.specimens.writing import Specimen, write_checkpoint
from medvl.sources.record import Domain, Split, Task

SIDE_PX = 448
VOCABULARY = 152_064
ASKED = (
    ("Which standard plane of the fetus is shown in this ultrasound picture?", ("brain", "abdomen", "femur", "thorax")),
    ("Does this view meet the standard for a measurement?", ("yes", "no")),
    ("What is the orientation of the fetus in this picture?", ("head up", "head down", "head left", "head right")),
    ("What is the diagnosis of this finding?", ("normal", "benign", "malignant")),
)


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


def built(name: str, folder: Path, vocabulary: int | None = None) -> Base:
    """A random model with its processor; a vocabulary of its own in place of the family's."""
    place, change, usual = FAMILIES[name]
    vocabulary = usual if vocabulary is None else vocabulary
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


def samples_of(pictures: int, questions: int = len(ASKED)) -> list[Sample]:
    """The first questions on every picture."""
    pairs = [(picture, asked) for picture in range(pictures) for asked in ASKED[:questions]]
    return [Sample(question(n, asked, picture), noise(picture)) for n, (picture, asked) in enumerate(pairs)]


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


def describe(name: str, base: Base, batch: Batch) -> None:
    text, vision = base.model.config.get_text_config(), base.model.config.vision_config
    depth = getattr(vision, "num_hidden_layers", None) or vision.depth
    size = sum(parameter.numel() for parameter in base.model.parameters()) / 1e6
    print(
        f"\n{name}: {size:.1f} million parameters; decoder {text.num_hidden_layers} layers of {text.hidden_size}, "
        f"vocabulary {text.vocab_size:,}; tower {depth} layers of {vision.hidden_size}; "
        f"{len(set(batch.picture_of))} pictures, {len(batch.items)} questions, rows of up to "
        f"{batch.inputs['input_ids'].shape[1]} tokens"
    )
