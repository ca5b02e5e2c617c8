"""Contours and surfaces of the generic drawn objects, on a canvas twice as fine as the picture."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

PICTURE_PX = 96
FINE = 2
"""Drawn at this multiple of the picture and averaged down, so that edges are anti-aliased like resized photographs."""
CANVAS_PX = PICTURE_PX * FINE

SHAPES = ("circle", "oval", "square", "triangle", "diamond", "star", "cross", "bar", "heart", "half circle")
EDGES = ("smooth", "wavy", "jagged")
TEXTURES = ("plain", "striped", "dotted", "noisy")
STRIPES = ("horizontal", "vertical", "diagonal")

_YY, _XX = np.mgrid[0:CANVAS_PX, 0:CANVAS_PX].astype(np.float32)
_POINTS = 72


def _densify(corners: Array) -> Array:
    """[K, 2] corners -> [N, 2] points along the closed polygon."""
    closed = np.vstack([corners, corners[:1]])
    lengths = np.hypot(*np.diff(closed, axis=0).T)
    at = np.concatenate([[0.0], np.cumsum(lengths)])
    wanted = np.unique(np.append(np.linspace(0, at[-1], _POINTS, endpoint=False), at[:-1]))
    return np.stack([np.interp(wanted, at, closed[:, i]) for i in (0, 1)], axis=1)


def _ray(turns: Array, radii: Array) -> Array:
    return np.stack([radii * np.cos(turns), radii * np.sin(turns)], axis=1)


def _unit_contours() -> dict[str, Array]:
    """Contours inside the unit circle, y downwards."""
    turn = np.linspace(0, 2 * np.pi, _POINTS, endpoint=False)
    star = _ray(np.arange(10) * np.pi / 5 - np.pi / 2, np.where(np.arange(10) % 2 == 0, 1.0, 0.42))
    arm = 0.3
    cross = np.array(
        [
            *((-arm, -1), (arm, -1), (arm, -arm), (1, -arm), (1, arm), (arm, arm)),
            *((arm, 1), (-arm, 1), (-arm, arm), (-1, arm), (-1, -arm), (-arm, -arm)),
        ]
    )
    heart = np.stack(
        [
            16 * np.sin(turn) ** 3,
            -(13 * np.cos(turn) - 5 * np.cos(2 * turn) - 2 * np.cos(3 * turn) - np.cos(4 * turn)),
        ],
        axis=1,
    )
    half = _ray(np.linspace(0, np.pi, 36), np.ones(36)) - np.array([0, 0.4])
    corner = 0.8
    square = np.array([(-corner, -corner), (corner, -corner), (corner, corner), (-corner, corner)])
    return {
        "circle": _ray(turn, np.full(_POINTS, 0.95)),
        "oval": np.stack([np.cos(turn), 0.55 * np.sin(turn)], axis=1),
        "square": _densify(square),
        "triangle": _densify(_ray(np.arange(3) * 2 * np.pi / 3 - np.pi / 2, np.full(3, 1.05)) + np.array([0, 0.15])),
        "diamond": _densify(np.array([(0, -1), (0.72, 0), (0, 1), (-0.72, 0)])),
        "star": _densify(star),
        "cross": _densify(cross),
        "bar": _densify(np.array([(-1, -0.2), (1, -0.2), (1, 0.2), (-1, 0.2)])),
        "heart": heart / 17.0,
        "half circle": _densify(half),
    }


_UNIT = _unit_contours()
_FREE_TURN = {"oval", "bar", "circle"}


def contour(
    rng: np.random.Generator,
    shape: str,
    centre: tuple[float, float],
    radius: float,
    *,
    edge: str = "smooth",
    turn: float | None = None,
) -> Array:
    """Contour of a shape.

    Args:
        rng: Source of randomness for the turn and the roughness.
        shape: One of `SHAPES`.
        centre: (x, y) in canvas pixels.
        radius: Half of the shape's longest extent, canvas pixels.
        edge: One of `EDGES`.
        turn: Rotation in radians; None draws one (any for ovals, bars and circles, small for the others).

    Returns:
        [N, 2] float32 points in canvas pixels.
    """
    points = _UNIT[shape]
    if edge == "wavy":
        angle = np.arctan2(points[:, 1], points[:, 0])
        points = points * (1 + 0.11 * np.sin(rng.integers(7, 11) * angle + rng.uniform(0, 6.28)))[:, None]
    elif edge == "jagged":
        points = points[:: max(1, len(points) // 30)]
        points = points * (1 + rng.uniform(-0.27, 0.12, len(points)))[:, None]
    if turn is None:
        turn = rng.uniform(0, 2 * np.pi) if shape in _FREE_TURN else rng.uniform(-0.17, 0.17)
    c, s = np.cos(turn), np.sin(turn)
    turned: Array = points @ np.array([[c, s], [-s, c]]) * radius + np.asarray(centre)
    return turned.astype(np.float32)


def fill_mask(points: Array) -> Array:
    """[H, W] uint8 mask of a filled contour."""
    mask = np.zeros((CANVAS_PX, CANVAS_PX), np.uint8)
    cv2.fillPoly(mask, [np.round(points * 8).astype(np.int32)], 1, shift=3)
    return mask


def line_mask(points: Array, width: int, *, closed: bool = True) -> Array:
    """[H, W] uint8 mask of a drawn line."""
    mask = np.zeros((CANVAS_PX, CANVAS_PX), np.uint8)
    cv2.polylines(mask, [np.round(points * 8).astype(np.int32)], closed, 1, width, shift=3)
    return mask


def broken_line_mask(rng: np.random.Generator, points: Array, width: int) -> Array:
    """[H, W] uint8 mask of an outline with two to four clear gaps."""
    count = len(points)
    keep = np.ones(count, bool)
    gaps = int(rng.integers(2, 5))
    start = int(rng.integers(count))
    span = max(2, round(count * rng.uniform(0.1, 0.15)))
    for gap in range(gaps):
        keep[(start + gap * count // gaps + np.arange(span)) % count] = False
    first = int(np.flatnonzero(~keep)[0])
    keep, rolled = np.roll(keep, -first), np.roll(points, -first, axis=0)
    mask = np.zeros((CANVAS_PX, CANVAS_PX), np.uint8)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], keep, [False]]).astype(np.int8)))
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        cv2.polylines(mask, [np.round(rolled[begin:end] * 8).astype(np.int32)], False, 1, width, shift=3)
    return mask


def paint(canvas: Array, mask: Array, level: float) -> None:
    """Set the masked pixels to one grey level."""
    canvas[mask > 0] = level


def paint_texture(
    rng: np.random.Generator, canvas: Array, mask: Array, texture: str, levels: tuple[float, float], stripe: str
) -> None:
    """Cover the masked pixels with a texture that alternates between two grey levels."""
    inside = mask > 0
    if texture == "plain":
        canvas[inside] = levels[0]
        return
    x, y = _XX[inside], _YY[inside]
    period = rng.uniform(12, 18)
    phase_x, phase_y = rng.uniform(0, period, 2)
    if texture == "striped":
        along = {
            "horizontal": y,
            "vertical": x,
            "diagonal": (x + y) * 0.7071 if rng.random() < 0.5 else (x - y) * 0.7071,
        }
        on = np.mod(along[stripe] + phase_x, period) < period / 2
    elif texture == "dotted":
        dx = np.mod(x + phase_x, period) - period / 2
        dy = np.mod(y + phase_y, period) - period / 2
        on = dx * dx + dy * dy < (period * 0.3) ** 2
    else:
        grain = rng.uniform(-0.35, 1.35, (CANVAS_PX // 3 + 1, CANVAS_PX // 3 + 1)).astype(np.float32)
        mix = grain[(y // 3).astype(np.int32), (x // 3).astype(np.int32)]
        canvas[inside] = levels[0] + (levels[1] - levels[0]) * mix
        return
    canvas[inside] = np.where(on, levels[1], levels[0])
