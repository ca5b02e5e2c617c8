"""Checks of a built benchmark: is it whole, is the split clean, does anything give answers away?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.stats import chisquare

from medvl.benchmark.item import Item
from medvl.benchmark.leaks import Placed, audit_leaks, leak_rows
from medvl.benchmark.near import Signature, near_pairs, signature_of
from medvl.errors import DataError
from medvl.imaging.reading import pixel_hash, read_picture
from medvl.sources.record import Split

UNEVEN_BELOW = 0.001
"""p-value of the letters' chi-square test below which they are called uneven."""
DOMINANT_ABOVE = 0.6
"""Share of one answer among the questions of a task with three or more answers from which it is worth a remark."""
NAMED = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found.

    Attributes:
        check: Name of the check.
        is_ok: False for a fault that makes figures wrong. A remark is ok.
        text: What was found.
    """

    check: str
    is_ok: bool
    text: str


def check_items(items: Sequence[Item]) -> list[Finding]:
    """Check the items themselves; no picture is read."""
    return [
        _questions(items),
        _boxes(items),
        _groups(items),
        _pixels(items),
        *_sides(items),
        *_letters(items),
        *_balance(items),
    ]


def check_pictures(
    items: Sequence[Item], root: Path, progress: Callable[[int, int], None] | None = None
) -> tuple[Finding, dict[str, Signature]]:
    """Read every picture again and compare it with what the benchmark was built from.

    Args:
        items: All items.
        root: Data root.
        progress: Called with (pictures read, pictures in all).

    Returns:
        (what was found, `sha256_pixels` -> signature of every picture that is as it was).
    """
    distinct = list({(item.picture, item.frame): item for item in items}.values())
    faults = []
    signatures: dict[str, Signature] = {}
    for done, item in enumerate(distinct, start=1):
        try:
            pixels = read_picture(root / item.picture, item.frame)
            if pixel_hash(pixels) != item.sha256_pixels:
                faults.append(f"{item.picture} has other pixels")
            elif item.sha256_pixels not in signatures:
                signatures[item.sha256_pixels] = signature_of(pixels)
        except DataError as error:
            faults.append(str(error))
        if progress is not None:
            progress(done, len(distinct))
    good = f"{len(distinct):,} pictures are those that the benchmark was built from"
    return _verdict("pictures", faults, good), signatures


def find_leaks(items: Sequence[Item], signatures: Mapping[str, Signature] | None = None) -> list[dict[str, Any]]:
    """Find what lies on two sides of the split.

    Args:
        items: All items.
        signatures: `sha256_pixels` -> signature, to find near-identical pictures too.

    Returns:
        Rows as of `medvl.benchmark.leaks.leak_rows`, with `left` for what was done.
    """
    # One file may be on two sides itself, so the side tells pictures apart too.
    distinct = {f"{item.source}/{item.picture}#{item.frame} {item.split}": item for item in items}
    placed = [
        Placed(key, i.sha256_pixels, i.group, i.split, is_official=False, picture=i.picture, frame=i.frame)
        for key, i in distinct.items()
    ]
    known = signatures or {}
    read = [place for place, picture in enumerate(placed) if picture.sha256_pixels in known]
    near = near_pairs(
        [known[placed[place].sha256_pixels] for place in read],
        group=[placed[place].group for place in read],
        side=[placed[place].split for place in read],
    )
    leaks = audit_leaks(placed, "drop_train", [(read[i], read[j], correlation) for i, j, correlation in near])
    return [{**row, "done": "left"} for row in leak_rows(leaks, placed)]


def near_finding(leaks: Sequence[Mapping[str, Any]], pictures: int) -> Finding:
    """What comparing pictures found.

    Args:
        leaks: Rows of `find_leaks` with signatures.
        pictures: Pictures that were compared.
    """
    faults = [f"{leak['copy_picture']} is nearly {leak['kept_picture']}" for leak in leaks if leak["kind"] == "near"]
    return _verdict("near copies", faults, f"{pictures:,} different pictures, no near copies on two sides")


def _questions(items: Sequence[Item]) -> Finding:
    faults = [f"id {name} is there {n} times" for name, n in Counter(i.item_id for i in items).items() if n > 1]
    for item in items:
        if len({option.casefold() for option in item.options}) < len(item.options):
            faults.append(f"{item.item_id} shows one option twice")
        if not 0 <= item.answer_index < len(item.options) or item.options[item.answer_index] != item.answer:
            faults.append(f"{item.item_id} has an answer that is not the option it points to")
    return _verdict("questions", faults, f"{len(items):,} items, ids and options are distinct")


def _boxes(items: Sequence[Item]) -> Finding:
    boxed = [item for item in items if item.bbox_xyxy_px is not None]
    faults = []
    for item in boxed:
        assert item.bbox_xyxy_px is not None
        x0, y0, x1, y1 = item.bbox_xyxy_px
        if not (0 <= x0 < x1 <= item.width and 0 <= y0 < y1 <= item.height):
            faults.append(f"{item.item_id} has a box outside its picture")
    return _verdict("boxes", faults, f"{len(boxed):,} boxes lie in their pictures")


def _groups(items: Sequence[Item]) -> Finding:
    sides: dict[str, set[Split]] = defaultdict(set)
    for item in items:
        sides[item.group].add(item.split)
    # Groups are people: they are counted here and not named.
    crossing = sum(len(found) > 1 for found in sides.values())
    faults = [f"{crossing} of {len(sides):,} groups lie on two sides"] if crossing else []
    return _verdict("groups", faults, f"{len(sides):,} groups, none on two sides")


def _pixels(items: Sequence[Item]) -> Finding:
    sides: dict[str, set[Split]] = defaultdict(set)
    named: dict[str, str] = {}
    for item in items:
        sides[item.sha256_pixels].add(item.split)
        named.setdefault(item.sha256_pixels, item.item_id)
    faults = [f"the picture of {named[digest]} lies on two sides" for digest, found in sides.items() if len(found) > 1]
    return _verdict("identical pictures", faults, f"{len(sides):,} different pictures, none on two sides")


def _sides(items: Sequence[Item]) -> Iterable[Finding]:
    for split in Split:
        present = {item.task for item in items if item.split is split}
        absent = sorted({item.task for item in items} - present)
        text = f"no item of {', '.join(absent)}" if absent else f"every task ({', '.join(sorted(present))})"
        yield Finding(f"{split} side", True, text)


def _letters(items: Sequence[Item]) -> Iterable[Finding]:
    counts: dict[tuple[str, int], Counter[int]] = defaultdict(Counter)
    for item in items:
        counts[item.task, len(item.options)][item.answer_index] += 1
    for (task, options), found in sorted(counts.items()):
        observed = [found[i] for i in range(options)]
        p = float(chisquare(observed).pvalue) if sum(observed) else 1.0
        text = f"{task}, {options} options: " + " ".join(f"{chr(65 + i)} {n:,}" for i, n in enumerate(observed))
        yield Finding("gold letters", p >= UNEVEN_BELOW, f"{text} (chi-square p {p:.3f})")


def _balance(items: Sequence[Item]) -> Iterable[Finding]:
    for task in sorted({item.task for item in items}):
        answers = Counter(item.answer for item in items if item.task is task and item.split is Split.TEST)
        if not answers:
            continue
        (most, n), total = answers.most_common(1)[0], answers.total()
        share = n / total
        remark = " (accuracy alone says little here)" if len(answers) > 1 and share > DOMINANT_ABOVE else ""
        yield Finding(
            "balance", True, f"{task} in test: {len(answers)} answers, '{most}' {share:.0%} of {total:,}{remark}"
        )


def _verdict(check: str, faults: Sequence[str], good: str) -> Finding:
    if not faults:
        return Finding(check, True, good)
    more = f" and {len(faults) - NAMED} more" if len(faults) > NAMED else ""
    return Finding(check, False, "; ".join(faults[:NAMED]) + more)
