"""An evaluation that is killed at any moment goes on where it was, and asks nothing twice."""

import os
import signal
import subprocess
import time

import numpy as np
import polars as pl
import pytest
from commands import OFFLINE, PROJECT, SMALL, command, run

ITEMS = 50
ASKED = [text for text in SMALL if not text.startswith(("trainer", "eval"))] + [f"eval.test_items={ITEMS}"]
SHARED = ["eval.batch_size=2", "eval.controls=[]"]


def evaluation(drawn):
    return [*ASKED, *SHARED, f"paths.data={drawn}"]


def parts_of(cwd):
    return sorted(cwd.glob("outputs/answers/*/part-*.parquet"))


def kept(cwd):
    """All kept answers, in no order."""
    return pl.concat(pl.read_parquet(path, glob=False) for path in parts_of(cwd))


def answers_of(cwd):
    """The answers of the newest run."""
    folder = max(cwd.glob("outputs/*evaluate*"), key=lambda path: path.stat().st_mtime)
    return pl.read_parquet(folder / "predictions.parquet")


def assert_same(found, expected):
    """The same answers to the same items; scores may differ by rounding, as other questions stood in their batches."""
    names = ["item_id", "item_fingerprint", "answer"]
    assert found.select(names).equals(expected.select(names))
    for one, other in zip(found.rows(named=True), expected.rows(named=True), strict=True):
        furthest = np.abs(np.subtract(one["option_logprobs"], other["option_logprobs"])).max()
        assert furthest < 1e-4, (one, other)


def kill_after(parts, overrides, cwd):
    """Start the evaluation and kill it once so many parts are on disk. Returns whether it was still running."""
    with subprocess.Popen(
        command("evaluate.py", *overrides),
        cwd=cwd,
        env={**os.environ, **OFFLINE},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        while process.poll() is None and len(parts_of(cwd)) < parts:
            time.sleep(0.002)
        if process.poll() is not None:
            return False
        process.send_signal(signal.SIGKILL)
        process.wait()
    return True


def killed_and_finished(kills, drawn, tmp_path, items=ITEMS, patients=12):
    """Break an evaluation off `kills` times, then let it end; compare with one that was left alone."""
    larger = [f"data.demo.patients={patients}", f"eval.test_items={items}"]
    alone, broken = tmp_path / "alone", tmp_path / "broken"
    alone.mkdir()
    broken.mkdir()
    run("evaluate.py", *evaluation(drawn), *larger, cwd=alone)
    gap = max(1, items // 2 // (kills + 1))
    for _ in range(kills):
        before = len(parts_of(broken))
        assert kill_after(before + gap, [*evaluation(drawn), *larger], broken), "it ended before it could be killed"
        assert all(pl.read_parquet(path, glob=False).height in (1, 2) for path in parts_of(broken))
    run("evaluate.py", *evaluation(drawn), *larger, cwd=broken)
    assert_same(answers_of(broken), answers_of(alone))
    fingerprints = kept(broken)["item_fingerprint"]
    assert fingerprints.n_unique() == len(fingerprints) == items, "an item was answered twice"


@pytest.mark.slow
def test_an_evaluation_that_is_killed_five_times_ends_like_one_that_was_not(drawn, tmp_path):
    killed_and_finished(5, drawn, tmp_path)


@pytest.mark.campaign
def test_an_evaluation_that_is_killed_thirty_times_ends_like_one_that_was_not(drawn, tmp_path):
    killed_and_finished(30, drawn, tmp_path, items=160, patients=60)


CAN_MOUNT = ["unshare", "-rm", "sh", "-c", "mount -t tmpfs -o size=1m tmpfs /mnt"]
"""A disk of our own, in a namespace that ends with the process."""

ON_A_SMALL_DISK = """
set -u
mount -t tmpfs -o size=2m tmpfs "$DISK" || exit 97
head -c $((2 * 1024 * 1024 - 90000)) /dev/zero > "$DISK/filler"
"$@"; echo "rc $?"
find "$DISK" -name 'part-*.parquet' | wc -l
find "$DISK" -name '*.partial' | wc -l
rm "$DISK/filler"
"$@"; echo "rc $?"
cp -r "$DISK/." "$KEPT"
"""


@pytest.mark.slow
def test_a_full_disk_stops_with_a_message_and_loses_no_answer(drawn, tmp_path):
    try:
        subprocess.run(CAN_MOUNT, check=True, capture_output=True, timeout=20)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"this machine lets nobody mount a small disk ({error})")
    disk, outside, alone = tmp_path / "disk", tmp_path / "kept", tmp_path / "alone"
    for folder in (disk, outside / "outputs", alone):
        folder.mkdir(parents=True)
    run("evaluate.py", *evaluation(drawn), cwd=alone)
    asking = command("evaluate.py", *evaluation(drawn), f"paths.outputs={disk}")
    done = subprocess.run(
        ["unshare", "-rm", "bash", "-c", ON_A_SMALL_DISK, "bash", *asking],
        cwd=PROJECT,
        env={**os.environ, **OFFLINE, "DISK": str(disk), "KEPT": str(outside / "outputs")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    printed = done.stdout + done.stderr
    codes = [line for line in done.stdout.splitlines() if line.startswith("rc ")]
    assert codes == ["rc 7", "rc 0"], printed
    assert "No space left on device" in done.stderr
    assert "the same command goes on from them" in done.stderr
    assert "Traceback" not in done.stderr
    parts, partial = (int(line) for line in done.stdout.splitlines() if line.isdigit())
    assert 0 < parts < ITEMS / 2
    assert partial == 0
    assert_same(answers_of(outside), answers_of(alone))
    assert kept(outside)["item_fingerprint"].n_unique() == kept(outside).height == ITEMS
