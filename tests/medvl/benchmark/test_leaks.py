from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvl.benchmark.leaks import LEAK_COLUMNS, Placed, audit_leaks, card_leaks, leak_rows, settle_leaks
from medvl.errors import DataError
from medvl.sources.record import Split

TRAIN, VAL, TEST = Split.TRAIN, Split.VAL, Split.TEST
RANK = {TEST: 0, VAL: 1, TRAIN: 2}


def placed(key, pixels, split, group=None, official=False):
    return Placed(key, pixels, group or f"group of {key}", split, official)


def named(leaks):
    return [(pair.kept, pair.copy, pair.kind, pair.correlation) for pair in leaks.pairs]


def identical(kept, copy):
    return (kept, copy, "identical", 1.0)


def nearly(kept, copy, correlation):
    return (kept, copy, "near", correlation)


def shared(kept, copy):
    return (kept, copy, "group", None)


def test_copies_on_one_side_are_no_leak():
    pictures = [placed("a/1", "x", TRAIN), placed("b/1", "x", TRAIN), placed("a/2", "y", TEST)]
    leaks = audit_leaks(pictures, "fail", [(0, 1, 0.9)])
    assert leaks.pairs == []
    assert leaks.dropped == set()


@pytest.mark.parametrize("other", ["a/2", "b/1"])
def test_drop_train_keeps_the_test_copy_within_and_across_sources(other):
    leaks = audit_leaks([placed("a/1", "x", TRAIN), placed(other, "x", TEST)], "drop_train")
    assert leaks.dropped == {"a/1"}
    assert named(leaks) == [identical(other, "a/1")]
    assert leaks.moved == {}


@pytest.mark.parametrize("other", ["a/2", "b/1"])
def test_a_near_picture_is_a_copy(other):
    leaks = audit_leaks([placed("a/1", "x", TRAIN), placed(other, "y", TEST)], "drop_train", [(0, 1, 0.93)])
    assert leaks.dropped == {"a/1"}
    assert named(leaks) == [nearly(other, "a/1", 0.93)]


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
    assert audit_leaks(pictures, "move").moved["g"] is TEST
    assert audit_leaks(pictures[::-1], "move").moved["g"] is TEST


def test_a_group_that_moves_pulls_its_near_pictures_with_it():
    pictures = [
        placed("a/1", "x", TRAIN, "g"),
        placed("a/2", "y", TRAIN, "g"),
        placed("b/1", "z", TRAIN, "h"),
        placed("c/1", "x", TEST),
    ]
    leaks = audit_leaks(pictures, "move", [(1, 2, 0.9)])
    assert leaks.moved == {"g": TEST, "h": TEST}
    assert named(leaks) == [identical("c/1", "a/1"), nearly("a/2", "b/1", 0.9)]


def test_an_official_group_is_never_moved_its_copy_leaves():
    leaks = audit_leaks([placed("a/1", "x", TRAIN, official=True), placed("b/1", "x", TEST)], "move")
    assert leaks.moved == {}
    assert leaks.dropped == {"a/1"}


def test_in_a_chain_a_picture_leaves_only_for_one_that_stays():
    chain = [placed("a", "x", TEST), placed("b", "y", VAL), placed("c", "z", TRAIN)]
    leaks = audit_leaks(chain, "drop_train", [(0, 1, 0.9), (1, 2, 0.9)])
    assert leaks.dropped == {"b"}
    assert named(leaks) == [nearly("a", "b", 0.9)]


def test_a_picture_is_near_whatever_its_identical_copy_is_near():
    pictures = [placed("a", "x", TEST), placed("b", "y", TRAIN), placed("c", "y", TRAIN)]
    assert audit_leaks(pictures, "drop_train", [(0, 1, 0.9)]).dropped == {"b", "c"}


def test_the_pair_named_is_the_identical_one_and_else_the_closest():
    pictures = [placed("a", "x", TEST), placed("b", "y", TEST), placed("c", "y", TRAIN), placed("d", "z", TRAIN)]
    leaks = audit_leaks(pictures, "drop_train", [(0, 2, 0.99), (0, 3, 0.85), (1, 3, 0.95)])
    assert named(leaks) == [identical("b", "c"), nearly("b", "d", 0.95)]


