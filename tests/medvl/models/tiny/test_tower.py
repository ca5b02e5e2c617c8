from __future__ import annotations

import numpy as np
import torch

from medvl.models.tiny.facts import KINDS, facts_of
from medvl.models.tiny.scenes import draw_several
from medvl.models.tiny.tokenizer import train_tokenizer
from medvl.models.tiny.tower import (
    ABSENT,
    NOTHING,
    PATCHES,
    PROBED,
    TOKEN_LABELS,
    Probe,
    label_tokens,
    make_sight,
    sight_loss,
    token_labels,
)

NAMES = list(TOKEN_LABELS)


def scene_with_box():
    rng = np.random.default_rng(0)
    while True:
        scene = draw_several(rng)
        if scene.boxed is not None and len(scene.things) == 3:
            return scene


def test_tokens_tell_about_the_object_that_covers_them():
    scene = scene_with_box()
    labels = token_labels(scene).reshape(PATCHES, PATCHES, -1)
    for index, thing in enumerate(scene.things):
        row, column = int((thing.bbox[1] + thing.bbox[3]) / 64), int((thing.bbox[0] + thing.bbox[2]) / 64)
        at = labels[min(row, 5), min(column, 5)]
        assert TOKEN_LABELS["what"][at[NAMES.index("what")]] == thing.shape
        assert (TOKEN_LABELS["boxed"][at[NAMES.index("boxed")]] == "red box") == (index == scene.boxed)


def test_empty_tokens_say_so_and_nothing_else():
    labels = token_labels(scene_with_box())
    empty = labels[labels[:, 0] == len(TOKEN_LABELS["what"])]
    assert len(empty) > 0
    assert (empty[:, 1:-1] == ABSENT).all()
    assert {TOKEN_LABELS["boxed"][i] for i in empty[:, -1]} == {NOTHING}


def test_facts_become_classes_of_their_kinds():
    scene = scene_with_box()
    sight = make_sight([scene], [facts_of(scene)])
    told = {
        PROBED[k]: KINDS[PROBED[k]].answers[c]
        for k, c in zip(sight.kinds.tolist(), sight.classes.tolist(), strict=True)
    }
    assert told["boxed shape"] == scene.things[scene.boxed].shape
    assert told["count"] == "three"
    assert "place of" not in told


def test_a_probe_learns_one_picture_by_heart():
    torch.manual_seed(0)
    scene = scene_with_box()
    sight = make_sight([scene], [facts_of(scene)])
    features = torch.randn(1, PATCHES * PATCHES, 32, requires_grad=True)
    probe, words = Probe(32, label_tokens(train_tokenizer()), heads=2), torch.randn(len(train_tokenizer()), 32)
    optimizer = torch.optim.Adam([features, *probe.parameters()], lr=3e-2)
    for _ in range(80):
        loss, hits = sight_loss(probe, features, words, sight)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert np.mean([hit for _, hit in hits]) > 0.95


def test_every_word_of_a_label_can_be_said():
    unsaid = [name for (name, of) in zip(NAMES, label_tokens(train_tokenizer()), strict=True) if [] in of]
    assert unsaid == ["what", "boxed"]


def test_the_words_themselves_are_not_moved_by_what_is_seen():
    scene = scene_with_box()
    words = torch.randn(len(train_tokenizer()), 32, requires_grad=True)
    features = torch.randn(1, PATCHES * PATCHES, 32, requires_grad=True)
    probe = Probe(32, label_tokens(train_tokenizer()), heads=2)
    sight_loss(probe, features, words, make_sight([scene], [facts_of(scene)]))[0].backward()
    assert words.grad is None
    assert features.grad.abs().sum() > 0
