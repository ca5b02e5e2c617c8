from __future__ import annotations

import numpy as np
import torch

from medvl.models.tiny.facts import KINDS, facts_of
from medvl.models.tiny.scenes import draw_several
from medvl.models.tiny.tower import ABSENT, PATCHES, PROBED, TOKEN_LABELS, Probe, make_sight, sight_loss, token_labels

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
        assert at[NAMES.index("boxed")] == (index == scene.boxed)


def test_empty_tokens_say_so_and_nothing_else():
    labels = token_labels(scene_with_box())
    empty = labels[labels[:, 0] == len(TOKEN_LABELS["what"])]
    assert len(empty) > 0
    assert (empty[:, 1:-1] == ABSENT).all()
    assert (empty[:, -1] == 0).all()


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
    features, probe = torch.randn(1, PATCHES * PATCHES, 32), Probe(32, heads=2)
    optimizer = torch.optim.Adam(probe.parameters(), lr=1e-2)
    for _ in range(60):
        loss, hits = sight_loss(probe, features, sight)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert np.mean([hit for _, hit in hits]) > 0.95