def test_a_group_that_sources_put_on_two_sides_is_a_leak():
    pictures = [placed("a/1", "x", TRAIN, "g"), placed("b/1", "y", TEST, "g"), placed("b/2", "z", TEST, "h")]
    leaks = audit_leaks(pictures, "drop_train")
    assert named(leaks) == [shared("b/1", "a/1")]
    assert leaks.dropped == {"a/1"}
    assert (leaks.pairs[0].kept_split, leaks.pairs[0].copy_split) == (TEST, TRAIN)
    assert audit_leaks(pictures, "move").moved == {"g": TEST}


def test_a_copy_is_called_a_copy_even_where_the_group_is_shared():
    pictures = [placed("a/1", "x", TRAIN, "g"), placed("b/0", "y", TEST, "g"), placed("b/1", "x", TEST, "g")]
    assert named(audit_leaks(pictures, "drop_train")) == [identical("b/1", "a/1")]


def test_moving_a_group_leaves_its_published_pictures_where_they_are():
    pictures = [
        placed("a/1", "x", TRAIN, "g", official=True),
        placed("b/1", "y", TRAIN, "g"),
        placed("c/1", "y", TEST),
    ]
    leaks = audit_leaks(pictures, "move")
    assert leaks.moved == {"g": TEST}
    assert leaks.side_of("g", TRAIN, is_official=False) is TEST
    assert leaks.side_of("g", TRAIN, is_official=True) is TRAIN
    assert leaks.dropped == {"a/1"}
    assert named(leaks) == [identical("c/1", "b/1"), shared("b/1", "a/1")]


def test_a_group_never_moves_to_a_lesser_side():
    leaks = audit_leaks([placed("a/1", "x", TRAIN, "g"), placed("b/1", "x", VAL)], "move")
    assert leaks.side_of("g", TRAIN, is_official=False) is VAL
    assert leaks.side_of("g", TEST, is_official=False) is TEST


def test_fail_names_the_pairs():
    pictures = [placed("a/1", "x", TRAIN), placed("b/1", "x", TEST), placed("b/2", "y", TEST), placed("a/2", "z", VAL)]
    with pytest.raises(DataError, match=r"1 pictures lie on both sides .* \(b/1 = a/1\)"):
        audit_leaks(pictures[:2], "fail")
    with pytest.raises(
        DataError, match=r"2 .* 1 with identical pixels and 1 nearly identical \(b/2 ~ a/2; b/1 = a/1\)"
    ):
        audit_leaks(pictures, "fail", [(2, 3, 0.9)])
    with pytest.raises(DataError, match=r"1 of a group on both \(b/1 & a/1\)"):
        audit_leaks([placed("a/1", "x", TRAIN, "g"), placed("b/1", "y", TEST, "g")], "fail")


@st.composite
def audits(draw):
    """Pictures of groups that up to two sources hold, each with a side, some published; near pairs among them."""
    holders = st.lists(st.tuples(st.sampled_from(list(Split)), st.booleans()), min_size=1, max_size=2)
    groups = draw(st.lists(holders, min_size=1, max_size=6))
    count = draw(st.integers(0, 16))
    pictures = []
    for place in range(count):
        group = draw(st.integers(0, len(groups) - 1))
        side, official = draw(st.sampled_from(groups[group]))
        pictures.append(placed(f"k{place}", f"p{draw(st.integers(0, 12))}", side, f"g{group}", official))
    places = st.integers(0, max(0, count - 1))
    near = draw(st.lists(st.tuples(places, places, st.floats(0.8, 1)), max_size=20)) if count else []
    return pictures, near


def sides_after(pictures, leaks):
    left = {
        p.key: leaks.side_of(p.group, p.split, is_official=p.is_official)
        for p in pictures
        if p.key not in leaks.dropped
    }
    alike = {
        (a.key, b.key) for a in pictures for b in pictures if a.sha256_pixels == b.sha256_pixels or a.group == b.group
    }
    return left, alike


