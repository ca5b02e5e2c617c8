from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from drawn_source import drawn_source
from hypothesis import given
from hypothesis import strategies as st

from medvl.benchmark.split import (
    ToSplit,
    label_counts,
    official_split_problem,
    split_groups,
    split_sources,
    states_sides,
    stratified_groups,
)
from medvl.config.schema import SplitConfig
from medvl.sources.record import Domain, Record, Split, Task

SHARES = {Split.TRAIN: 0.7, Split.TEST: 0.2, Split.VAL: 0.1}
LABELS = st.dictionaries(st.sampled_from(["PI/a", "PI/b", "VG/c", "FO/d"]), st.integers(1, 30), min_size=1)
GROUPS = st.dictionaries(st.text("abc0123", min_size=1, max_size=5), LABELS.map(Counter), max_size=30)


def record(group, side, labels=True):
    pi = {Task.PI: "fetal head"} if labels else {}
    return Record(
        "s", f"{group}-{side}", Path("/x.png"), group, Domain.CLINICAL, pi, official_split=side, where="row 3"
    )


def to_split(groups, official=None, name="s", domains=None, **facts):
    return ToSplit(drawn_source(name, [], **facts), official, groups, domains or {})


def many_groups(number=400, seed=0):
    rng = np.random.default_rng(seed)
    weights = {"PI/a": 6.0, "PI/b": 2.0, "VG/c": 10.0, "FO/rare": 0.15}
    drawn = {f"g{i}": Counter({k: int(rng.poisson(w)) for k, w in weights.items()}) for i in range(number)}
    return {g: +labels for g, labels in drawn.items() if +labels}


@given(GROUPS, st.integers(0, 5))
def test_every_group_is_on_one_side_and_no_side_is_empty_when_there_are_enough(groups, seed):
    sides = stratified_groups(groups, SHARES, seed)
    assert set(sides) == set(groups)
    if len(groups) >= 3:
        assert set(sides.values()) == set(SHARES)
    assert stratified_groups(dict(reversed(groups.items())), SHARES, seed) == sides


@pytest.mark.parametrize(("number", "expected"), [(1, {Split.TRAIN}), (2, {Split.TRAIN, Split.TEST}), (0, set())])
def test_with_few_groups_train_and_test_come_first(number, expected):
    groups = {f"g{i}": Counter({"PI/a": 4}) for i in range(number)}
    assert set(stratified_groups(groups, SHARES, 0).values()) == expected


def test_groups_without_items_are_assigned_too():
    assert set(stratified_groups({"a": Counter(), "b": Counter()}, SHARES, 0)) == {"a", "b"}


def test_each_label_comes_close_to_the_wanted_shares():
    groups = many_groups()
    sides = stratified_groups(groups, SHARES, 0)
    for label in ("PI/a", "PI/b", "VG/c", "FO/rare"):
        total = sum(labels[label] for labels in groups.values())
        for split, share in SHARES.items():
            got = sum(labels[label] for group, labels in groups.items() if sides[group] is split) / total
            assert got == pytest.approx(share, abs=0.03), (label, split)


def test_a_label_of_three_groups_reaches_every_side():
    groups = {**many_groups(100), **{f"r{i}": Counter({"CD/rare": 5}) for i in range(9)}}
    sides = stratified_groups(groups, SHARES, 0)
    assert {sides[f"r{i}"] for i in range(9)} == set(Split)


def test_another_seed_gives_another_split():
    groups = many_groups(100)
    assert stratified_groups(groups, SHARES, 0) != stratified_groups(groups, SHARES, 1)


def test_the_official_split_is_kept_and_val_is_carved_from_train():
    groups = many_groups(100)
    official = {g: Split.TEST if i % 4 == 0 else Split.TRAIN for i, g in enumerate(groups)}
    sides = split_groups(to_split(groups, official), SplitConfig(), 0)
    assert {g for g, side in sides.items() if side is Split.TEST} == {g for g, o in official.items() if o is Split.TEST}
    val = [g for g, side in sides.items() if side is Split.VAL]
    train = [g for g, side in sides.items() if side is Split.TRAIN]
    assert len(val) / (len(val) + len(train)) == pytest.approx(0.1, abs=0.04)


