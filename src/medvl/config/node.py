"""What all configuration classes are made of."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

TaskName = Literal["PI", "VC", "FO", "CD", "VG", "FD"]


class Node(BaseModel):
    """Base of all configuration nodes: closed and read-only."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False)
