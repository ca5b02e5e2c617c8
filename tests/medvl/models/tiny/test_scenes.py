from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from medvl.models.tiny.facts import KINDS, facts_of
from medvl.models.tiny.scenes import LAYOUTS, PLACES, SURFACES, TONES, is_held_out
from medvl.models.tiny.shapes import CANVAS_PX, SHAPES

SEEDS = st.integers(0, 2**32)
NAMES = st.sampled_from(list(LAYOUTS))


@settings(deadline=None)
@given(SEEDS, NAMES)
def test_a_seed_decides_the_picture_and_its_facts(seed, name):
    first, second = (LAYOUTS[name](np.random.default_rng(seed)) for _ in range(2))
    assert np.array_equal(first.picture, second.picture)
    assert facts_of(first) == facts_of(second)


@settings(deadline=None)
@given(SEEDS, NAMES)
def test_pictures_are_small_rgb_and_grey_but_for_the_red_box(seed, name):
    scene = LAYOUTS[name](np.random.default_rng(seed))
    assert scene.picture.shape == (96, 96, 3)
    assert scene.picture.dtype == np.uint8
    spread = scene.picture.max(2).astype(int) - scene.picture.min(2)
    assert (spread.max() > 100) == (scene.boxed is not None)


@settings(deadline=None)
@given(SEEDS, NAMES, st.booleans())
def test_combinations_are_kept_apart(seed, name, held_out):
    scene = LAYOUTS[name](np.random.default_rng(seed), held_out)
    asked = {"single": scene.things, "several": scene.things, "nested": scene.things[:1], "figure": []}[name]
    assert all(is_held_out(t.shape, t.surface, t.tone) == held_out for t in asked)


@settings(deadline=None)
@given(SEEDS)
def test_the_red_box_encloses_its_object(seed):
    scene = LAYOUTS["several"](np.random.default_rng(seed))
    if scene.boxed is None:
        return
    red = (scene.picture[..., 0].astype(int) - scene.picture[..., 1]) > 60
    ys, xs = np.nonzero(red)
    x0, y0, x1, y1 = (v * 96 / CANVAS_PX for v in scene.things[scene.boxed].bbox)
    assert xs.min() <= x0 + 2
    assert ys.min() <= y0 + 2
    assert xs.max() >= x1 - 2
    assert ys.max() >= y1 - 2


def test_a_plain_object_has_the_grey_level_of_its_tone_at_its_place():
    checked = 0
    for seed in range(900):
        scene = LAYOUTS["single"](np.random.default_rng(seed))
        thing = scene.things[0]
        if thing.surface != "plain" or thing.shape not in ("circle", "square") or thing.mark != "nothing":
            continue
        x0, y0, x1, y1 = (v * 96 / CANVAS_PX for v in thing.bbox)
        cx, cy = round((x0 + x1) / 2), round((y0 + y1) / 2)
        level = scene.picture[cy - 1 : cy + 2, cx - 1 : cx + 2].mean()
        low, high = TONES[thing.tone]
        assert low - 14 <= level <= high + 14
        if thing.size != "large":
            assert PLACES[thing.place] == PLACES[min(2, cy // 32) * 3 + min(2, cx // 32)]
        checked += 1
    assert checked > 20


@settings(deadline=None)
@given(SEEDS, NAMES, st.booleans())
def test_answers_are_among_the_distinct_answers_of_their_kind(seed, name, held_out):
    facts = facts_of(LAYOUTS[name](np.random.default_rng(seed), held_out))
    assert len({f.kind for f in facts}) == len(facts) >= 2
    for fact in facts:
        assert fact.answer in fact.answers
        assert len(set(fact.answers)) == len(fact.answers) >= 2
        assert set(fact.answers) <= set(KINDS[fact.kind.partition(":")[0]].answers)


def test_every_kind_and_every_answer_occurs():
    seen: dict[str, set[str]] = {}
    rng = np.random.default_rng(0)
    for draw in LAYOUTS.values():
        for _ in range(900):
            for fact in facts_of(draw(rng)):
                seen.setdefault(fact.kind.partition(":")[0], set()).add(fact.answer)
    assert {name: sorted(set(kind.answers) - seen.get(name, set())) for name, kind in KINDS.items()} == {
        name: [] for name in KINDS
    }


def test_every_surface_and_tone_is_kept_from_one_shape_and_every_shape_lacks_some():
    combinations = [(s, t, tone) for s in SHAPES for t in SURFACES for tone in TONES]
    kept = [c for c in combinations if is_held_out(*c)]
    assert len({(surface, tone) for _, surface, tone in kept}) == len(kept) == len(SURFACES) * len(TONES)
    assert {shape for shape, _, _ in kept} == set(SHAPES)