def test_a_small_source_goes_wholly_to_test_whatever_lies_on_disk():
    groups = many_groups(50)
    sides = split_groups(to_split(groups, published_pictures=499), SplitConfig(), 0)
    assert set(sides.values()) == {Split.TEST}
    sides = split_groups(to_split(groups, published_pictures=500), SplitConfig(), 0)
    assert set(sides.values()) == set(Split)


def test_an_official_split_wins_over_smallness():
    groups = {"a": Counter({"PI/a": 1}), "b": Counter({"PI/a": 1})}
    official = {"a": Split.TRAIN, "b": Split.TEST}
    assert split_groups(to_split(groups, official, published_pictures=10), SplitConfig(), 0) == official


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([record("a", None), record("b", None)], "no picture states a side"),
        ([record("a", Split.TRAIN), record("b", None)], "row 3 has no published side"),
        ([record("a", Split.TRAIN), record("b", Split.VAL)], "one side of the published split"),
        ([record("a", Split.VAL), record("a", Split.TEST)], "1 groups lie on both sides"),
        ([record("a", Split.TRAIN), record("b", Split.TEST, labels=False)], "one side of the published split"),
        ([record("a", Split.TRAIN), record("a", Split.TEST)], "1 groups lie on both sides"),
        ([record("P7", Split.TRAIN), record("p007 ", Split.TEST)], "1 groups lie on both sides"),
    ],
)
def test_an_unusable_official_split_says_why(records, says):
    assert says in (official_split_problem(drawn_source("s", [], official=True), records) or "")


@pytest.mark.parametrize("first", [Split.TRAIN, Split.VAL])
def test_a_usable_official_split_has_no_problem(first):
    records = [record("a", first), record("a", Split.TRAIN), record("b", Split.TEST)]
    assert official_split_problem(drawn_source("s", [], official=True), records) is None
    assert official_split_problem(drawn_source("s", []), records) is not None


def test_a_published_validation_side_is_part_of_train_from_which_val_is_carved():
    groups = many_groups(100)
    official = {g: list(Split)[i % 3] for i, g in enumerate(groups)}
    sides = split_groups(to_split(groups, official), SplitConfig(), 0)
    assert {g for g, side in sides.items() if side is Split.TEST} == {g for g, o in official.items() if o is Split.TEST}
    assert {sides[g] for g, o in official.items() if o is Split.VAL} == {Split.TRAIN, Split.VAL}


def test_sides_are_stated_by_any_record_that_has_one():
    assert states_sides([record("a", None), record("b", Split.VAL)])
    assert not states_sides([record("a", None)])


def test_counts_are_by_group_and_label():
    assert label_counts([("g", "PI/a"), ("g", "PI/a"), ("h", "VG/b")]) == {
        "g": Counter({"PI/a": 2}),
        "h": Counter({"VG/b": 1}),
    }


@pytest.mark.parametrize("seed", range(6))
def test_every_side_has_every_label_when_few_large_groups_allow_it(seed):
    """39 recordings of four poses and 2 of 4 structures each, as a phantom data set has them."""
    rng = np.random.default_rng(seed)
    groups = {}
    for number in range(39):
        labels = Counter({f"FO/pose {number % 4}": int(rng.integers(200, 600))})
        for structure in rng.permutation(4)[:2]:
            labels[f"VG/structure {structure}"] = int(rng.integers(50, 900))
        groups[f"stream {number}"] = labels
    sides = stratified_groups(groups, {Split.TRAIN: 0.7, Split.TEST: 0.2, Split.VAL: 0.1}, seed)
    for side in Split:
        present = {label for group, labels in groups.items() if sides[group] is side for label in labels}
        assert len(present) == 8
    total = sum(labels.total() for labels in groups.values())
    train = sum(labels.total() for group, labels in groups.items() if sides[group] is Split.TRAIN)
    assert 0.55 < train / total < 0.8


