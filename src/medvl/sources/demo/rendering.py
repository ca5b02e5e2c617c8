"""The ultrasound look: a scene of tones becomes a fan picture with speckle, shadows, depth gain and scale ticks.

The scene is resampled along the beams of a curved probe (beam x depth). Speckle is the logarithm of the envelope of
band-limited complex noise, so its grain widens with depth as in a real scan (Wagner et al., IEEE Trans. Sonics
Ultrason. 1983); shadows are bone summed along each beam. The result is resampled back to the picture.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from medvl.sources.demo.scene import FloatImage, Scene
from medvl.sources.record import Domain

BEAMS, DEPTHS = 128, 144
SIZES_PX = ((144, 144), (136, 152), (128, 144), (144, 160))
"""Picture sizes of the drawn devices, height x width."""


@dataclass(frozen=True, slots=True)
class Device:
    """What is fixed for all pictures of a patient: probe geometry and machine settings.

    Attributes:
        height: Pixels.
        width: Pixels.
        half_angle_rad: Half the opening of the fan.
        probe_share: Radius of the probe's surface over the radius of the fan.
        is_phantom: Whether the pictures are those of a gel phantom (finer speckle, less attenuation, echoes of the
            tank wall).
        speckle: Contrast of the speckle.
        grain_px: Grain of the speckle along the beam, in depth samples.
        tick_gap_px: Distance of the scale ticks.
        ticks_left: Whether the ticks stand at the left border.
    """

    height: int
    width: int
    half_angle_rad: float
    probe_share: float
    is_phantom: bool
    speckle: float
    grain_px: float
    tick_gap_px: int
    ticks_left: bool


@dataclass(frozen=True, slots=True)
class Fan:
    """The fan of one picture.

    Attributes:
        to_beams: Picture x and y of every beam sample, two float32 arrays of shape (DEPTHS, BEAMS).
        to_picture: Beam and depth index of every pixel, two float32 arrays of shape (H, W).
        inside: Whether a pixel lies in the fan, bool, shape (H, W).
        clearance_px: Distance of a pixel to the border of the fan, float32, shape (H, W).
    """

    to_beams: tuple[FloatImage, FloatImage]
    to_picture: tuple[FloatImage, FloatImage]
    inside: NDArray[np.bool_]
    clearance_px: FloatImage


def draw_device(rng: np.random.Generator, domain: Domain) -> Device:
    """Draw the device of a patient."""
    height, width = SIZES_PX[int(rng.integers(len(SIZES_PX)))]
    is_phantom = domain is Domain.PHANTOM
    return Device(
        height=height,
        width=width,
        half_angle_rad=float(np.radians(rng.uniform(34, 46))),
        probe_share=float(rng.uniform(0.3, 0.45)),
        is_phantom=is_phantom,
        speckle=float(rng.uniform(0.05, 0.075) if is_phantom else rng.uniform(0.08, 0.12)),
        grain_px=float(rng.uniform(0.6, 0.8) if is_phantom else rng.uniform(0.8, 1.2)),
        tick_gap_px=int(rng.integers(9, 18)),
        ticks_left=bool(rng.random() < 0.5),
    )


def lay_fan(rng: np.random.Generator, device: Device) -> Fan:
    """Lay the fan of one picture, moved a few pixels at random."""
    height, width = device.height, device.width
    top = rng.uniform(1, 7)
    bottom = height - rng.uniform(1, 6)
    half = device.half_angle_rad
    # the apex lies above the picture; the middle of the probe's surface touches `top`
    outer = (bottom - top) / (1 - device.probe_share * np.cos(half))
    inner = outer * device.probe_share
    apex_y = top - inner * np.cos(half)
    apex_x = width / 2 + rng.uniform(-5, 5)
    angles = np.linspace(-half, half, BEAMS)
    radii = np.linspace(inner, outer, DEPTHS)[:, None]
    to_beams = (
        (apex_x + radii * np.sin(angles)).astype(np.float32),
        (apex_y + radii * np.cos(angles)).astype(np.float32),
    )
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    angle = np.arctan2(x - np.float32(apex_x), y - np.float32(apex_y))
    radius = np.hypot(x - np.float32(apex_x), y - np.float32(apex_y))
    beam = (angle + half) / (2 * half) * (BEAMS - 1)
    depth = (radius - inner) / (outer - inner) * (DEPTHS - 1)
    inside = (beam >= 0) & (beam <= BEAMS - 1) & (depth >= 0) & (depth <= DEPTHS - 1)
    framed = cv2.copyMakeBorder(inside.astype(np.uint8), 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0)
    clearance = cv2.distanceTransform(framed, cv2.DIST_L2, 3)[1:-1, 1:-1]
    return Fan(to_beams, (beam.astype(np.float32), depth.astype(np.float32)), inside, np.asarray(clearance, np.float32))


def render(scene: Scene, fan: Fan, device: Device, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Turn a scene into a picture.

    Args:
        scene: What is drawn.
        fan: Fan of this picture.
        device: Device of the patient.
        rng: Stream of this picture's look; what is drawn from it does not depend on the scene.

    Returns:
        Grey picture, uint8, shape (H, W), 0 outside the fan.
    """
    gain = rng.uniform(-0.08, 0.1)
    slope = rng.uniform(-0.12, 0.08) if device.is_phantom else rng.uniform(-0.24, 0.08)
    contrast = rng.uniform(0.85, 1.15)
    shadow_strength = rng.uniform(0.5, 1.0)
    depth = np.linspace(-0.5, 0.5, DEPTHS, dtype=np.float32)[:, None]
    bands = np.interp(np.linspace(0, 1, DEPTHS), np.linspace(0, 1, 6), rng.normal(0, 0.03, 6))[:, None]

    tone = cv2.remap(scene.tone, *fan.to_beams, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    bone = cv2.remap(scene.bone, *fan.to_beams, cv2.INTER_LINEAR)
    behind = np.cumsum(bone, axis=0, dtype=np.float32) - bone
    shadow = cv2.GaussianBlur(np.maximum(1 - np.exp(-behind / 3), -0.5), (0, 0), 1.2) * (0.42 * shadow_strength)
    tone = (tone - shadow + _speckle(rng, device) - 0.4) * contrast + 0.4
    tone = tone + gain + depth * slope + bands + _side_lobes(rng, device)
    picture = cv2.remap(np.asarray(tone, np.float32), *fan.to_picture, cv2.INTER_LINEAR)
    grey = np.where(fan.inside, np.clip(picture, 0.03, 1.0) * 255, 0).astype(np.uint8)
    _draw_ticks(grey, device)
    return grey


def _speckle(rng: np.random.Generator, device: Device) -> FloatImage:
    noise = rng.standard_normal((2, DEPTHS, BEAMS), dtype=np.float32)
    parts = [cv2.GaussianBlur(n, (0, 0), sigmaX=1.5 * device.grain_px, sigmaY=device.grain_px) for n in noise]
    envelope = np.log(np.hypot(parts[0], parts[1]) + np.float32(1e-3))
    envelope = np.maximum(envelope - envelope.mean(), np.float32(-2.0))
    return np.asarray(envelope / envelope.std() * np.float32(device.speckle), np.float32)


def _side_lobes(rng: np.random.Generator, device: Device) -> FloatImage:
    """Poor contact of single beams in clinical pictures; faint echoes of the tank wall in phantom ones."""
    fade = np.zeros((DEPTHS, BEAMS), np.float32)
    if device.is_phantom:
        for _ in range(int(rng.integers(1, 4))):
            row = int(rng.integers(6, DEPTHS - 6))
            fade[row : row + 2] += np.float32(rng.uniform(0.05, 0.12))
    else:
        centre, width = rng.uniform(0, BEAMS), rng.uniform(2, 6)
        depth = np.float32(rng.uniform(0, 0.22))
        fade -= depth * np.exp(-(((np.arange(BEAMS, dtype=np.float32) - centre) / width) ** 2))
    return fade


def _draw_ticks(grey: NDArray[np.uint8], device: Device) -> None:
    x = 1 if device.ticks_left else device.width - 4
    grey[4 :: device.tick_gap_px, x : x + 3] = 190
    grey[4 :: device.tick_gap_px * 5, x - 1 : x + 4] = 220
