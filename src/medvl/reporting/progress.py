"""Progress of long steps: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class StepProgress:
    """Called with (what, done, in all); a new `what` starts a new bar.

    Args:
        bars: The display, or None for silence.
    """

    def __init__(self, bars: Progress | None) -> None:
        self._bars = bars
        self._tasks: dict[str, int] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show that `done` of `total` are done."""
        if self._bars is None:
            return
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(what, total=total)
        self._bars.update(self._tasks[what], completed=done, total=total)  # type: ignore[arg-type]

    def of(self, what: str) -> Callable[[int, int], None]:
        """A callback with (done, in all) for one step."""
        return lambda done, total: self(what, done, total)


@contextmanager
def step_progress(console: Console) -> Iterator[StepProgress]:
    """Progress bars with rate and remaining time while the block runs; silent when the console is no terminal."""
    if not console.is_terminal:
        yield StepProgress(None)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        yield StepProgress(bars)
