"""Finds the adapters that are to be compared with one baseline, and tells which are one recipe with several seeds.

Imports no torch, so that a wrong entry is answered at once.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from medvl.errors import ConfigError, ModelError
from medvl.models.record import WEIGHTS_FILE, read_record

NO_PART_OF_A_RECIPE = ("seed", "name", "paths", "logger")
"""Nodes of a configuration that shape no training; `eval` shapes it by the items of a validation alone."""

PLACES_AND_PACE = ("data.root", "data.num_workers", "model.path", "trainer.progress", "trainer.log_every_steps")
"""Where things lie and how they are shown. The fingerprints of benchmark and base stand for the places."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One trained adapter.

    Attributes:
        label: Its name in files and tables, unique in the comparison; no path.
        adapter: Its folder.
        record: Its run record.
        seed: Seed of its training; None where the record does not say.
        recipe: Hash (16 hex digits) of what shaped its training, the seed apart.
        is_certain: Whether the recipe is that of the run's `config.yaml`, which holds all of it. Else it is that of the
            files of the adapter, which know nothing of learning rate, steps or task mix.
    """

    label: str
    adapter: Path
    record: dict[str, Any]
    seed: int | None
    recipe: str
    is_certain: bool


@dataclass(frozen=True, slots=True)
class Candidates:
    """What is compared.

    Attributes:
        runs: The adapters, in the order given.
        baseline: The adapter that they are compared with; None for the base of the first of them, zero-shot.
        notes: Sentences for the user.
    """

    runs: list[Candidate]
    baseline: Candidate | None
    notes: list[str]


def find_candidates(entries: Sequence[str], baseline: str | None, overrides: Sequence[str]) -> Candidates:
    """Find adapters, and make sure that they can be compared.

    Args:
        entries: Folders of runs or adapters (`compare`), at least one.
        baseline: Folder of a run or an adapter that they are compared with (`adapter`).
        overrides: Overrides of the command line: adapters of different benchmarks are compared on one that it names.

    Raises:
        ConfigError: Listing each entry that is no adapter, that is there twice, or that was trained on another
            benchmark than the first.
    """
    problems: list[str] = []
    named = [("compare", entry) for entry in entries] + ([] if baseline is None else [("adapter", baseline)])
    folders = []
    for key, entry in named:
        try:
            folders.append((key, entry, _adapter_folder(entry)))
        except ModelError as error:
            problems.append(f"{key}: {error}")
    labels = unique_labels([_run_of(folder) for _, _, folder in folders])
    found: list[tuple[str, str, Candidate]] = []
    for (key, entry, folder), label in zip(folders, labels, strict=True):
        try:
            found.append((key, entry, _candidate(folder, label)))
        except ModelError as error:
            problems.append(f"{key}: {error}")
    problems += _twice(found)
    if problems:
        raise ConfigError(problems)
    notes = _other_benchmarks(found, overrides)
    adapters = [candidate for _, _, candidate in found]
    return Candidates(adapters[: len(entries)], None if baseline is None else adapters[-1], notes)


def pool_seeds(runs: Sequence[Candidate]) -> tuple[dict[str, list[Candidate]], list[str]]:
    """Put runs of one recipe with different seeds together.

    Returns:
        (label of the first of them -> the runs of one recipe, in the order given; sentences that say what was pooled).
    """
    alike: dict[str, list[Candidate]] = {}
    for run in runs:
        alike.setdefault(run.recipe, []).append(run)
    pools, notes = [], []
    for group in alike.values():
        seeds, names = [run.seed for run in group], ", ".join(run.label for run in group)
        if len(group) == 1:
            pools.append(group)
        elif len(set(seeds)) < len(seeds) or None in seeds:
            pools += [[run] for run in group]
            notes.append(f"not pooled, for seeds are unknown or alike though the recipe seems the same: {names}")
        else:
            pools.append(group)
            doubt = "" if group[0].is_certain else "; without config.yaml, learning rate, steps and task mix are unseen"
            notes.append(f"pooled, one recipe with seeds {', '.join(map(str, seeds))}: {names}{doubt}")
    pools.sort(key=lambda group: runs.index(group[0]))
    return {group[0].label: group for group in pools}, notes


def unique_labels(folders: Sequence[Path]) -> list[str]:
    """Names of folders; where they are alike, with the name of the folder above, then with a number.

    Alike in all but upper and lower case counts as alike: labels become folders.
    """
    plain = [folder.name.casefold() for folder in folders]
    labels: list[str] = []
    for folder in folders:
        is_alone = plain.count(folder.name.casefold()) == 1
        name = label = folder.name if is_alone else f"{folder.parent.name}_{folder.name}"
        number = 1
        while label.casefold() in (taken.casefold() for taken in labels):
            number += 1
            label = f"{name}_{number}"
        labels.append(label)
    return labels


def _adapter_folder(entry: str) -> Path:
    folder = Path(entry).expanduser()
    for place in (folder / "adapter", folder):
        if (place / "adapter_config.json").is_file():
            return place
    if not folder.exists():
        why = "there is no such folder"
    elif not folder.is_dir():
        why = "it is a file"
    elif (status := _status(folder)) is not None:
        why = f"it is a run without an adapter ({status})"
    else:
        why = "it holds neither adapter/ nor adapter_config.json"
    raise ModelError(f"{entry}: {why}; name the folder of a training run that finished, or that of an adapter")


def _status(run: Path) -> str | None:
    try:
        return str(json.loads((run / "run.json").read_text(encoding="utf-8"))["status"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _run_of(adapter: Path) -> Path:
    """The folder that an adapter is named by: its run's, for `adapter` names nothing."""
    place = adapter.resolve()
    return place.parent if place.name == "adapter" else place