@pytest.mark.parametrize("policy", ["drop_train", "move"])
@given(audits())
def test_afterwards_no_pair_lies_across_sides_and_nothing_that_matters_is_lost(policy, drawn):
    pictures, near = drawn
    leaks = audit_leaks(pictures, policy, near)
    left, alike = sides_after(pictures, leaks)
    pairs = alike | {(pictures[i].key, pictures[j].key) for i, j, _ in near}
    assert not {(a, b) for a, b in pairs if a in left and b in left and left[a] is not left[b]}
    by_key = {picture.key: picture for picture in pictures}
    assert all(by_key[key].split is not TEST for key in leaks.dropped)
    assert all(left[p.key] is p.split for p in pictures if p.is_official and p.key in left)
    assert all(RANK[left[p.key]] <= RANK[p.split] for p in pictures if p.key in left)
    touched = {pair.copy for pair in leaks.pairs}
    assert leaks.dropped <= touched
    assert set(leaks.moved) <= {by_key[key].group for key in touched}
    assert all(RANK[pair.kept_split] < RANK[pair.copy_split] for pair in leaks.pairs)
    assert len({(pair.kept, pair.copy) for pair in leaks.pairs}) == len(leaks.pairs)
    if policy == "drop_train":
        assert leaks.dropped == touched
        assert leaks.moved == {}
        assert {pair.kept for pair in leaks.pairs} <= set(left)
    else:
        assert all(by_key[key].is_official for key in leaks.dropped)


@pytest.mark.parametrize("policy", ["drop_train", "move"])
@given(audits())
def test_the_answer_does_not_depend_on_the_order_of_pictures(policy, drawn):
    pictures, near = drawn
    last = len(pictures) - 1
    leaks, turned = (
        audit_leaks(pictures, policy, near),
        audit_leaks(pictures[::-1], policy, [(last - j, last - i, c) for i, j, c in near[::-1]]),
    )
    assert (turned.pairs, turned.dropped, turned.moved) == (leaks.pairs, leaks.dropped, leaks.moved)


@pytest.mark.parametrize("policy", ["drop_train", "move"])
@given(audits())
def test_settling_ends_when_a_search_that_names_one_pair_at_a_time_finds_none(policy, drawn):
    pictures, near = drawn
    keys = [(pictures[i].key, pictures[j].key, c) for i, j, c in near]

    def find(now):
        place = {picture.key: i for i, picture in enumerate(now)}
        there = [(place[a], place[b], c) for a, b, c in keys if a in place and b in place]
        return [(i, j, c) for i, j, c in there if now[i].split is not now[j].split][:1]

    leaks = settle_leaks(pictures, policy, find)
    left, alike = sides_after(pictures, leaks)
    pairs = alike | {(a, b) for a, b, _ in keys}
    assert not {(a, b) for a, b in pairs if a in left and b in left and left[a] is not left[b]}


def test_settling_under_fail_stops_at_a_near_pair():
    with pytest.raises(DataError, match="1 nearly identical"):
        settle_leaks([placed("a", "x", TEST), placed("b", "y", TRAIN)], "fail", lambda now: [(0, 1, 0.9)])


def test_rows_name_both_pictures_with_sides_and_the_items_that_left():
    pictures = [
        Placed("a/1", "x", "g", TRAIN, False, "root/a/1.avi", 7),
        Placed("b/x/1", "y", "h", TEST, False, "root/b/x/1.png"),
    ]
    (row,) = leak_rows(
        audit_leaks(pictures, "drop_train", [(0, 1, 0.91234)]), pictures, {"a/1": ["i", "j"], "b/x/1": ["k"]}
    )
    assert tuple(row) == LEAK_COLUMNS
    assert row == {
        "kind": "near",
        "correlation": 0.912,
        "done": "dropped",
        "kept_source": "b",
        "kept_picture": "root/b/x/1.png",
        "kept_frame": None,
        "kept_split": "test",
        "copy_source": "a",
        "copy_picture": "root/a/1.avi",
        "copy_frame": 7,
        "copy_split": "train",
        "dropped_items": ["i", "j"],
    }


def test_a_picture_that_moves_keeps_its_items():
    pictures = [placed("a/1", "x", TRAIN), placed("b/1", "x", TEST)]
    (row,) = leak_rows(audit_leaks(pictures, "move"), pictures, {"a/1": ["i"]})
    assert (row["done"], row["dropped_items"]) == ("moved", [])


def test_a_card_gives_its_rows_back_and_one_of_an_earlier_kind_is_refused():
    pictures = [placed("a/1", "x", TRAIN), placed("b/1", "x", TEST)]
    rows = leak_rows(audit_leaks(pictures, "drop_train"), pictures)
    assert card_leaks({"leaks": rows}, Path("b")) == rows
    for card in ({}, {"leaks": [{"kept": "b/1", "copy": "a/1"}]}, {"leaks": ["b/1"]}):
        with pytest.raises(DataError, match="build again"):
            card_leaks(card, Path("b"))
