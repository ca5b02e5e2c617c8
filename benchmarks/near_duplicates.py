"""How well the leak audit finds near-identical pictures, how often it is wrong, and what it costs.

`python benchmarks/near_duplicates.py [--patients 250] [--pictures 45000] [--real FOLDER ...]` from the project.
Pictures of the drawn demo dataset (and of real folders, where the file name up to the first `_` is the patient) are
changed one way at a time and looked for among the unchanged ones; then different patients are compared; then the time
for many pictures is taken, and for many frames of one still video.
"""

from __future__ import annotations

import argparse
import io
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from medvl.benchmark.near import NEAR_CORRELATION, SIDE_PX, Signature, near_pairs, signature_of
from medvl.errors import DataError
from medvl.imaging.reading import read_picture
from medvl.sources.demo.dataset import DEFAULT_PATIENTS, write_demo_dataset

Pixels = npt.NDArray[np.uint8]
Change = Callable[[Pixels, np.random.Generator], Pixels]

CROP = 0.05
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".dcm")


def jpeg(pixels: Pixels, quality: int = 80) -> Pixels:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=quality)
    return np.array(Image.open(file).convert("RGB"))


def png(pixels: Pixels) -> Pixels:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return np.array(Image.open(file).convert("RGB"))


def crop(pixels: Pixels, left: float = 0, right: float = 0, top: float = 0, bottom: float = 0) -> Pixels:
    """Cut shares of the sides off."""
    height, width = pixels.shape[:2]
    rows = slice(round(top * height), round((1 - bottom) * height))
    return np.ascontiguousarray(pixels[rows, round(left * width) : round((1 - right) * width)])


def crop_any(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    left, right, top, bottom = rng.uniform(0, CROP, 4)
    return crop(pixels, left, right, top, bottom)


def brighter(pixels: Pixels, factor: float) -> Pixels:
    return np.clip(pixels * factor, 0, 255).astype(np.uint8)


def gamma(pixels: Pixels, exponent: float) -> Pixels:
    return np.rint(255 * (pixels / 255) ** exponent).astype(np.uint8)


def resized(pixels: Pixels, factor: float) -> Pixels:
    method = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(pixels, None, fx=factor, fy=factor, interpolation=method), dtype=np.uint8)


