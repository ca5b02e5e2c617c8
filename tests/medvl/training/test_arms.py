"""Two models are asked one after the other, each in its state, and each one's answers are written."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from medvl.config.asking import EvalConfig
from medvl.evaluation.files import read_metrics
from medvl.sources.record import Split
from medvl.training.arms import Arm, ask_arms
from medvl.training.askers import by_letter

PRINTS = {"benchmark": "x", "base": "b"}


@pytest.fixture
def asked(demo_data, tiny_base, monkeypatch, tmp_path):
    """Asks a few questions of test of one or two models; gives what came of it and what was entered and shown."""
    monkeypatch.setattr(demo_data, "processor", tiny_base.processor)
    monkeypatch.setattr(demo_data, "companions", tiny_base.family.companions)
    items = demo_data.items(Split.TEST)[:6]
    questions = SimpleNamespace(items=lambda split: items, question_loader=demo_data.question_loader)
    seen = SimpleNamespace(states=[], shown=[])

    @contextmanager
    def state():
        seen.states.append("in")
        yield
        seen.states.append("out")

    def ask(*arms, **wanted):
        settings = EvalConfig(reuse_answers=False, **wanted)
        config = demo_data._config.model_copy(update={"eval": settings})
        made = [Arm(name, tmp_path / name, {**PRINTS, "arm": name}, state) for name in arms]
        asker = by_letter(tiny_base.model, tiny_base.processor)
        progress = lambda what, done, total: seen.shown.append(what)  # noqa: E731
        return ask_arms(asker, questions, made, config, tmp_path / "controls", progress), seen

    return ask


def test_both_models_are_asked_and_written_in_their_state(asked, tmp_path):
    answered, seen = asked("zero_shot", "fine_tuned")
    assert list(answered.models) == ["zero_shot", "fine_tuned"]
    assert seen.states == ["in", "out"] * 2
    for name, found in answered.models.items():
        assert read_metrics(tmp_path / name / "metrics.json") == found.metrics
        assert found.metrics["fingerprints"]["arm"] == name
        assert (tmp_path / name / "predictions.parquet").is_file()
    assert answered.variants == answered.controls == {}
    assert set(seen.shown) == {"zero-shot on test", "fine-tuned on test"}


def test_controls_are_asked_of_the_last_and_variants_of_each(asked, tmp_path):
    answered, seen = asked("zero_shot", "fine_tuned", rotations=True, controls=["blank"])
    assert list(answered.variants) == ["zero_shot", "fine_tuned"]
    assert list(answered.controls) == ["blank"]
    assert answered.controls["blank"]["fingerprints"]["arm"] == "fine_tuned"
    assert read_metrics(tmp_path / "controls" / "blank" / "metrics.json") == answered.controls["blank"]
    assert {"zero-shot, variants", "fine-tuned, variants", "blank on test"} <= set(seen.shown)
    assert answered.notes == [note for one in answered.variants.values() for note in one.notes]
