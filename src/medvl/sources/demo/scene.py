"""The drawing surface of one picture: echo tones, bone, and the masks of marked structures."""

from __future__ import annotations

from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

FloatImage = NDArray[np.float32]
Mask = NDArray[np.uint8]
Points = NDArray[np.float64]

_SHIFT = 4
"""Fraction bits of the coordinates handed to OpenCV, so that shapes move by less than a pixel."""


@dataclass(frozen=True, slots=True)
class Pose:
    """Where a shape drawn around the origin, with radius 1, lies in the picture.

    Attributes:
        x_px: Centre.
        y_px: Centre.
        scale_px: Pixels per unit.
        angle_rad: Rotation, clockwise on the screen.
        flip_x: Mirror x before the rotation.
        flip_y: Mirror y before the rotation.
    """

    x_px: float
    y_px: float
    scale_px: float
    angle_rad: float = 0.0
    flip_x: bool = False
    flip_y: bool = False

    def place(self, points: Points) -> Points:
        """Map points of shape (N, 2) in units to pixels."""
        flip = np.array([-1.0 if self.flip_x else 1.0, -1.0 if self.flip_y else 1.0])
        c, s = np.cos(self.angle_rad), np.sin(self.angle_rad)
        turned = (points * flip) @ np.array([[c, s], [-s, c]])
        return np.asarray(turned * self.scale_px + (self.x_px, self.y_px))

    def part(self, x: float, y: float, scale: float = 1.0, turn_rad: float = 0.0) -> Pose:
        """Pose of a part that lies at (x, y) units and is `scale` times as large."""
        centre = self.place(np.array([[x, y]]))[0]
        return Pose(
            float(centre[0]),
            float(centre[1]),
            self.scale_px * scale,
            self.angle_rad + turn_rad,
            self.flip_x,
            self.flip_y,
        )


@dataclass(slots=True)
class Scene:
    """One picture while it is drawn.

    Attributes:
        tone: Echo brightness before speckle, shape (H, W), float32, nominal range [0, 1].
        bone: How much a pixel weakens what lies behind it, shape (H, W), float32, >= 0.
        masks: Structure name -> shape (H, W), uint8, 0 or 255.
    """

    tone: FloatImage
    bone: FloatImage
    masks: dict[str, Mask] = field(default_factory=dict)

    @staticmethod
    def blank(height: int, width: int, tone: float) -> Scene:
        """An empty scene of one tone."""
        return Scene(np.full((height, width), tone, np.float32), np.zeros((height, width), np.float32))

    def fill(self, points_px: Points, tone: float | FloatImage, *, bone: float = 0.0, soft_px: float = 0.0) -> Mask:
        """Paint a polygon.

        Args:
            points_px: Corners, shape (N, 2).
            tone: One tone, or a picture of tones to show through the polygon.
            bone: Weakening of what lies behind.
            soft_px: Width over which the border fades.

        Returns:
            Its mask, uint8, 0 or 255.
        """
        cover = np.zeros(self.tone.shape, np.uint8)
        cv2.fillPoly(cover, [_fixed(points_px)], 255, cv2.LINE_AA, _SHIFT)
        self._blend(cover, tone, bone, soft_px)
        return np.where(cover > 127, np.uint8(255), np.uint8(0))

    def stroke(
        self, points_px: Points, width_px: float, tone: float, *, bone: float = 0.0, closed: bool = False
    ) -> Mask:
        """Paint a line through points of shape (N, 2). Returns its mask, uint8, 0 or 255."""
        cover = np.zeros(self.tone.shape, np.uint8)
        whole = max(1, round(width_px))
        cv2.polylines(cover, [_fixed(points_px)], closed, 255, whole, cv2.LINE_AA, _SHIFT)
        self._blend(cover, tone, bone, 0.0)
        return np.where(cover > 127, np.uint8(255), np.uint8(0))

    def _blend(self, cover: Mask, tone: float | FloatImage, bone: float, soft_px: float) -> None:
        weight = cover.astype(np.float32) / np.float32(255)
        if soft_px > 0:
            weight = np.asarray(cv2.GaussianBlur(weight, (0, 0), soft_px), np.float32)
        self.tone += weight * (tone - self.tone)
        if bone:
            self.bone += weight * (np.float32(bone) - self.bone)


def _fixed(points_px: Points) -> NDArray[np.int32]:
    return np.asarray(np.round(points_px * (1 << _SHIFT)), np.int32)


def ellipse(
    x: float = 0.0, y: float = 0.0, a: float = 1.0, b: float = 1.0, *, start: float = 0.0, stop: float = 360.0
) -> Points:
    """Points on an ellipse or an arc of it (degrees), in units, shape (N, 2)."""
    t = np.radians(np.linspace(start, stop, 49))
    return np.stack([x + a * np.cos(t), y + b * np.sin(t)], axis=1)


def blob(rng: np.random.Generator, points: Points, roughness: float) -> Points:
    """Push a closed shape in and out smoothly about its centre by about `roughness` times its radius."""
    t = np.linspace(0, 2 * np.pi, len(points))
    phases = rng.uniform(0, 2 * np.pi, 3)
    wave = sum(np.cos((k + 2) * t + phases[k]) / (k + 1) for k in range(3))
    centre = points.mean(axis=0)
    return np.asarray(centre + (points - centre) * (1 + roughness * np.asarray(wave))[:, None])


def grains(rng: np.random.Generator, shape: tuple[int, int], size_px: float, low: float, high: float) -> FloatImage:
    """A texture of round grains about `size_px` wide, of two tones, shape (H, W), float32."""
    noise = rng.standard_normal(shape, dtype=np.float32)
    noise = np.asarray(cv2.GaussianBlur(noise, (0, 0), size_px / 2.5), np.float32)
    noise /= noise.std()
    return np.asarray(low + (high - low) / (1 + np.exp(-4 * noise)), np.float32)


def streaks(rng: np.random.Generator, shape: tuple[int, int], period_px: float, low: float, high: float) -> FloatImage:
    """A texture of streaks down the picture, with a random phase, shape (H, W), float32."""
    wave = np.sin(2 * np.pi * (np.arange(shape[1]) / period_px + rng.random()))
    return np.broadcast_to((low + (high - low) * (0.5 + 0.5 * wave)).astype(np.float32), shape)
