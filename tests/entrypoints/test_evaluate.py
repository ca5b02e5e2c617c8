"""Evaluation by replies and at a server, as a user runs it."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from commands import OFFLINE, PROJECT, SMALL, run
from scripted_endpoint import ScriptedEndpoint, said

from medvl.evaluation.run_facts import RunFacts, read_run_facts

FEW = [text for text in SMALL if not text.startswith("trainer")]
FILES = [
    "metrics.json",
    "details.json",
    "predictions.parquet",
    "controls/text_only/metrics.json",
    "controls/blank/predictions.parquet",
]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Folder for the drawn pictures and their benchmark, made once."""
    return tmp_path_factory.mktemp("data")


def evaluated(drawn, cwd, *overrides, **environment):
    """What was printed, the run folder and its `run.json`."""
    done = run("evaluate.py", *FEW, f"paths.data={drawn}", *overrides, cwd=cwd, **environment)
    folder = max(cwd.glob("outputs/*evaluate*"))
    for name in FILES:
        assert (folder / name).is_file(), name
    return done.stdout, folder, json.loads((folder / "run.json").read_text())


def test_the_shipped_base_answers_by_its_replies(drawn, tmp_path):
    printed, folder, _ = evaluated(drawn, tmp_path, "eval=generation", "eval.test_items=30")
    assert "test split, generation scoring" in printed
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["scoring"] == "generation"
    assert metrics["overall"]["n"] == 30
    table = pl.read_parquet(folder / "predictions.parquet")
    assert set(table["raw_text"]) <= set("ABCD")
    assert set(table["rule"]) == {"leading"}


@pytest.mark.slow
def test_the_shipped_base_is_asked_in_all_rotations_and_in_other_words(drawn, tmp_path):
    printed, folder, _ = evaluated(drawn, tmp_path, "eval=robustness", "eval.test_items=10")
    assert "all rotations in 2 wordings" in " ".join(printed.split())
    content = json.loads((folder / "robustness.json").read_text())
    table = pl.read_parquet(folder / "variants.parquet")
    assert (content["n"], content["asked"]["n_variants"]) == (10, table.height)
    assert table["item_id"].n_unique() == 10
    turned = content["models"]["zero_shot"]["overall"]["rotations"]
    assert turned["circular_accuracy"] <= turned["base_accuracy"]
    metrics = json.loads((folder / "metrics.json").read_text())
    assert turned["base_accuracy"] == metrics["overall"]["accuracy"]


@pytest.mark.slow
def test_the_shipped_base_is_asked_for_the_likelihood_of_each_option(drawn, tmp_path):
    printed, folder, _ = evaluated(drawn, tmp_path, "eval=likelihood", "eval.test_items=20")
    assert "test split, likelihood:per_token scoring" in printed
    metrics = json.loads((folder / "metrics.json").read_text())
    assert (metrics["scoring"], metrics["overall"]["n"]) == ("likelihood:per_token", 20)
    table = pl.read_parquet(folder / "predictions.parquet")
    assert set(table["scoring"]) == {"likelihood:per_token"}
    found = json.loads(table["raw_text"][0])
    assert len(found["sums"]) == len(found["tokens"]) == len(table["option_logprobs"][0])


def test_earlier_answers_are_scored_again_without_torch(drawn, tmp_path):
    words = [*FEW, f"paths.data={drawn}"]
    run("evaluate.py", *words, "eval.controls=[]", cwd=tmp_path)
    (first,) = tmp_path.glob("outputs/*evaluate*")
    again = tmp_path / "again"
    words += [f"predictions={first / 'predictions.parquet'}", f"hydra.run.dir={again}"]
    done = run("evaluate.py", *words, cwd=tmp_path, PYTHONPROFILEIMPORTTIME="1")
    imported = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "medvl.evaluation.rescore" in imported
    assert not {"torch", "transformers", "peft", "pytorch_lightning"} & imported
    for name in ("metrics.json", "details.json", "predictions.parquet"):
        assert (again / name).read_bytes() == (first / name).read_bytes(), name
    assert "test split, letter scoring" in done.stdout
    record = json.loads((again / "run.json").read_text())
    assert (record["status"], record["answered_by"]["model"]) == ("finished", "tiny")
    refused = run("evaluate.py", *words[:-1], "split=val", cwd=tmp_path, expect=4)
    assert "30 of its 30 answers are to other questions" in refused.stderr


@pytest.mark.slow
def test_an_adapter_is_compared_by_the_replies_and_by_the_variants_of_both_models(drawn, tmp_path):
    run("train.py", *SMALL, f"paths.data={drawn}", "trainer.max_steps=2", "eval.controls=[]", cwd=tmp_path)
    overrides = ["adapter=outputs/latest/adapter", "eval=generation", "eval.test_items=30"]
    printed, folder, _ = evaluated(drawn, tmp_path, *overrides)
    assert "test split, generation scoring: zero-shot against fine-tuned" in " ".join(printed.split())
    comparison = json.loads((folder / "comparison.json").read_text())
    assert comparison["scoring"] == "generation"
    assert {"adapter", "decoding"} <= set(comparison["fingerprints"])
    overrides = ["adapter=outputs/latest/adapter", "eval=robustness", "eval.test_items=10"]
    printed, folder, _ = evaluated(drawn, tmp_path, *overrides)
    assert re.search(r"overall *zero-", printed)
    content = json.loads((folder / "robustness.json").read_text())
    assert set(content["models"]) == {"zero_shot", "fine_tuned"}
    assert content["difference"]["overall"]["ci95"]
    assert (folder / "zero_shot" / "variants.parquet").is_file()


def test_a_server_is_asked_in_place_of_a_model(drawn, tmp_path):
    """It refuses one question in the middle and answers A to all others."""

    def script(call):
        return said(None, message={"refusal": "I must not."}) if call.number == 7 else said("A")

    with ScriptedEndpoint(script) as server:
        overrides = ["endpoint=vllm", "endpoint.model=m", f"endpoint.base_url={server.base_url}"]
        printed, folder, record = evaluated(
            drawn, tmp_path, *overrides, "endpoint.key_env=LAB_KEY", LAB_KEY="sesame-42"
        )
        calls = server.calls
    assert "_vllm" in folder.name
    assert "test split, endpoint scoring" in printed
    assert "questions without a reply: 1 (refusal 1)" in printed
    assert record["endpoint"]["served_models"] == ["scripted-1"]
    assert record["endpoint"]["sampled"] is False
    assert read_run_facts(folder) == RunFacts("m", "unknown", sampled=False, repeats=1)
    assert record["endpoint"]["usage"]["requests"] == len(calls) == 90
    metrics = json.loads((folder / "metrics.json").read_text())
    assert (metrics["scoring"], metrics["overall"]["n"]) == ("endpoint", 30)
    assert metrics["overall"]["invalid_rate"] == pytest.approx(1 / 30)
    assert sum("image_url" in json.dumps(call.body) for call in calls) == 60  # text-only asks without a picture
    assert calls[0].headers["authorization"] == "Bearer sesame-42"
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"sesame-42" not in path.read_bytes(), path.name


def test_pictures_stay_here_unless_they_are_allowed_to_leave(tmp_path):
    done = run("evaluate.py", "model=gpt5", cwd=tmp_path, expect=2)
    assert re.search(r"gpt5 is on another machine .* say privacy.images=true", done.stderr)
    assert not (tmp_path / "outputs").exists()


@pytest.mark.slow
def test_a_server_that_is_not_there_is_one_message(drawn, tmp_path):
    overrides = ["endpoint=vllm", "endpoint.model=m", "endpoint.base_url=http://127.0.0.1:9/v1"]
    done = run("evaluate.py", *FEW, f"paths.data={drawn}", *overrides, cwd=tmp_path, expect=5)
    assert "Nothing answers there: start the server, or correct base_url" in done.stderr
    assert "Traceback" not in done.stderr
    assert str(PROJECT) not in done.stderr


@pytest.mark.slow
def test_two_processes_give_the_figures_of_one(drawn, tmp_path):
    words = [*FEW, f"paths.data={drawn}", "eval.batch_size=8", "eval.controls=[shuffled]"]
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    alone.mkdir()
    shared.mkdir()
    run("evaluate.py", *words, cwd=alone)
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*start, str(PROJECT / "evaluate.py"), *words],
        cwd=shared, env={**os.environ, **OFFLINE, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for once in ("Macro: mean over tasks.", "does it look?", "figures  "):
        assert done.stdout.count(once) == 1, once
    (one,), (two,) = (list(folder.glob("outputs/*evaluate*")) for folder in (alone, shared))
    for control in ("", "controls/shuffled/"):
        first, second = (pl.read_parquet(folder / f"{control}predictions.parquet") for folder in (one, two))
        names = ["item_id", "item_fingerprint", "answer"]
        assert first.select(names).equals(second.select(names))
        scores = [table["option_logprobs"].explode().to_numpy() for table in (first, second)]
        assert np.allclose(*scores, atol=1e-4)
    first, second = (json.loads((folder / "metrics.json").read_text())["tasks"] for folder in (one, two))
    for task, cell in first.items():
        assert [second[task][name] for name in ("accuracy", "ci95", "n")] == [
            cell[x] for x in ("accuracy", "ci95", "n")
        ]
    kept = pl.concat(pl.read_parquet(path, glob=False) for path in shared.glob("outputs/answers/*/part-*"))
    assert kept["item_fingerprint"].n_unique() == kept.height == 30
