"""Bad input of public datasets, from the files to the message: one sentence with file and row, and nothing written."""

import io
import os
import pickle
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from medvl.benchmark.build import Recipe, build_benchmark
from medvl.benchmark.store import Benchmark, read_benchmark
from medvl.cli.looking import sources_command
from medvl.config.schema import BenchmarkConfig
from medvl.errors import DataError
from medvl.sources.registry import SOURCES

SOURCE_GENERATORS = {
    "fetal_planes_db": "fetal_planes",
    **{name: name for name in ("hc18", "fpus23", "head_biometry", "fass", "focus", "chestxray14")},
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


def built_from(folder: Path, name: str = "built") -> Benchmark:
    """The benchmark of one source; `name` keeps two of them apart."""
    return build_benchmark(
        Recipe("b", folder.parent, [SOURCES[folder.name]], BenchmarkConfig()), folder.parents[1] / "out" / name
    )


def refusal(folder: Path, before: Benchmark | None = None) -> str:
    """The message of a build that must fail, and leave what was built before and what was read of whole pictures."""
    with pytest.raises(DataError) as caught:
        built_from(folder)
    out = folder.parents[1] / "out"
    left = [path for path in out.glob("*") if not path.name.startswith("readings.sqlite")]
    assert [read_benchmark(path) for path in left] == ([] if before is None else [before])
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


FETAL_TABLE, CHEST_TABLE = "FETAL_PLANES_DB_data.csv", "Data_Entry_2017_v2020.csv"


def delimited(delimiter: str):
    return lambda text: text.replace(";" if ";" in text else ",", delimiter)


@pytest.mark.parametrize(("name", "table"), [("fetal_planes_db", FETAL_TABLE), ("chestxray14", CHEST_TABLE)])
def test_a_table_as_a_spreadsheet_or_windows_writes_it_gives_the_same_bytes(copy, name, table):
    path = copy(name) / table
    text = path.read_text()
    expected = (built_from(path.parent, "as published").folder / "items.parquet").read_bytes()
    for number, (change, encoding) in enumerate(
        [
            (delimited(","), "utf-8"),
            (delimited(";"), "utf-8-sig"),
            (delimited("\t"), "latin-1"),
            (lambda text: text.replace("\n", "\r\n"), "utf-16"),
            (
                lambda text: text.replace("\nPatient", "\nImages\\Patient").replace("\n0", "\nC:\\nih\\images\\0"),
                "utf-8",
            ),
        ]
    ):
        path.write_bytes(change(text).encode(encoding))
        assert (built_from(path.parent, f"{number}").folder / "items.parquet").read_bytes() == expected


def test_a_letter_in_latin_1_or_utf_8_is_the_same_letter(copy):
    path = copy("fetal_planes_db") / FETAL_TABLE
    text = path.read_text().replace("Op. 1", "Op. J\u00f6")
    for encoding in ("utf-8", "latin-1", "utf-8-sig", "utf-16"):
        path.write_bytes(text.encode(encoding))
        assert "Op. J\u00f6" in {item.meta["operator"] for item in built_from(path.parent).items}


def test_names_in_another_case_are_read_and_counted(copy):
    folder = copy("fetal_planes_db")
    expected = {item.item_id for item in built_from(folder).items}
    picture = folder / PICTURES[folder.name]
    picture.rename(picture.with_name(picture.name.upper()))
    built = built_from(folder)
    assert {item.item_id for item in built.items} == expected
    assert built.card["sources"][folder.name]["reading"]["name in other case"] == 1
    picture.with_name(picture.name.lower()).write_bytes(b"another")
    message = refusal(folder, built)
    names = (picture.with_name(picture.name.upper()), picture.with_name(picture.name.lower()))
    assert message.startswith(f"fetal_planes_db: {LISTED_IN[folder.name]}: expected one {picture.name}, found ")
    assert all(str(name) in message for name in names)


def test_pictures_that_no_row_names_are_left_out_and_named(copy):
    folder = copy("fetal_planes_db")
    items = built_from(folder).items
    shutil.copy(folder / PICTURES[folder.name], folder / "Images" / "Patient00099_Plane1_1_of_1.png")
    built = built_from(folder)
    assert built.items == items
    (warning,) = built.card["sources"][folder.name]["warnings"]
    assert f"1 picture (Patient00099_Plane1_1_of_1.png) without a row in {FETAL_TABLE}; left out." in warning


def test_boxes_under_one_visual_patch_are_asked_about_and_named(copy):
    folder = copy("fpus23")
    items = built_from(folder).items
    path = folder / ANNOTATIONS
    path.write_text(path.read_text().replace('xbr="30.00" ybr="20.00"', 'xbr="2.50" ybr="3.50"', 1))
    built = built_from(folder)
    assert len(built.items) == len(items)
    (warning,) = [w for w in built.card["sources"]["fpus23"]["warnings"] if "visual patch" in w]
    assert warning.startswith(
        "1 structure (stream_hdvf_aroundlegs_v/frame_000002.png legs) with a box under one visual"
    )


ARCHIVES = {
    "fetal_planes_db": "FETAL_PLANES_ZENODO.zip",
    "fpus23": "FPUS23_Dataset.zip",
    "african_planes": "Zenodo_dataset.tar.xz",
    "pbf_us1": "NatalIA PBF-US1.zip",
    "ultrasound_fetus": "Ultrasound Fetus Dataset.zip",
    "fetus_framework": "Dataset for Fetus Framework.zip",
    "hc18": "HC18.zip",
    "fass": "Fetal Abdominal Structures Segmentation Dataset Using Ultrasonic Images.zip",
    "focus": "FOCUS-dataset.zip",
    "head_biometry": "Trans-thalamic.zip",
    "psfhs": "PSFHS.zip",
    "fh_ps_aop": "Pubic Symphysis-Fetal Head Segmentation and Angle of Progression.zip",
    "jnu_ifm": "JNU-IFM.7z",
    "acouslic_ai": "acouslic-ai-train-set.zip",
    "iugc2024": "IUGC2024.rar",
    "chestxray14": "images_001.tar.gz",
    "siim_acr": "siim-acr-pneumothorax-segmentation.zip",
}


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "demo"])
def test_an_archive_that_is_not_unpacked_is_named_by_its_source_and_no_other(tmp_path, name):
    archive = tmp_path / "root" / "downloads" / ARCHIVES[name]
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"PK")
    with pytest.raises(DataError) as caught:
        build_benchmark(Recipe("b", tmp_path / "root", list(SOURCES.values()), BenchmarkConfig()), tmp_path / "out")
    named = [line for line in str(caught.value).split("\n") if f"{ARCHIVES[name]} is not unpacked: expected " in line]
    assert [line.split(":")[0].strip() for line in named] == [name]
    assert not (tmp_path / "out").exists()


