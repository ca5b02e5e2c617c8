"""A checked configuration without a running Hydra application: for commands that are no entry file."""

from __future__ import annotations

from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from omegaconf import open_dict

import medvl
from medvl.config.entry import check_command_line, default_node
from medvl.config.typed import Config, to_typed
from medvl.errors import ConfigError


def find_conf() -> Path:
    """The folder `conf`: where the command is run, else in the project that medvl is installed from.

    Raises:
        ConfigError: There is none.
    """
    places = [Path.cwd() / "conf", Path(medvl.__file__).resolve().parents[2] / "conf"]
    for place in places:
        if (place / "build.yaml").is_file():
            return place
    raise ConfigError(["there is no folder conf with the options here; run the command in the project's folder"])


def compose_config(config_name: str, root: type[Config], overrides: list[str], conf_dir: Path) -> Config:
    """Compose and check.

    Args:
        config_name: File in `conf_dir` with the defaults list.
        root: Schema.
        overrides: Overrides as Hydra takes them.
        conf_dir: The folder `conf`.

    Raises:
        ConfigError: Listing every problem.
    """
    ConfigStore.instance().store(name="schema", node=default_node(root))
    check_command_line(config_name, root, conf_dir, overrides)
    with initialize_config_dir(str(conf_dir), version_base="1.3", job_name=config_name):
        composed = compose(config_name, overrides=overrides, return_hydra_config=True)
        with open_dict(composed):
            choices = dict(composed.hydra.runtime.choices)
            composed.pop("hydra")
            composed.paths.run = ""  # there is no run
        return to_typed(
            composed, root, conf_dir=conf_dir, choices=choices, overrides=overrides, config_name=config_name
        )
