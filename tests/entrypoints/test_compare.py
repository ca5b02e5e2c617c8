"""Several runs against one baseline, as a user compares them."""

import json

import numpy as np
import polars as pl
import pytest
from commands import PROJECT, SMALL, run

from medvl.evaluation.candidates import read_candidates

FEW = [text for text in SMALL if not text.startswith("trainer")]
TRAIN = [*SMALL, "trainer.max_steps=2", "eval.controls=[]"]


@pytest.mark.slow
def test_two_seeds_of_one_recipe_and_another_recipe_are_compared_with_their_base(tmp_path):
    data = f"paths.data={tmp_path / 'data'}"
    for name, *overrides in (("seed0", "seed=0"), ("seed1", "seed=1"), ("other", "lora.r=2")):
        run("train.py", *TRAIN, data, f"name={name}", *overrides, cwd=tmp_path)
    zero, one, other = (next(tmp_path.glob(f"outputs/*_{name}")).name for name in ("seed0", "seed1", "other"))
    kept = sum(1 for _ in tmp_path.glob("outputs/answers/*/part-*"))

    entries = f"compare=[outputs/{zero},outputs/{one}/adapter,outputs/latest]"
    printed = run("evaluate.py", entries, data, cwd=tmp_path).stdout
    folder = max(tmp_path.glob("outputs/*evaluate*"))
    content = read_candidates(folder / "candidates.json")
    assert f"pooled, one recipe with seeds 0, 1: {zero}, {one}" in printed
    assert list(content["candidates"]) == [zero, other]
    assert content["baseline"]["label"] == "zero-shot"
    macros = []
    for label in (zero, one, other):
        metrics = json.loads((folder / "candidates" / label / "metrics.json").read_text())
        trained = json.loads((tmp_path / "outputs" / label / "metrics.json").read_text())
        if label != one:  # the questions are those of the first run's seed
            assert metrics["overall"] == trained["overall"]
        assert pl.read_parquet(folder / "candidates" / label / "predictions.parquet").height == 30
        macros.append(metrics["overall"]["macro_accuracy"])
    pooled = content["candidates"][zero]["overall"]["macro_accuracy"]
    assert pooled["values"] == macros[:2]
    assert pooled["sd"] == pytest.approx(np.std(macros[:2], ddof=1))
    assert str(tmp_path) not in (folder / "candidates.json").read_text()
    # The first and the third were asked when they were trained: at most the second one's questions are new.
    assert sum(1 for _ in tmp_path.glob("outputs/answers/*/part-*")) <= kept + 1

    overrides = [f"compare=[outputs/{one}]", f"adapter=outputs/{zero}/adapter", "eval=generation", "eval.test_items=20"]
    printed = run("evaluate.py", *overrides, data, cwd=tmp_path).stdout
    folder = max(tmp_path.glob("outputs/*evaluate*"))
    content = read_candidates(folder / "candidates.json")
    assert (content["scoring"], content["baseline"]["label"]) == ("generation", zero)
    assert content["baseline"]["overall"]["n"] == 20
    assert f"generation scoring: against {zero}" in " ".join(printed.split())


def test_every_wrong_entry_is_one_line_and_nothing_is_started(tmp_path):
    (tmp_path / "outputs" / "broken").mkdir(parents=True)
    (tmp_path / "outputs" / "broken" / "run.json").write_text(json.dumps({"status": "interrupted"}))
    entries = "compare=[outputs/absent,outputs/broken,outputs]"
    done = run("evaluate.py", *FEW, entries, cwd=tmp_path, expect=2)
    lines = [line for line in done.stderr.splitlines() if line.startswith("  - compare: ")]
    assert len(lines) == 3
    assert "outputs/absent: there is no such folder" in lines[0]
    assert "outputs/broken: it is a run without an adapter (interrupted)" in lines[1]
    assert "outputs: it holds neither adapter/ nor adapter_config.json" in lines[2]
    assert "Traceback" not in done.stderr
    assert str(PROJECT) not in done.stderr
    assert not list(tmp_path.glob("outputs/*evaluate*/*"))


def test_a_server_is_not_compared(tmp_path):
    done = run("evaluate.py", "compare=[a]", "endpoint=vllm", "endpoint.model=m", cwd=tmp_path, expect=2)
    assert "compare and endpoint are both set" in done.stderr
