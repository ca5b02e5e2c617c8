"""Lightning's W&B logger without the setting that W&B warns about at every start."""

from __future__ import annotations

from typing import Any

from pytorch_lightning.loggers import WandbLogger


class QuietWandbLogger(WandbLogger):
    """A W&B logger; takes what Lightning's takes.

    Lightning 2.6 always hands over `anonymous`, which W&B no longer knows.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._wandb_init.pop("anonymous", None)
