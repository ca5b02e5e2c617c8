"""Several processes that share one evaluation, started by `torchrun`: each question is asked by one of them.

What they tell each other goes over gloo on the CPU, so a model may sit on any device. A process that dies takes the
others with it (torchrun sees to that); answers that were kept by then are there for the next run.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import torch.distributed as dist
from rich.console import Console

from medvl.benchmark.item import Item
from medvl.errors import ConfigError, TeamError

T = TypeVar("T")

PATIENCE = timedelta(hours=24)
"""How long a process waits for the others: shares take as long as their pictures are large."""

RANK, SIZE = "RANK", "WORLD_SIZE"


@dataclass(frozen=True, slots=True)
class Team:
    """The processes of one evaluation, seen from one of them.

    Attributes:
        rank: This process, from 0.
        size: How many there are.
    """

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes the files and speaks to the user."""
        return self.rank == 0

    @contextmanager
    def leader_first(self) -> Iterator[None]:
        """Run a block in the first process, then in the others: what it builds is built once."""
        if not self.leads:
            self.agreed(None)
        yield
        if self.leads:
            self.agreed(None)

    def share(self, items: Sequence[Item], *, whole: bool = False) -> list[Item]:
        """This process's part of some items, in their order: pictures stay whole, and parts have about one size.

        Args:
            items: The same in every process.
            whole: Leave all of them to the first process.
        """
        if self.size == 1 or whole:
            return list(items) if self.leads else []
        pictures: dict[str, list[Item]] = defaultdict(list)
        for item in items:
            pictures[item.sha256_pixels].append(item)
        loads = [0] * self.size
        owner = {}
        for picture, asked in sorted(pictures.items(), key=lambda entry: -len(entry[1])):
            owner[picture] = loads.index(min(loads))
            loads[owner[picture]] += len(asked)
        return [item for item in items if owner[item.sha256_pixels] == self.rank]

    def gathered(self, mine: Sequence[T]) -> list[T]:
        """What all processes have, those of the first one first. Every process must call it.

        Raises:
            TeamError: A process is gone.
        """
        if self.size == 1:
            return list(mine)
        found: list[Any] = [None] * self.size
        with _heard():
            dist.all_gather_object(found, list(mine))
        return [one for part in found for one in part]

    def agreed(self, value: T) -> T:
        """The value of the first process, in all of them. Every process must call it.

        Raises:
            TeamError: A process is gone.
        """
        if self.size == 1:
            return value
        told = [value]
        with _heard():
            dist.broadcast_object_list(told, src=0)
        return told[0]


@contextmanager
def _heard() -> Iterator[None]:
    """One process has said what went wrong; that the others no longer hear of it is no fault of their own."""
    try:
        yield
    except RuntimeError as error:  # what gloo raises
        raise TeamError(
            "another process of this evaluation ended, see its message; answers kept so far are safe, and the same "
            "command goes on from them"
        ) from error


ALONE = Team()


def join_team() -> Team:
    """The team that this process was started in; alone when it was started as usual.

    Raises:
        ConfigError: The environment names a team but not how to find it.
    """
    size = int(os.environ.get(SIZE, "1"))
    if size == 1:
        return ALONE
    if absent := [name for name in (RANK, "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]:
        raise ConfigError(
            [
                f"{SIZE}={size} in the environment, but {', '.join(absent)} is absent: start the processes with "
                f"torchrun --nproc-per-node={size} evaluate.py ..., or unset {SIZE} to use one process"
            ]
        )
    if not dist.is_initialized():
        dist.init_process_group("gloo", timeout=PATIENCE)
    return Team(dist.get_rank(), dist.get_world_size())


@contextmanager
def joined_team(folder: Path, console: Console) -> Iterator[tuple[Team, Path]]:
    """Join the team while the block runs.

    Args:
        folder: Run folder.
        console: Where the user is spoken to: by the first process alone.

    Yields:
        The team, and where this process writes: the run folder, or for all but the first a folder that is thrown away.

    Raises:
        ConfigError: See `join_team`.
    """
    team = join_team()
    if team.size == 1:
        yield team, folder
        return
    try:
        with TemporaryDirectory() as spare:
            console.quiet = not team.leads
            yield team, folder if team.leads else Path(spare)
    finally:
        console.quiet = False
        dist.destroy_process_group()
