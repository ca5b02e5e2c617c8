"""The patient split: which groups go to train, val and test.

Precedence: a usable official split (labels on both sides, groups disjoint); else a small source goes wholly to test;
else a split by group, stratified by task and label. `val` is always carved from train by group.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from medvl.benchmark.groups import normalise_group
from medvl.config.schema import SplitConfig
from medvl.sources.record import Record, Source, Split


def official_split_problem(source: Source, records: Sequence[Record]) -> str | None:
    """Why the published split of a source cannot be used, or None when it can.

    Judged on all records, those with an absent picture included, so that a partial copy keeps the published split.
    """
    if not source.has_usable_official_split:
        return "the source has no published split with labels on both sides"
    labelled = [r for r in records if r.labels or r.structures]
    sides: dict[Split, set[str]] = {Split.TRAIN: set(), Split.TEST: set()}
    for record in labelled:
        if record.official_split is None:
            return f"{record.where or record.record_id} has no published side"
        sides[record.official_split].add(normalise_group(source.name, record.group, record.where or record.record_id))
    if not all(sides.values()):
        return "one side of the published split has no labels"
    if shared := sides[Split.TRAIN] & sides[Split.TEST]:
        return f"{len(shared)} groups lie on both sides of the published split"
    return None


def split_groups(
    source: Source,
    official: Mapping[str, Split] | None,
    group_labels: Mapping[str, Counter[str]],
    config: SplitConfig,
    seed: int,
) -> dict[str, Split]:
    """Assign every group of one source.

    Args:
        source: The source (its published size decides whether it is small).
        official: Group -> published side, or None when no usable official split exists.
        group_labels: Group -> how many items of each `task/answer` it brings.
        config: Shares.
        seed: Seed of the benchmark.

    Returns:
        Group -> split, for each group in `group_labels`.
    """
    if official is not None:
        test = {g for g in group_labels if official[g] is Split.TEST}
        rest = {g: labels for g, labels in group_labels.items() if g not in test}
        sides = stratified_groups(rest, {Split.TRAIN: 1 - config.val_share, Split.VAL: config.val_share}, seed)
        return {**sides, **dict.fromkeys(test, Split.TEST)}
    if source.published_pictures < config.small_source_below:
        return dict.fromkeys(group_labels, Split.TEST)
    shares = {
        Split.TRAIN: 1 - config.val_share - config.test_share,
        Split.TEST: config.test_share,
        Split.VAL: config.val_share,
    }
    return stratified_groups(group_labels, shares, seed)


def stratified_groups(
    group_labels: Mapping[str, Counter[str]], shares: Mapping[Split, float], seed: int
) -> dict[str, Split]:
    """Spread groups over splits so that each label's items come close to the wanted shares.

    Iterative stratification (Sechidis, Tsoumakas and Vlahavas, ECML PKDD 2011), in one pass: groups in order of their
    rarest label (then seeded), each to the split that lacks most of this label, and among equals to the one that lacks
    most of all it brings. A rule that weighs all labels at once would put every group with a rare label into train.
    With fewer groups than splits, the splits named first are filled first.

    Returns:
        Group -> split. No group is in two splits; every group is assigned.
    """
    splits = list(shares)
    totals: Counter[str] = Counter()
    for labels in group_labels.values():
        totals.update(labels)
    names = sorted(totals)
    column = {name: i for i, name in enumerate(names)}
    total = np.array([totals[name] for name in names], dtype=float)
    lacking = np.array([[shares[s] * totals[name] for name in names] for s in splits])

    def rarest(group: str) -> str:
        return min(group_labels[group], key=lambda label: (totals[label], label), default="")

    def order(group: str) -> tuple[int, str, str]:
        label = rarest(group)
        return totals[label], label, hashlib.sha256(f"{seed}:{group}".encode()).hexdigest()

    assigned: dict[str, Split] = {}
    for group in sorted(group_labels, key=order):
        empty = [s for s in splits if s not in assigned.values()]
        brings = np.zeros(len(names))
        for label, count in group_labels[group].items():
            brings[column[label]] = count
        if len(group_labels) - len(assigned) <= len(empty):
            choice = splits.index(empty[0])  # the last groups: leave no split empty
        elif group_labels[group]:
            first = lacking[:, column[rarest(group)]]
            alike = np.isclose(first, first.max())
            choice = int(np.argmax(np.where(alike, (lacking / total) @ brings, -np.inf)))
        else:
            choice = 0
        lacking[choice] -= brings
        assigned[group] = splits[choice]
    return assigned


def label_counts(rows: Sequence[tuple[str, str]]) -> dict[str, Counter[str]]:
    """(group, `task/answer`) pairs -> group -> counts."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for group, label in rows:
        counts[group][label] += 1
    return dict(counts)
