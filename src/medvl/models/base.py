"""Loads a base model and its processor, whole or not at all."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvl.batching.prompt import use_style
from medvl.config.schema import ModelConfig
from medvl.errors import ModelError
from medvl.models.families import Family
from medvl.models.locate import BUILTIN, SPECIMEN, family_of, find_base
from medvl.models.pixels import limit_pixels

FULL_HASH_BYTES = 256 * 2**20
SAMPLE_BLOCKS, SAMPLE_BYTES = 64, 2**16


@dataclass(frozen=True, slots=True)
class Base:
    """A base model ready to be asked or adapted.

    Attributes:
        model: The transformers model, in evaluation mode, nothing trainable.
        processor: Its processor.
        family: What medvl knows of its architecture.
        label: How to name it in records: hub id and commit, or the name of the option. Never a path of this machine.
        fingerprint: Hash of the weights.
    """

    model: Any
    processor: Any
    family: Family
    label: str
    fingerprint: str


def load_base(config: ModelConfig) -> Base:
    """Load the model and its processor.

    Raises:
        ModelError: See `find_base`; also an architecture that medvl does not know, a file cut short, or weights that do
            not fit the configuration.
    """
    folder = find_base(config)
    family = family_of(folder)
    files = weight_files(folder, config.name)
    import torch
    from transformers import AutoModelForImageTextToText
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    quantization: dict[str, Any] = {}
    if config.quantization != "none":
        from medvl.models.quantization import quantization_config

        quantization = {"quantization_config": quantization_config(config, family, folder)}
    try:
        model, info = AutoModelForImageTextToText.from_pretrained(
            folder,
            dtype=getattr(torch, config.dtype),
            attn_implementation=choose_attention(config),
            use_safetensors=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,  # they are refused below, by name
            output_loading_info=True,
            **quantization,
        )
    except Exception as error:  # a broken file can raise anything in transformers, tokenizers and safetensors
        raise ModelError(f"model {config.name} cannot be loaded from {folder.name}: {_first_line(error)}") from error
    _check_whole(config.name, info)
    if quantization:
        from medvl.models.quantization import check_quantized

        check_quantized(model, family)
    if config.quick_tower and family.quicken is not None:
        family.quicken(model)
    model.requires_grad_(False)
    model.eval()
    return Base(
        model, load_processor(config, folder, family), family, _label(config, folder), weights_fingerprint(files)
    )


def weight_files(folder: Path, name: str) -> list[Path]:
    """The weight files of a model folder, each readable to its end.

    Args:
        folder: Model folder.
        name: Name of the option, for the message.

    Raises:
        ModelError: There are none, one of the index is absent, or one is cut short.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ModelError(
            f"model {name}: {folder.name} holds no *.safetensors; other weight formats are not read (they can "
            "run code); convert the model with transformers' save_pretrained"
        )
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        wanted = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        if absent := sorted(wanted - {path.name for path in files}):
            raise ModelError(
                f"model {name}: {len(absent)} of {len(wanted)} weight files of {folder.name} are absent, the first is "
                f"{absent[0]}; fetch the model again"
            )
    for path in files:
        _check_length(path, name)
    return files


def load_processor(config: ModelConfig, folder: Path, family: Family) -> Any:
    """The model's processor, with the limits and the prompt style of the configuration, padding on the right.

    Raises:
        ModelError: Its files are absent or broken, or it cannot write a conversation.
    """
    from transformers import AutoProcessor

    try:
        processor = AutoProcessor.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # a broken file can raise anything
        raise ModelError(
            f"model {config.name}: its processor cannot be loaded from {folder.name}, expected tokenizer.json, "
            f"processor_config.json and the chat template of the model there: {_first_line(error)}"
        ) from error
    if getattr(processor, "chat_template", None) is None:
        raise ModelError(f"model {config.name}: its processor has no chat template; use the instruction-tuned variant")
    processor.tokenizer.padding_side = "right"
    if processor.tokenizer.pad_token_id is None:
        processor.tokenizer.pad_token = processor.tokenizer.eos_token
    limit_pixels(processor, family, config)
    use_style(processor, config.prompt)
    return processor


def choose_attention(config: ModelConfig) -> str:
    """Attention implementation to load with: what was asked for, or the fastest that works on this machine."""
    if config.attention != "auto":
        return config.attention
    import torch
    from transformers.utils import is_flash_attn_2_available

    usable = torch.cuda.is_available() and config.dtype != "float32" and is_flash_attn_2_available()
    return "flash_attention_2" if usable else "sdpa"


def weights_fingerprint(files: list[Path]) -> str:
    """Hash of weight files (16 hex digits): all bytes of small files, name, size and spread blocks of large ones."""
    digest = hashlib.sha256()
    for path in files:
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            if size <= FULL_HASH_BYTES:
                while block := file.read(2**20):
                    digest.update(block)
            else:
                for index in range(SAMPLE_BLOCKS):
                    file.seek(index * (size - SAMPLE_BYTES) // (SAMPLE_BLOCKS - 1))
                    digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()[:16]


def processor_fingerprint(processor: Any) -> str:
    """Hash of everything that shapes pixels and tokens (16 hex digits)."""
    image = {k: v for k, v in processor.image_processor.to_dict().items() if not k.startswith("_")}
    own = {k: v for k, v in vars(processor).items() if isinstance(v, (bool, int, float, str)) and not k.startswith("_")}
    tokenizer = processor.tokenizer
    words: Any = sorted(tokenizer.get_vocab().items())
    if (backend := getattr(tokenizer, "backend_tokenizer", None)) is not None:
        # All of it: vocabulary, merges, normalisation, control tokens; the last call's padding and truncation apart.
        words = {k: v for k, v in json.loads(backend.to_str()).items() if k not in ("padding", "truncation")}
    facts = json.dumps([image, sorted(own.items()), processor.chat_template, len(tokenizer), words], default=str)
    return hashlib.sha256(facts.encode()).hexdigest()[:16]


def _check_whole(name: str, info: dict[str, Any]) -> None:
    absent = sorted(info["missing_keys"]) + sorted(str(key) for key in info.get("mismatched_keys", ()))
    if absent:
        raise ModelError(
            f"model {name}: {len(absent)} weights are absent or of another shape, the first is {absent[0]}; "
            "the model would be partly random. The folder does not fit its config.json"
        )
    if surplus := sorted(info.get("unexpected_keys", ())):
        raise ModelError(
            f"model {name}: {len(surplus)} weights of its files have no place in the model, the first is {surplus[0]}; "
            "a part of it (the vision tower, say) would stay as it was before training. The folder holds another "
            "layout than its config.json says"
        )


def _check_length(path: Path, name: str) -> None:
    """A safetensors file says in its first bytes how long it is."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = int.from_bytes(file.read(8), "little")
        try:
            header = json.loads(file.read(head)) if 0 < head < size else None
        except ValueError:
            header = None
    if not isinstance(header, dict):
        raise ModelError(f"model {name}: {path.name} is no safetensors file or is cut short ({size} bytes)")
    ends = [entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__"]
    expected = 8 + head + max(ends, default=0)
    if size != expected:
        raise ModelError(
            f"model {name}: {path.name} holds {size} of {expected} bytes; it was cut short. Fetch the file again"
        )


def _label(config: ModelConfig, folder: Path) -> str:
    if config.path is not None:
        return config.path if config.path in BUILTIN or config.path.startswith(SPECIMEN) else config.name
    return f"{config.hub_id}@{folder.name}"


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
