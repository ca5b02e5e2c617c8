"""One picture from its plan: surroundings, body, lesion, ultrasound look, and the structures that are marked."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from medvl.sources.demo.fetus import draw_fetus
from medvl.sources.demo.plan import PicturePlan
from medvl.sources.demo.planes import DRAW_PLANE, lose_side
from medvl.sources.demo.rendering import Fan, draw_device, lay_fan, render
from medvl.sources.demo.scene import Mask, Pose, Scene, blob, ellipse, grains

TIER_EDGES = (0.05, 0.20)
"""Share of the picture under the enclosing box from which a structure is medium, and from which it is large."""

MARK_CHANCE: dict[str, tuple[float, float, float]] = {
    "skull": (1.0, 0.12, 0.5),
    "thalami": (1.0, 0.9, 1.0),
    "abdomen": (1.0, 1.0, 0.8),
    "stomach": (0.11, 0.9, 1.0),
    "umbilical vein": (1.0, 1.0, 1.0),
    "spine": (0.19, 0.1, 1.0),
    "femur": (0.08, 0.9, 1.0),
    "heart": (0.1, 0.39, 1.0),
    "lungs": (1.0, 1.0, 0.7),
    "placenta": (0.0, 0.3, 0.35),
}
"""Structure -> chance that it is marked where it is seen, if its box is small, medium or large.

