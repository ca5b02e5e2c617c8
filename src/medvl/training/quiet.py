"""Silences what libraries say to their developers; what concerns the run is said by medvl."""

from __future__ import annotations

import logging
import os
import warnings

QUIET_LOGGERS = (
    "pytorch_lightning",
    "pytorch_lightning.utilities.rank_zero",
    "pytorch_lightning.accelerators.cuda",
    "bitsandbytes.backends.cpu.ops",  # asks for an optional kernel package when it is merely imported
)
QUIET_WARNINGS = (
    ".*does not have many workers.*",
    ".*This DataLoader will create .* worker processes.*",
    ".*The number of training batches.*",
    ".*Checkpoint directory .* exists and is not empty.*",
    ".*Experiment logs directory .* exists and is not empty.*",
    ".*in eval mode at the start of training.*",
    ".*LeafSpec.*",
    ".*is_gradient_checkpointing.*",
    ".*There is a wandb run already in progress.*",
)


def silence_libraries() -> None:
    """Switch off tips and warnings that a user can do nothing about; call it before the libraries are imported."""
    logging.raiseExceptions = False  # a full disk is said once, by medvl, not by every library's own log file
    os.environ.setdefault("WANDB_SILENT", "true")
    for name in QUIET_LOGGERS:
        # no level: Lightning sets its own when it is imported
        logging.getLogger(name).addFilter(_errors_only)
    for message in QUIET_WARNINGS:
        warnings.filterwarnings("ignore", message=message)


def _errors_only(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR
