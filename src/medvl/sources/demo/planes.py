"""The four drawn planes: what tells them apart, and what makes a view conform.

Each plane is drawn around the origin with radius 1 and carries its own outline and texture, whatever the conformity:

* fetal head: one thick bright line (skull) around a dark inside;
* fetal abdomen: a thin wall around coarse bright grain (liver);
* fetal femur: one straight bright rod (bone) with a shadow, in an even limb;
* fetal thorax: a ring of separate bright dashes (ribs) around lungs with bright streaks down the picture (B-lines).

A view conforms when its outline closes all round and its landmark lies in the plane. The landmarks: head: midline with
cavum and thalami; abdomen: stomach and umbilical vein; femur: both cartilage ends of an unbroken shaft; thorax: the
heart with its four chambers. In a non-conforming view the landmark is missing and one side of the organ, outline
included, is lost under reverberation (bright arcs across the picture).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from medvl.sources.demo.scene import Mask, Points, Pose, Scene, blob, ellipse, grains, streaks

DrawPlane = Callable[[Scene, Pose, np.random.Generator, bool], None]


def draw_head(scene: Scene, pose: Pose, rng: np.random.Generator, is_conforming: bool) -> None:
    """Skull, and in a conforming view the midline, cavum and thalami."""
    a, b = 1.12, rng.uniform(0.86, 1.0)
    draw_skull(scene, pose, rng, ellipse(a=a, b=b), rng.uniform(0.1, 0.24))
    for side in (-1, 1):
        plexus = blob(rng, ellipse(-0.5, side * 0.48 * b, 0.2, 0.12), 0.1)
        scene.fill(pose.place(plexus), 0.62)
    if not is_conforming:
        return
    thin = max(1.4, 0.045 * pose.scale_px)
    scene.stroke(pose.place(np.array([[-0.98, 0.0], [0.3, 0.0]])), thin, 0.85)
    scene.stroke(pose.place(np.array([[0.66, 0.0], [0.98, 0.0]])), thin, 0.85)
    for y in (-0.1, 0.1):
        scene.stroke(pose.place(np.array([[0.3, y], [0.66, y]])), thin, 0.85)
    size = rng.uniform(0.8, 1.7)
    lobes = [pose.place(blob(rng, ellipse(-0.12, s * 0.2 * size, 0.27 * size, 0.17 * size), 0.05)) for s in (-1, 1)]
    mask = np.zeros(scene.tone.shape, np.uint8)
    for lobe in lobes:
        mask |= scene.fill(lobe, 0.42)
        scene.stroke(lobe, 1.4, 0.85, closed=True)
    scene.masks["thalami"] = mask


def draw_skull(scene: Scene, pose: Pose, rng: np.random.Generator, outline: Points, brain_tone: float) -> None:
    """A thick bright line around the brain, with short echoes of the brain's folds."""
    placed = pose.place(outline)
    scene.masks["skull"] = scene.fill(placed, brain_tone)
    for angle in rng.uniform(0, 360, 9):
        fold = ellipse(a=0.76, b=0.7, start=angle, stop=angle + rng.uniform(10, 22))
        scene.stroke(pose.place(fold), 1.0, 0.45)
    scene.stroke(placed, max(2.4, 0.11 * pose.scale_px), 0.98, bone=0.035, closed=True)


def draw_abdomen(scene: Scene, pose: Pose, rng: np.random.Generator, is_conforming: bool) -> None:
    """Wall, liver grain and spine, and in a conforming view the stomach and the umbilical vein."""
    outline = blob(rng, ellipse(a=1.05, b=rng.uniform(0.9, 1.0)), 0.012)
    liver = grains(rng, scene.tone.shape, 5.5, 0.2, 0.8)
    scene.masks["abdomen"] = scene.fill(pose.place(outline), liver)
    scene.stroke(pose.place(outline * 0.95), 1.6, 0.12, closed=True)
    scene.stroke(pose.place(outline), 1.4, 0.75, closed=True)
    scene.masks["spine"] = draw_vertebra(scene, pose.part(0.68, 0.0, rng.uniform(0.24, 0.38)))
    if is_conforming:
        scene.masks["stomach"] = draw_stomach(scene, pose, rng, -0.15, -0.45, float(rng.uniform(0.24, 0.44)))
        scene.masks["umbilical vein"] = draw_vein(scene, pose, rng)


def draw_vertebra(scene: Scene, pose: Pose) -> Mask:
    """Three bright points around a dark canal, with a shadow. Returns the mask of all of it."""
    mask = scene.fill(pose.place(ellipse()), 0.1)
    for angle in (0, 125, 235):
        t = np.radians(angle)
        scene.fill(pose.place(ellipse(0.6 * np.cos(t), 0.6 * np.sin(t), 0.36, 0.36)), 1.0, bone=0.2)
    return mask


def draw_stomach(scene: Scene, pose: Pose, rng: np.random.Generator, x: float, y: float, size: float) -> Mask:
    """A black bean without a rim."""
    bean = ellipse(a=1.35 * size, b=0.8 * size)
    bean[:, 1] += 0.35 * size * (bean[:, 0] / (1.35 * size)) ** 2
    return scene.fill(pose.place(bean + np.array([x, y])), 0.08)


def draw_vein(scene: Scene, pose: Pose, rng: np.random.Generator) -> Mask:
    """A dark hooked tube between two bright walls."""
    hook = ellipse(-0.3, 0.32, rng.uniform(0.4, 0.5), rng.uniform(0.28, 0.36), start=150, stop=-70)
    tube = pose.place(np.concatenate([[[-0.92, 0.42]], hook]))
    mask = scene.stroke(tube, max(4.0, 0.26 * pose.scale_px), 0.92)
    scene.stroke(tube, max(1.6, 0.12 * pose.scale_px), 0.05)
    return mask


