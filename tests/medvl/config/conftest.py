"""A copy of conf/ to plant faults in, and a command line to run on it."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig

from medvl.config.entry import run_entry
from medvl.config.schema import TrainConfig

CONF = Path(__file__).resolve().parents[3] / "conf"


@dataclass
class Ended:
    """How a command ended: exit code, standard error, what finished, the jobs that ran."""

    code: int
    err: str
    finished: object
    jobs: list


@pytest.fixture
def conf(tmp_path) -> Path:
    return Path(shutil.copytree(CONF, tmp_path / "conf"))


@pytest.fixture
def command(conf, tmp_path, monkeypatch, capsys):
    """Runs a stand-in for train.py: `command("lora.r=3", program=...)`. Third-party nodes are off."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, program=None) -> Ended:
        off = ["callbacks=none", "logger=none"]
        flags = [text for text in arguments if text.startswith("-")]
        monkeypatch.setattr(sys, "argv", ["train.py", *flags, *off, *(text for text in arguments if text not in flags)])
        jobs = []

        def task(job):
            jobs.append(job)
            return program(job) if program else 1.0

        finished, code = None, 0
        try:
            finished = run_entry("train", TrainConfig, conf, task)
        except SystemExit as leave:
            code = leave.code or 0
        finally:
            GlobalHydra.instance().clear()
            HydraConfig.instance().cfg = None
        return Ended(code, capsys.readouterr().err, finished, jobs)

    return run
