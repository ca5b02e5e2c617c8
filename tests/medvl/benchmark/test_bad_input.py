"""Bad input of public datasets, from the files to the message: one sentence with file and row, and nothing written."""

import io
import os
import pickle
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from medvl.benchmark.build import Recipe, build_benchmark
from medvl.config.schema import BenchmarkConfig
from medvl.errors import DataError
from medvl.sources.registry import SOURCES

SOURCE_GENERATORS = {
    "fetal_planes_db": "fetal_planes",
    **{name: name for name in ("hc18", "fpus23", "head_biometry", "fass", "focus")},
}
"""Sources with small miniatures -> what their generator in tests/fixtures is called after."""
THALAMIC = "Trans-thalamic/Trans-thalamic"
PICTURES = {
    "fetal_planes_db": "Images/Patient00001_Plane5_1_of_1.png",
    "hc18": "training_set/001_HC.png",
    "fpus23": "Dataset/four_poses/stream_hdvf_aroundlegs_v/frame_000001.png",
    "head_biometry": f"{THALAMIC}/Patient00168_Plane3_1_of_3.png",
    "fass": "IMAGES/P01_IMG1.png",
    "focus": "training/images/001.png",
}
"""A picture of each that has a question."""
MASKS = {
    "hc18": "training_set/001_HC_Annotation.png",
    "head_biometry": f"{THALAMIC}-Segmentation/SegmentationClass/Patient00168_Plane3_1_of_3.png",
    "focus": "training/annfiles_mask/001-cardiac.png",
}
"""The mask of this picture, where it is a picture itself."""
LISTED_IN = {
    "fetal_planes_db": "FETAL_PLANES_DB_data.csv row 9",
    "hc18": "training_set_pixel_size_and_HC.csv row 2",
    "fpus23": "stream_hdvf_aroundlegs_v/annotations.xml, frame_000001.png",
}
"""What names the picture, where it comes from a table or annotation file."""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Source -> its miniature. Shared: leave them as they are."""
    made = {}
    for name, generator in SOURCE_GENERATORS.items():
        write = getattr(import_module(f"mini_{generator}"), f"write_mini_{generator}")
        made[name] = write(tmp_path_factory.mktemp(name) / name)
    return made


@pytest.fixture
def copy(written, tmp_path):
    """Copies the miniature of a source below a data root and returns its folder."""
    return lambda name: shutil.copytree(written[name], tmp_path / "root" / name)


def refusal(folder: Path) -> str:
    """The message of a build that must fail and leave nothing but what was read of whole pictures."""
    root = folder.parent
    out = root.parent / "out"
    with pytest.raises(DataError) as caught:
        build_benchmark(Recipe("b", root, [SOURCES[folder.name]], BenchmarkConfig()), out / "built")
    assert [path.name for path in out.glob("*") if not path.name.startswith("readings.sqlite")] == []
    return str(caught.value)


def cut_jpeg() -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (80, 110), dtype=np.uint8)).save(file, "JPEG")
    return file.getvalue()[: len(file.getvalue()) // 2]


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"<!DOCTYPE html><html>Please log in</html>", "found an HTML page (a failed download or a login page)"),
        (cut_jpeg(), "found a JPEG cut after"),
        (b"", "found an empty file"),
    ],
    ids=["html", "jpeg", "empty"],
)
def test_a_file_that_is_no_whole_picture_is_refused_with_source_row_and_file(copy, name, content, found):
    folder = copy(name)
    (folder / PICTURES[name]).write_bytes(content)
    message = refusal(folder)
    for part in (f"  {name}", LISTED_IN.get(name, ""), f"{folder / PICTURES[name]}: expected", found, "skip_broken"):
        assert part in message
    assert message.startswith("1 pictures or masks cannot be used")


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda mask: mask[:-3], "expected a mask of its picture's size"),
        (np.zeros_like, "expected a mask that marks a structure, found no marked pixel"),
    ],
    ids=["size", "empty"],
)
def test_a_mask_that_does_not_belong_to_its_picture_is_refused(copy, name, change, found):
    folder = copy(name)
    for ellipses in folder.glob("*/annfiles_ellipse"):
        shutil.rmtree(ellipses)  # they come before masks
    with Image.open(folder / MASKS[name]) as image:
        changed = change(np.asarray(image))
    Image.fromarray(changed).save(folder / MASKS[name])
    if name == "head_biometry" and not changed.any():
        root = folder.parent  # this dataset writes an empty mask for what is not seen
        assert build_benchmark(Recipe("b", root, [SOURCES[name]], BenchmarkConfig()), root.parent / "out").items
        return
    message = refusal(folder)
    for part in (f"  {name}", Path(MASKS[name]).name, found):
        assert part in message


class Attack:
    """Runs a command when an ordinary unpickler meets it."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return os.system, (f"touch '{self.trace}'",)


