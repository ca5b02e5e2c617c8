"""The whole fetus in a long view, in one of four orientations.

The labels are those of the FPUS23 phantom data set (Prabakaran et al., IEEE Access 2023): `hd`/`hu` head down or up,
`vb`/`vf` the back toward the probe or away from it. The probe is at the top of the picture and the mother's pelvis on
its right, so head down puts the head on the right. The finished picture is then turned a quarter clockwise
(`picture.draw_picture`), as the mother stands: pelvis and a head that is down lie below, the probe is on the right.
"""

from __future__ import annotations

import numpy as np

from medvl.sources.demo.planes import draw_heart, draw_shaft, draw_skull, draw_stomach
from medvl.sources.demo.scene import Points, Pose, Scene, blob, ellipse


def draw_fetus(scene: Scene, pose: Pose, rng: np.random.Generator, orientation: str) -> None:
    """Draw head, trunk with spine along the back, and a thigh on the belly side.

    Args:
        scene: Where to draw.
        pose: Middle of the body and its tilt; `scale_px` is the radius of the head.
        rng: Stream of the shape's details.
        orientation: `hdvb`, `hdvf`, `huvb` or `huvf`.
    """
    # drawn with the head at +x and the back at -y (up)
    at = Pose(
        pose.x_px,
        pose.y_px,
        pose.scale_px,
        pose.angle_rad,
        flip_x=orientation.startswith("hu"),
        flip_y=orientation.endswith("vf"),
    )
    trunk = blob(rng, ellipse(-0.75, 0.0, 1.45, 0.95), 0.02)
    # brighter than the brain by as much as the skull adds, so that a blurred picture does not show which end is which
    scene.fill(at.place(trunk), rng.uniform(0.28, 0.56))
    scene.stroke(at.place(trunk), 1.4, 0.7, closed=True)
    draw_skull(scene, at, rng, ellipse(1.35, 0.05, 0.95, rng.uniform(0.78, 0.88)), rng.uniform(0.1, 0.24))
    scene.stroke(at.place(np.array([[0.55, 0.05], [2.1, 0.05]])), 1.4, 0.8)
    _draw_spine(scene, at, rng)
    scene.masks["heart"] = draw_heart(scene, at.part(-0.1, 0.25, rng.uniform(0.4, 0.6), rng.uniform(-0.7, 0.7)), rng)
    scene.masks["stomach"] = draw_stomach(scene, at, rng, -0.95, 0.2, float(rng.uniform(0.22, 0.36)))
    _draw_thigh(scene, at, rng)


def _draw_spine(scene: Scene, at: Pose, rng: np.random.Generator) -> None:
    """Two rows of bright vertebrae with a dark canal between them."""
    line = ellipse(-0.75, 0.0, 1.3, 0.72, start=205, stop=335)
    hull = at.place(line)
    scene.masks["spine"] = scene.stroke(hull, max(6.0, 0.6 * at.scale_px), rng.uniform(0.0, 0.2))
    count = int(rng.integers(6, 8))
    bead_tone = rng.uniform(0.75, 1.0)
    for k in range(count):
        middle = line[round(k * (len(line) - 1) / (count - 1))]
        for row in (-0.16, 0.16):
            scene.fill(at.place(_dot(middle, row)), bead_tone, bone=0.04)


def _dot(middle: Points, row: float) -> Points:
    return ellipse(float(middle[0]), float(middle[1]) + row, 0.13, 0.11)


def _draw_thigh(scene: Scene, at: Pose, rng: np.random.Generator) -> None:
    """A thigh on the belly side with its femur."""
    hip = np.array([-1.6, 0.75])
    bend = rng.uniform(-0.1, 0.5)
    knee = hip + rng.uniform(0.95, 1.15) * np.array([np.cos(bend), np.sin(bend)])
    scene.stroke(at.place(np.stack([hip, knee])), max(6.0, 0.5 * at.scale_px), 0.42)
    ends = np.stack([0.9 * hip + 0.1 * knee, 0.1 * hip + 0.9 * knee])
    scene.masks["femur"] = draw_shaft(scene, at.place(ends), at.scale_px)
