from io import StringIO

import pytest
from rich.console import Console
from typer.testing import CliRunner
from written_run import write_answers, write_record

from medvl.cli.main import app
from medvl.cli.ranking import leaderboard_command
from medvl.errors import StorageError


@pytest.fixture
def console():
    return Console(file=StringIO(), width=80)


def test_runs_are_ranked_and_the_published_rows_stand_apart(console, tmp_path):
    runs = [write_answers(write_record(tmp_path / f"run{n}"), n, adapter=f"a{n}") for n in (6, 12)]
    (tmp_path / "failed").mkdir()
    leaderboard_command(console, [*runs, tmp_path / "failed"], tmp_path / "new" / "all.csv", tmp_path / "all.md")
    said = console.file.getvalue()
    assert "left out" in said
    assert said.index("benchmark bench-1") < said.index("published with Fetal-Gauge")
    assert said.count("11 rows -> ") == 2
    assert (tmp_path / "new" / "all.csv").read_text().count("\n") == 12
    assert "## benchmark bench-1" in (tmp_path / "all.md").read_text()


def test_without_runs_the_published_rows_are_shown(console):
    leaderboard_command(console, [], None, None)
    assert "benchmark" not in console.file.getvalue()
    assert "Lingshu-32B" in console.file.getvalue()


def test_it_is_a_subcommand_of_medvl(tmp_path):
    run = write_answers(write_record(tmp_path / "run"))
    done = CliRunner().invoke(app, ["leaderboard", str(run), "--csv", str(tmp_path / "all.csv")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "all.csv").is_file()


def test_a_place_that_cannot_be_written_is_named(console, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cannot write .*all\.csv"):
        leaderboard_command(console, [], tmp_path / "file" / "all.csv", None)
