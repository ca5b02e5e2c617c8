"""Finds a base model's files, in a folder or on the hub, and tells its architecture by config.json."""

from __future__ import annotations

import json
import os
from pathlib import Path

from medvl.config.schema import ModelConfig
from medvl.errors import ModelError
from medvl.models.families import FAMILIES, Family

BUILTIN = {"builtin:tiny": Path(__file__).parent / "tiny" / "checkpoint"}
"""Models that are shipped with medvl."""

SPECIMEN = "specimen:"
"""Beginning of paths that name a tiny random checkpoint of an architecture, made on first use."""

HUB_TIMEOUT_S = 8.0

OTHER_LAYOUTS = {
    "llava_qwen2": "HuatuoGPT-Vision in its authors' own layout, which needs their code; use the conversion "
    "FreedomIntelligence/HuatuoGPT-Vision-7B-hf (model=huatuogpt_vision_7b) or the Qwen2.5-VL variant "
    "(model=huatuogpt_vision_7b_qwen25vl)",
    "llava_mistral": "LLaVA-Med in its authors' own layout, which needs their code; use a conversion to transformers "
    "(model=llava_med_v15_7b)",
    "llava_llama": "LLaVA in its authors' own layout, which needs their code; use the llava-hf conversion "
    "(model=llava15_7b)",
    "internvl_chat": "InternVL in its authors' own layout, which needs their code; use the repository whose name ends "
    "in -hf (model=internvl3_8b)",
    "phi4mm": "Phi-4-multimodal in its authors' own layout, which needs their code",
}
"""`model_type` of layouts that run code from the hub -> what it is and the way out."""


def find_base(config: ModelConfig) -> Path:
    """Folder with the model's files; loads no weights, and imports torch only to make a specimen.

    Raises:
        ModelError: The weights are not on this machine and cannot be fetched, or the folder holds no model.
    """
    if config.path is not None:
        if config.path.startswith(SPECIMEN):
            from medvl.models.specimens import specimen_folder  # imports torch

            return specimen_folder(config.path.removeprefix(SPECIMEN))
        folder = BUILTIN.get(config.path, Path(config.path).expanduser())
        if not (folder / "config.json").is_file():
            raise ModelError(
                f"model {config.name}: {folder if config.path not in BUILTIN else config.path} holds no model "
                "(expected config.json, *.safetensors and the processor's files there); say model.path=DIR"
            )
        return folder
    if config.hub_id is None:
        raise ModelError(
            f"model {config.name} can only be asked, at an endpoint; there are no weights to load. Choose another "
            "model=..., or model.path=DIR"
        )
    return _from_hub(config)


def family_of(folder: Path) -> Family:
    """Family of the model in a folder, by `model_type` of its config.json.

    Raises:
        ModelError: The file cannot be read, or medvl does not know the architecture.
    """
    try:
        kind = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{folder.name}/config.json cannot be read or names no model_type: {error!r}") from None
    if kind in OTHER_LAYOUTS:
        raise ModelError(f"{folder.name} holds {OTHER_LAYOUTS[kind]}. Code from the hub is never run")
    if kind not in FAMILIES:
        raise ModelError(f"the architecture '{kind}' is not supported; supported: {', '.join(sorted(FAMILIES))}")
    return FAMILIES[kind]


def _from_hub(config: ModelConfig) -> Path:
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, RepositoryNotFoundError

    assert config.hub_id is not None  # seen to by find_base
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
