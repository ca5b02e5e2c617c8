"""Run-length codes of binary masks in the form of the SIIM-ACR challenge.

A code is a list of pairs `offset length`. An offset counts the unmarked pixels since the end of the run before (the
first one since the start of the picture), so positions are relative. Pixels are counted down the columns, from the left
column to the right one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Runs = npt.NDArray[np.int64]
"""int64 [N, 2]: start and stop (one past the end) of each run, counted down the columns from 0."""


def decode_runs(code: str, pixels: int) -> Runs:
    """Positions of the runs of one code.

    Args:
        code: `offset length` pairs separated by blanks; empty for an empty mask.
        pixels: Number of pixels of the picture.

    Returns:
        Runs in rising order, not touching each other unless an offset is 0.

    Raises:
        ValueError: The code holds something other than whole numbers, an odd number of them, a negative offset, a run
            of no pixel, or leaves the picture.
    """
    try:
        numbers = np.array(code.split(), dtype=np.int64)
    except (ValueError, OverflowError):
        raise ValueError(f"expected whole numbers, found {code[:40]!r}") from None
    if numbers.size % 2:
        raise ValueError(f"expected pairs of offset and length, found {numbers.size} numbers")
    offsets, lengths = numbers[0::2], numbers[1::2]
    # Checked before they are summed: sums of absurd numbers could wrap around.
    if ((offsets < 0) | (offsets > pixels)).any():
        raise ValueError(f"expected offsets from 0 to {pixels}, found {offsets[(offsets < 0) | (offsets > pixels)][0]}")
    if ((lengths < 1) | (lengths > pixels)).any():
        raise ValueError(f"expected lengths from 1 to {pixels}, found {lengths[(lengths < 1) | (lengths > pixels)][0]}")
    stops = np.cumsum(offsets + lengths)
    if stops.size and stops[-1] > pixels:
        raise ValueError(f"expected runs inside {pixels} pixels, found one that ends at {stops[-1]}")
    return np.stack([stops - lengths, stops], axis=1)


def union_runs(parts: Sequence[Runs]) -> Runs:
    """Runs of all pixels that at least one part marks.

    Args:
        parts: Runs of masks of one picture, in any order.

    Returns:
        Disjoint runs in rising order, with an unmarked pixel between any two.
    """
    runs = np.concatenate([*parts, np.empty((0, 2), np.int64)])
    if not len(runs):
        return runs
    runs = runs[np.argsort(runs[:, 0], kind="stable")]
    reach = np.maximum.accumulate(runs[:, 1])
    first = np.concatenate([[True], runs[1:, 0] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.stack([runs[first, 0], reach[last]], axis=1)


def runs_area(runs: Runs) -> int:
    """Number of pixels of disjoint runs."""
    return int((runs[:, 1] - runs[:, 0]).sum())


def runs_box(runs: Runs, height: int) -> tuple[int, int, int, int]:
    """Enclosing box of at least one run, without drawing it.

    Args:
        runs: Runs.
        height: Height of the picture in pixels.

    Returns:
        Half-open (x0, y0, x1, y1) in pixels, origin top left.
    """
    first, last = runs[:, 0], runs[:, 1] - 1
    left, right = first // height, last // height
    # A run that goes on in the next column touches the lower border and the upper one.
    crosses = left != right
    top = np.where(crosses, 0, first % height)
    bottom = np.where(crosses, height - 1, last % height)
    return int(left.min()), int(top.min()), int(right.max()) + 1, int(bottom.max()) + 1


def decode_mask(code: str, width: int, height: int) -> npt.NDArray[np.bool_]:
    """The mask of one code.

    Returns:
        bool [H, W].

    Raises:
        ValueError: As for `decode_runs`.
    """
    flat = np.zeros(width * height, dtype=bool)
    for start, stop in decode_runs(code, width * height):
        flat[start:stop] = True
    return flat.reshape(width, height).T


def encode_mask(mask: npt.NDArray[np.bool_]) -> str:
    """The code of one mask.

    Args:
        mask: bool [H, W].

    Returns:
        `offset length` pairs; empty for an empty mask.
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask.T.ravel(), [False]]).astype(np.int8)))
    starts, stops = edges[0::2], edges[1::2]
    offsets = starts - np.concatenate([[0], stops[:-1]]) if len(starts) else starts
    return " ".join(f"{offset} {stop - start}" for offset, start, stop in zip(offsets, starts, stops, strict=True))
