"""The leak audit: one picture on two sides of the split.

Found by the hash of the decoded pixels and by likeness (`medvl.benchmark.near`), within and across sources, so that a
renamed, re-saved, resized or cropped copy and a neighbouring frame are seen. A copy on the side that matters more
stays: test before val before train.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from medvl.errors import DataError
from medvl.imaging.sheet import contact_sheet
from medvl.sources.record import Split

_RANK = {Split.TEST: 0, Split.VAL: 1, Split.TRAIN: 2}


@dataclass(frozen=True, slots=True)
class Placed:
    """A picture with the side it was put on.

    Attributes:
        key: Unique name of the picture (`source/record_id`).
        sha256_pixels: Hash of its pixels.
        group: Normalised group.
        split: Side.
        is_official: True when a published split put it there; such a group is never moved.
    """

    key: str
    sha256_pixels: str
    group: str
    split: Split
    is_official: bool


@dataclass(frozen=True, slots=True)
class LeakPair:
    """Two pictures that are one, on two sides.

    Attributes:
        kept: Key of the picture that stays where it is.
        copy: Key of the picture that is dropped or moved.
        kind: `identical` pixels, or `near`-identical ones.
        correlation: Likeness in [0, 1]; 1 for identical pixels.
    """

    kept: str
    copy: str
    kind: Literal["identical", "near"]
    correlation: float


@dataclass(frozen=True, slots=True)
class Leaks:
    """What was found and done.

    Attributes:
        pairs: Each picture that is dropped or moved, with the picture that decided it.
        dropped: Keys of pictures that leave the benchmark.
        moved: Group -> new side.
    """

    pairs: list[LeakPair]
    dropped: set[str]
    moved: dict[str, Split]


def audit_leaks(placed: Sequence[Placed], policy: str, near: Iterable[tuple[int, int, float]] = ()) -> Leaks:
    """Find pictures that lie on two sides and say what happens to them.

    Applying the answer leaves no pair across sides, neither an identical one nor one of `near`, whatever chains the
    pairs form. A picture leaves only for one that stays: in a chain a-b-c over test, val and train, b leaves for a,
    and c may then stay.

    Args:
        placed: All pictures.
        policy: `drop_train`: the copy on the lesser side leaves. `move`: its whole group goes to the side of the kept
            copy, unless a published split holds it, then it leaves. `fail`: stop.
        near: (i, j, correlation): places in `placed` of near-identical pictures.

    Raises:
        DataError: With `fail`, naming the first pairs.
    """
    likeness = _likeness(placed, near)
    pairs: dict[tuple[str, str], LeakPair] = {}
    moved: dict[str, Split] = {}
    while True:
        found, dropped, moving = _settled(placed, likeness, moved, is_moving=policy == "move")
        pairs |= {(pair.kept, pair.copy): pair for pair in found}
        if not moving:
            break
        moved |= moving
    leaks = Leaks(list(pairs.values()), dropped, moved)
    if leaks.pairs and policy == "fail":
        raise DataError(_refusal(leaks.pairs))
    return leaks


def settle_leaks(
    placed: Sequence[Placed], policy: str, find_near: Callable[[Sequence[Placed]], Iterable[tuple[int, int, float]]]
) -> Leaks:
    """Audit, apply, look for near pictures again, until nothing is found.

    Of very many alike pictures the search names only some pairs, and a group that moves meets pictures it was never
    compared with; what is left when this returns has been searched as a whole and gave nothing.

    Args:
        placed: All pictures.
        policy: As for `audit_leaks`.
        find_near: Pictures with their present sides -> (i, j, correlation) of near ones on different sides.

    Raises:
        DataError: As for `audit_leaks`.
    """
    pairs: dict[tuple[str, str], LeakPair] = {}
    dropped: set[str] = set()
    moved: dict[str, Split] = {}
    while (leaks := audit_leaks(placed, policy, find_near(placed))).pairs:
        pairs |= {(pair.kept, pair.copy): pair for pair in leaks.pairs}
        dropped |= leaks.dropped
        moved |= leaks.moved
        placed = [
            replace(picture, split=moved.get(picture.group, picture.split))
            for picture in placed
            if picture.key not in dropped
        ]
    return Leaks(list(pairs.values()), dropped, moved)


def leak_rows(pairs: Iterable[LeakPair], sides: Mapping[str, Split]) -> list[dict[str, str | float]]:
    """Rows of a table of leaks.

    Args:
        pairs: What the audit found.
        sides: Key of a picture -> side it was found on.
    """
    return [
        {
            "kept": pair.kept,
            "kept_side": sides[pair.kept].value,
            "copy": pair.copy,
            "copy_side": sides[pair.copy].value,
            "kind": pair.kind,
            "correlation": round(pair.correlation, 3),
        }
        for pair in pairs
    ]


def leak_sheet(
    pairs: Sequence[LeakPair], load: Callable[[str], npt.NDArray[np.uint8]], limit: int = 24, cell_px: int = 240
) -> npt.NDArray[np.uint8]:
    """Lay the first pairs out side by side, two pairs a row: kept, copy, kept, copy.

    Args:
        pairs: What the audit found, at least one pair.
        load: Key of a picture -> its pixels, uint8 [H, W, 3].
        limit: Pairs at most.
        cell_px: Side of a picture's cell.

    Returns:
        uint8 [H, W, 3].

    Raises:
        ValueError: No pairs.
    """
    shown = pairs[:limit]
    pictures = [load(key) for pair in shown for key in (pair.kept, pair.copy)]
    captions = [text for pair in shown for text in (pair.kept, f"{pair.correlation:.2f} {pair.copy}")]
    return contact_sheet(pictures, captions, columns=4, cell_px=cell_px)


def _likeness(placed: Sequence[Placed], near: Iterable[tuple[int, int, float]]) -> dict[str, dict[str, float]]:
    """Hash -> near hashes -> correlation, so that a picture is near whatever its identical copies are near."""
    likeness: dict[str, dict[str, float]] = defaultdict(dict)
    for i, j, correlation in near:
        one, other = placed[i].sha256_pixels, placed[j].sha256_pixels
        if one != other:
            best = max(correlation, likeness[one].get(other, 0.0))
            likeness[one][other] = likeness[other][one] = best
    return likeness


def _settled(
    placed: Sequence[Placed],
    likeness: Mapping[str, Mapping[str, float]],
    moved: Mapping[str, Split],
    *,
    is_moving: bool,
) -> tuple[list[LeakPair], set[str], dict[str, Split]]:
    """One pass over the pictures, those on the side that matters most first: each stays or meets one that stays."""
    sides = {picture.key: moved.get(picture.group, picture.split) for picture in placed}
    pairs: list[LeakPair] = []
    dropped: set[str] = set()
    moving: dict[str, Split] = {}
    stays: dict[str, Placed] = {}  # hash -> the first picture that stays, which is on the side that matters most
    for picture in sorted(placed, key=lambda p: (_RANK[sides[p.key]], p.key)):
        rank = _RANK[sides[picture.key]]
        alike = {picture.sha256_pixels: 1.0, **likeness.get(picture.sha256_pixels, {})}
        rivals = [
            (_RANK[sides[stays[pixels].key]], pixels != picture.sha256_pixels, -correlation, stays[pixels].key)
            for pixels, correlation in alike.items()
            if pixels in stays
        ]
        best = min(rivals, default=None)
        if best is None or best[0] == rank:
            stays.setdefault(picture.sha256_pixels, picture)
            continue
        _, is_near, negative, kept = best
        pairs.append(LeakPair(kept, picture.key, "near" if is_near else "identical", -negative))
        if is_moving and not picture.is_official:
            moving[picture.group] = min(sides[kept], moving.get(picture.group, sides[kept]), key=lambda s: _RANK[s])
        else:
            dropped.add(picture.key)
    return pairs, dropped, moving


def _refusal(pairs: Sequence[LeakPair]) -> str:
    identical = sum(pair.kind == "identical" for pair in pairs)
    kinds = [(identical, "with identical pixels"), (len(pairs) - identical, "nearly identical")]
    counts = " and ".join(f"{count} {how}" for count, how in kinds if count)
    first = "; ".join(f"{pair.kept} {'=' if pair.kind == 'identical' else '~'} {pair.copy}" for pair in pairs[:5])
    return (
        f"{len(pairs)} pictures lie on both sides of the split, {counts} ({first}); "
        "benchmark.leaks=drop_train keeps the test copy"
    )