def _candidate(adapter: Path, label: str) -> Candidate:
    record = read_record(adapter)
    if not (adapter / WEIGHTS_FILE).is_file():
        raise ModelError(f"{adapter}: {WEIGHTS_FILE} is absent; copy the adapter folder again")
    run = _run_of(adapter)
    path = run / "config.yaml"
    is_certain = run != adapter.resolve() and path.is_file()
    facts = _read(path, yaml.safe_load) if is_certain else record["config"]
    shape: list[Any] = [_recipe(facts), {k: v for k, v in record["fingerprints"].items() if k != "adapter"}]
    if not is_certain:
        shape.append(_read(adapter / "adapter_config.json", json.loads))
    text = json.dumps(shape, sort_keys=True, default=str)
    seed = record["config"].get("seed")
    return Candidate(label, adapter, record, seed, hashlib.sha256(text.encode()).hexdigest()[:16], is_certain)


def _read(path: Path, parse: Callable[[str], Any]) -> dict[str, Any]:
    try:
        content = parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ModelError(f"{path} cannot be read: {' '.join(str(error).split())[:200]}; copy it again") from None
    if not isinstance(content, dict):
        raise ModelError(f"{path} should hold a mapping, got {type(content).__name__}; copy it again")
    return content


def _recipe(config: dict[str, Any]) -> dict[str, Any]:
    """What of a configuration shapes the training."""
    kept = copy.deepcopy({name: node for name, node in config.items() if name not in NO_PART_OF_A_RECIPE})
    kept["eval"] = (kept.get("eval") or {}).get("val_items")
    # A callback may stop the training or choose its checkpoint; the folder that it writes to does neither.
    callbacks = {name: node for name, node in (kept.get("callbacks") or {}).items() if node}
    kept["callbacks"] = {name: {k: v for k, v in node.items() if k != "dirpath"} for name, node in callbacks.items()}
    for dotted in PLACES_AND_PACE:
        node, key = dotted.split(".")
        (kept.get(node) or {}).pop(key, None)
    return kept


def _twice(found: Sequence[tuple[str, str, Candidate]]) -> list[str]:
    """A copy of an adapter is no second seed, and nothing differs from itself."""
    problems = []
    first: dict[str, tuple[str, Path]] = {}
    for key, entry, candidate in found:
        weights, place = candidate.record["fingerprints"]["adapter"], candidate.adapter.resolve()
        if weights not in first:
            first[weights] = (entry, place)
            continue
        other, other_place = first[weights]
        same = "is the same adapter as" if place == other_place else "holds the same weights as"
        hint = "it cannot be baseline and candidate" if key == "adapter" else "name each run once"
        problems.append(f"{key}: {entry} {same} {other} in compare; {hint}")
    return problems


def _other_benchmarks(found: Sequence[tuple[str, str, Candidate]], overrides: Sequence[str]) -> list[str]:
    """Notes on adapters that were trained on another benchmark than the first.

    Raises:
        ConfigError: There are some, and the command line names no benchmark.
    """
    nodes = {text.split("=", 1)[0].lstrip("+~").split(".")[0] for text in overrides}
    first = found[0][2]
    others = [(key, entry, one) for key, entry, one in found if _benchmark(one) != _benchmark(first)]
    if others and not nodes & {"data", "benchmark"}:
        raise ConfigError(
            [
                f"{key}: {entry} was trained on another benchmark ({_data(one)}, {_benchmark(one)}) than "
                f"{found[0][1]} ({_data(first)}, {_benchmark(first)}); "
                "say data=... to have all of them asked the questions of one"
                for key, entry, one in others
            ]
        )
    return [
        f"{one.label} was trained on another benchmark than {first.label}: questions asked here may be among "
        "those that it was trained on"
        for _, _, one in others
    ]


def _benchmark(candidate: Candidate) -> str:
    return str(candidate.record["fingerprints"].get("benchmark", "unknown"))


def _data(candidate: Candidate) -> str:
    return str((candidate.record["config"].get("data") or {}).get("name", "unknown"))