def test_a_held_out_source_is_all_test_and_the_others_have_none():
    groups = {f"g{n}": Counter({"PI/a": 5}) for n in range(20)}
    config = SplitConfig(test_sources=["s"])
    official = dict.fromkeys(groups, Split.TRAIN)
    assert set(split_groups(to_split(groups, official), config, 0).values()) == {Split.TEST}
    others = split_groups(to_split(groups, name="t", published_pictures=10), config, 0)
    assert set(others.values()) == {Split.TRAIN, Split.VAL}


def test_a_held_out_domain_is_all_test_and_the_other_has_none():
    groups = {f"g{n}": Counter({"PI/a": 5}) for n in range(20)}
    domains = {group: Domain.PHANTOM if n % 2 else Domain.CLINICAL for n, group in enumerate(groups)}
    config = SplitConfig(test_domain="clinical")
    sides = split_groups(to_split(groups, domains=domains), config, 0)
    assert {sides[g] for g in groups if domains[g] is Domain.CLINICAL} == {Split.TEST}
    assert {sides[g] for g in groups if domains[g] is Domain.PHANTOM} == {Split.TRAIN, Split.VAL}


def test_two_protocols_at_once_are_refused():
    with pytest.raises(ValueError, match="two protocols"):
        SplitConfig(test_sources=["s"], test_domain="phantom")


@given(GROUPS, st.lists(st.sampled_from(list(Split)), max_size=30), st.integers(0, 5))
def test_what_is_assigned_already_stays(groups, sides, seed):
    known = dict(zip(groups, sides, strict=False))
    split = stratified_groups(groups, SHARES, seed, {**known, "elsewhere": Split.TEST})
    assert set(split) == set(groups)
    assert {group: split[group] for group in known} == known
    if len(groups) - len(known) >= 3:
        assert set(split.values()) == set(SHARES)


def test_what_is_assigned_already_counts_towards_the_shares():
    groups = many_groups()
    known = dict.fromkeys(list(groups)[:80], Split.TEST)  # a fifth, which is the share of test
    sides = stratified_groups(groups, SHARES, 0, known)
    assert sum(side is Split.TEST for side in sides.values()) == pytest.approx(80, abs=8)


@pytest.mark.parametrize("order", [1, -1])
def test_sources_that_share_groups_follow_the_published_split(order):
    groups = many_groups(100)
    official = {g: Split.TEST if i % 4 == 0 else Split.TRAIN for i, g in enumerate(groups)}
    some = dict(list(groups.items())[20:60])
    parts = {"s": to_split(groups, official), "t": to_split({**some, "own": Counter({"PI/a": 3})}, name="t")}
    names = list(parts)[::order]
    sides = dict(zip(names, split_sources([parts[name] for name in names], SplitConfig(), 0), strict=True))
    assert {g for g, side in sides["s"].items() if side is Split.TEST} == {
        g for g, o in official.items() if o is Split.TEST
    }
    assert {g: sides["t"][g] for g in some} == {g: sides["s"][g] for g in some}
    assert "own" in sides["t"]


def test_two_sources_that_are_split_by_group_agree():
    groups = many_groups(60)
    parts = [to_split(groups), to_split(dict(list(groups.items())[:30]), name="t")]
    first, second = split_sources(parts, SplitConfig(), 0)
    assert first.items() >= second.items()
    assert first == split_groups(parts[0], SplitConfig(), 0)


def test_a_published_side_and_a_held_out_source_stay_what_they_are():
    groups = {f"g{n}": Counter({"PI/a": 5}) for n in range(20)}
    parts = [to_split(groups, dict.fromkeys(groups, Split.TRAIN)), to_split(groups, name="t", published_pictures=10)]
    official, small = split_sources(parts, SplitConfig(), 0)
    assert set(official.values()) == {Split.TRAIN, Split.VAL}
    assert set(small.values()) == {Split.TEST}
    learned, held_out = split_sources(parts, SplitConfig(test_sources=["t"]), 0)
    assert Split.TEST not in learned.values()
    assert set(held_out.values()) == {Split.TEST}


def test_groups_that_no_other_source_has_are_split_as_if_alone():
    parts = [to_split(many_groups(40)), to_split({f"t{g}": c for g, c in many_groups(40, 1).items()}, name="t")]
    together = split_sources(parts, SplitConfig(), 0)
    assert together == [split_groups(part, SplitConfig(), 0) for part in parts]