def test_an_array_file_with_a_command_in_it_is_refused_and_the_command_does_not_run(copy, tmp_path):
    folder, trace = copy("fass"), tmp_path / "it ran"
    array = folder / "ARRAY_FORMAT" / "P01_IMG1.npy"
    np.save(array, np.array({"structures": {"liver": Attack(trace)}}, dtype=object), allow_pickle=True)
    message = refusal(folder)
    assert f"fass: {array}: expected a .npy file with a dictionary of arrays, found a pickle that asks for" in message
    assert not trace.exists()
    pickle.loads(pickle.dumps(Attack(trace)))
    assert trace.exists()


def test_an_array_of_another_size_is_refused_by_the_name_of_its_structure(copy):
    folder = copy("fass")
    array = folder / "ARRAY_FORMAT" / "P01_IMG1.npy"
    marks = {name: np.ones((5, 5), np.uint8) for name in ("artery", "liver", "stomach", "vein")}
    np.save(array, np.array({"structures": marks}, dtype=object), allow_pickle=True)
    assert "P01_IMG1.npy (IMAGES/P01_IMG1.png, artery): expected a mask of its picture's size" in refusal(folder)


ANNOTATIONS = "Dataset/boxes/annotation/stream_hdvf_aroundlegs_v/annotations.xml"


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("<annotations>", '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><annotations>', "document type or"),
        ('xbr="30.00"', 'xbr="300.00"', "frame_000002.png: expected a box 'legs' with an area inside 84 x 48 px"),
        ('xtl="1.00"', 'xtl="30.00"', "frame_000002.png: expected a box 'legs' with an area inside 84 x 48 px"),
        ('label="legs"', 'label="tail"', "expected the label of a box to be one of head, abdomen, arm, legs"),
    ],
    ids=["entity", "outside", "no area", "label"],
)
def test_a_broken_annotation_file_is_refused_by_name(copy, old, new, found):
    folder = copy("fpus23")
    path = folder / ANNOTATIONS
    path.write_text(path.read_text().replace(old, new, 1 if old.startswith("<a") else -1))
    message = refusal(folder)
    assert found in message
    assert "stream_hdvf_aroundlegs_v/annotations.xml" in message


def set_cell(row: int, column: int, value: str):
    def change(lines: list[str]) -> list[str]:
        fields = lines[row - 1].split(";")
        fields[column] = value
        return [*lines[: row - 1], ";".join(fields), *lines[row:]]

    return change


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (set_cell(1, 2, "Ebene"), ": expected column(s) 'Plane', found 'Image_name'"),
        (set_cell(9, 1, ""), " row 9: expected Patient_num 1 as in the name"),
        (set_cell(9, 2, "Fetal knee"), " row 9 (Patient00001_Plane5_1_of_1): expected Plane to be one of"),
        (set_cell(9, 0, "Patient00001_Plane3_1_of_4"), " row 9: expected Plane 'Fetal brain' for"),
        (lambda lines: lines[:1], ": expected rows below the header"),
        (lambda lines: ["<!DOCTYPE html><html>Please log in</html>"], ": expected column(s) 'Image_name'"),
    ],
    ids=["column", "no group", "label", "disagree", "no rows", "html"],
)
def test_a_broken_table_is_refused_with_its_row(copy, change, found):
    folder = copy("fetal_planes_db")
    table = folder / "FETAL_PLANES_DB_data.csv"
    table.write_text("\n".join(change(table.read_text().rstrip("\n").split("\n"))) + "\n")
    assert f"FETAL_PLANES_DB_data.csv{found}" in refusal(folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fetal_planes_db", "fpus23", "fass", "focus"])
def test_the_command_says_it_in_one_message_and_exits_with_4(copy, tmp_path, name):
    folder = copy(name)
    (folder / PICTURES[name]).write_bytes(b"<html>")
    overrides = ["data=fetal_gauge", f"data.root={folder.parent}", f"data.sources=[{name}]", f"paths.data={tmp_path}/d"]
    command = [sys.executable, "-m", "medvl.cli.main", "build", *overrides]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    assert done.stderr.count("error: ") == 1
    assert "Traceback" not in done.stderr
    assert PICTURES[name] in done.stderr
    assert not list(tmp_path.glob("d/benchmarks/*/items.parquet"))
