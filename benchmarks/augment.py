"""Pictures a second with overlay and augmentation, against plain decoding and resizing in the same loading processes.

`python benchmarks/augment.py [FOLDER]` from the project's folder: PNG and JPEG pictures of FOLDER, or drawn ones of
800 x 540 px. Each repeat runs all kinds in turn; medians are printed. The last column resizes after augmenting too, as
a model's processor does.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from medvl.batching.augment import Draw
from medvl.batching.dataset import ItemDataset
from medvl.benchmark.item import Item
from medvl.imaging.augment import Level
from medvl.imaging.reading import pixel_hash, read_picture
from medvl.sources.record import Domain, Split, Task

SIDE_PX = 336
QUESTIONS = 96
REPEATS = 9
WORKERS = 2
LEVELS: tuple[Level | None, ...] = (None, "light", "ultrasound")


class Plain(Dataset[Any]):
    """Decoded and resized pictures, nothing checked, drawn or changed."""

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths

    def __len__(self) -> int:
        return QUESTIONS

    def __getitem__(self, index: int) -> Any:
        return resized(read_picture(self._paths[index % len(self._paths)]))


class Asked(Dataset[Any]):
    """Questions with a red box, each drawn anew."""

    def __init__(self, paths: list[Path], level: Level | None, *, resize: bool) -> None:
        self._questions = ItemDataset([question(path) for path in paths], paths[0].parent, augment=level)
        self._resize = resize

    def __len__(self) -> int:
        return QUESTIONS

    def __getitem__(self, index: int) -> Any:
        repeat, item = divmod(index, len(self._questions))
        pixels = self._questions[Draw(item, 0, repeat)].pixels
        return resized(pixels) if self._resize else pixels


def resized(pixels: Any) -> Any:
    return np.asarray(Image.fromarray(pixels).resize((SIDE_PX, SIDE_PX), Image.Resampling.BICUBIC))


def question(path: Path) -> Item:
    pixels = read_picture(path)
    height, width = pixels.shape[:2]
    return Item(
        item_id=path.name,
        picture=path.name,
        sha256_pixels=pixel_hash(pixels),
        width=width,
        height=height,
        task=Task.VG,
        question="What does the red bounding box represent?",
        options=("thalami", "heart"),
        answer_index=0,
        raw_label="thalami",
        answer="thalami",
        group="g",
        source="s",
        domain=Domain.CLINICAL,
        split=Split.TRAIN,
        bbox_xyxy_px=(0.3 * width, 0.3 * height, 0.6 * width, 0.7 * height),
    )


def draw_fans(folder: Path) -> None:
    """Speckle in a sector, black around it."""
    rng = np.random.default_rng(0)
    for number in range(8):
        tissue = cv2.GaussianBlur(rng.gamma(2.0, 25.0, (540, 800)).astype(np.float32), (0, 0), 1.5)
        fan = np.zeros((540, 800), np.uint8)
        cv2.ellipse(fan, (400, -60), (590, 590), 0, 50, 130, 1, thickness=-1)
        Image.fromarray((np.clip(tissue, 9, 255) * fan).astype(np.uint8)).save(folder / f"{number}.png")


def seconds(dataset: Dataset[Any]) -> float:
    """Seconds for all questions, without the start of the processes."""
    loader = DataLoader(dataset, batch_size=8, num_workers=WORKERS, collate_fn=len, persistent_workers=True)
    list(loader)
    start = time.perf_counter()
    list(loader)
    return time.perf_counter() - start


def main(folder: Path) -> None:
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in {".png", ".jpg", ".jpeg"})
    plain = Plain(paths)
    asked = {(level, resize): Asked(paths, level, resize=resize) for level in LEVELS for resize in (False, True)}
    base: list[float] = []
    times: dict[tuple[Level | None, bool], list[float]] = {kind: [] for kind in asked}
    for _ in range(REPEATS):
        base.append(seconds(plain))
        for kind, dataset in asked.items():
            times[kind].append(seconds(dataset))
    print(
        f"Python {platform.python_version()}, OpenCV {cv2.__version__}, {os.cpu_count()} cores, {WORKERS} loading "
        f"processes, {len(paths)} pictures, {time.strftime('%Y-%m-%d')}"
    )
    print(f"decode + resize to {SIDE_PX} px: {QUESTIONS / statistics.median(base):.0f} pictures/s = 1.00")
    print(f"{'checked, augmented, boxed':28} {'without resize':>20} {'with resize':>20}")
    for level in LEVELS:
        cells = []
        for resize in (False, True):
            ratio = statistics.median(b / t for b, t in zip(base, times[level, resize], strict=True))
            cells.append(f"{QUESTIONS / statistics.median(times[level, resize]):8.0f}/s = {ratio:.2f}")
        print(f"{level or 'none':28} {cells[0]:>20} {cells[1]:>20}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as drawn:
            draw_fans(Path(drawn))
            main(Path(drawn))
