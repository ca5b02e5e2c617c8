"""The specimens by name, and where they are kept. Imports torch and transformers only to build one."""

from __future__ import annotations

import hashlib
import importlib
import os
import tempfile
from importlib.metadata import version
from pathlib import Path

from medvl.errors import ModelError

_BUILDERS = {
    "tiny_mllama": "mllama:mllama",
    "tiny_qwen2_vl": "qwen:qwen2_vl",
    "tiny_qwen25vl": "qwen:qwen25_vl",
    "tiny_qwen3vl": "qwen:qwen3_vl",
    "tiny_gemma3": "gemma:gemma3",
    "tiny_llava": "llava:llava",
    "tiny_llava_next": "llava:llava_next",
    "tiny_llava_onevision": "llava:llava_onevision",
    "tiny_internvl": "internvl:internvl",
    "tiny_smolvlm": "smolvlm:smolvlm",
}
"""Name -> module of this package and function in it."""

SPECIMENS: tuple[str, ...] = tuple(_BUILDERS)
"""Names of all specimens."""


def build_specimen(name: str, folder: Path, *, seed: int = 0, vocabulary: int | None = None) -> Path:
    """Write a specimen: weights (float32), processor, tokenizer, chat template, generation settings.

    Args:
        name: One of `SPECIMENS`.
        folder: Folder to write; made when absent, must be empty otherwise.
        seed: Seed of the weights. The same seed gives the same bytes.
        vocabulary: Rows of the embedding and of the output layer, e.g. 152064 to feel what a real vocabulary costs;
            None takes what the tokenizer needs.

    Returns:
        The folder.

    Raises:
        ModelError: An unknown name, a folder that holds files, a vocabulary below that of the tokenizer, or a package
            that the family's processor needs is not installed.
    """
    if name not in _BUILDERS:
        raise ModelError(f"there is no specimen '{name}'; specimens: {', '.join(SPECIMENS)}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ModelError(f"specimen {name}: {folder} is there already; name an empty or absent folder, or delete it")
    from medvl.models.specimens.writing import write_checkpoint

    module, _, function = _BUILDERS[name].partition(":")
    builder = getattr(importlib.import_module(f"{__package__}.{module}"), function)
    write_checkpoint(builder, folder, seed=seed, vocabulary=vocabulary)
    return folder


def specimen_folder(name: str, cache: Path | None = None) -> Path:
    """Folder with a specimen, built on first use.

    Args:
        name: One of `SPECIMENS`.
        cache: Cache folder; None takes the environment's `MEDVL_CACHE`, or else `medvl` in the user's cache folder.

    Returns:
        Folder below `specimens/VERSION/`, where VERSION changes with this package's source and with transformers. It
        appears as a whole or not at all, also when two processes build it at the same time.

    Raises:
        ModelError: See `build_specimen`; also a cache that cannot be written.
    """
    if name not in _BUILDERS:
        raise ModelError(f"there is no specimen '{name}'; specimens: {', '.join(SPECIMENS)}")
    shelf = (_default_cache() if cache is None else cache) / "specimens" / _version()
    folder = shelf / name
    if folder.is_dir():
        return folder
    try:
        shelf.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=shelf, prefix=f".{name}-") as work:
            fresh = build_specimen(name, Path(work) / name)
            try:
                fresh.rename(folder)
            except OSError:
                if not folder.is_dir():  # else another process was faster, and what it built has the same bytes
                    raise
    except OSError as error:
        raise ModelError(
            f"specimen {name}: cannot be kept in {shelf} ({error}); set MEDVL_CACHE to a folder that can be written"
        ) from error
    return folder


def _default_cache() -> Path:
    if given := os.environ.get("MEDVL_CACHE"):
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "medvl"


def _version() -> str:
    """Hash of all that a specimen is made from (12 hex digits)."""
    digest = hashlib.sha256(f"transformers {version('transformers')}\n".encode())
    home = Path(__file__).parent
    for path in sorted([*home.glob("*.py"), *home.glob("templates/*.jinja")]):
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:12]
