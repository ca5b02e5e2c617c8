"""The leak audit: one picture, or one group, on two sides of the split.

Copies are found by the hash of the decoded pixels and by likeness (`medvl.benchmark.near`), within and across sources,
so that a renamed, re-saved, resized or cropped copy and a neighbouring frame are seen. A group lies on two sides only
where sources that share it (`Source.shares_groups_with`) were bound to different ones. What is on the side that matters
more stays: test before val before train.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from medvl.benchmark.split import SIDE_RANK
from medvl.errors import DataError
from medvl.sources.record import Split

Kind = Literal["group", "identical", "near"]
"""Why two pictures must not lie on two sides: one group, identical pixels, near-identical pixels."""

_KINDS: tuple[Kind, ...] = ("identical", "near", "group")  # a pair is named by the first that holds

LEAK_COLUMNS = (
    *("kind", "correlation", "done"),
    *("kept_source", "kept_picture", "kept_frame", "kept_split"),
    *("copy_source", "copy_picture", "copy_frame", "copy_split"),
    "dropped_items",
)
"""Keys of a row of leaks, see `leak_rows`."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A picture with the side it was put on.

    Attributes:
        key: Unique name of the picture (`source/record_id`).
        sha256_pixels: Hash of its pixels.
        group: Normalised group.
        split: Side.
        is_official: True when a published split put it there; such a picture is never moved.
        picture: Path relative to the data root.
        frame: Frame of a multi-frame file.
    """

    key: str
    sha256_pixels: str
    group: str
    split: Split
    is_official: bool
    picture: str = ""
    frame: int | None = None

    @property
    def source(self) -> str:
        """Name of its source."""
        return self.key.partition("/")[0]


@dataclass(frozen=True, slots=True)
class LeakPair:
    """Two pictures that belong together, on two sides.

    Attributes:
        kept: Key of the picture that stays where it is.
        copy: Key of the picture that is dropped or moved.
        kind: What they have in common.
        correlation: Likeness in [0, 1]; 1 for identical pixels, None where only the group is shared.
        kept_split: Side of the one when the pair was found.
        copy_split: Side of the other.
    """

    kept: str
    copy: str
    kind: Kind
    correlation: float | None
    kept_split: Split
    copy_split: Split


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

    def side_of(self, group: str, side: Split, *, is_official: bool) -> Split:
        """Side of a group's pictures that lay on `side` before."""
        return _side(group, side, self.moved, is_official=is_official)


def audit_leaks(placed: Sequence[Placed], policy: str, near: Iterable[tuple[int, int, float]] = ()) -> Leaks:
    """Find pictures that lie on two sides and say what happens to them.

    Applying the answer leaves no pair across sides, neither of one group, nor an identical one, nor one of `near`,
    whatever chains the pairs form. A picture leaves only for one that stays: in a chain a-b-c over test, val and train,
    b leaves for a, and c may then stay.

    Args:
        placed: All pictures.
        policy: `drop_train`: the copy on the lesser side leaves. `move`: its whole group goes to the side of the kept
            copy, but for pictures that a published split holds: they leave. `fail`: stop.
        near: (i, j, correlation): places in `placed` of near-identical pictures.

    Raises:
        DataError: With `fail`, naming the first pairs.
    """
    likeness = _likeness(placed, near)
    groups = {picture.key: picture.group for picture in placed}
    moves: list[LeakPair] = []
    moved: dict[str, Split] = {}
    while True:
        leaving, moving = _settled(placed, likeness, moved, is_moving=policy == "move")
        if not moving:
            break
        moves += moving
        for pair in moving:
            group = groups[pair.copy]
            moved[group] = min(pair.kept_split, moved.get(group, pair.kept_split), key=SIDE_RANK.__getitem__)
    leaks = Leaks(_distinct([*moves, *leaving]), {pair.copy for pair in leaving}, moved)
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
    settled = Leaks([], set(), {})
    while (leaks := audit_leaks(placed, policy, find_near(placed))).pairs:
        pairs = _distinct(settled.pairs + leaks.pairs)
        settled = Leaks(pairs, settled.dropped | leaks.dropped, settled.moved | leaks.moved)
        placed = [
            replace(p, split=leaks.side_of(p.group, p.split, is_official=p.is_official))
            for p in placed
            if p.key not in leaks.dropped
        ]
    return settled


