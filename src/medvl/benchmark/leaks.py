"""The leak audit: one picture on two sides of the split.

Found by the hash of the decoded pixels, within and across sources, so that a renamed or re-saved copy is seen. A copy
on the side that matters more stays: test before val before train.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from medvl.errors import DataError
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
class Leaks:
    """What was found and done.

    Attributes:
        pairs: (kept, copy) keys of pictures with identical pixels on two sides.
        dropped: Keys of pictures that leave the benchmark.
        moved: Group -> new side.
    """

    pairs: list[tuple[str, str]]
    dropped: set[str]
    moved: dict[str, Split]


def audit_leaks(placed: Sequence[Placed], policy: str) -> Leaks:
    """Find identical pictures on two sides and say what happens to them.

    Args:
        placed: All pictures.
        policy: `drop_train`: the copy on the lesser side leaves. `move`: its whole group goes to the side of the kept
            copy, unless a published split holds it, then it leaves. `fail`: stop.

    Raises:
        DataError: With `fail`, naming the first pairs.
    """
    by_hash: Mapping[str, list[Placed]] = defaultdict(list)
    for picture in placed:
        by_hash[picture.sha256_pixels].append(picture)
    leaks = Leaks([], set(), {})
    for copies in by_hash.values():
        if len({c.split for c in copies}) < 2:
            continue
        kept = min(copies, key=lambda c: (_RANK[c.split], c.key))
        for copy in copies:
            if copy.split is kept.split:
                continue
            leaks.pairs.append((kept.key, copy.key))
            if policy == "move" and not copy.is_official and copy.group != kept.group:
                side = leaks.moved.get(copy.group, kept.split)
                leaks.moved[copy.group] = min(side, kept.split, key=lambda s: _RANK[s])
            else:
                leaks.dropped.add(copy.key)
    if leaks.pairs and policy == "fail":
        first = "; ".join(f"{kept} = {copy}" for kept, copy in leaks.pairs[:5])
        raise DataError(
            f"{len(leaks.pairs)} pictures lie on both sides of the split with identical pixels ({first}); "
            "benchmark.leaks=drop_train keeps the test copy"
        )
    return leaks
