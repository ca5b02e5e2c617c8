"""Every error a user can meet, and the exit code that goes with it.

An error message says four things: what was expected, what came, where (file, item, config key), and what to do next.
`EXIT_CODES` is the one documented table; entry files turn a `MedvlError` into its message and its code, never into a
traceback.
"""

from __future__ import annotations

import errno
import os

EXIT_CODES: dict[int, str] = {
    0: "finished",
    1: "a fault of medvl itself (a bug: please report it with the traceback)",
    2: "the configuration or the command line is wrong",
    3: "a quality gate failed",
    4: "the data is missing, broken or inconsistent",
    5: "the model, its weights or an adapter is missing or does not fit",
    6: "training stopped because its numbers were no longer valid",
    7: "the disk is full, read-only or otherwise refused a write",
    130: "interrupted by Ctrl-C; the last checkpoint is kept",
    143: "terminated by the system (SIGTERM)",
}
"""Exit code -> meaning."""


class MedvlError(Exception):
    """Root of all errors that carry a message for the user."""

    exit_code = 1


class ConfigError(MedvlError):
    """One or several problems of the configuration, reported together."""

    exit_code = 2

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        head = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__(f"{head} in the configuration:\n" + "\n".join(f"  - {p}" for p in problems))


class DataError(MedvlError):
    """A dataset, picture, table or benchmark folder is missing, broken or inconsistent."""

    exit_code = 4


class ModelError(MedvlError):
    """A base model, processor or adapter is missing or does not fit."""

    exit_code = 5


class TrainingError(MedvlError):
    """Training cannot go on: a loss that is not finite, or a batch without a supervised token."""

    exit_code = 6


class StorageError(MedvlError):
    """A write was refused: full disk, read-only folder, missing permission."""

    exit_code = 7


class TeamError(MedvlError):
    """Another of the processes that share this work is gone, so this one cannot go on."""

    exit_code = 143


NO_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of a disk that does not take what is written to it."""


def disk_refusal(error: BaseException) -> str | None:
    """Why the disk refused a write, in the system's words, or None when the error is about something else.

    torch and safetensors pass such an error on as text only.
    """
    if isinstance(error, OSError):
        return os.strerror(error.errno) if error.errno in NO_WRITE else None
    reasons = [os.strerror(number) for number in NO_WRITE]
    return next((reason for reason in reasons if reason in str(error)), None)
