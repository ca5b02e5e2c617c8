"""Loads a base model and its processor from a folder or the hub, and says what to do when that is not possible."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvl.config.schema import ModelConfig
from medvl.errors import ModelError
from medvl.models.families import FAMILIES, Family

BUILTIN = {"builtin:tiny": Path(__file__).parent / "tiny" / "checkpoint"}
"""Models that are shipped with medvl."""

FULL_HASH_BYTES = 256 * 2**20
SAMPLE_BLOCKS, SAMPLE_BYTES = 64, 2**16
HUB_TIMEOUT_S = 8.0


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


def find_base(config: ModelConfig) -> Path:
    """Folder with the model's files; does not import torch or load weights.

    Raises:
        ModelError: The weights are not on this machine and cannot be fetched, or the folder holds no model.
    """
    if config.path is not None:
        folder = BUILTIN.get(config.path, Path(config.path).expanduser())
        if not (folder / "config.json").is_file():
            raise ModelError(
                f"model {config.name}: {folder if config.path not in BUILTIN else config.path} holds no model "
                "(expected config.json, *.safetensors and the processor's files there); say model.path=DIR"
            )
        return folder
    return _from_hub(config)


def load_base(config: ModelConfig) -> Base:
    """Load the model and its processor.

    Raises:
        ModelError: See `find_base`; also an architecture that medvl does not know, a file cut short, or weights that do
            not fit the configuration.
    """
    folder = find_base(config)
    family = family_of(folder)
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ModelError(
            f"model {config.name}: {folder.name} holds no *.safetensors; other weight formats are not read (they can "
            "run code); convert the model with transformers' save_pretrained"
        )
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    try:
        model, info = AutoModelForImageTextToText.from_pretrained(
            folder,
            dtype=getattr(torch, config.dtype),
            attn_implementation=config.attention,
            use_safetensors=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,  # they are refused below, by name
            output_loading_info=True,
        )
    except Exception as error:  # a broken file can raise anything in transformers, tokenizers and safetensors
        raise ModelError(f"model {config.name} cannot be loaded from {folder.name}: {_first_line(error)}") from error
    absent = sorted(info["missing_keys"]) + sorted(str(key) for key in info.get("mismatched_keys", ()))
    if absent:
        raise ModelError(
            f"model {config.name}: {len(absent)} weights are absent or of another shape, the first is {absent[0]}; "
            "the model would be partly random. The folder does not fit its config.json"
        )
    try:
        processor = AutoProcessor.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # as above
        raise ModelError(
            f"model {config.name}: its processor cannot be loaded from {folder.name}, expected tokenizer.json, "
            f"processor_config.json and the chat template of the model there: {_first_line(error)}"
        ) from error
    if getattr(processor, "chat_template", None) is None:
        raise ModelError(f"model {config.name}: its processor has no chat template; use the instruction-tuned variant")
    processor.tokenizer.padding_side = "right"
    model.requires_grad_(False)
    model.eval()
    return Base(model, processor, family, _label(config, folder), weights_fingerprint(files))


def family_of(folder: Path) -> Family:
    """Family of the model in a folder, by `model_type` of its config.json.

    Raises:
        ModelError: The file cannot be read, or medvl does not know the architecture.
    """
    try:
        kind = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{folder.name}/config.json cannot be read or names no model_type: {error!r}") from None
    if kind not in FAMILIES:
        raise ModelError(f"the architecture '{kind}' is not supported; supported: {', '.join(sorted(FAMILIES))}")
    return FAMILIES[kind]


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
    tokenizer = processor.tokenizer
    facts = json.dumps(
        [image, processor.chat_template, len(tokenizer), sorted(tokenizer.get_vocab().items())], default=str
    )
    return hashlib.sha256(facts.encode()).hexdigest()[:16]


def _from_hub(config: ModelConfig) -> Path:
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, RepositoryNotFoundError

    assert config.hub_id is not None
    patterns = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", "*.tiktoken"]
    try:
        folder = Path(
            snapshot_download(config.hub_id, revision=config.revision, allow_patterns=patterns, local_files_only=True)
        )
        if _is_whole(folder):
            return folder
    except (LocalEntryNotFoundError, OSError):
        pass
    if os.environ.get("HF_HUB_OFFLINE", "0") in ("1", "true", "TRUE", "ON", "on"):
        raise ModelError(_absent(config, "the hub is switched off (HF_HUB_OFFLINE)"))
    try:
        # Asked first because `snapshot_download` waits for ever where a firewall swallows the request.
        commit = HfApi().model_info(config.hub_id, revision=config.revision, timeout=HUB_TIMEOUT_S).sha
        return Path(snapshot_download(config.hub_id, revision=commit, allow_patterns=patterns))
    except GatedRepoError:
        raise ModelError(_absent(config, "the hub asks for an accepted licence and a login")) from None
    except RepositoryNotFoundError:
        raise ModelError(_absent(config, "the hub does not know it, or it needs a login")) from None
    except Exception as error:  # the hub client lets errors of its network library through
        raise ModelError(_absent(config, f"the hub cannot be reached ({type(error).__name__})")) from None


def _is_whole(folder: Path) -> bool:
    """Whether a folder of the hub's cache holds all weights; a download that was broken off leaves a part of them."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (ValueError, KeyError, AttributeError):
            return False
        return all((folder / name).is_file() for name in names)
    return (folder / "config.json").is_file() and any(folder.glob("*.safetensors"))


def _absent(config: ModelConfig, why: str) -> str:
    login = (
        f"accept its licence at https://huggingface.co/{config.hub_id}, run `hf auth login`, then "
        if config.gated
        else ""
    )
    return (
        f"model {config.name}: the weights of {config.hub_id} are not on this machine and {why}. Either {login}"
        f"`hf download {config.hub_id}` where there is a network, or say model.path=DIR with a folder that holds them"
    )


def _label(config: ModelConfig, folder: Path) -> str:
    if config.path is not None:
        return config.path if config.path in BUILTIN else config.name
    return f"{config.hub_id}@{folder.name}"


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
