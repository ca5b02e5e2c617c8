"""Generic drawn scenes: objects, groups, figures that point somewhere, and large outlines with things inside.

Grey pictures with soft backgrounds and white noise. Nothing in them looks like an ultrasound picture: no sector, no
speckle, no anatomy.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import cv2
import numpy as np

from medvl.models.tiny.shapes import (
    CANVAS_PX,
    PICTURE_PX,
    SHAPES,
    STRIPES,
    TEXTURES,
    Array,
    broken_line_mask,
    contour,
    fill_mask,
    line_mask,
    paint,
    paint_texture,
)

TONES = {"black": (0, 25), "dark grey": (68, 92), "light grey": (150, 178), "white": (228, 255)}
"""Tone -> range of grey levels."""
SIZES = {"small": (13, 20), "medium": (30, 40), "large": (56, 72)}
"""Size of a single object -> half extent on the canvas."""
PLACES = (
    *("top left", "top middle", "top right"),
    *("middle left", "centre", "middle right"),
    *("bottom left", "bottom middle", "bottom right"),
)
"""Nine places, row by row."""
MARKS = ("nothing", "dot", "line", "cross", "ring")
"""What can lie inside a large outline or a plain object."""
DIRECTIONS = ("up", "down", "left", "right")
SURFACES = (*TEXTURES, "hollow")
"""How an object can be filled."""


def is_held_out(shape: str, surface: str, tone: str) -> bool:
    """Whether a combination is kept for evaluation: for every surface and tone one of the ten shapes."""
    pair = SURFACES.index(surface) * len(TONES) + list(TONES).index(tone)
    return (3 * pair + pair // len(SHAPES)) % len(SHAPES) == SHAPES.index(shape)


@dataclass(slots=True)
class Thing:
    """An object of a scene.

    Attributes:
        shape: One of `SHAPES`.
        surface: One of `TEXTURES`, or `hollow` for an outline.
        tone: One of `TONES`; of a textured object the main tone.
        bbox: (x0, y0, x1, y1) on the canvas.
        place: Index into `PLACES`.
        edge: Edge kind.
        size: Key of `SIZES`, for single objects.
        mark: What lies inside.
        closed: False for an outline with gaps.
        stripe: Direction of the stripes.
    """

    shape: str
    surface: str
    tone: str
    bbox: tuple[float, float, float, float]
    place: int = 4
    edge: str = "smooth"
    size: str = ""
    mark: str = "nothing"
    closed: bool = True
    stripe: str = ""


@dataclass(slots=True)
class Scene:
    """A picture and what is true of it.

    Attributes:
        picture: [96, 96, 3] uint8 RGB.
        layout: `single`, `several`, `figure` or `nested`.
        things: Objects; in `nested` the large one first, in `figure` body, round end and mark.
        boxed: Index of the object in the red box, or None.
        facts: Layout-specific facts.
    """

    picture: Array
    layout: str
    things: list[Thing]
    boxed: int | None = None
    facts: dict[str, str] = field(default_factory=dict)


def _pick(rng: np.random.Generator, choices: tuple[str, ...] | list[str]) -> str:
    return choices[int(rng.integers(len(choices)))]


def _background(rng: np.random.Generator, levels: list[float]) -> Array:
    """Canvas with a level that stands out from the given ones, sloping or cloudy by little."""
    candidates = rng.permutation(np.linspace(8, 235, 16))
    distance = [min((abs(c - level) for level in levels), default=255) for c in candidates]
    good = [c for c, d in zip(candidates, distance, strict=True) if d >= 48]
    base = good[0] if good else candidates[int(np.argmax(distance))]
    canvas = np.full((CANVAS_PX, CANVAS_PX), base, np.float32)
    if rng.random() < 0.4:
        slope = np.linspace(-1, 1, CANVAS_PX, dtype=np.float32) * rng.uniform(-16, 16)
        canvas += slope[None] if rng.random() < 0.5 else slope[:, None]
    if rng.random() < 0.4:
        clouds = rng.normal(0, rng.uniform(3, 12), (5, 5)).astype(np.float32)
        canvas += cv2.resize(clouds, (CANVAS_PX, CANVAS_PX), interpolation=cv2.INTER_CUBIC)
    return canvas


def _finish(rng: np.random.Generator, canvas: Array, box: tuple[float, float, float, float] | None) -> Array:
    """Average down, blur, add noise, draw the red box."""
    grey = cv2.resize(canvas, (PICTURE_PX, PICTURE_PX), interpolation=cv2.INTER_AREA)
    if rng.random() < 0.25:
        grey = cv2.GaussianBlur(grey, (0, 0), rng.uniform(0.4, 0.8))
    grey = grey + rng.normal(0, rng.uniform(0, 7), grey.shape)
    picture = np.repeat(np.clip(grey, 0, 255)[..., None], 3, axis=2)
    if box is not None:
        mask = np.zeros((CANVAS_PX, CANVAS_PX), np.float32)
        x0, y0, x1, y1 = (round(v) for v in box)
        cv2.rectangle(mask, (x0, y0), (x1, y1), 1.0, int(rng.integers(2, 5)))
        alpha = cv2.resize(mask, (PICTURE_PX, PICTURE_PX), interpolation=cv2.INTER_AREA)[..., None]
        picture = picture * (1 - alpha) + np.array([rng.uniform(215, 255), 0, 0]) * alpha
    return picture.astype(np.uint8)


def _bounds(points: Array, margin: float) -> tuple[float, float, float, float]:
    low, high = points.min(0) - margin, points.max(0) + margin
    return (
        float(np.clip(low[0], 1, CANVAS_PX - 3)),
        float(np.clip(low[1], 1, CANVAS_PX - 3)),
        float(np.clip(high[0], 2, CANVAS_PX - 2)),
        float(np.clip(high[1], 2, CANVAS_PX - 2)),
    )


def _combination(rng: np.random.Generator, held_out: bool, surfaces: tuple[str, ...]) -> tuple[str, str, str]:
    """Draw shape, surface and tone from the trained or from the held-out combinations."""
    while True:
        found = _pick(rng, SHAPES), _pick(rng, surfaces), _pick(rng, list(TONES))
        if is_held_out(*found) == held_out:
            return found


def _level(rng: np.random.Generator, tone: str) -> float:
    return float(rng.uniform(*TONES[tone]))


def _other_level(rng: np.random.Generator, level: float) -> float:
    """A level that alternates visibly with the given one."""
    step = rng.uniform(75, 120)
    return level + step if level < 128 else level - step


def _draw_mark(rng: np.random.Generator, canvas: Array, mark: str, at: Array, radius: float, level: float) -> Array:
    """Draw an inner mark; returns its outline points."""
    x, y = (float(v) for v in at)
    if mark == "ring":
        points = contour(rng, "circle", (x, y), radius)
        paint(canvas, line_mask(points, max(3, round(radius * 0.35))), level)
        return points
    if mark == "line":
        turn = rng.uniform(0, np.pi)
        half = radius * 1.4 * np.array([np.cos(turn), np.sin(turn)])
        ends = np.stack([at - half, at + half]).astype(np.float32)
        paint(canvas, line_mask(ends, max(4, round(radius * 0.3)), closed=False), level)
        return ends
    shape = {"dot": "circle", "cross": "cross"}[mark]
    points = contour(rng, shape, (x, y), radius * (0.75 if mark == "dot" else 1.0))
    paint(canvas, fill_mask(points), level)
    return points


def _draw_thing(
    rng: np.random.Generator, canvas: Array, thing: Thing, centre: tuple[float, float], radius: float, level: float
) -> Array:
    """Draw an object; returns its contour."""
    points = contour(rng, thing.shape, centre, radius, edge=thing.edge)
    if thing.surface == "hollow":
        width = int(np.clip(round(radius * rng.uniform(0.08, 0.2)), 3, 8))
        mask = line_mask(points, width) if thing.closed else broken_line_mask(rng, points, width)
        paint(canvas, mask, level)
        thing.bbox = _bounds(points, width / 2)
    else:
        paint_texture(rng, canvas, fill_mask(points), thing.surface, (level, _other_level(rng, level)), thing.stripe)
        thing.bbox = _bounds(points, 0)
    return points


def draw_single(rng: np.random.Generator, held_out: bool = False) -> Scene:
    """One object with a shape, surface, tone, edge, size, place, perhaps a gap or a mark inside."""
    shape, surface, tone = _combination(rng, held_out, (*TEXTURES, "plain", "hollow", "hollow"))
    size = _pick(rng, ["small", "medium", "medium", "large", "large", "large"])
    radius = float(rng.uniform(*SIZES[size]))
    if size == "small" and surface not in ("plain", "hollow"):
        size, radius = "medium", float(rng.uniform(*SIZES["medium"]))
    thing = Thing(shape, surface, tone, (0, 0, 0, 0), size=size)
    if shape in ("circle", "oval", "square") and size == "large" and surface in ("plain", "hollow"):
        thing.edge = _pick(rng, ["smooth", "wavy", "jagged"])
    if surface == "hollow" and size != "small" and thing.edge != "jagged":
        thing.closed = bool(rng.random() < 0.5)
    if surface == "striped":
        thing.stripe = _pick(rng, STRIPES)
    place = int(rng.integers(9)) if size != "large" else 4
    thing.place = place
    third = CANVAS_PX / 3
    wobble = 9 if size != "large" else 16
    centre = np.array([(place % 3 + 0.5) * third, (place // 3 + 0.5) * third]) + rng.uniform(-wobble, wobble, 2)
    centre = np.clip(centre, radius + 4, CANVAS_PX - radius - 4)
    level = _level(rng, tone)
    levels = [level] if surface in ("plain", "hollow") else [level, _other_level(rng, level)]
    canvas = _background(rng, levels)
    here = (float(centre[0]), float(centre[1]))
    _draw_thing(rng, canvas, thing, here, radius, level)
    roomy = shape in ("circle", "oval", "square", "diamond", "heart") and surface in ("plain", "hollow")
    if roomy and size == "large":
        thing.mark = _pick(rng, MARKS)
        if thing.mark != "nothing":
            mark_level = level if surface == "hollow" else _other_level(rng, level)
            _draw_mark(rng, canvas, thing.mark, centre, radius * rng.uniform(0.28, 0.4), mark_level)
    return Scene(_finish(rng, canvas, None), "single", [thing])


def draw_several(rng: np.random.Generator, held_out: bool = False) -> Scene:
    """One to six objects apart from each other, mostly with a red box around one."""
    count = int(rng.integers(1, 7))
    cells = rng.permutation(9)[:count]
    things, levels = [], []
    for cell in cells:
        shape, surface, tone = _combination(rng, held_out, (*TEXTURES, *("plain",) * 3, *("hollow",) * 3))
        thing = Thing(shape, surface, tone, (0, 0, 0, 0), place=int(cell))
        if surface == "striped":
            thing.stripe = _pick(rng, STRIPES)
        things.append(thing)
        levels.append(_level(rng, tone))
    canvas = _background(rng, levels)
    third = CANVAS_PX / 3
    for thing, level in zip(things, levels, strict=True):
        radius = float(rng.uniform(20, 29))
        centre = np.array([(thing.place % 3 + 0.5) * third, (thing.place // 3 + 0.5) * third])
        centre = np.clip(centre + rng.uniform(-5, 5, 2), radius + 3, CANVAS_PX - radius - 3)
        _draw_thing(rng, canvas, thing, (float(centre[0]), float(centre[1])), radius, level)
    boxed, box = None, None
    if rng.random() < 0.85:
        boxed = int(rng.integers(count))
        box = _around(rng, things[boxed].bbox)
    return Scene(_finish(rng, canvas, box), "several", things, boxed)


def _around(rng: np.random.Generator, bbox: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    """A box around an object, tight or a little wider."""
    margin = rng.uniform(0, 5, 4)
    x0, y0, x1, y1 = bbox
    last = CANVAS_PX - 2
    return (
        max(1.0, x0 - margin[0]),
        max(1.0, y0 - margin[1]),
        min(last, x1 + margin[2]),
        min(last, y1 + margin[3]),
    )


def draw_figure(rng: np.random.Generator, held_out: bool = False) -> Scene:
    """A figure of a big round end, a long body and a mark along one side; points one way, marked on one side."""
    del held_out
    pointing = int(rng.integers(4))
    side = int(rng.integers(2))
    base = np.array([[0, -1], [0, 1], [-1, 0], [1, 0]], np.float32)[pointing]
    tilt = rng.uniform(-0.3, 0.3)
    c, s = np.cos(tilt), np.sin(tilt)
    along = np.array([c * base[0] - s * base[1], s * base[0] + c * base[1]])
    # Up and down figures are marked left or right; left and right figures above or below.
    across = np.array([-1.0, 0.0]) if pointing < 2 else np.array([0.0, -1.0])
    across = across if side == 0 else -across
    normal = np.array([-along[1], along[0]])
    across = normal if normal @ across > 0 else -normal
    scale = rng.uniform(0.75, 1.1)
    middle = np.array([CANVAS_PX / 2, CANVAS_PX / 2]) + rng.uniform(-12, 12, 2)
    tone = _pick(rng, list(TONES))
    level = _level(rng, tone)
    mark_level = _other_level(rng, level) if rng.random() < 0.5 else level
    canvas = _background(rng, [level, mark_level])
    hollow = bool(rng.random() < 0.4)
    turn = float(np.arctan2(along[1], along[0]))
    body = contour(rng, "oval", tuple(middle - along * 12 * scale), 46 * scale, turn=turn)
    head = contour(rng, "circle", tuple(middle + along * 44 * scale), 24 * scale)
    width = int(rng.integers(3, 6))
    for points in (body, head):
        paint(canvas, line_mask(points, width) if hollow else fill_mask(points), level)
    reach = 33 * scale
    style = int(rng.integers(3))
    spots = [middle + along * (t * scale) + across * reach for t in (-46, -26, -6, 14)]
    if style == 0:
        for spot in spots:
            paint(canvas, fill_mask(contour(rng, "circle", tuple(spot), 7 * scale)), mark_level)
    elif style == 1:
        paint(canvas, line_mask(np.stack([spots[0], spots[-1]]).astype(np.float32), 8, closed=False), mark_level)
    else:
        fin = np.stack([spots[0] - across * 6, spots[2] - across * 6, spots[1] + across * 30 * scale])
        paint(canvas, fill_mask(fin.astype(np.float32)), mark_level)
    surface = "hollow" if hollow else "plain"
    parts = [
        Thing("body", surface, tone, _bounds(body, 0)),
        Thing("round end", surface, tone, _bounds(head, 0)),
        Thing("side mark", "plain", tone, _bounds(np.stack(spots), 8)),
    ]
    sides = ("left", "right") if pointing < 2 else ("above", "below")
    facts = {"points": DIRECTIONS[pointing], "side": sides[side], "marks": ("dots", "line", "triangle")[style]}
    return Scene(_finish(rng, canvas, None), "figure", parts, facts=facts)


def draw_nested(rng: np.random.Generator, held_out: bool = False) -> Scene:
    """A large shape with one to four things inside, mostly with a red box around one of them."""
    while True:
        shape, surface = _pick(rng, ["circle", "oval", "square"]), _pick(rng, ["hollow", "hollow", "plain"])
        tone = _pick(rng, list(TONES))
        if is_held_out(shape, surface, tone) == held_out:
            break
    level = _level(rng, tone)
    other = _other_level(rng, level)
    canvas = _background(rng, [level, other] if surface == "plain" else [level])
    radius = float(rng.uniform(66, 84))
    centre = np.clip(CANVAS_PX / 2 + rng.uniform(-18, 18, 2), radius + 3, CANVAS_PX - radius - 3)
    thing = Thing(shape, surface, tone, (0, 0, 0, 0), size="large")
    thing.edge = _pick(rng, ["smooth", "smooth", "wavy", "jagged"])
    if surface == "hollow" and thing.edge != "jagged":
        thing.closed = bool(rng.random() < 0.6)
    points = _draw_thing(rng, canvas, thing, (float(centre[0]), float(centre[1])), radius, level)
    # Four inner places along the shape's own extent, so that they lie inside an oval at any turn.
    spread = (points - centre).T @ (points - centre) / len(points)
    roots, axes = np.linalg.eigh(spread)
    reach = axes @ np.diag(np.sqrt(roots)) * 0.55
    corners = [centre + reach @ np.array(sign) for sign in ((-1, -1), (1, -1), (-1, 1), (1, 1))]
    count = int(rng.integers(1, 5))
    same = bool(rng.random() < 0.35)
    # A piece of a broken outline is a line itself.
    marks = [mark for mark in MARKS[1:] if thing.closed or mark != "line"]
    count = min(count, len(marks))
    kinds = [_pick(rng, marks)] * count if same else [str(k) for k in rng.permutation(marks)[:count]]
    inner = level if surface == "hollow" else other
    size = float(rng.uniform(0.2, 0.26)) * radius * (0.8 if shape == "oval" else 1.0)
    things = [thing]
    for kind, corner in zip(kinds, rng.permutation(corners)[:count], strict=True):
        outline = _draw_mark(rng, canvas, kind, corner, size, inner)
        offset = corner - centre
        place = ("top " if offset[1] < 0 else "bottom ") + ("left" if offset[0] < 0 else "right")
        item = Thing(kind, "inner", tone, _bounds(outline, 4))
        # Places near an axis are left open: no one could name them.
        item.place = PLACES.index(place) if np.abs(offset).min() > 0.2 * radius else -1
        things.append(item)
    boxed, box = None, None
    if rng.random() < 0.7:
        boxed = int(rng.integers(1, count + 1))
        box = _around(rng, things[boxed].bbox)
    return Scene(_finish(rng, canvas, box), "nested", things, boxed, {"count": str(count), "same": str(same)})


LAYOUTS = {"single": draw_single, "several": draw_several, "figure": draw_figure, "nested": draw_nested}
"""Layout -> function that draws it from a generator, from trained or held-out combinations."""
