"""How long a build takes beside a bare loop over the same files, and how much memory it needs.

`python benchmarks/build.py [--pictures 6000] [--repeats 3]` from the project's folder. Draws a tree of 800 x 540
pictures in the layouts of HC18 and FETAL_PLANES_DB, then, interleaved: a bare loop (read, decode, SHA-256 of the
pixels, two workers), a first build, and a build with nothing changed. At the end 100,000 items over 45,000 pictures
are planned, split and written without reading a picture.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import resource
import shutil
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from medvl.benchmark import build
from medvl.benchmark.build import Recipe, build_benchmark
from medvl.benchmark.near import signature_of
from medvl.benchmark.pictures import ReadPicture
from medvl.config.schema import BenchmarkConfig
from medvl.sources.record import Domain, Record, SourceScan, Structure, Task
from medvl.sources.registry import SOURCES

WIDTH, HEIGHT = 800, 540
WORKERS = 2
PLANES = ("Fetal abdomen", "Fetal brain", "Fetal femur", "Fetal thorax", "Maternal cervix")


def draw(path: Path, seed: int) -> tuple[int, int, int, int]:
    """One grey picture with speckle and an ellipse in a fan; returns the ellipse."""
    rng = np.random.default_rng(seed)
    speckle = rng.rayleigh(40, (HEIGHT // 3, WIDTH // 3)).astype(np.float32)
    grey = cv2.resize(speckle, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
    fan = np.zeros((HEIGHT, WIDTH), np.uint8)
    cv2.ellipse(fan, (WIDTH // 2, 0), (520, 520), 0, 40, 140, 255, -1)
    ellipse = (*(int(v) for v in rng.integers((300, 200), (500, 330))), *(int(v) for v in rng.integers(60, 150, 2)))
    cv2.ellipse(grey, ellipse[:2], ellipse[2:], 0, 0, 360, 230, 6)
    grey[fan == 0] = 0
    Image.fromarray(np.clip(grey, 0, 255).astype(np.uint8)).save(path)
    return ellipse


def draw_tree(root: Path, pictures: int) -> None:
    """Half of the pictures in each layout."""
    hc18, planes = root / "hc18", root / "planes"
    (hc18 / "training_set").mkdir(parents=True)
    (planes / "Images").mkdir(parents=True)
    rows = []
    for number in range(pictures // 2):
        name = f"{number:05d}_HC"
        x, y, a, b = draw(hc18 / "training_set" / f"{name}.png", number)
        outline = np.zeros((HEIGHT, WIDTH), np.uint8)
        cv2.ellipse(outline, (x, y), (a, b), 0, 0, 360, 255, 1)
        Image.fromarray(outline).save(hc18 / "training_set" / f"{name}_Annotation.png")
        rows.append(f"{name}.png,0.1,200")
    table = "filename,pixel size(mm),head circumference (mm)\n"
    (hc18 / "training_set_pixel_size_and_HC.csv").write_text(table + "\n".join(rows))
    lines = ["Image_name;Patient_num;Plane;Brain_plane;Operator;US_Machine;Train "]
    for number in range(pictures - pictures // 2):
        patient = number // 7 + 1
        name = f"Patient{patient:05d}_Plane1_{number % 7 + 1}_of_7"
        draw(planes / "Images" / f"{name}.png", 1_000_000 + number)
        plane = PLANES[number % len(PLANES)]
        brain = "Trans-thalamic" if plane == "Fetal brain" else "Not A Brain"
        lines.append(f"{name};{patient};{plane};{brain};Op. 1;Aloka;{patient % 2} ")
    (planes / "FETAL_PLANES_DB_data.csv").write_text("\n".join(lines))


def hash_one(path: str) -> str:
    with Image.open(path) as image:
        return hashlib.sha256(np.asarray(image.convert("RGB"))).hexdigest()


def bare_loop(files: list[str], pool: ProcessPoolExecutor) -> float:
    start = time.perf_counter()
    list(pool.map(hash_one, files, chunksize=32))
    return time.perf_counter() - start


def fan_signatures(count: int) -> list[bytes]:
    """Signatures of pictures with the same fan and other contents."""
    rng, fan = np.random.default_rng(1), np.zeros((64, 64), np.uint8)
    cv2.ellipse(fan, (32, 0), (62, 62), 0, 40, 140, 1, -1)
    found = []
    for _ in range(count):
        coarse = rng.integers(0, 255, (12, 12), dtype=np.uint8)
        grey = cv2.resize(coarse, (64, 64), interpolation=cv2.INTER_CUBIC) * fan
        found.append(signature_of(np.repeat(grey[..., None], 3, axis=2)).to_bytes())
    return found


def plan_only(folder: Path, pictures: int = 45_000) -> tuple[float, int]:
    """Seconds to plan, split and write a benchmark whose pictures are taken as read; and its number of items."""
    structures = ("heart", "spine", "stomach", "femur")

    def scan(place: Path) -> SourceScan:
        rng = np.random.default_rng(0)
        records = [
            Record(
                source="plan",
                record_id=f"{number}.png",
                picture=place / f"{number}.png",
                group=f"P{number // 9}",
                domain=Domain.CLINICAL,
                labels={Task.PI: PLANES[number % len(PLANES)]},
                structures=tuple(
                    Structure(structures[i], (10.0 + 90 * i, 20.0, 90.0 + 90 * i, 200.0))
                    for i in rng.permutation(4)[: 1 + number % 2]
                ),
            )
            for number in range(pictures)
        ]
        return SourceScan(records)

    signatures = fan_signatures(pictures)

    def as_read(records: list[Record], *rest: object, **more: object) -> tuple[list[ReadPicture], list[str]]:
        read = []
        for record, signature in zip(records, signatures, strict=True):
            boxes = tuple((s.label, s.bbox_xyxy_px) for s in record.structures if s.bbox_xyxy_px is not None)
            digest = hashlib.sha256(record.record_id.encode()).hexdigest()
            read.append(ReadPicture(record, WIDTH, HEIGHT, digest, boxes, (), signature))
        return read, []

    source = replace(SOURCES["hc18"], name="plan", tasks=(Task.PI, Task.VG), find=lambda root: root, scan=scan)
    source = replace(source, published_pictures=pictures)
    root = folder / "empty"
    root.mkdir()
    real, build.read_records = build.read_records, as_read
    try:
        start = time.perf_counter()
        made = build_benchmark(Recipe("plan", root, [source], BenchmarkConfig()), folder / "plan")
        return time.perf_counter() - start, len(made.items)
    finally:
        build.read_records = real


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=6000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}")
    with tempfile.TemporaryDirectory() as folder:
        root, built = Path(folder) / "root", Path(folder) / "built"
        draw_tree(root, arguments.pictures)
        files = sorted(str(path) for path in root.rglob("*.png"))
        recipe = Recipe("speed", root, [SOURCES["hc18"], SOURCES["fetal_planes_db"]], BenchmarkConfig())
        print(f"{arguments.pictures:,} pictures of {WIDTH} x {HEIGHT} and {len(files) - arguments.pictures:,} masks")
        times: dict[str, list[float]] = {"bare loop": [], "first build": [], "nothing changed": []}
        memory = []
        with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
            bare_loop(files, pool)  # warm: processes and the disk's cache
            for _ in range(arguments.repeats):
                times["bare loop"].append(bare_loop(files, pool))
                shutil.rmtree(built, ignore_errors=True)
                before = peak_mib()
                start = time.perf_counter()
                build_benchmark(recipe, built / "b")
                times["first build"].append(time.perf_counter() - start)
                memory.append((before, peak_mib()))
                start = time.perf_counter()
                build_benchmark(recipe, built / "b")
                times["nothing changed"].append(time.perf_counter() - start)
        for name, found in times.items():
            print(
                f"{name:18} {statistics.median(found):7.2f} s   (of {len(found)}: {min(found):.2f} to {max(found):.2f})"
            )
        first = statistics.median(times["first build"])
        print(f"first build / bare loop: {first / statistics.median(times['bare loop']):.2f}")
        print(f"nothing changed / first build: {statistics.median(times['nothing changed']) / first:.1%}")
        seconds, items = plan_only(Path(folder))
        print(f"{items:,} items planned, split and written: {seconds:.1f} s")
        print(f"peak memory of this process: {memory[-1][1]:,.0f} MiB ({memory[0][0]:,.0f} MiB before the first build)")


if __name__ == "__main__":
    main()
