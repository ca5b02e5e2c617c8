"""4-bit base weights (QLoRA, arXiv:2305.14314): NF4 for the linear layers of the language part, nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch

from medvl.config.schema import ModelConfig
from medvl.errors import ModelError
from medvl.models.families import Family


def quantization_config(config: ModelConfig, family: Family, folder: Path) -> Any:
    """What transformers' loader needs to hold the language part in NF4 with double quantisation.

    Args:
        config: The model option; its dtype is the one that is computed in.
        family: Its architecture.
        folder: Model folder, read on the meta device to name the layers that stay as they are.

    Raises:
        ModelError: bitsandbytes is not installed, or the model is quantised already.
    """
    try:
        import bitsandbytes  # noqa: F401
    except Exception as error:  # a build for another GPU fails in many ways
        raise ModelError(
            f"model.quantization=nf4 needs bitsandbytes, which cannot be imported here ({type(error).__name__}: "
            f"{error}); pip install 'medvl[qlora]', or leave quantization out"
        ) from None
    from transformers import BitsAndBytesConfig

    if "quantization_config" in json.loads((folder / "config.json").read_text(encoding="utf-8")):
        raise ModelError(
            f"model {config.name}: {folder.name} is quantised already; take the 16-bit weights, or "
            "model.quantization=none"
        )
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=getattr(torch, config.dtype),
        llm_int8_skip_modules=kept_modules(folder, family),
    )


def kept_modules(folder: Path, family: Family) -> list[str]:
    """Full names of the linear layers that stay as they are: tower, projector, output layer."""
    model = empty_model(folder)
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and not re.fullmatch(family.linear["language"], name)
    ]


def empty_model(folder: Path) -> Any:
    """The model of a folder without its weights (on the meta device)."""
    from transformers import AutoConfig, AutoModelForImageTextToText

    with torch.device("meta"):
        return AutoModelForImageTextToText.from_config(AutoConfig.from_pretrained(folder, trust_remote_code=False))


def check_quantized(model: Any, family: Family) -> None:
    """Make sure that exactly the language part's linear layers are in 4 bits, and that they can be trained on a CPU.

    Raises:
        ModelError: Names layers that are in 4 bits and should not be, or the reverse.
    """
    from bitsandbytes.nn import Linear4bit

    wrong = []
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            wanted = re.fullmatch(family.linear["language"], name) is not None
            if wanted != isinstance(module, Linear4bit):
                wrong.append(name)
            if isinstance(module, Linear4bit):
                # An evaluation would repack the weights for these processors; the next training step then fails.
                module.support_avx512bf16_for_cpu = False
    if wrong:
        raise ModelError(f"{len(wrong)} layers are not quantised as planned, the first is {wrong[0]}")