Set so that all structures are marked about equally often and in sizes that overlap: the size of a box must not tell
what is in it.
"""

PLACENTA_CHANCE = 0.4
MIN_MARKED_SHARE = 0.004
"""A structure whose visible mask covers less of the picture is not marked."""


@dataclass(frozen=True, slots=True)
class DrawnPicture:
    """A picture and its marked structures.

    Attributes:
        grey: uint8, shape (H, W).
        masks: Structure name -> filled mask, uint8, 0 or 255, shape (H, W).
    """

    grey: NDArray[np.uint8]
    masks: dict[str, Mask]


def draw_picture(plan: PicturePlan) -> DrawnPicture:
    """Draw one picture. The same plan gives the same bytes.

    Everything that is not the body itself comes from a random stream that knows no label.
    """
    patient, look = plan.patient_rng(), plan.look_rng()
    device = draw_device(patient, plan.domain)
    fluid_tone = float(patient.uniform(0.12, 0.34))
    # one child stream a part: a part that draws more numbers never shifts the others
    fan_rng, ground_rng, pose_rng, body_rng, lesion_rng, render_rng, mark_rng = look.spawn(7)
    fan = lay_fan(fan_rng, device)
    scene = Scene.blank(device.height, device.width, fluid_tone)
    _draw_surroundings(scene, fan, ground_rng)
    pose = draw_pose(pose_rng, fan, is_fetus=not plan.plane)
    _draw_body(scene, pose, body_rng, plan)
    lesion = _draw_lesion(scene, pose, fan, lesion_rng, plan.diagnosis)
    grey = render(scene, fan, device, render_rng)
    drawn = DrawnPicture(grey, _marked(scene, fan, lesion, mark_rng))
    return drawn if plan.plane else _stood_up(drawn)


def _stood_up(drawn: DrawnPicture) -> DrawnPicture:
    """Turn a picture a quarter clockwise: the mother stands, so that a head that is down is below."""
    return DrawnPicture(
        np.ascontiguousarray(np.rot90(drawn.grey, -1)),
        {name: np.ascontiguousarray(np.rot90(mask, -1)) for name, mask in drawn.masks.items()},
    )


def draw_pose(rng: np.random.Generator, fan: Fan, *, is_fetus: bool) -> Pose:
    """Draw where the body lies, how large it is, and how it is turned.

    Args:
        rng: Stream of the pose.
        fan: Fan it has to lie in.
        is_fetus: A whole fetus keeps its long axis within 20 degrees of the horizontal (its side is the answer); a
            plane is turned and mirrored freely.
    """
    room_px = float(fan.clearance_px.max())
    share = float(np.exp(rng.uniform(np.log(0.58), np.log(0.97))))
    scale_px = room_px * share
    spots = np.argwhere(fan.clearance_px >= 0.95 * scale_px)
    y, x = spots[int(rng.integers(len(spots)))] + rng.uniform(-0.5, 0.5, 2)
    turn, flip = rng.uniform(-np.pi, np.pi), bool(rng.random() < 0.5)
    if not is_fetus:
        return Pose(float(x), float(y), scale_px, float(turn), flip_y=flip)
    height, width = fan.inside.shape
    scale_px = width * (0.115 + 0.055 * share)
    x = width / 2 + (x - width / 2) * 0.65
    y = np.clip(y, 0.345 * height, 0.72 * height)
    return Pose(float(x), float(y), scale_px, float(turn) / np.pi * np.radians(20))


def _draw_surroundings(scene: Scene, fan: Fan, rng: np.random.Generator) -> None:
    """Soft clutter, thin membranes, and sometimes a placenta at the border of the fan."""
    height, width = scene.tone.shape
    for _ in range(int(rng.integers(2, 5))):
        size = rng.uniform(0.08, 0.3) * width
        at = Pose(rng.uniform(0, width), rng.uniform(0, height), size, rng.uniform(0, np.pi))
        scene.fill(at.place(ellipse(b=rng.uniform(0.3, 0.8))), rng.uniform(0.1, 0.45), soft_px=0.15 * size)
    for _ in range(int(rng.integers(0, 3))):
        at = Pose(rng.uniform(0, width), rng.uniform(0, height), rng.uniform(0.2, 0.5) * width, rng.uniform(0, 6.3))
        scene.stroke(at.place(ellipse(b=0.6, start=0, stop=rng.uniform(40, 90))), 1.4, 0.6)
    rim = np.argwhere((fan.clearance_px > 3) & (fan.clearance_px < 9))
    y, x = rim[int(rng.integers(len(rim)))]
    size = rng.uniform(0.2, 0.5) * width
    slab = blob(rng, ellipse(b=rng.uniform(0.5, 0.8)), 0.06)
    lakes = grains(rng, (height, width), 12.0, 0.85, 0.62)
    if rng.random() < PLACENTA_CHANCE:
        at = Pose(float(x), float(y), size, rng.uniform(0, np.pi))
        scene.masks["placenta"] = scene.fill(at.place(slab), lakes, soft_px=0.8)


def _draw_body(scene: Scene, pose: Pose, rng: np.random.Generator, plan: PicturePlan) -> None:
    before = scene.tone.copy()
    ground = dict(scene.masks)
    scene.masks = {}
    if not plan.plane:
        draw_fetus(scene, pose, rng, plan.orientation)
    else:
        is_conforming = plan.conformity != "non-conforming"
        DRAW_PLANE[plan.plane](scene, pose, rng, is_conforming)
        if not is_conforming:
            side = pose.angle_rad + (np.pi * rng.integers(2) if plan.plane == "fetal femur" else rng.uniform(-3.1, 3.1))
            lose_side(scene, pose, rng, float(side))
    body = np.abs(scene.tone - before) > 0.02
    for name, mask in ground.items():
        mask[body] = 0
        # where the body happens to have the tone of what lies under it, specks of the mask are left: drop them
        scene.masks[name] = np.asarray(cv2.morphologyEx(mask, cv2.MORPH_OPEN, np.ones((5, 5), np.uint8)), np.uint8)


def _draw_lesion(scene: Scene, pose: Pose, fan: Fan, rng: np.random.Generator, diagnosis: str) -> Mask:
    """A lesion in or beside the organ.

    Benign: a round black cyst with a bright rim and enhancement behind it. Malignant: a bright mass with spikes in
    a dark halo, with a shadow behind it. Normal: none. Returns the mask of what it covers.
    """
    covered = np.zeros(scene.tone.shape, np.uint8)
    if diagnosis in ("", "normal"):
        return covered
    radius_px = float(rng.uniform(0.11, 0.14) * scene.tone.shape[1])
    y, x = np.mgrid[0 : scene.tone.shape[0], 0 : scene.tone.shape[1]]
    near = np.hypot(x - pose.x_px, y - pose.y_px) < 1.2 * pose.scale_px
    spots = np.argwhere(near & (fan.clearance_px > 1.2 * radius_px))
    cy, cx = spots[int(rng.integers(len(spots)))]
    at = Pose(float(cx), float(cy), radius_px, float(rng.uniform(0, np.pi)))
    if diagnosis == "benign":
        covered = scene.fill(at.place(ellipse(a=1.1, b=1.1)), 0.0, bone=-0.08)
        scene.stroke(at.place(ellipse()), 3.0, 0.95, closed=True)
    else:
        covered = scene.fill(at.place(ellipse(a=1.7, b=1.5)), 0.06, soft_px=2.0)
        spikes = 2 * int(rng.integers(7, 10))
        t = np.linspace(0, 2 * np.pi, spikes, endpoint=False) + rng.uniform(-0.1, 0.1, spikes)
        reach = np.where(np.arange(spikes) % 2 == 0, rng.uniform(1.05, 1.6, spikes), rng.uniform(0.55, 0.75, spikes))
        scene.fill(at.place(np.stack([reach * np.cos(t), reach * np.sin(t)], axis=1)), 0.97, bone=0.2)
    return covered


def _marked(scene: Scene, fan: Fan, lesion: Mask, rng: np.random.Generator) -> dict[str, Mask]:
    """Choose the structures that are marked, with what is seen of them inside the fan.

    A structure of which much lies outside the fan or under the lesion is not marked.
    """
    draws = {name: float(rng.random()) for name in MARK_CHANCE}
    marked = {}
    for name, mask in scene.masks.items():
        seen = np.where(fan.inside, mask, np.uint8(0)).astype(np.uint8)
        whole, left, hidden = (int(np.count_nonzero(m)) for m in (mask, seen, seen & lesion))
        if left < MIN_MARKED_SHARE * mask.size or left < 0.6 * whole or hidden > 0.2 * whole:
            continue
        box = cv2.boundingRect(seen)
        tier = int(np.searchsorted(TIER_EDGES, box[2] * box[3] / mask.size, side="right"))
        if draws[name] < MARK_CHANCE[name][tier]:
            marked[name] = seen
    return marked
