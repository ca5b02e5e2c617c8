"""Training pictures changed at random: moved within stated limits, other light, and the artefacts of ultrasound.

Every draw is a function of its seed alone. This is the one file that knows albumentations and usaugment; they are
imported when the first picture is drawn.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import cv2
import numpy as np
import numpy.typing as npt

from medvl.errors import ConfigError

Level = Literal["light", "ultrasound"]
Pixels = npt.NDArray[np.uint8]
Box = tuple[float, float, float, float]

MAX_TURN_DEG = 10.0
MAX_SHIFT_SHARE = 0.05
"""Largest shift over the side of the picture that it goes along."""
MAX_ZOOM = 0.1
"""A picture is scaled by 1 - MAX_ZOOM to 1 + MAX_ZOOM."""
MAX_LOST_SHARE = 0.1
"""A move that puts more than this share of a box outside the picture is drawn again."""
MAX_LOOSENESS = 1.25
"""So is one whose upright box is larger than the turned box by more than this factor: others would be in it."""
TRIES = 10
"""Draws after which a picture with a box is not moved."""

FIELD_SIDE_PX = 128
"""Shorter side on which shadows, attenuation and haze are drawn; they are smooth, and stretched to the picture."""
SPECKLE_SIDE_PX = 224
"""Shorter side on which speckle is reduced."""
SEEN_SIDE_PX = 336
"""Shorter side at which models look: blur and noise keep their size there, however large the picture is."""


@dataclass(frozen=True, slots=True)
class Moves:
    """Ways in which a picture may be moved without making its answer wrong.

    Attributes:
        flip: Mirrored, left to right.
        turn: Turned by up to MAX_TURN_DEG; only where the corners may be lost (`crop`).
        crop: Shifted and enlarged, so that parts at the edge leave the picture. Without, it is at most made smaller.
    """

    flip: bool = True
    turn: bool = True
    crop: bool = True

    def __and__(self, other: Moves) -> Moves:
        """What both allow."""
        return Moves(self.flip and other.flip, self.turn and other.turn, self.crop and other.crop)


@dataclass(frozen=True, slots=True)
class _Chance:
    """The two generators that albumentations draws from.

    `Compose(seed=...)` and `set_random_seed` give each transform a generator of the same seed, so that a picture is
    brightened whenever it is blurred. Here all draw from one.
    """

    numbers: np.random.Generator
    python: random.Random

    def __call__(self, transform: Any) -> Any:
        """The transform, or `Compose`, on these generators."""
        transform.set_random_state(self.numbers, self.python)
        return transform

    def falls(self, share: float) -> bool:
        """True in that share of the cases."""
        return self.python.random() < share


def augmented(
    pixels: Pixels, bbox_xyxy_px: Box | None, *, level: Level, moves: Moves, seed: int
) -> tuple[Pixels, Box | None]:
    """Draw a changed copy of a picture, and move its box with it.

    Shifts leave black behind; mirrored borders would invent anatomy. A grey picture stays grey.

    Args:
        pixels: uint8 [H, W, 3], RGB.
        bbox_xyxy_px: Half-open box in pixels, origin top left; None without one.
        level: `light`: moves, brightness, contrast, gamma, slight blur and noise. `ultrasound`: before that also
            attenuation with depth, shadows, haze and reduced speckle, inside the fan only.
        moves: How the picture may be moved.
        seed: The same seed and picture give the same copy.

    Returns:
        (uint8 [H, W, 3], the box, upright and inside the picture). The box is the given one when the picture was not
        moved.

    Raises:
        ConfigError: As for `check_installed`.
    """
    check_installed(level)
    chance = _Chance(np.random.default_rng(seed), random.Random(seed))
    grey = _grey(pixels)
    values = pixels if grey is None else grey
    if level == "ultrasound":
        values = _add_artefacts(values, chance)
    values, box = _move(values, bbox_xyxy_px, moves, chance)
    coarseness = max(1, round(min(values.shape[:2]) / SEEN_SIDE_PX))
    values = chance(_light(coarseness))(image=values)["image"]
    return (values if grey is None else cv2.cvtColor(values, cv2.COLOR_GRAY2RGB)), box


@cache
def check_installed(level: Level) -> None:
    """Import what a level needs.

    Raises:
        ConfigError: A package is missing.
    """
    try:
        _albumentations()
        if level == "ultrasound":
            _usaugment()
    except ImportError as error:
        raise ConfigError(
            [
                f"data.augment={level} needs albumentations and, for ultrasound, usaugment ({error}); install them "
                "with pip install 'albumentations==2.0.8' 'usaugment>=1.0.1', or set data.augment=none"
            ]
        ) from error


def _albumentations() -> Any:
    # The import asks the package index for a newer version unless NO_ALBUMENTATIONS_UPDATE is set, which `medvl` does.
    import albumentations

    # Loading processes share the cores; OpenCV would start a thread a core in each of them.
    cv2.setNumThreads(1)
    return albumentations


def _usaugment() -> Any:
    _albumentations()
    import usaugment.albumentations

    return usaugment.albumentations


@cache
def _affine(moves: Moves) -> Any:
    """Turn, shift and scale, as far as allowed."""
    shift = MAX_SHIFT_SHARE if moves.crop else 0.0
    turn = MAX_TURN_DEG if moves.turn and moves.crop else 0.0
    return _albumentations().Affine(
        scale=(1 - MAX_ZOOM, 1 + MAX_ZOOM if moves.crop else 1.0),
        keep_ratio=True,
        translate_percent=(-shift, shift),
        rotate=(-turn, turn),
        fill=0,
    )


@cache
def _light(coarseness: int) -> Any:
    """Brightness, contrast, gamma, blur and noise; blur and grain as wide as `coarseness` pixels."""
    alb = _albumentations()
    return alb.Compose(
        [
            alb.RandomBrightnessContrast(brightness_limit=0.15, contrast_limit=0.15, p=0.5),
            alb.RandomGamma(gamma_limit=(80, 125), p=0.3),
            alb.GaussianBlur(sigma_limit=(0.3 * coarseness, 0.8 * coarseness), p=0.15),
            alb.GaussNoise(std_range=(0.01, 0.03), per_channel=False, noise_scale_factor=1 / coarseness, p=0.1),
        ]
    )


@cache
def _artefacts() -> tuple[Any, Any, Any, Any]:
    """Attenuation, shadow, haze and speckle reduction; the last two divide by zero where a sigma may be 0."""
    us = _usaugment()
    return (
        us.DepthAttenuation(attenuation_rate=(0.0, 1.5), p=1),
        us.GaussianShadow(strength=(0.2, 0.6), p=1),
        us.HazeArtifact(sigma=(0.02, 0.1), p=1),
        us.SpeckleReduction(sigma_spatial=(0.5, 2.0), sigma_color=(0.02, 0.15), window_size=3, p=1),
    )


def _add_artefacts(values: Pixels, chance: _Chance) -> Pixels:
    """Draw the artefacts of usaugment, which work on floats in [0, 1], inside the fan.

    At the size of a picture they would cost more than reading it. What does not depend on the picture is drawn small,
    on white or on black, and stretched; of the speckle, the coarse part is taken away.
    """
    attenuation, shadow, haze, speckle = _artefacts()
    dimming = [artefact for artefact in (attenuation, shadow) if chance.falls(0.3)]
    is_hazy, is_smooth = chance.falls(0.2), chance.falls(0.1)
    if not (dimming or is_hazy or is_smooth):
        return values
    size = values.shape[1], values.shape[0]
    fan = fan_mask(_shrunk(values, FIELD_SIDE_PX, cv2.INTER_NEAREST))
    with _global_seed(int(chance.numbers.integers(2**32))):
        if is_smooth:
            coarse = _shrunk(values, SPECKLE_SIDE_PX, cv2.INTER_AREA) / 255
            change = speckle(image=coarse, scan_mask=fan_mask(_to_8_bits(coarse)))["image"] - coarse
            values = cv2.add(values, cv2.resize(255 * change, size), dtype=cv2.CV_8U)
        if dimming:
            gain = np.ones(fan.shape)
            for artefact in dimming:
                gain = artefact(image=gain, scan_mask=fan)["image"]
            values = cv2.multiply(values, _field(gain, values), scale=1 / 255)
        if is_hazy:
            glow = haze(image=np.zeros(fan.shape), scan_mask=fan)["image"]
            values = cv2.add(values, _field(glow, values))
    return values


def fan_mask(values: Pixels, *, black_below: int = 8) -> npt.NDArray[np.bool_]:
    """Find the part of an ultrasound picture that shows tissue.

    Args:
        values: uint8 [H, W] or [H, W, 3].
        black_below: Levels under this count as black.

    Returns:
        bool [H, W]: the convex hull of the largest connected part that is not black, so that fluid inside belongs to
        it and lettering beside it does not. All False in a black picture.
    """
    brightest = values if values.ndim == 2 else values.max(axis=2)
    parts, _ = cv2.findContours((brightest >= black_below).astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    fan = np.zeros(brightest.shape, dtype=np.uint8)
    if parts:
        cv2.fillConvexPoly(fan, cv2.convexHull(max(parts, key=cv2.contourArea)), 1)
    return fan.astype(np.bool_)


def _move(values: Pixels, box: Box | None, moves: Moves, chance: _Chance) -> tuple[Pixels, Box | None]:
    """The picture and its box, moved together; neither when TRIES draws harm the box.

    The box is judged on the matrix, before a pixel is touched, and before it is cut: albumentations' own handling
    cuts first and asks afterwards what is left.
    """
    height, width = values.shape[:2]
    affine = chance(_affine(moves))
    for _ in range(TRIES):
        matrix = np.eye(3)
        if chance.falls(0.7):
            matrix = affine.get_params_dependent_on_data({"shape": values.shape}, {})["matrix"]
        if moves.flip and chance.falls(0.5):
            matrix = matrix @ np.array([[-1.0, 0.0, width - 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        if np.array_equal(matrix, np.eye(3)):
            return values, box
        moved = None if box is None else _moved_box(box, matrix, width, height)
        if box is None or moved is not None:
            return affine.apply(values, matrix=matrix, output_shape=(height, width)), moved
    return values, box


def _moved_box(box: Box, matrix: npt.NDArray[np.float64], width: int, height: int) -> Box | None:
    """Upright box around the moved one, cut to the picture; None when too much is lost or it is too loose."""
    x0, y0, x1, y1 = box
    # The matrix moves middles of pixels, a box has their edges.
    corners = np.array([(x0, y0, 1), (x1, y0, 1), (x1, y1, 1), (x0, y1, 1)]) - (0.5, 0.5, 0)
    xs, ys = (corners @ matrix.T)[:, :2].T + 0.5
    x0, y0, x1, y1 = (round(float(edge), 3) for edge in (xs.min(), ys.min(), xs.max(), ys.max()))
    left, top, right, bottom = max(0.0, x0), max(0.0, y0), min(float(width), x1), min(float(height), y1)
    whole = (x1 - x0) * (y1 - y0)
    seen = max(0.0, right - left) * max(0.0, bottom - top)
    turned = abs(float(xs @ np.roll(ys, -1) - ys @ np.roll(xs, -1))) / 2
    if seen < (1 - MAX_LOST_SHARE) * whole or whole > MAX_LOOSENESS * turned:
        return None
    return left, top, right, bottom


def _grey(pixels: Pixels) -> Pixels | None:
    """uint8 [H, W] when all channels are equal: a third of the work. None for a picture with colour."""
    first = np.asarray(cv2.extractChannel(pixels, 0), dtype=np.uint8)
    return first if cv2.norm(cv2.cvtColor(first, cv2.COLOR_GRAY2RGB), pixels, cv2.NORM_INF) == 0 else None


def _shrunk(values: Pixels, side_px: int, interpolation: int) -> Pixels:
    """The picture with a shorter side of at most `side_px`."""
    height, width = values.shape[:2]
    factor = min(1.0, side_px / min(height, width))
    size = max(1, round(width * factor)), max(1, round(height * factor))
    return np.asarray(cv2.resize(values, size, interpolation=interpolation), dtype=np.uint8)


def _field(field: npt.NDArray[np.float64], like: Pixels) -> Pixels:
    """A field of [0, 1] in 0..255, with the size and the channels of a picture."""
    full = cv2.resize(_to_8_bits(field), (like.shape[1], like.shape[0]), interpolation=cv2.INTER_LINEAR)
    return np.asarray(full if like.ndim == 2 else cv2.merge([full] * like.shape[2]), dtype=np.uint8)


def _to_8_bits(values: npt.NDArray[np.float64]) -> Pixels:
    return np.clip(np.rint(255 * values), 0, 255).astype(np.uint8)


@contextmanager
def _global_seed(seed: int) -> Iterator[None]:
    """Seed the global generators, which usaugment draws from, and put them back afterwards."""
    python, numbers = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numbers)
