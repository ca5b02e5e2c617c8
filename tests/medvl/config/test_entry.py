import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from medvl.config.schema import EvaluateConfig, TrainConfig
from medvl.errors import DataError, MedvlError, ModelError, StorageError, TrainingError

ROOT = Path(__file__).resolve().parents[3]


def raising(error):
    def program(job):
        raise error

    return program


def test_a_good_command_runs_the_program_with_checked_values(command):
    ended = command("lora.r=3", "task_mix.weights.PI=0", "trainer.extra.foo=1", "name='a b'", "optim.lr=1e-3")
    (job,) = ended.jobs
    assert (ended.code, job.config.lora.r, job.config.name) == (0, 3, "a b")
    assert job.config.task_mix.weights == {"PI": 0}
    assert job.config.trainer.extra == {"foo": 1}
    assert job.composed["lora"]["r"] == 3
    assert "lora.r=3" in job.overrides
    assert "/outputs/" in job.config.paths.run
    assert ended.finished.rows("m") == [
        {"overrides": job.overrides, "metric": "m", "value": 1.0, "run_folder": os.path.relpath(job.config.paths.run)}
    ]


OWN = "data.own=[{name: mylab, format: folders, path: a, group_pattern: '^(P\\d+)_$', task: PI}]"


def test_own_data_are_said_on_the_command_line(command):
    (job,) = command("data=own", "data.root=somewhere", OWN, "data.own.0.task=CD", "data.own.0.labels={ac: x}").jobs
    (own,) = job.config.data.own
    assert (own.name, own.group_pattern, own.task, own.labels) == ("mylab", r"^(P\d+)_$", "CD", {"ac": "x"})
    assert job.config.data.sources == []
    assert job.composed["data"]["own"][0]["task"] == "CD"


def test_own_data_are_said_in_a_file_and_changed_on_the_command_line(command, conf):
    text = "name: mine\nroot: r\nown:\n- {name: mylab, format: questions, path: q.jsonl}\n"
    (conf / "data/mine.yaml").write_text(text)
    (job,) = command("data=mine", "data.own.0.group=patient").jobs
    assert (job.config.data.own[0].path, job.config.data.own[0].group) == ("q.jsonl", "patient")
    assert "list index out of range" in command("data=mine", "data.own.1.group=patient").err


def test_problems_of_files_overrides_and_values_come_in_one_message(command, conf):
    (conf / "lora/r16.yaml").write_text("# rank\nr: 16\nalhpa: 32\n")
    ended = command(
        "lora=r16", "lorra.r=3", "lora.r=-1", "model=tyny", "callbacks=default", "callbacks.checkpoint.monitr=x"
    )
    assert (ended.code, ended.jobs) == (2, [])
    assert "5 problems in the configuration" in ended.err
    for part in (
        "no key 'alhpa' in lora (conf/lora/r16.yaml:3); did you mean alpha?",
        "'lorra.r=3': no key 'lorra' at the top; did you mean lora",
        "lora.r=-1: input should be greater than 0 (override lora.r=-1)",
        "conf/model has no option 'tyny'; did you mean tiny?",
        "'callbacks.checkpoint.monitr=x': no key 'monitr' in callbacks.checkpoint; did you mean monitor?",
    ):
        assert part in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["+foo=1"], "'+foo=1': no key 'foo' at the top"),
        (["experiment=typo"], "conf/experiment has no option 'typo'"),
        (["lora.r="], "lora.r='': input should be a valid integer"),
        (["~logger.wandbb"], "no key 'wandbb' in logger"),
        (["name=${nope.x}"], "name: Interpolation key 'nope.x' not found"),
        (["~paths"], "paths.run is not set"),
        (["~data"], "data.root is not set"),
        (["data=fetal_gauge"], "data.root is not set: say data.root=..."),
        (["lora.r=8,16"], "'lora.r=8,16' gives several values: add -m"),
        (["-m", "lora.r=8,-1"], "lora.r=-1: input should be greater than 0"),
        (["-m", "model=tiny,tyny"], "did you mean tiny?"),
        (["data.sources=[demo,demo]"], "names one source twice"),
        (["data=own", "data.root=r"], "say data.sources=[NAME, ...] or 'data.own=[{name: mylab,"),
        (["data.own=[{name: a, format: coco, path: c.json, grup: g}]"], "no key 'grup' in data.own.0"),
        (["data.own.0.name=a"], "list index out of range"),
        (["lora.r=3", "+lora.r=4"], "lora.r"),
    ],
)
def test_mistakes_end_with_code_2_and_no_traceback(command, arguments, says):
    ended = command(*arguments)
    assert (ended.code, ended.jobs) == (2, [])
    assert says in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"r: 16\nalpha: [3\n", "conf/lora/r16.yaml:3 is not valid YAML"),
        (b"r: 16\n alpha: 3\n", "conf/lora/r16.yaml:2 is not valid YAML: mapping values are not allowed here"),
        (b"r: 1\nr: 2\n", "conf/lora/r16.yaml:2 is not valid YAML: found duplicate key r"),
        (b"- a\n- b\n", "lora/r16"),
        (b"\xff\xfe: 1\n", "conf/lora/r16.yaml is not UTF-8 text"),
        (b"defaults: [nothing]\n", "lora/nothing"),
    ],
)
def test_a_broken_option_file_is_named(command, conf, content, says):
    (conf / "lora/r16.yaml").write_bytes(content)
    ended = command("lora=r16")
    assert ended.code == 2
    assert says in ended.err
    assert "Traceback" not in ended.err


