from io import StringIO

import pytest
from rich.console import Console
from tiny_adapters import write_adapter
from typer.testing import CliRunner

from medvl.cli.adapters import adapter_check_command, adapter_show_command, merge_command
from medvl.cli.main import app
from medvl.errors import ConfigError, ModelError, StorageError
from medvl.models.agreement import Agreement


@pytest.fixture(scope="module")
def adapter(tiny_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "adapter"
    return write_adapter(folder, tiny_folder, parts=["language", "vision"], scale=0.2, benchmark="feed")


@pytest.fixture
def console():
    return Console(file=StringIO(), width=200)


def said(console):
    return console.file.getvalue()


def test_show_says_base_recipe_parts_prints_and_how_it_can_be_served(console, adapter):
    adapter_show_command(console, adapter)
    text = said(console)
    for fact in (
        "tiny",
        "r 4, alpha 8.0",
        "demo (feed)",
        "language",
        "vision",
        "full weights",
        "serving: it has a vision",
    ):
        assert fact in text


def test_show_says_that_an_adapter_of_another_trainer_cannot_be_judged(console, adapter, tmp_path):
    (tmp_path / "adapter_config.json").write_bytes((adapter / "adapter_config.json").read_bytes())
    (tmp_path / "adapter_model.safetensors").write_bytes((adapter / "adapter_model.safetensors").read_bytes())
    adapter_show_command(console, tmp_path)
    assert "not trained by medvl" in said(console)


def test_check_prints_a_row_a_check_and_says_whether_all_are_well(console, adapter):
    assert adapter_check_command(console, adapter, None, items=2)
    assert "FAULT" not in said(console)
    assert not adapter_check_command(console, adapter, "builtin:tiny", items=2)
    assert "FAULT" in said(console)


def test_merge_says_what_was_compared_and_where_the_model_is(console, adapter, tmp_path):
    out = tmp_path / "merged"
    assert merge_command(console, adapter, out, base=None, dtype="bfloat16", items=3, max_flips=1.0)
    text = said(console)
    assert "asked 3 drawn questions (the benchmark of its run record is not on this machine)" in text
    assert "of 3 letters differ" in text
    assert f"model.path={out} model.dtype=bfloat16" in text
    with pytest.raises(StorageError):
        merge_command(console, adapter, out, base=None, dtype=None, items=3, max_flips=1.0)


def test_a_merge_that_changes_answers_says_where_it_is_kept(console, adapter, tmp_path, monkeypatch):
    monkeypatch.setattr("medvl.models.merge.agreement", lambda one, other: Agreement(2, 1, 3.0))
    assert not merge_command(console, adapter, tmp_path / "m", base=None, dtype=None, items=2, max_flips=0.02)
    assert f"kept as {tmp_path / 'm.failed'}" in said(console)
    assert not (tmp_path / "m").exists()


def test_an_unknown_precision_is_refused(console, adapter, tmp_path):
    with pytest.raises(ConfigError, match=r"--dtype bf16: .*bfloat16"):
        merge_command(console, adapter, tmp_path / "m", base=None, dtype="bf16", items=2, max_flips=0.0)


@pytest.mark.parametrize("command", [("adapter", "show"), ("adapter", "check"), ("merge",)])
def test_the_commands_explain_themselves_and_refuse_a_folder_without_adapter(command, tmp_path):
    shown = CliRunner().invoke(app, [*command, "--help"])
    assert shown.exit_code == 0
    assert "adapter" in shown.output
    out = [str(tmp_path / "out")] if command == ("merge",) else []
    failed = CliRunner().invoke(app, [*command, str(tmp_path / "gone"), *out])
    assert isinstance(failed.exception, ModelError)


def test_a_check_that_finds_a_fault_ends_with_3(adapter):
    assert CliRunner().invoke(app, ["adapter", "check", str(adapter), "--base", "builtin:tiny"]).exit_code == 3