def draw_femur(scene: Scene, pose: Pose, rng: np.random.Generator, is_conforming: bool) -> None:
    """A limb with its shaft, in a conforming view with both cartilage ends, else the shaft in pieces."""
    limb = blob(rng, ellipse(a=1.05, b=rng.uniform(0.62, 0.8)), 0.03)
    scene.fill(pose.place(limb), rng.uniform(0.4, 0.55))
    scene.stroke(pose.place(limb), 1.4, 0.66, closed=True)
    half = rng.uniform(0.48, 0.68)
    if is_conforming:
        scene.masks["femur"] = draw_shaft(scene, pose.place(np.array([[-half, 0.0], [half, 0.0]])), pose.scale_px)
        for side in (-1, 1):
            end = pose.place(ellipse(side * (half + 0.16), 0, 0.18, 0.2))
            scene.fill(end, 0.1)
            scene.stroke(end, 1.2, 0.7, closed=True)
    else:
        mask = np.zeros(scene.tone.shape, np.uint8)
        for centre in (-0.5, 0.0, 0.5):
            y = rng.uniform(-0.08, 0.08)
            ends = pose.place(np.array([[centre - 0.15, y], [centre + 0.15, y]]))
            mask |= draw_shaft(scene, ends, pose.scale_px)
        scene.masks["femur"] = mask


def draw_shaft(scene: Scene, ends_px: Points, scale_px: float) -> Mask:
    """A straight bright rod between two points, shape (2, 2), that throws a shadow."""
    return scene.stroke(ends_px, max(3.0, 0.2 * scale_px), 1.0, bone=0.3)


def draw_thorax(scene: Scene, pose: Pose, rng: np.random.Generator, is_conforming: bool) -> None:
    """Ribs, lungs and spine, and in a conforming view the heart."""
    b = rng.uniform(0.88, 1.0)
    scene.fill(pose.place(ellipse(a=1.05, b=b)), 0.28)
    lines = streaks(rng, scene.tone.shape, 9.0, 0.1, 0.9)
    scene.masks["lungs"] = np.zeros(scene.tone.shape, np.uint8)
    for side in (-1, 1):
        lung = blob(rng, ellipse(-0.05, side * 0.42, 0.76, 0.42), 0.05)
        scene.masks["lungs"] |= scene.fill(pose.place(lung), lines)
    phase = rng.uniform(0, 36)
    for k in range(10):
        rib = ellipse(a=1.05, b=b, start=phase + 36 * k, stop=phase + 36 * k + 20)
        scene.stroke(pose.place(rib), max(2.2, 0.11 * pose.scale_px), 0.95, bone=0.1)
    scene.masks["spine"] = draw_vertebra(scene, pose.part(0.7, 0.0, rng.uniform(0.24, 0.38)))
    if is_conforming:
        at = pose.part(-0.22, 0.0, rng.uniform(0.42, 0.7), rng.uniform(-0.7, 0.7))
        scene.masks["heart"] = draw_heart(scene, at, rng)


def draw_heart(scene: Scene, pose: Pose, rng: np.random.Generator) -> Mask:
    """Four black chambers parted by a bright cross."""
    mask = scene.fill(pose.place(blob(rng, ellipse(a=1.05, b=0.86), 0.03)), 0.75)
    for x in (-0.42, 0.42):
        for y in (-0.34, 0.34):
            scene.fill(pose.place(ellipse(x, y, 0.34, 0.26)), 0.06)
    return mask


def lose_side(scene: Scene, pose: Pose, rng: np.random.Generator, angle_rad: float) -> None:
    """Cover one side of the organ, outline included, with reverberation; its masks lose that side too.

    A structure that is lost but for a rest of it is no longer seen: its mask becomes empty.

    Args:
        scene: Scene with the organ.
        pose: Pose of the organ.
        rng: Stream of the details.
        angle_rad: Direction of the side that is lost, in the picture.
    """
    height, width = scene.tone.shape
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    # echoes between probe and skin repeat at equal depths: arcs about a point above the picture
    depth = np.hypot(x - np.float32(width / 2), y + np.float32(1.5 * height))
    echoes = 0.5 + 0.5 * np.sin(2 * np.pi * (depth / 10.0 + rng.random()))
    haze = 0.12 + 0.72 * echoes * np.clip(1.15 - 0.5 * y / height, 0.5, 1)
    x, y = (x - np.float32(pose.x_px)) / pose.scale_px, (y - np.float32(pose.y_px)) / pose.scale_px
    beyond = x * np.cos(angle_rad) + y * np.sin(angle_rad) - rng.uniform(0.0, 0.25)
    within = 1.2 - np.hypot(x, y)
    lost = np.clip(np.minimum(beyond, within) * pose.scale_px / 9 + 0.5, 0, 1).astype(np.float32)
    scene.tone += lost * (haze.astype(np.float32) - scene.tone)
    scene.bone -= lost * scene.bone
    for mask in scene.masks.values():
        whole = np.count_nonzero(mask)
        mask[lost > 0.5] = 0
        if np.count_nonzero(mask) < 0.35 * whole:
            mask[:] = 0


DRAW_PLANE: dict[str, DrawPlane] = {
    "fetal head": draw_head,
    "fetal abdomen": draw_abdomen,
    "fetal femur": draw_femur,
    "fetal thorax": draw_thorax,
}
"""Raw plane label -> how it is drawn."""
