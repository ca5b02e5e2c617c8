"""The patient split: which groups go to train, val and test.

Precedence: a usable official split (labels on both sides, groups disjoint); else a small source goes wholly to test;
else a split by group, stratified by task and label. `val` is always carved from train by group. A group that several
sources hold goes to one side, where the rules of its sources allow it.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medvl.benchmark.groups import group_of
from medvl.config.schema import SplitConfig
from medvl.sources.record import Domain, Record, Source, Split

SIDE_RANK = {Split.TEST: 0, Split.VAL: 1, Split.TRAIN: 2}
"""Sides by how much they matter: what is seen on two of them belongs to the first."""


@dataclass(frozen=True, slots=True)
class ToSplit:
    """What is known of a source before its groups are assigned.

    Attributes:
        source: The source (its published size decides whether it is small).
        official: Group -> published side, or None when no usable official split exists.
        group_labels: Group -> how many items of each `task/answer` it brings.
        domains: Group -> domain, for `test_domain`; a group that is absent counts as clinical.
    """

    source: Source
    official: Mapping[str, Split] | None
    group_labels: Mapping[str, Counter[str]]
    domains: Mapping[str, Domain]


def official_split_problem(source: Source, records: Sequence[Record]) -> str | None:
    """Why the published split of a source cannot be used, or None when it can.

    Judged on all records, those with an absent picture included, so that a partial copy keeps the published split.
    """
    if not source.has_usable_official_split:
        return "the source has no published split with labels on both sides"
    labelled = [r for r in records if r.is_askable]
    if not states_sides(labelled):
        return "no picture states a side"
    sides: dict[Split, set[str]] = {Split.TRAIN: set(), Split.TEST: set()}
    for record in labelled:
        if record.official_split is None:
            return f"{record.where or record.record_id} has no published side"
        side = Split.TEST if record.official_split is Split.TEST else Split.TRAIN  # val is carved from train anyway
        sides[side].add(group_of(source, record))
    if not all(sides.values()):
        return "one side of the published split has no labels"
    if shared := sides[Split.TRAIN] & sides[Split.TEST]:
        return f"{len(shared)} groups lie on both sides of the published split"
    return None


def states_sides(records: Sequence[Record]) -> bool:
    """Whether there is a published split at all: own data may have none, whatever their format could state."""
    return any(record.official_split is not None for record in records)


def split_sources(parts: Sequence[ToSplit], config: SplitConfig, seed: int) -> list[dict[str, Split]]:
    """Assign every group of every source, shared groups to one side.

    Sources whose sides are given (held out, published, small) come first and the others follow them. Where two of them
    give a group two sides, both are kept, and the leak audit says what becomes of it.

    Args:
        parts: The sources of a benchmark.
        config: Shares and protocol.
        seed: Seed of the benchmark.

    Returns:
        Group -> split for each source, in the order of `parts`.
    """

    def is_free(place: int) -> bool:
        source, official = parts[place].source, parts[place].official
        if config.test_sources:
            return source.name not in config.test_sources
        return official is None and not _is_small(source, config)

    settled: dict[str, Split] = {}
    sides: dict[int, dict[str, Split]] = {}
    for place in sorted(range(len(parts)), key=is_free):
        sides[place] = split_groups(parts[place], config, seed, settled)
        for group, side in sides[place].items():
            settled[group] = min(side, settled.get(group, side), key=SIDE_RANK.__getitem__)
    return [sides[place] for place in range(len(parts))]


def split_groups(
    part: ToSplit, config: SplitConfig, seed: int, settled: Mapping[str, Split] | None = None
) -> dict[str, Split]:
    """Assign every group of one source.

    Args:
        part: The source.
        config: Shares and protocol.
        seed: Seed of the benchmark.
        settled: Group -> side that another source gave it, for groups that the two share.

    Returns:
        Group -> split, for each group in `part.group_labels`.
    """
    groups, official = part.group_labels, part.official
    known = {group: side for group, side in (settled or {}).items() if group in groups}
    if config.test_sources or config.test_domain is not None:
        test = {group for group in groups if _is_held_out(part, group, config)}
    elif official is not None:
        test = {group for group in groups if official[group] is Split.TEST}
    elif _is_small(part.source, config):
        return dict.fromkeys(groups, Split.TEST)
    else:
        shares = {
            Split.TRAIN: 1 - config.val_share - config.test_share,
            Split.TEST: config.test_share,
            Split.VAL: config.val_share,
        }
        return stratified_groups(groups, shares, seed, known)
    # A group that another source tests and this one may not: the leak audit finds it on two sides.
    crossing = {group for group, side in known.items() if side is Split.TEST} - test
    rest = {group: labels for group, labels in groups.items() if group not in test | crossing}
    learned = stratified_groups(rest, {Split.TRAIN: 1 - config.val_share, Split.VAL: config.val_share}, seed, known)
    return {**learned, **dict.fromkeys(crossing, Split.TRAIN), **dict.fromkeys(test, Split.TEST)}


def _is_small(source: Source, config: SplitConfig) -> bool:
    return source.published_pictures < config.small_source_below


def _is_held_out(part: ToSplit, group: str, config: SplitConfig) -> bool:
    """Whether the protocol puts a group into test."""
    if config.test_sources:
        return part.source.name in config.test_sources
    return part.domains.get(group, Domain.CLINICAL) == config.test_domain


def stratified_groups(
    group_labels: Mapping[str, Counter[str]],
    shares: Mapping[Split, float],
    seed: int,
    known: Mapping[str, Split] | None = None,
) -> dict[str, Split]:
    """Spread groups over splits so that each label's items come close to the wanted shares.

    Iterative stratification (Sechidis, Tsoumakas and Vlahavas, ECML PKDD 2011), in one pass: groups in order of their
    rarest label (then seeded), each to the split that lacks most of this label, and among equals to the one that lacks
    most of all it brings. A rule that weighs all labels at once would put every group with a rare label into train.
    With fewer groups than splits, the splits named first are filled first.

    Args:
        group_labels: Group -> how many items of each `task/answer` it brings.
        shares: Split -> share of the items.
        seed: Seed of the order among equals.
        known: Group -> split of groups that are assigned already: they stay, and count towards the shares. Groups that
            are not in `group_labels` are left out.

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
    brought = {group: np.array([labels[name] for name in names], dtype=float) for group, labels in group_labels.items()}
    assigned = {group: side for group, side in (known or {}).items() if group in group_labels}
    for group, side in assigned.items():
        lacking[splits.index(side)] -= brought[group]

    def rarest(group: str) -> str:
        return min(group_labels[group], key=lambda label: (totals[label], label), default="")

    def order(group: str) -> tuple[int, str, str]:
        label = rarest(group)
        return totals[label], label, hashlib.sha256(f"{seed}:{group}".encode()).hexdigest()

    fixed = frozenset(assigned)
    for group in sorted(group_labels.keys() - fixed, key=order):
        empty = [s for s in splits if s not in assigned.values()]
        brings = brought[group]
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
    _bring_absent_labels(assigned, group_labels, splits, fixed)
    return assigned


