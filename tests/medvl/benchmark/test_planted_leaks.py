"""Leaks of every kind, planted in drawn pictures: the build finds them, and nothing else."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from drawn_source import Shot, drawn_source
from PIL import Image

from medvl.benchmark.build import Recipe, build_benchmark
from medvl.benchmark.near import near_pairs, signature_of
from medvl.config.schema import BenchmarkConfig
from medvl.imaging.reading import read_picture
from medvl.sources.demo.dataset import write_demo_dataset
from medvl.sources.record import Split, Task

# The changes that are measured are the changes that are planted.
_PATH = Path(__file__).parents[3] / "benchmarks" / "near_duplicates.py"
_SPEC = importlib.util.spec_from_file_location("near_duplicates", _PATH)
measured = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(measured)

PLANTED = ["renamed copy", "JPEG, quality 80", "crop 5 % all sides", "brightness +20 %", "brightness -20 %"]
VIDEO = "frame of a video"
PLANES = ("fetal head", "fetal thorax")


@pytest.fixture(scope="module")
def drawn(demo_root):
    """Pictures of different drawn patients."""
    firsts = {}
    for path in sorted((demo_root / "pictures").iterdir()):
        firsts.setdefault(path.stem.split("_")[0], path)
    return [read_picture(path) for path in firsts.values()]


class Planting:
    """A source that grows picture by picture below a data root."""

    def __init__(self, root):
        self.root, self.shots = root, []
        (root / "s").mkdir(parents=True)

    def add(self, name, pixels, side=None, group=None, ending="png"):
        labels = {Task.PI: PLANES[len(self.shots) % 2]}
        Image.fromarray(pixels).save(self.root / "s" / f"{name}.png", format=ending)
        self.shots.append(Shot(name, group or f"of {name}", 0, labels, official=side))

    def build(self, **facts):
        source = drawn_source("s", self.shots, **facts)
        return build_benchmark(Recipe("b", self.root, [source], BenchmarkConfig()), self.root.parent / "built")


def test_a_changed_copy_on_the_other_side_is_found_however_it_was_changed(drawn, tmp_path):
    planting, rng = Planting(tmp_path / "root"), np.random.default_rng(0)
    for number, (change, pixels) in enumerate(zip(PLANTED, drawn, strict=False)):
        planting.add(f"train {number}", pixels, Split.TRAIN)
        copy = measured.CHANGES[change](pixels, rng)
        planting.add(f"test {number}", copy, Split.TEST, ending="jpeg" if "JPEG" in change else "png")
    first, second = measured.video(drawn[len(PLANTED)], 2, rng)
    planting.add("train video", first, Split.TRAIN)
    planting.add("test video", second, Split.TEST)
    planting.add("train alone", drawn[-1], Split.TRAIN)
    planting.add("test alone", drawn[-2], Split.TEST)
    built = planting.build(official=True)
    assert {item.picture for item in built.items if item.split is not Split.TEST} == {"s/train alone.png"}
    assert sum(item.split is Split.TEST for item in built.items) == len(PLANTED) + 2
    assert built.card["sources"]["s"]["leaked"] == len(PLANTED) + 1
    kinds = [leak["kind"] for leak in built.card["leaks"]]
    assert (kinds.count("identical"), kinds.count("near")) == (1, len(PLANTED))


@pytest.mark.slow
def test_of_many_planted_leaks_at_least_99_in_100_are_found_and_different_patients_are_never_taken_for_copies(tmp_path):
    write_demo_dataset(tmp_path, patients=40)
    paths = sorted((tmp_path / "pictures").iterdir())
    pictures, patients = [read_picture(path) for path in paths], [path.stem.split("_")[0] for path in paths]
    originals = [signature_of(pixels) for pixels in pictures]
    assert len(pictures) > 200
    for change in PLANTED:
        assert measured.share_found(originals, pictures, measured.CHANGES[change]) >= 0.99, change
    assert near_pairs(originals, group=patients) == []


@pytest.mark.parametrize("spelling", ["p007 ", "P_7", "P 07"])
def test_two_spellings_of_a_patient_are_one_on_one_side(drawn, tmp_path, spelling):
    planting = Planting(tmp_path / "root")
    planting.add("a", drawn[0], Split.TRAIN, group="P7")
    planting.add("b", drawn[1], Split.TEST, group=spelling)
    for number, pixels in enumerate(drawn[2:]):
        planting.add(f"{number}", pixels, (Split.TRAIN, Split.TEST)[number % 2])
    built = planting.build(official=True)
    pair = [item for item in built.items if item.picture in ("s/a.png", "s/b.png")]
    assert len({(item.group, item.split) for item in pair}) == 1
    entry = json.dumps(built.card["sources"]["s"])
    assert "1 groups lie on both sides of the published split" in entry


def test_frames_of_one_video_stay_on_one_side(drawn, tmp_path):
    planting, rng = Planting(tmp_path / "root"), np.random.default_rng(0)
    for number, pixels in enumerate(drawn):
        for frame, shown in enumerate(measured.video(pixels, 3, rng)):
            planting.add(f"{number} {frame}", shown, group=f"video {number}")
    built = planting.build()
    sides = {}
    for item in built.items:
        sides.setdefault(item.group, set()).add(item.split)
    assert len(sides) == len(drawn)
    assert all(len(found) == 1 for found in sides.values())
    assert set().union(*sides.values()) == set(Split)
    assert built.card["leaks"] == []
