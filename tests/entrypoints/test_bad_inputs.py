"""Every bad input gives one clear message and its documented exit code, never a traceback."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import cv2
import numpy as np
import pytest
from commands import OFFLINE, PROJECT, SMALL, command, run

REAL = ["data=fetal_gauge", "data.num_workers=0", "trainer.max_steps=2"]


def _message(done) -> str:
    assert "Traceback" not in done.stderr, done.stderr
    assert done.stderr.count("error: ") == 1, done.stderr
    return done.stderr


def test_an_unknown_option_gets_near_matches(tmp_path):
    message = _message(run("train.py", "model=tinny", cwd=tmp_path, expect=2))
    assert "did you mean tiny" in message


def test_all_problems_of_a_command_line_come_together(tmp_path):
    message = _message(
        run("train.py", "lora.r=-1", "lora.rr=3", "optim.lr=fast", "data=fetal_gauge", cwd=tmp_path, expect=2)
    )
    for part in ("4 problems", "lora.r=-1", "no key 'rr' in lora", "optim.lr='fast'", "data.root is not set"):
        assert part in message


def test_a_callback_that_watches_nothing_is_refused_before_the_model_loads(tmp_path):
    done = run(
        "train.py", "callbacks.checkpoint.monitor=val/macro_acuracy", "model.path=/nowhere", cwd=tmp_path, expect=2
    )
    assert "did you mean val/macro_accuracy" in _message(done)


def test_absent_weights_say_what_to_download(tmp_path):
    message = _message(run("train.py", "model=llama32_11b", "lora=r16", cwd=tmp_path, expect=5))
    for part in ("meta-llama/Llama-3.2-11B-Vision-Instruct", "hf download", "model.path=DIR", "licence"):
        assert part in message
    assert not (tmp_path / "outputs" / "latest").exists()


def test_the_configuration_is_printed_without_weights(tmp_path):
    done = run("train.py", "model=llama32_11b", "lora=r16", "--cfg", "job", cwd=tmp_path)
    assert "hub_id: meta-llama/Llama-3.2-11B-Vision-Instruct" in done.stdout


def test_help_lists_the_groups(tmp_path):
    done = run("train.py", "--help", cwd=tmp_path)
    assert "lora: " in done.stdout
    assert "python train.py model=llama32_11b lora=r16" in done.stdout


@pytest.mark.slow
def test_a_data_root_that_does_not_exist(tmp_path):
    message = _message(run("train.py", *REAL, "data.root=nowhere", cwd=tmp_path, expect=4))
    assert "does not exist" in message
    assert "data.root=DIR" in message


@pytest.mark.slow
def test_an_empty_data_root(tmp_path):
    (tmp_path / "empty").mkdir()
    message = _message(run("train.py", *REAL, "data.root=empty", cwd=tmp_path, expect=4))
    assert "HC18" in message
    assert "zenodo" in message.lower()


@pytest.mark.slow
def test_a_picture_cut_at_half(mini_hc18, tmp_path):
    picture = sorted(mini_hc18.glob("training_set/*_HC.png"))[0]
    picture.write_bytes(picture.read_bytes()[: picture.stat().st_size // 2])
    message = _message(run("train.py", *REAL, f"data.root={mini_hc18}", cwd=tmp_path, expect=4))
    assert picture.name in message
    assert "data.skip_broken=true" in message
    assert json.loads(_run_json(tmp_path).read_text())["status"].startswith("failed")


@pytest.mark.slow
def test_a_table_without_a_column(mini_fetal_planes, tmp_path):
    table = mini_fetal_planes / "FETAL_PLANES_DB_data.csv"
    table.write_text(table.read_text().replace("Patient_num", "Patient", 1))
    message = _message(run("train.py", *REAL, f"data.root={mini_fetal_planes}", cwd=tmp_path, expect=4))
    assert "Patient_num" in message
    assert table.name in message


@pytest.mark.slow
def test_an_adapter_of_another_base(tmp_path):
    run("train.py", *SMALL, "trainer.max_steps=2", cwd=tmp_path)
    other = tmp_path / "other"
    shutil.copytree(PROJECT / "src" / "medvl" / "models" / "tiny" / "checkpoint", other)
    from safetensors.torch import load_file, save_file

    weights = load_file(other / "model.safetensors")
    name = next(n for n in weights if "language_model" in n)
    weights[name] = weights[name] + 0.5
    save_file(weights, other / "model.safetensors", metadata={"format": "pt"})
    done = run("evaluate.py", "adapter=outputs/latest/adapter", f"model.path={other}", cwd=tmp_path, expect=5)
    message = _message(done)
    assert "base: trained with" in message
    message = _message(run("evaluate.py", "adapter=nowhere", cwd=tmp_path, expect=5))
    assert "holds no adapter" in message


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(small)], capture_output=True)
    if mounted.returncode:
        pytest.skip("this machine does not allow mounts")
    try:
        done = run("train.py", *SMALL, "trainer.max_steps=4", f"paths.outputs={small}", cwd=tmp_path, expect=7)
        assert "No space left" in _message(done)
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


@pytest.mark.slow
@pytest.mark.usefixtures("ctrl_c_works")
def test_ctrl_c_keeps_the_checkpoint_and_exits_130(tmp_path):
    process = subprocess.Popen(
        command("train.py", *SMALL, "trainer.max_steps=5000", "trainer.val_every_steps=3"),
        cwd=tmp_path,
        env={**os.environ, **OFFLINE},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and not list(tmp_path.glob("outputs/latest/checkpoints/last.ckpt")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert list(tmp_path.glob("outputs/latest/checkpoints/*.ckpt"))
    assert json.loads(_run_json(tmp_path).read_text())["status"] == "interrupted"


@pytest.mark.slow
def test_a_picture_that_changed_after_the_build_is_named(tmp_path):
    run("train.py", *SMALL, "trainer.max_steps=1", cwd=tmp_path)
    for picture in (tmp_path / "data" / "demo" / "pictures").iterdir():
        cv2.imwrite(str(picture), np.zeros((20, 20), np.uint8))
    message = _message(run("evaluate.py", "data.demo.patients=12", cwd=tmp_path, expect=4))
    assert "mask" in message


def _run_json(cwd: Path) -> Path:
    (found,) = cwd.glob("outputs/2*/run.json")
    return found