def _bring_absent_labels(
    assigned: dict[str, Split],
    group_labels: Mapping[str, Counter[str]],
    splits: Sequence[Split],
    fixed: frozenset[str],
) -> None:
    """Move the smallest group with a label to a split that has none, where every split can have one.

    With few large groups (the 39 recordings of FPUS23) the pass above leaves val without a label about half of the
    time. A group moves only when the split it leaves keeps every label it brings, and never when it is `fixed`.
    """
    holders: dict[str, list[str]] = defaultdict(list)
    have: dict[Split, Counter[str]] = {split: Counter() for split in splits}
    for group, labels in sorted(group_labels.items()):
        for label in labels:
            holders[label].append(group)
            have[assigned[group]][label] += 1
    for label in sorted(holders, key=lambda label: (len(holders[label]), label)):
        for split in splits:
            if have[split][label] or len(holders[label]) < len(splits):
                continue
            free = [
                g
                for g in holders[label]
                if g not in fixed and all(have[assigned[g]][other] > 1 for other in group_labels[g])
            ]
            if free:
                moved = min(free, key=lambda g: (group_labels[g].total(), g))
                have[assigned[moved]].subtract(dict.fromkeys(group_labels[moved], 1))
                have[split].update(dict.fromkeys(group_labels[moved], 1))
                assigned[moved] = split


def label_counts(rows: Sequence[tuple[str, str]]) -> dict[str, Counter[str]]:
    """(group, `task/answer`) pairs -> group -> counts."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for group, label in rows:
        counts[group][label] += 1
    return dict(counts)
