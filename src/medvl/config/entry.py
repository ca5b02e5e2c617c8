"""Runs an entry file: command line -> checked configuration -> the program, and every error -> message and exit code.

The whole configuration is checked before the program imports torch, so a mistake is answered in a second or two.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, get_origin

import hydra
import yaml
from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.utils import get_args_parser
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from medvl.config.overrides import check_overrides, entry_node, is_sweep, split_unknown
from medvl.config.targets import target_problems
from medvl.config.typed import Config, check, to_typed
from medvl.errors import ConfigError, MedvlError, StorageError, disk_refusal

THIRD_PARTY = ("callbacks", "logger")
"""Keys of the root whose nodes are `_target_` mappings, not ours."""


@dataclass(frozen=True)
class Job(Generic[Config]):
    """One run of the program.

    Attributes:
        config: Checked, typed values.
        composed: The same as a plain nested dictionary, interpolations resolved: what is saved beside the results.
        overrides: Overrides of the command line, as given.
    """

    config: Config
    composed: dict[str, Any]
    overrides: list[str]


@dataclass
class Finished:
    """Jobs of one command that ran to their end, in order."""

    jobs: list[tuple[list[str], Any, str]] = field(default_factory=list)
    """(overrides, what the program returned, run folder)."""

    def rows(self, metric: str) -> list[dict[str, Any]]:
        """One row a job for the table of a sweep."""
        common = set.intersection(*(set(overrides) for overrides, _, _ in self.jobs)) if len(self.jobs) > 1 else set()
        return [
            {
                "overrides": [text for text in overrides if text not in common],
                "metric": metric,
                "value": value,
                "run_folder": os.path.relpath(folder),
            }
            for overrides, value, folder in self.jobs
        ]


def run_entry(config_name: str, root: type[Config], conf_dir: Path, program: Callable[[Job[Config]], Any]) -> Finished:
    """Run `program` once, or once for each job of a sweep, as `sys.argv` says.

    Args:
        config_name: File in `conf_dir` with the defaults list (`train`).
        root: Schema.
        conf_dir: The folder `conf`.
        program: Called with each job. Its value is what a sweep optimises.

    Returns:
        What finished. Does not return when something went wrong: prints one message and exits with the code of
        `medvl.errors.EXIT_CODES`.
    """
    finished = Finished()
    try:
        ConfigStore.instance().store(name="schema", node=default_node(root))
        arguments = get_args_parser().parse_args()
        if not (arguments.help or arguments.hydra_help or arguments.info or arguments.shell_completion):
            outputs = check_command_line(config_name, root, conf_dir, arguments.overrides, multirun=arguments.multirun)
            if not arguments.cfg:
                refuse_unwritable(outputs)

        def task(composed: DictConfig) -> Any:
            try:
                value = program(_with_checked_targets(job_of(composed, root, conf_dir)))
            except BaseException as error:  # Hydra would print its own account and exit with 1
                _exit(error)
            finished.jobs.append((list(HydraConfig.get().overrides.task), value, str(composed.paths.run)))
            return value

        hydra.main(version_base="1.3", config_path=str(conf_dir), config_name=config_name)(task)()
    except BaseException as error:
        _exit(error)
    return finished


def job_of(composed: DictConfig, root: type[Config], conf_dir: Path) -> Job[Config]:
    """The typed job inside a running Hydra application."""
    settings = HydraConfig.get()
    overrides = list(settings.overrides.task)
    config = to_typed(
        composed,
        root,
        conf_dir=conf_dir,
        choices=dict(settings.runtime.choices),
        overrides=overrides,
        config_name=str(settings.job.config_name),
    )
    resolved = OmegaConf.to_container(composed, resolve=True)
    assert isinstance(resolved, dict)
    return Job(config, {str(key): value for key, value in resolved.items()}, overrides)


def _with_checked_targets(job: Job[Config]) -> Job[Config]:
    problems: list[str] = []
    for name in THIRD_PARTY:
        problems += target_problems(name, getattr(job.config, name, {}))
    if problems:
        raise ConfigError(problems)
    return job


def default_node(root: type[BaseModel]) -> DictConfig:
    """Defaults of a schema as the first entry of the defaults list.

    So every key exists and can be overridden without a `+`. In mappings with keys of the user's choice
    (`task_mix.weights`) and in the entries of a list (`data.own.0.task`) any key can, in those of third-party nodes
    only keys that an option names.
    """
    node = OmegaConf.create(default_values(root))
    for key in _open_keys(root):
        OmegaConf.set_struct(OmegaConf.select(node, key), False)
    return node


def _open_keys(root: type[BaseModel], inside: str = "") -> list[str]:
    found = []
    for name, info in root.model_fields.items():
        annotation, key = info.annotation, f"{inside}{name}"
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            found += _open_keys(annotation, f"{key}.")
        elif (get_origin(annotation) is dict and key not in THIRD_PARTY) or entry_node(annotation) is not None:
            found.append(key)
    return found


def default_values(root: type[BaseModel]) -> dict[str, Any]:
    """Defaults of a schema as nested dictionaries, `???` where a value must come from a file or the command line."""
    values: dict[str, Any] = {}
    for name, info in root.model_fields.items():
        annotation = info.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            values[name] = default_values(annotation)
        else:
            default = info.get_default(call_default_factory=True)
            values[name] = "???" if default is PydanticUndefined else default
    return values


def check_command_line(
    config_name: str, root: type[Config], conf_dir: Path, overrides: list[str], *, multirun: bool = False
) -> set[Path]:
    """Compose every job of the command line and raise all of their problems together.

    Args:
        config_name: File in `conf_dir` with the defaults list.
        root: Schema.
        conf_dir: The folder `conf`.
        overrides: Overrides of the command line.
        multirun: Whether `--multirun` was given.

    Returns:
        Folders that the run folders will lie in.

    Raises:
        ConfigError: Listing each problem once.
    """
    if not conf_dir.is_dir():
        raise ConfigError([f"the folder {conf_dir.name} with the options is absent; it belongs beside the entry file"])
    problems: list[str] = []
    outputs: set[Path] = set()
    try:
        with initialize_config_dir(str(conf_dir), version_base="1.3", job_name=config_name):
            good, problems = check_overrides(overrides, conf_dir, root, _groups(config_name, conf_dir))
            for composed, job in _composed_jobs(config_name, good, conf_dir, problems, multirun=multirun):
                with open_dict(composed):
                    choices = dict(composed.hydra.runtime.choices)
                    composed.pop("hydra")
                    if "paths" in composed:
                        composed.paths.run = "run"  # known only inside a running job
                config, found = check(
                    composed, root, conf_dir=conf_dir, choices=choices, overrides=job, config_name=config_name
                )
                problems += found
                if config is not None:
                    outputs.add(Path(config.paths.outputs))
    except (HydraException, OmegaConfBaseException) as error:
        problems.append(_compose_problem(error))
    except yaml.MarkedYAMLError as error:
        problems.append(_yaml_problem(error, conf_dir))
    except UnicodeDecodeError as error:
        problems.append(f"{_undecodable(conf_dir)} is not UTF-8 text: {error.reason} {error.object[error.start]:#x}")
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    return outputs


def refuse_unwritable(folders: Iterable[Path]) -> None:
    """Make sure that run folders can be made; Hydra makes them itself and would end in a traceback.

    Raises:
        StorageError: A folder cannot be made or written to.
    """
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise StorageError(
                f"cannot write to {folder}: {os.strerror(error.errno or 0)}; say paths.outputs=DIR "
                "(and paths.data=DIR) with a folder that you may write to"
            ) from error


def _composed_jobs(
    config_name: str, overrides: list[str], conf_dir: Path, problems: list[str], *, multirun: bool
) -> Iterator[tuple[DictConfig, list[str]]]:
    """(composed, its overrides) of each job; adds to `problems` what keeps an override out of the composition."""
    groups = [text for text in overrides if _is_group(text, conf_dir)]
    options = tuple(_jobs(groups)[0])
    first = compose(config_name, overrides=list(options), return_hydra_config=True)
    bases = {options: first}
    is_sweep_run = multirun or first.hydra.mode is RunMode.MULTIRUN
    params: Mapping[str, Any] = first.hydra.sweeper.get("params") or {}
    if is_sweep_run:
        overrides = [*(f"{key}={value}" for key, value in params.items()), *overrides]
    elif several := [text for text in overrides if is_sweep(text)]:
        problems += [
            f"'{text}' gives several values: add -m for one run each, or write key=[a,b] for a list" for text in several
        ]
    for job in _jobs(overrides):
        options = tuple(text for text in job if _is_group(text, conf_dir))
        if options not in bases:
            bases[options] = compose(config_name, overrides=list(options))
        known, unknown = split_unknown(job, bases[options], conf_dir)
        problems += unknown
        yield compose(config_name, overrides=known, return_hydra_config=True), known


def _is_group(text: str, conf_dir: Path) -> bool:
    return (conf_dir / text.split("=", 1)[0].lstrip("+~")).is_dir()


def _undecodable(conf_dir: Path) -> str:
    for path in sorted(conf_dir.rglob("*.yaml")):
        try:
            path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            return f"{conf_dir.name}/{path.relative_to(conf_dir).as_posix()}"
    return conf_dir.name


def _yaml_problem(error: yaml.MarkedYAMLError, conf_dir: Path) -> str:
    """File, line and what the YAML reader says, on one line."""
    mark = error.problem_mark or error.context_mark
    where = conf_dir.name
    if mark is not None:
        path = Path(mark.name)
        inside = path.relative_to(conf_dir).as_posix() if path.is_relative_to(conf_dir) else path.name
        where = f"{conf_dir.name}/{inside}:{mark.line + 1}"
    return f"{where} is not valid YAML: {error.problem or error.context}"


def _groups(config_name: str, conf_dir: Path) -> list[str]:
    """Groups in the defaults list of an entry file."""
    with (conf_dir / f"{config_name}.yaml").open(encoding="utf-8") as file:  # as a file, so that a fault names it
        defaults = yaml.safe_load(file)["defaults"]
    names = [str(next(iter(entry))) for entry in defaults if not isinstance(entry, str)]
    return [name.removeprefix("optional ") for name in names if not name.startswith("override ")]


def _jobs(overrides: list[str]) -> list[list[str]]:
    parsed = OverridesParser.create().parse_overrides(overrides)
    return [list(job) for job in BasicSweeper.split_arguments(parsed, None)[0]]


def _compose_problem(error: BaseException) -> str:
    """Hydra's own account of a file that cannot be composed, on one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if error.__cause__ is not None:
        lines += [line.strip() for line in str(error.__cause__).splitlines()[:2]]
    return "; ".join(dict.fromkeys(lines[:4]))


def _exit(error: BaseException) -> None:
    """Print what went wrong for the person who meets it and leave with its exit code."""
    if isinstance(error, SystemExit):
        raise error
    if isinstance(error, KeyboardInterrupt):
        print(f"\n{str(error) or 'interrupted'}", file=sys.stderr)
        sys.exit(130)
    refusal = disk_refusal(error)
    if refusal is not None and not isinstance(error, MedvlError):
        error = StorageError(f"cannot write {getattr(error, 'filename', None) or 'a file'}: {refusal}")
    elif isinstance(error, PermissionError):
        error = StorageError(
            f"no permission for {error.filename or 'a file'}; change its rights or name another folder"
        )
    if isinstance(error, MedvlError):
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    raise error