def leak_rows(
    leaks: Leaks, placed: Iterable[Placed], items: Mapping[str, Sequence[str]] | None = None
) -> list[dict[str, Any]]:
    """Rows of a table of leaks, plain JSON.

    Args:
        leaks: What the audit found.
        placed: The pictures it was given.
        items: Key of a picture -> ids of its items, to list those of dropped pictures.

    Returns:
        A row a pair with `LEAK_COLUMNS`. Splits are those on which the two were found; `done` is `dropped` or `moved`.
    """
    pictures = {picture.key: picture for picture in placed}
    rows = []
    for pair in leaks.pairs:
        is_dropped = pair.copy in leaks.dropped
        row: dict[str, Any] = {
            "kind": pair.kind,
            "correlation": None if pair.correlation is None else round(pair.correlation, 3),
            "done": "dropped" if is_dropped else "moved",
        }
        for role, key, split in (("kept", pair.kept, pair.kept_split), ("copy", pair.copy, pair.copy_split)):
            picture = pictures[key]
            facts = {"source": picture.source, "picture": picture.picture, "frame": picture.frame, "split": split.value}
            row |= {f"{role}_{name}": value for name, value in facts.items()}
        rows.append({**row, "dropped_items": list((items or {}).get(pair.copy, ())) if is_dropped else []})
    return rows


def card_leaks(card: Mapping[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Rows of the leaks that were settled when a benchmark was built.

    Args:
        card: Content of its `card.json`.
        folder: Folder of the benchmark, for messages.

    Raises:
        DataError: The card lists them in another way, or not at all.
    """
    rows = card.get("leaks")
    if not isinstance(rows, list) or not all(isinstance(row, dict) and set(LEAK_COLUMNS) <= set(row) for row in rows):
        raise DataError(f"{folder}: its card lists leaks as an earlier medvl did; delete the folder and build again")
    return rows


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
) -> tuple[list[LeakPair], list[LeakPair]]:
    """One pass over the pictures, those on the side that matters most first: each stays or meets one that stays.

    Returns:
        (pairs whose copy leaves, pairs whose copy's group moves).
    """
    sides = {p.key: _side(p.group, p.split, moved, is_official=p.is_official) for p in placed}
    leaving: list[LeakPair] = []
    moving: list[LeakPair] = []
    # The first picture of a hash or group that stays is on the side that matters most.
    by_pixels: dict[str, str] = {}
    by_group: dict[str, str] = {}
    for picture in sorted(placed, key=lambda p: (SIDE_RANK[sides[p.key]], p.key)):
        side = sides[picture.key]
        alike = {picture.sha256_pixels: 1.0, **likeness.get(picture.sha256_pixels, {})}
        rivals = [
            (SIDE_RANK[sides[by_pixels[pixels]]], int(pixels != picture.sha256_pixels), -correlation, by_pixels[pixels])
            for pixels, correlation in alike.items()
            if pixels in by_pixels
        ]
        if picture.group in by_group:
            other = by_group[picture.group]
            rivals.append((SIDE_RANK[sides[other]], _KINDS.index("group"), 0.0, other))
        best = min(rivals, default=None)
        if best is None or best[0] == SIDE_RANK[side]:
            by_pixels.setdefault(picture.sha256_pixels, picture.key)
            by_group.setdefault(picture.group, picture.key)
            continue
        _, kind, negative, kept = best
        correlation = None if _KINDS[kind] == "group" else -negative
        pair = LeakPair(kept, picture.key, _KINDS[kind], correlation, sides[kept], side)
        (moving if is_moving and not picture.is_official else leaving).append(pair)
    return leaving, moving


def _distinct(pairs: Iterable[LeakPair]) -> list[LeakPair]:
    """Each two pictures once, as they were first found: a pair that moves to val and on to test is one leak."""
    first: dict[tuple[str, str], LeakPair] = {}
    for pair in pairs:
        first.setdefault((pair.kept, pair.copy), pair)
    return list(first.values())


def _side(group: str, side: Split, moved: Mapping[str, Split], *, is_official: bool) -> Split:
    """Side of a picture after moves: never a lesser one, and always its own where a published split holds it."""
    return side if is_official else min(side, moved.get(group, side), key=SIDE_RANK.__getitem__)


def _refusal(pairs: Sequence[LeakPair]) -> str:
    found = Counter(pair.kind for pair in pairs)
    said: dict[Kind, str] = {
        "identical": "with identical pixels",
        "near": "nearly identical",
        "group": "of a group on both",
    }
    signs: dict[Kind, str] = {"identical": "=", "near": "~", "group": "&"}
    counts = " and ".join(f"{found[kind]} {how}" for kind, how in said.items() if found[kind])
    first = "; ".join(f"{pair.kept} {signs[pair.kind]} {pair.copy}" for pair in pairs[:5])
    return (
        f"{len(pairs)} pictures lie on both sides of the split, {counts} ({first}); "
        "benchmark.leaks=drop_train keeps what is in test"
    )
