"""Fills a specimen with random weights and writes it as a checkpoint folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel, ProcessorMixin
from transformers.utils import logging as transformers_logging

from medvl.errors import ModelError

GATE = 0.7
"""Value of every gate. Mllama's start at zero, so that a fresh model would never see the picture."""


@dataclass(frozen=True, slots=True)
class Specimen:
    """A family's checkpoint before its weights are drawn.

    Attributes:
        model_class: Class of the model.
        config: Its configuration.
        processor: Its processor, with the chat template.
        generation: Generation settings, as the family publishes them.
    """

    model_class: type[PreTrainedModel]
    config: Any
    processor: ProcessorMixin
    generation: dict[str, Any] = field(default_factory=dict)


def rows(tokenizer: Any, vocabulary: int | None, *, multiple: int = 64) -> int:
    """Rows of the embedding: what is asked for, or the tokenizer's size rounded up, as real checkpoints have it.

    Raises:
        ModelError: Fewer rows than tokens.
    """
    if vocabulary is None:
        return -(-len(tokenizer) // multiple) * multiple
    if vocabulary < len(tokenizer):
        raise ModelError(f"vocabulary={vocabulary} is below the {len(tokenizer)} tokens of the specimen's tokenizer")
    return vocabulary


def write_checkpoint(
    builder: Callable[[int | None], Specimen], folder: Path, *, seed: int, vocabulary: int | None
) -> None:
    """Build the model, draw its weights, save model and processor.

    Args:
        builder: Function of a family: vocabulary -> specimen.
        folder: Folder to write.
        seed: Seed of the weights.
        vocabulary: See `build_specimen`.
    """
    specimen = builder(vocabulary)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = specimen.model_class(specimen.config).float()
        draw_weights(model)
    model.generation_config = GenerationConfig(**specimen.generation)
    transformers_logging.disable_progress_bar()
    model.eval().save_pretrained(folder)
    specimen.processor.save_pretrained(folder)
    for file in folder.iterdir():
        file.chmod(0o644)  # safetensors writes files that only their owner may read


@torch.no_grad()
def draw_weights(model: PreTrainedModel) -> None:
    """Draw weights that carry a signal from the pixels to the logits.

    The library's usual start (standard deviation 0.02) suits widths of thousands; at a width of 64 it damps every
    signal, and no adapter could make an answer likely. Matrices keep the variance of their input (1 / fan-in); the
    embedding and the output layer are twice as wide, so that logits spread by about 2. Vectors (biases, norms) are
    moved off their constants, so that a step that forgets them shows.

    Args:
        model: Model to change, in float32. Its parameters are drawn in their order from torch's generator.
    """
    words = (model.get_input_embeddings().weight, model.get_output_embeddings().weight)
    for name, parameter in model.named_parameters():
        if "gate" in name.rsplit(".", 1)[-1]:
            parameter.fill_(GATE)
        elif parameter.ndim < 2:
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
        else:
            gain = 2.0 if any(parameter is weight for weight in words) else 1.0
            parameter.normal_(std=gain / parameter[0].numel() ** 0.5)