def text(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Write a small line somewhere."""
    written = pixels.copy()
    height, width = pixels.shape[:2]
    at = int(rng.uniform(0, 0.7) * width), int(rng.uniform(0.1, 0.95) * height)
    thick = max(1, round(height / 300))
    cv2.putText(written, "12.5 cm GA 20w", at, cv2.FONT_HERSHEY_SIMPLEX, height / 540, (255, 255, 0), thick)
    return written


def everything(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    changed = brighter(crop_any(pixels, rng), rng.uniform(0.8, 1.2))
    return text(jpeg(resized(changed, rng.uniform(0.8, 1.25))), rng)


CHANGES: dict[str, Change] = {
    "renamed copy": lambda p, rng: p,
    "JPEG, quality 80": lambda p, rng: jpeg(p),
    "JPEG to PNG and back": lambda p, rng: jpeg(png(jpeg(p, 90)), 90),
    "crop 5 % left": lambda p, rng: crop(p, left=CROP),
    "crop 5 % right": lambda p, rng: crop(p, right=CROP),
    "crop 5 % top": lambda p, rng: crop(p, top=CROP),
    "crop 5 % bottom": lambda p, rng: crop(p, bottom=CROP),
    "crop 5 % all sides": lambda p, rng: crop(p, CROP, CROP, CROP, CROP),
    "crop 0-5 % each side": crop_any,
    "brightness -20 %": lambda p, rng: brighter(p, 0.8),
    "brightness +20 %": lambda p, rng: brighter(p, 1.2),
    "gamma 0.8": lambda p, rng: gamma(p, 0.8),
    "gamma 1.25": lambda p, rng: gamma(p, 1.25),
    "resized by 0.8": lambda p, rng: resized(p, 0.8),
    "resized by 1.25": lambda p, rng: resized(p, 1.25),
    "small text": text,
    "all of these at once": everything,
}
"""Name -> what is done to a picture; all but the last are the planted leaks that must be found."""


def under_fan(pixels: Pixels) -> Pixels:
    """Lay the same fan over any picture."""
    height, width = pixels.shape[:2]
    fan = np.zeros((height, width), np.uint8)
    radius = round(1.15 * height)
    cv2.ellipse(fan, (width // 2, -height // 5), (radius, radius), 0, 45, 135, 1, cv2.FILLED)
    return pixels * fan[:, :, None]


def video(pixels: Pixels, frames: int, rng: np.random.Generator) -> list[Pixels]:
    """Slide and turn a picture slowly under a standing fan, with fresh noise in each frame."""
    height, width = pixels.shape[:2]
    shown = []
    for frame in range(frames):
        matrix = cv2.getRotationMatrix2D((width / 2, height / 2), 0.4 * frame, 1.3)
        matrix[:, 2] += (0.004 * frame * width, 0.002 * frame * height)
        moved = cv2.warpAffine(pixels, matrix, (width, height)).astype(np.float32)
        shown.append(under_fan(np.clip(moved + rng.normal(0, 6, (height, width, 1)), 0, 255).astype(np.uint8)))
    return shown


def cut_out(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """A turned, enlarged, perhaps mirrored part of a picture under the fan that all cut-outs share."""
    height, width = pixels.shape[:2]
    middle = width * rng.uniform(0.35, 0.65), height * rng.uniform(0.35, 0.65)
    matrix = cv2.getRotationMatrix2D(middle, rng.uniform(0, 360), rng.uniform(1.2, 2))
    part = cv2.warpAffine(pixels, matrix, (width, height))
    return under_fan(np.ascontiguousarray(part[:, :: -1 if rng.random() < 0.5 else 1]))


def still_frames(signature: Signature, count: int, rng: np.random.Generator) -> list[Signature]:
    """Signatures of frames that differ by noise only."""
    frames = []
    for _ in range(count):
        noise = rng.normal(0, 1, (SIDE_PX, SIDE_PX)) * (signature.texture != 0)
        flips = np.packbits(rng.random((len(signature.codes), 64)) < 0.03, axis=1).view("<u8")[:, 0]
        texture = np.clip(signature.texture + noise, -24, 24).astype(np.int8)
        frames.append(Signature(signature.codes ^ flips, texture))
    return frames


def share_found(originals: Sequence[Signature], pictures: Sequence[Pixels], change: Change) -> float:
    """Share of changed pictures that are reported together with their original."""
    rng = np.random.default_rng(0)
    changed = [signature_of(change(pixels, rng)) for pixels in pictures]
    sides = [0] * len(originals) + [1] * len(changed)
    found = {
        j - len(originals) for i, j, _ in near_pairs([*originals, *changed], side=sides) if i + len(originals) == j
    }
    return len(found) / len(pictures)


def read_all(folder: Path) -> tuple[list[str], list[Pixels]]:
    names, pictures = [], []
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in ENDINGS and not path.stem.lower().endswith(("_annotation", "_mask")):
            try:
                pictures.append(read_picture(path))
                names.append(path.stem)
            except DataError as error:
                print(f"left out: {error}")
    return names, pictures


def milliseconds(action: Callable[[], object], repeats: int = 20) -> float:
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        taken.append(time.perf_counter() - start)
    return 1000 * statistics.median(taken)


def report_changes(title: str, pictures: list[Pixels]) -> list[Signature]:
    originals = [signature_of(pixels) for pixels in pictures]
    print(f"\n{title}: {len(pictures)} pictures, share of changed copies found")
    for name, change in CHANGES.items():
        print(f"  {name:24} {share_found(originals, pictures, change):8.4f}")
    return originals


def report_patients(names: list[str], signatures: list[Signature]) -> None:
    patients = [name.split("_")[0] for name in names]
    closest = sorted(near_pairs(signatures, group=patients, threshold=0.4), key=lambda pair: -pair[2])
    wrong = {place for *pair, correlation in closest if correlation >= NEAR_CORRELATION for place in pair}
    print(f"  different patients: {len(wrong)} of {len(names)} pictures flagged at {NEAR_CORRELATION}; closest:")
    for i, j, correlation in closest[:3]:
        print(f"    {correlation:.2f} {names[i]} {names[j]}")


def report_videos(pictures: list[Pixels]) -> None:
    rng = np.random.default_rng(1)
    frames = [signature_of(frame) for pixels in pictures for frame in video(pixels, 12, rng)]
    found = {(i, j) for i, j, _ in near_pairs(frames)}
    pairs = {
        step: [(v * 12 + f, v * 12 + f + step) for v in range(len(pictures)) for f in range(12 - step)]
        for step in (1, 2, 4, 8)
    }
    print(f"\n{len(pictures)} slow videos of 12 frames, share of pairs found that lie so many frames apart")
    for step, wanted in pairs.items():
        print(f"  {step:<2} {sum(pair in found for pair in wanted) / len(wanted):6.3f}")
    across = sum(i // 12 != j // 12 for i, j in found)
    print(f"  pairs of different videos: {across}")


def report_speed(pictures: list[Pixels], count: int) -> None:
    rng = np.random.default_rng(2)
    chosen = rng.integers(len(pictures), size=count)
    many = [cut_out(pictures[i], rng) for i in chosen[: count // 100]]
    leaks = [signature_of(everything(pixels, rng)) for pixels in many]
    signatures = [signature_of(pixels) for pixels in many]
    signatures += [signature_of(cut_out(pictures[i], rng)) for i in chosen[count // 100 : count - len(many)]] + leaks
    groups = [*chosen[: count - len(leaks)], *range(len(pictures), len(pictures) + len(leaks))]
    sides = [*rng.choice([0, 1, 2], count - len(leaks), p=[0.7, 0.1, 0.2]), *[3] * len(leaks)]
    start = time.perf_counter()
    found = near_pairs(signatures, groups, sides)
    taken = time.perf_counter() - start
    planted = {(i, count - len(leaks) + i) for i in range(len(leaks))}
    met = {(i, j) for i, j, _ in found}
    print(
        f"\n{count} pictures under one fan: {taken:.1f} s, {len(planted & met)} of {len(planted)} planted leaks found"
    )
    print(f"  pictures in other pairs: {len({place for pair in met - planted for place in pair})}")
    half = max(1, count // 9)
    frames = still_frames(signatures[0], 2 * half, rng)
    start = time.perf_counter()
    found = near_pairs(frames, side=[0] * half + [1] * half)
    taken = time.perf_counter() - start
    paired = len({place for i, j, _ in found for place in (i, j)})
    print(f"{2 * half} frames of one still video on two sides: {taken:.1f} s, {paired} of them in a pair")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB, pictures included")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patients", type=int, default=DEFAULT_PATIENTS)
    parser.add_argument("--pictures", type=int, default=45_000)
    parser.add_argument("--real", type=Path, nargs="*", default=[])
    options = parser.parse_args()
    print(
        f"Python {platform.python_version()}, numpy {np.__version__}, OpenCV {cv2.__version__}, "
        f"{time.strftime('%Y-%m-%d')}"
    )
    with tempfile.TemporaryDirectory() as folder:
        write_demo_dataset(Path(folder) / "demo", patients=options.patients)
        names, pictures = read_all(Path(folder) / "demo" / "pictures")
        large = Path(folder) / "large.png"
        noise = np.random.default_rng(0).integers(0, 40, (540, 800, 3), dtype=np.uint8)
        shown = cv2.add(cv2.resize(pictures[0], (800, 540)), noise)
        Image.fromarray(shown).convert("L").save(large)
        decode, sign = milliseconds(lambda: read_picture(large)), milliseconds(lambda: signature_of(shown))
    print(
        f"an 800 x 540 PNG: {decode:.1f} ms to read, {sign:.2f} ms to sign, {len(signature_of(shown).to_bytes())} bytes"
    )
    report_patients(names, report_changes("drawn", pictures))
    for folder in options.real:
        real_names, real = read_all(folder)
        report_patients(real_names, report_changes(folder.name, real))
    report_videos(pictures[:: max(1, len(pictures) // 40)])
    report_speed(pictures, options.pictures)


if __name__ == "__main__":
    main()