def test_a_dataset_that_is_a_link_out_of_the_root_is_refused_with_source_link_and_target(written, tmp_path):
    folder = tmp_path / "root" / "hc18"
    folder.parent.mkdir()
    folder.symlink_to(written["hc18"])
    said = (
        f"{folder}: expected a dataset below {folder.parent}, found a link that leads out of it, to {written['hc18']}."
    )
    assert refusal(folder).startswith(f"hc18: {said} Copy the folder there")
    with pytest.raises(DataError, match=re.escape(said)):
        sources_command(Console(file=io.StringIO()), folder.parent)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("hc18", PICTURES["hc18"]),
        ("hc18", MASKS["hc18"]),
        ("hc18", "training_set"),
        ("fass", "ARRAY_FORMAT/P01_IMG1.npy"),
        ("fetal_planes_db", "Images"),
    ],
)
def test_a_part_of_a_dataset_that_is_a_link_out_of_the_root_is_refused(copy, tmp_path, name, part):
    folder = copy(name)
    (folder / part).rename(tmp_path / "elsewhere")
    (folder / part).symlink_to(tmp_path / "elsewhere")
    message = refusal(folder)
    assert f"  {name}" in message
    assert f"{folder / part}" in message
    assert f"expected a file below {folder.parent}, found a link that leads out of it. Copy the file there." in message


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