def test_an_empty_option_file_means_the_defaults(command, conf):
    (conf / "lora/r16.yaml").write_text("")
    assert command("lora=r16").jobs[0].config.lora.r == 16


def test_a_broken_entry_file_and_an_absent_folder_are_named(command, conf):
    (conf / "train.yaml").write_text("defaults: [\n")
    assert "conf/train.yaml" in command().err
    (conf).rename(conf.with_name("gone"))
    assert "the folder conf with the options is absent" in command().err


def test_a_sweep_runs_each_job_in_its_own_folder(command):
    ended = command("-m", "lora.r=8,16")
    assert [job.config.lora.r for job in ended.jobs] == [8, 16]
    assert len({row["run_folder"] for row in ended.finished.rows("m")}) == 2


def test_the_jobs_of_a_search_are_checked_before_the_first_runs(command, conf):
    assert [job.config.lora.r for job in command("hparams_search=lora_rank").jobs] == [4, 8, 16, 32]
    path = conf / "hparams_search/lora_rank.yaml"
    path.write_text(path.read_text().replace("32", "-32"))
    ended = command("hparams_search=lora_rank")
    assert (ended.code, ended.jobs) == (2, [])
    assert "lora.r=-32" in ended.err


def test_third_party_nodes_are_bound_to_their_signatures_before_the_program_starts(command):
    ended = command("+callbacks.mine={_target_: fractions.Fraction, numeratr: 3}")
    assert (ended.code, ended.jobs) == (2, [])
    assert "no key 'numeratr' in callbacks.mine" in ended.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MedvlError("m"), 1),
        (DataError("the table"), 4),
        (ModelError("the weights"), 5),
        (TrainingError("the loss"), 6),
        (StorageError("the disk"), 7),
        (KeyboardInterrupt(), 130),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "f.pt"), 7),
        (OSError(errno.EROFS, os.strerror(errno.EROFS), "f.pt"), 7),
        (PermissionError(errno.EACCES, "Permission denied", "f.pt"), 7),
    ],
)
def test_every_kind_of_error_has_its_code_and_one_message(command, error, code):
    ended = command(program=raising(error))
    assert ended.code == code
    assert "Traceback" not in ended.err
    assert "interrupted" in ended.err if code == 130 else "error: " in ended.err
    if isinstance(error, OSError):
        assert "f.pt" in ended.err


def test_an_unexpected_error_keeps_its_traceback_and_is_a_bug(command):
    ended = command(program=raising(ZeroDivisionError("by zero")))
    assert ended.code == 1
    assert "Traceback" in ended.err
    assert "ZeroDivisionError: by zero" in ended.err
    assert "test_entry.py" in ended.err


TORCH_FREE = """
import runpy, sys
sys.argv = {argv!r}
try:
    runpy.run_path({script!r}, run_name="__main__")
except SystemExit as leave:
    code = leave.code or 0
heavy = [name for name in ("torch", "transformers", "pytorch_lightning", "peft", "wandb") if name in sys.modules]
print("CODE", code if "code" in dir() else 0, "HEAVY", heavy)
"""


@pytest.mark.parametrize(
    ("script", "arguments", "code", "shows"),
    [
        ("train.py", ["--help"], 0, "llama32_11b, llava15_7b"),
        ("train.py", ["--cfg", "job"], 0, "batch_size: 32"),
        ("train.py", ["lora.rr=1", "callbacks.checkpoint.monitr=x"], 2, "did you mean monitor?"),
        ("evaluate.py", ["--help"], 0, "python evaluate.py"),
        ("evaluate.py", ["splt=val"], 2, "did you mean split?"),
    ],
)
def test_help_and_mistakes_are_answered_without_torch(tmp_path, script, arguments, code, shows):
    text = TORCH_FREE.format(argv=[script, *arguments], script=str(ROOT / script))
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert shows in done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"CODE {code} HEAVY []"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("root", [TrainConfig, EvaluateConfig])
def test_every_key_of_the_schema_can_be_overridden_without_a_plus(root):
    from medvl.config.entry import default_node

    node = default_node(root)
    assert set(node) == set(root.model_fields)
    assert node.benchmark.boxes.per == "structure"
    assert "split" not in node or node.split == "test"


def test_a_place_that_cannot_be_written_is_refused_before_the_run_starts(command, tmp_path):
    (tmp_path / "file").write_text("")
    ended = command(f"paths.outputs={tmp_path / 'file' / 'runs'}")
    assert ended.code == 7
    assert "say paths.outputs=DIR" in ended.err
    assert "Traceback" not in ended.err
