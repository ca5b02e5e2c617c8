"""Runs an entry file: command line -> checked configuration -> the program, and every error -> message and exit code.

The whole configuration is checked before the program imports torch, so a mistake is answered in a second or two.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic

import hydra
import yaml
from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.utils import get_args_parser
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from medvl.config.overrides import check_overrides
from medvl.config.typed import Config, check, to_typed
from medvl.errors import ConfigError, MedvlError, StorageError


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
        return [
            {"overrides": overrides, "metric": metric, "value": value, "run_folder": folder}
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
        ConfigStore.instance().store(name="schema", node=default_values(root))
        arguments = get_args_parser().parse_args()
        if not (arguments.help or arguments.hydra_help or arguments.info or arguments.shell_completion):
            check_command_line(config_name, root, conf_dir, arguments.overrides)

        def task(composed: DictConfig) -> Any:
            try:
                value = program(job_of(composed, root, conf_dir))
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
    config = to_typed(composed, root, conf_dir=conf_dir, choices=dict(settings.runtime.choices), overrides=overrides)
    resolved = OmegaConf.to_container(composed, resolve=True)
    assert isinstance(resolved, dict)
    return Job(config, {str(key): value for key, value in resolved.items()}, overrides)


def default_values(root: type[BaseModel]) -> dict[str, Any]:
    """Defaults of a schema as nested dictionaries, `???` where a value must come from a file or the command line.

    They are the first entry of the defaults list, so that every key exists and can be overridden without a `+`.
    """
    values: dict[str, Any] = {}
    for name, info in root.model_fields.items():
        annotation = info.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            values[name] = default_values(annotation)
        elif info.default is PydanticUndefined:
            values[name] = "???"
        else:
            values[name] = info.default
    return values


def check_command_line(config_name: str, root: type[Config], conf_dir: Path, overrides: list[str]) -> None:
    """Compose every job of the command line and raise all of their problems together.

    Raises:
        ConfigError: Listing each problem once.
    """
    if not conf_dir.is_dir():
        raise ConfigError([f"the folder {conf_dir.name} with the options is absent; it belongs beside the entry file"])
    with initialize_config_dir(str(conf_dir), version_base="1.3", job_name=config_name):
        good, problems = check_overrides(overrides, conf_dir, root, _groups(config_name, conf_dir))
        for job in _jobs(good):
            try:
                composed = compose(config_name, overrides=job, return_hydra_config=True)
            except (HydraException, OmegaConfBaseException) as error:
                problems.append(_compose_problem(error))
                break
            with open_dict(composed):
                choices = dict(composed.hydra.runtime.choices)
                composed.pop("hydra")
                composed.paths.run = "run"  # known only inside a running job
            problems += check(composed, root, conf_dir=conf_dir, choices=choices, overrides=job)[1]
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


def _groups(config_name: str, conf_dir: Path) -> list[str]:
    """Groups in the defaults list of an entry file."""
    defaults = yaml.safe_load((conf_dir / f"{config_name}.yaml").read_text(encoding="utf-8"))["defaults"]
    names = [str(next(iter(entry))) for entry in defaults if not isinstance(entry, str)]
    return [name for name in names if not name.startswith("override ")]


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
        print("\ninterrupted", file=sys.stderr)
        sys.exit(130)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
        error = StorageError(f"cannot write {error.filename or 'a file'}: {os.strerror(error.errno)}")
    if isinstance(error, MedvlError):
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    raise error
