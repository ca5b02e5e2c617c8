import pytest

from medvl.benchmark.leaks import Placed, audit_leaks
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
    assert leaks.pairs == [(other, "a/1")]
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
    assert audit_leaks(pictures, "move").moved == {"g": TEST}
    assert audit_leaks(pictures[::-1], "move").moved == {"g": TEST}


def test_an_official_group_is_never_moved_its_copy_leaves():
    leaks = audit_leaks([placed("a/1", "x", TRAIN, official=True), placed("b/1", "x", TEST)], "move")
    assert leaks.moved == {}
    assert leaks.dropped == {"a/1"}


def test_fail_names_the_pairs():
    pictures = [placed("a/1", "x", TRAIN), placed("b/1", "x", TEST)]
    with pytest.raises(DataError, match=r"1 pictures lie on both sides .* \(b/1 = a/1\)"):
        audit_leaks(pictures, "fail")
