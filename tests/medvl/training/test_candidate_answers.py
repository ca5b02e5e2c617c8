"""Several adapters are asked the same, each on its own base, one in memory at a time, nothing twice."""

import json
import weakref
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch

from medvl.config.entry import Job
from medvl.config.schema import EvaluateConfig, LoraConfig, ModelConfig
from medvl.errors import ModelError
from medvl.evaluation.candidates import read_candidates
from medvl.models.adapter import adapter_weights_fingerprint, attach_adapter
from medvl.models.adapter_files import save_adapter
from medvl.models.base import load_base
from medvl.sources.record import Split
from medvl.training import candidate_answers
from medvl.training.candidate_answers import compare_candidates
from medvl.training.fingerprints import fingerprints_of, run_record
from medvl.training.run_folder import RunFolder

N = 6
"""Questions that are asked."""


class Asked:
    """A few questions of test, counting those that are put to a model."""

    def __init__(self, data):
        self._data, self._items, self.count = data, data.items(Split.TEST)[:N], 0
        self.processor = self.companions = None
        self.benchmark = data.benchmark

    def items(self, split):
        return self._items

    def question_loader(self, split, control=None, items=None):
        self._data.processor, self._data.companions = self.processor, self.companions
        for batch in self._data.question_loader(split, control, items):
            self.count += len(batch.items)
            yield batch


def write_adapter(folder, model, data, seed, r=4):
    """An adapter as train.py writes it, with random matrices in the place of trained ones."""
    config = ModelConfig(name="tiny", path=str(model))
    base = load_base(config)
    adapted = attach_adapter(base, LoraConfig(r=r, dropout=0.0), seed)
    draw = torch.Generator().manual_seed(seed)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            parameter.data.add_(torch.randn(parameter.shape, generator=draw), alpha=0.3)
    prints = {**fingerprints_of(base, data.benchmark, config), "adapter": adapter_weights_fingerprint(adapted)}
    composed = {**data._config.model_dump(mode="json"), "seed": seed, "model": config.model_dump(mode="json")}
    save_adapter(adapted, folder, run_record(base, composed, prints))
    return str(folder)


@pytest.fixture
def adapters(tmp_path, tiny_folder, tiny_mllama_folder, demo_data):
    """Two seeds of one recipe, and a recipe on another base."""
    folder = tmp_path / "adapters"
    return SimpleNamespace(
        zero=write_adapter(folder / "zero", tiny_folder, demo_data, 0),
        one=write_adapter(folder / "one", tiny_folder, demo_data, 1),
        mllama=write_adapter(folder / "mllama", tiny_mllama_folder, demo_data, 0),
    )


@pytest.fixture
def questions(demo_data, monkeypatch):
    monkeypatch.setattr(demo_data, "processor", None)
    monkeypatch.setattr(demo_data, "companions", demo_data.companions)
    return Asked(demo_data)


@pytest.fixture
def compare(questions, demo_data, tmp_path, monkeypatch):
    """Compares adapters in a run folder of its own; (content, notes, run)."""

    def of(*entries, number=0, overrides=(), **changes):
        composed = demo_data._config.model_dump(mode="json")
        composed |= {"compare": list(entries), "paths": {**composed["paths"], "outputs": str(tmp_path)}, **changes}
        job = Job(EvaluateConfig.model_validate(composed), composed, list(overrides))
        monkeypatch.setattr(demo_data, "_config", job.config)
        run = RunFolder(tmp_path / f"run{number}", composed, [], 0)
        content, notes = compare_candidates(job, run, questions)
        return content, notes, run

    return of


@pytest.fixture
def loaded(monkeypatch):
    """All models that were loaded; a model must be gone before the next is loaded."""
    models = []

    def load(config):
        assert not any(model() for model in models)
        base = load_base(config)
        models.append(weakref.ref(base.model))
        return base

    monkeypatch.setattr(candidate_answers, "load_base", load)
    return models


def test_seeds_are_pooled_and_everything_is_written(compare, adapters, questions, loaded):
    content, notes, run = compare(adapters.zero, adapters.one, adapters.mllama)
    assert content == read_candidates(run.path / "candidates.json")
    assert questions.count == 4 * N  # three adapters, and the base of the first
    assert list(content["candidates"]) == ["zero", "mllama"]
    pooled = content["candidates"]["zero"]
    assert [(one["label"], one["seed"]) for one in pooled["runs"]] == [("zero", 0), ("one", 1)]
    assert "pooled, one recipe with seeds 0, 1: zero, one" in notes[0]
    metrics = {
        name: json.loads((run.path / name / "metrics.json").read_text())
        for name in ("baseline", "candidates/zero", "candidates/one", "candidates/mllama")
    }
    values = [metrics[f"candidates/{name}"]["overall"]["accuracy"] for name in ("zero", "one")]
    assert pooled["overall"]["accuracy"]["values"] == values
    assert pooled["overall"]["accuracy"]["sd"] == pytest.approx(np.std(values, ddof=1))
    assert content["baseline"]["overall"]["accuracy"] == metrics["baseline"]["overall"]["accuracy"]
    assert "adapter" not in metrics["baseline"]["fingerprints"]
    bases = {name: one["fingerprints"]["base"] for name, one in metrics.items()}
    assert bases["baseline"] == bases["candidates/zero"] != bases["candidates/mllama"]
    for name in metrics:
        assert pl.read_parquet(run.path / name / "predictions.parquet").height == N
    assert str(run.path.parent) not in (run.path / "candidates.json").read_text()
    assert set(run.record["candidates"]) == {"zero", "one", "mllama"}
    assert len(loaded) == 3


def test_an_adapter_can_be_the_baseline(compare, adapters, questions):
    content, notes, run = compare(adapters.one, adapter=adapters.zero, eval={"controls": ["blank"]})
    assert content["baseline"]["label"] == "zero"
    assert notes == []
    assert questions.count == 2 * N
    kept = json.loads((run.path / "baseline" / "metrics.json").read_text())["fingerprints"]["adapter"]
    assert content["baseline"]["fingerprints"]["adapter"] == kept
    assert list(content["candidates"]) == ["one"]


def test_a_second_time_nothing_is_asked_and_the_figures_are_the_same(compare, adapters, questions):
    evaluation = {"scoring": "likelihood", "controls": []}
    first = compare(adapters.zero, eval=evaluation)[0]
    assert first["scoring"] == "likelihood:per_token"
    assert questions.count == 2 * N
    assert compare(adapters.zero, number=1, eval=evaluation)[0] == first
    assert questions.count == 2 * N


def test_an_adapter_that_would_be_asked_in_another_way_is_refused(compare, adapters):
    path = Path(adapters.one) / "medvl.json"
    record = json.loads(path.read_text())
    record["fingerprints"]["prompt"] = "another"
    path.write_text(json.dumps(record))
    with pytest.raises(ModelError, match="prompt: trained with another"):
        compare(adapters.zero, adapters.one)


def test_adapters_of_a_trial_on_a_few_train_items_are_asked_those(compare, adapters, questions, demo_data):
    questions._items = demo_data.items(Split.TRAIN)[:N]  # as debug.overfit_items has it, whatever split is named
    assert compare(adapters.zero)[0]["split"] == "train"


def test_whoever_names_the_controls_is_told_that_they_are_not_asked(compare, adapters):
    evaluation = {"controls": ["blank"]}
    notes = compare(adapters.zero, eval=evaluation, overrides=["eval=text_only"])[1]
    assert notes == ["not asked with compare: eval.controls (blank)"]
