"""Figures of `metrics.json` under the names that loggers, callbacks and sweeps know them by."""

from __future__ import annotations

from typing import Any

from medvl.errors import DataError

STAGES = ("val", "test")

METRIC_NAME_PATTERN = (
    r"^(val|test)/(macro_accuracy|accuracy|invalid_rate|loss"
    r"|task/[A-Z]{2}/accuracy|tier/(small|medium|large)/accuracy|domain/(clinical|phantom)/accuracy)$"
)
"""Every name that `logged_metrics` can give, as a regular expression."""

_OVERALL = ("macro_accuracy", "accuracy", "invalid_rate", "loss")
_TABLES = {"tasks": "task", "tiers": "tier", "domains": "domain"}


def logged_metrics(metrics: dict[str, Any], stage: str) -> dict[str, float]:
    """Flatten the content of `metrics.json` to logged names.

    Args:
        metrics: Result of `summarise`.
        stage: `val` or `test`.

    Returns:
        Name -> value: `<stage>/macro_accuracy`, `<stage>/task/<T>/accuracy`, and so on. What is absent is left out.

    Raises:
        DataError: Another stage.
    """
    if stage not in STAGES:
        raise DataError(f"Metrics are logged for the stages {' and '.join(STAGES)}, got '{stage}'.")
    logged = {f"{stage}/{name}": metrics["overall"][name] for name in _OVERALL}
    for table, word in _TABLES.items():
        for name, cell in metrics[table].items():
            if cell is not None:
                logged[f"{stage}/{word}/{name}/accuracy"] = cell["accuracy"]
    return {name: float(value) for name, value in logged.items() if value is not None}
