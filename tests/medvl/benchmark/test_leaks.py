import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvl.benchmark.leaks import LeakPair, Placed, audit_leaks, leak_rows, leak_sheet
from medvl.errors import DataError
from medvl.sources.record import Split

TRAIN, VAL, TEST = Split.TRAIN, Split.VAL, Split.TEST


def placed(key, pixels, split, group=None, official=False):
    return Placed(key, pixels, group or f"group of {key}", split, official)


def test_copies_on_one_side_are_no_leak():
    leaks = audit_leaks([placed("a/1", "x", TRAIN), placed("b/1", "x", TRAIN), placed("a/2", "y", TEST)], "fail")
    assert leaks.pairs == []
    assert leaks.dropped == set()


@pytest.mark.parametrize("other", ["a/2", "b/1"])
def test_drop_train_keeps_the_test_copy_within_and_across_sources(other):
    leaks = audit_leaks([placed("a/1", "x", TRAIN), placed(other, "x", TEST)], "drop_train")
    assert leaks.dropped == {"a/1"}
    assert leaks.pairs == [LeakPair(other, "a/1", "identical", 1.0)]
    assert leaks.moved == {}


def test_val_wins_over_train_and_test_over_both():
    pictures = [placed("a/1", "x", TRAIN), placed("a/2", "x", VAL), placed("a/3", "x", TEST)]
    assert audit_leaks(pictures, "drop_train").dropped == {"a/1", "a/2"}
    assert audit_leaks(pictures[:2], "drop_train").dropped == {"a/1"}


def test_move_takes_the_whole_group_to_the_kept_side():
    leaks = audit_leaks([placed("a/1", "x", TRAIN, "g"), placed("b/1", "x", TEST)], "move")
    assert leaks.moved == {"g": TEST}
    assert leaks.dropped == set()


def test_a_group_pulled_to_two_sides_goes_to_the_one_that_matters_more():
    pictures = [
        placed("a/1", "x", TRAIN, "g"),
        placed("a/2", "y", TRAIN, "g"),
        placed("b/1", "x", VAL),
        placed("b/2", "y", TEST),
    ]
    # b/1 is a copy of a/1, which goes to test with the rest of its group
    assert audit_leaks(pictures, "move").moved == {"g": TEST, "group of b/1": TEST}
    assert audit_leaks(pictures[::-1], "move").moved == {"g": TEST, "group of b/1": TEST}


def test_an_official_group_is_never_moved_its_copy_leaves():
    leaks = audit_leaks([placed("a/1", "x", TRAIN, official=True), placed("b/1", "x", TEST)], "move")
    assert leaks.moved == {}
    assert leaks.dropped == {"a/1"}


def test_fail_names_the_pairs():
    pictures = [placed("a/1", "x", TRAIN), placed("b/1", "x", TEST)]
    with pytest.raises(DataError, match=r"1 pictures lie on both sides .* \(b/1 = a/1\)"):
        audit_leaks(pictures, "fail")


def test_nearly_the_same_pictures_are_copies_too():
    pictures = [placed("a/1", "x", TRAIN), placed("b/1", "y", TEST), placed("a/2", "z", TRAIN)]
    leaks = audit_leaks(pictures, "drop_train", [(0, 1, 0.93)])
    assert leaks.pairs == [LeakPair("b/1", "a/1", "near", 0.93)]
    assert leaks.dropped == {"a/1"}


def test_in_a_chain_a_picture_leaves_only_for_one_that_stays():
    pictures = [placed("a/1", "x", TEST), placed("a/2", "y", VAL), placed("a/3", "z", TRAIN)]
    assert audit_leaks(pictures, "drop_train", [(0, 1, 0.9), (1, 2, 0.9)]).dropped == {"a/2"}


PICTURES = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from(list(Split)), st.integers(0, 4), st.booleans()), max_size=14
)


@given(PICTURES, st.lists(st.tuples(st.integers(0, 13), st.integers(0, 13)), max_size=10))
@pytest.mark.parametrize("policy", ["drop_train", "move"])
def test_in_the_end_no_like_pictures_lie_on_two_sides(policy, drawn, pairs):
    sides = {f"g{group}": split for _, split, group, _ in drawn}
    official = {f"g{group}": is_official for _, _, group, is_official in drawn}
    pictures = [
        placed(f"k{n}", f"p{pixels}", sides[f"g{group}"], f"g{group}", official[f"g{group}"])
        for n, (pixels, _, group, _) in enumerate(drawn)
    ]
    near = [(i, j, 0.9) for i, j in pairs if max(i, j) < len(drawn)]
    leaks = audit_leaks(pictures, policy, near)
    side = {p.key: leaks.moved.get(p.group, p.split) for p in pictures if p.key not in leaks.dropped}
    alike = [(a.key, b.key) for a in pictures for b in pictures if a.sha256_pixels == b.sha256_pixels]
    alike += [(f"k{i}", f"k{j}") for i, j, _ in near]
    assert all(side[a] is side[b] for a, b in alike if a in side and b in side)
    assert not set(leaks.moved) & {group for group, is_official in official.items() if is_official}


def test_leaks_can_be_listed_and_looked_at():
    pairs = [LeakPair("b/1", "a/1", "near", 0.91234)]
    (row,) = leak_rows(pairs, {"b/1": TEST, "a/1": TRAIN})
    assert (row["kept_side"], row["copy_side"], row["correlation"]) == ("test", "train", 0.912)
    sheet = leak_sheet(pairs, lambda key: np.full((30, 40, 3), 200 if key == "b/1" else 90, np.uint8), cell_px=100)
    assert {90, 200} <= set(np.unique(sheet))
