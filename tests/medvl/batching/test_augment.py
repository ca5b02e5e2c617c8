import dataclasses

import pytest
from mini_items import make_item

from medvl.batching.augment import Draw, NumberedDraws, allowed_moves, draw_seed, moves_together, names_a_side
from medvl.batching.sampler import TaskMixSampler
from medvl.config.schema import TaskMixConfig
from medvl.imaging.augment import Moves
from medvl.sources.record import Split, Task

ITEMS = [make_item(task, i) for task, n in ((Task.PI, 7), (Task.VG, 12)) for i in range(n)]


@pytest.mark.parametrize(
    ("task", "moves"),
    [
        (Task.PI, Moves()),
        (Task.VC, Moves(crop=False)),
        (Task.FO, Moves(flip=False, turn=False)),
        (Task.CD, Moves()),
        (Task.VG, Moves()),
        (Task.FD, Moves(flip=False)),
    ],
)
def test_each_task_allows_what_keeps_its_answers_right(task, moves):
    assert allowed_moves(make_item(task)) == moves


def test_every_task_is_in_the_table_above():
    (mark,) = (m for m in test_each_task_allows_what_keeps_its_answers_right.pytestmark if m.name == "parametrize")
    assert {task for task, _ in mark.args[1]} == set(Task)


@pytest.mark.parametrize("split", [Split.VAL, Split.TEST])
@pytest.mark.parametrize("task", Task)
def test_nothing_is_changed_outside_training(split, task):
    assert allowed_moves(make_item(task, split=split)) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"question": "Which side is the LEFT lung on?"},
        {"options": ("heart", "right atrium", "femur")},
        {"labels": ("head up",)},
        {"labels": ("leftLung",)},
        {"labels": ("head", "lung_right")},
        {"options": ("Upper-pole", "head")},
        {"question": "Is the placenta in the lower segment?"},
        {"options": ("LVOT", "RVOT", "four chambers")},
        {"labels": ("situs inversus", "dextrocardia")},
        {"question": "Does the back point downwards?"},
    ],
    ids=str,
)
@pytest.mark.parametrize("task", [Task.PI, Task.VC, Task.VG])
def test_an_item_that_names_a_side_is_neither_mirrored_nor_turned(task, changes):
    item = make_item(task, **changes)
    assert names_a_side(item)
    assert allowed_moves(item) == allowed_moves(make_item(task)) & Moves(flip=False, turn=False)


@pytest.mark.parametrize(
    "text", ["bright spot", "supine", "update", "trans-cerebellum plane", "copyright", "stop", "HDVB"]
)
def test_a_word_that_only_holds_such_letters_is_no_side(text):
    assert not names_a_side(make_item(question=text, options=(text, "x"), labels=(text,), raw_label="left"))


def test_questions_on_one_picture_move_it_by_what_all_of_them_allow():
    same = {"sha256_pixels": "ab" * 32}
    items = [
        make_item(Task.PI, 0, **same),
        make_item(Task.FO, 1, **same),
        make_item(Task.VC, 2, **same),
        make_item(Task.VG, 3, **same, bbox_xyxy_px=(1.0, 2.0, 9.0, 9.0)),
        make_item(Task.VG, 4, **same, bbox_xyxy_px=(1.0, 2.0, 9.0, 9.0), options=("left lung", "heart")),
        make_item(Task.VG, 5, **same, bbox_xyxy_px=(3.0, 2.0, 9.0, 9.0)),
        make_item(Task.PI, 6),
    ]
    nothing, level, free = Moves(False, False, False), Moves(flip=False, turn=False), Moves()
    assert moves_together(items) == [nothing, nothing, nothing, level, level, free, free]


def test_a_picture_that_a_test_item_shares_is_not_changed():
    items = [make_item(sha256_pixels="ab" * 32, split=split) for split in (Split.TRAIN, Split.TEST)]
    assert moves_together(items) == moves_together(items[::-1]) == [None, None]


def test_draws_follow_the_sampler_and_count_epochs_and_repeats():
    mix = TaskMixConfig(weights={"PI": 9.0})
    plain, numbered = TaskMixSampler(ITEMS, mix, 3), NumberedDraws(TaskMixSampler(ITEMS, mix, 3))
    assert len(numbered) == len(plain)
    for epoch in (0, 4):
        plain.set_epoch(epoch)
        numbered.set_epoch(epoch)
        drawn = list(numbered)
        assert [draw.item for draw in drawn] == list(plain)
        assert {draw.epoch for draw in drawn} == {epoch}
        assert len(set(drawn)) == len(drawn)
        of_one = [draw.repeat for draw in drawn if draw.item == drawn[0].item]
        assert of_one == list(range(len(of_one)))
        assert max(draw.repeat for draw in drawn) > 0


def test_a_change_belongs_to_a_picture_with_its_box_and_a_draw_and_to_nothing_else():
    item = make_item(Task.VG, 1, bbox_xyxy_px=(1.0, 2.0, 9.0, 9.0))
    first = draw_seed(0, item, Draw(5))
    asked_otherwise = dataclasses.replace(item, item_id="other", task=Task.PI, options=("x", "y"), picture="copy.png")
    assert draw_seed(0, asked_otherwise, Draw(8)) == first
    others = [
        draw_seed(1, item, Draw(5)),
        draw_seed(0, item, Draw(5, epoch=1)),
        draw_seed(0, item, Draw(5, repeat=1)),
        draw_seed(0, dataclasses.replace(item, sha256_pixels="cd" * 32), Draw(5)),
        draw_seed(0, dataclasses.replace(item, bbox_xyxy_px=(1.0, 2.0, 9.0, 9.5)), Draw(5)),
    ]
    assert len({first, *others}) == 6
