"""The command as its user runs it: real folders, real files, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

PROJECT = Path(__file__).resolve().parents[3]


def medvl(*arguments: str, cwd: Path = PROJECT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "medvl.cli.main", *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A folder with a built demo benchmark of a few patients."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "conf").symlink_to(PROJECT / "conf")
    done = medvl("build", "data.demo.patients=12", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "medvl check demo-" in done.stdout
    return folder


@pytest.fixture(scope="module")
def name(home) -> str:
    (folder,) = (p for p in (home / "data" / "benchmarks").iterdir() if p.is_dir())
    return folder.name


def test_a_second_build_reads_nothing_and_gives_the_same(home, name):
    items = home / "data" / "benchmarks" / name / "items.parquet"
    before = (items.read_bytes(), items.stat().st_mtime_ns)
    assert medvl("build", "data.demo.patients=12", cwd=home).returncode == 0
    assert (items.read_bytes(), items.stat().st_mtime_ns) == before


def test_check_reports_and_ends_with_3_on_a_fault(home, name):
    good = medvl("check", name, "--pictures", cwd=home)
    assert good.returncode == 0, good.stdout + good.stderr
    assert "FAULT" not in good.stdout
    picture = next((home / "data" / "demo" / "pictures").glob("*.png"))
    whole = picture.read_bytes()
    Image.new("L", (40, 40)).save(picture)
    try:
        bad = medvl("check", name, "--pictures", cwd=home)
    finally:
        picture.write_bytes(whole)
    assert bad.returncode == 3
    assert "FAULT" in bad.stdout


def test_show_writes_a_sheet(home, name, tmp_path):
    out = tmp_path / "deep" / "sheet.png"
    done = medvl("show", name, "--task", "VG", "-n", "4", "--out", str(out), cwd=home)
    assert done.returncode == 0, done.stderr
    assert np.asarray(Image.open(out)).shape[2] == 3


def test_sources_lists_every_source_and_where_it_lies(home):
    from medvl.sources.registry import SOURCES

    done = medvl("sources", "--root", "data/demo", cwd=home)
    assert done.returncode == 0
    lines = done.stdout
    assert [name for name in SOURCES if name not in lines] == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("build", "data=nothing"), 2, "nothing"),
        (("build", "data=fetal_gauge"), 2, "data.root is not set"),
        (("build", "lora=r16"), 2, "lora"),
        (("check", "no_such_benchmark"), 4, "is no benchmark"),
        (("show", "no_such_benchmark"), 4, "is no benchmark"),
        (("sources", "--root", "no/such/folder"), 4, "expected a folder"),
        (("frobnicate",), 2, "No such command"),
    ],
)
def test_what_is_wrong_ends_in_one_message_and_a_code(home, arguments, code, said):
    done = medvl(*arguments, cwd=home)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_needs_no_torch(home, name):
    code = (
        "import sys; sys.argv = ['medvl', 'check', sys.argv[1]]\n"
        "from medvl.cli.main import app\n"
        "try:\n    app()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print(sorted({'torch', 'transformers', 'pytorch_lightning'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, name], cwd=home, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_the_card_counts_every_cell_beside_the_published_totals(home, name):
    card = json.loads((home / "data" / "benchmarks" / name / "card.json").read_text())
    assert sum(row["items"] for row in card["counts"]) == card["totals"]["items"]
    assert card["published_totals"]["items"] == 93_451
