"""Items are asked in further ways once, beside each other, and what came of it is written."""

import json
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import polars as pl
import pytest

from medvl.answering.prediction import PREDICTION_SCHEMA
from medvl.config.asking import EvalConfig
from medvl.errors import StorageError
from medvl.sources.record import Split
from medvl.training.askers import by_letter
from medvl.training.session import ask
from medvl.training.variants import ask_variants, price_notes, write_robustness

PRINTS = {"benchmark": "x", "base": "b"}
BOTH = EvalConfig(rotations=True, paraphrases=2)


class Recorded:
    """A way of asking that notes which items were asked."""

    def __init__(self, asker):
        self.asker, self.asked = asker, []
        self.scoring, self.about, self.team = asker.scoring, asker.about, asker.team

    def answer(self, questions, split, control, items, progress, keep):
        self.asked += items
        return self.asker.answer(questions, split, control, items, progress, keep)


@pytest.fixture
def questions(demo_data, tiny_base, monkeypatch):
    """A few questions of test."""
    monkeypatch.setattr(demo_data, "processor", tiny_base.processor)
    monkeypatch.setattr(demo_data, "companions", tiny_base.family.companions)
    items = demo_data.items(Split.TEST)[:6]
    return SimpleNamespace(items=lambda split: items, question_loader=demo_data.question_loader)


@pytest.fixture
def asker(tiny_base):
    return Recorded(by_letter(tiny_base.model, tiny_base.processor))


def test_the_items_as_they_are_are_not_asked_again(asker, questions, tmp_path):
    for answers in (None, tmp_path):
        found = ask(asker, questions, Split.TEST, PRINTS, answers=answers)
        asker.asked.clear()
        varied = ask_variants(asker, questions, found, BOTH, answers=answers)
        expected = sum(2 * len(item.options) for item in found.items)
        assert len(varied.variants) == len(varied.predictions) == expected == varied.asked["n_variants"]
        assert [item.item_id for item in asker.asked] == [v.item.item_id for v in varied.variants if not v.is_base]
        base = [p for p, v in zip(varied.predictions, varied.variants, strict=True) if v.is_base]
        assert sorted(base, key=str) == sorted(found.predictions, key=str)


def test_a_second_time_nothing_is_asked_and_the_answers_are_the_same(asker, questions, tmp_path):
    found = ask(asker, questions, Split.TEST, PRINTS, answers=tmp_path)
    first = ask_variants(asker, questions, found, BOTH, answers=tmp_path)
    asker.asked.clear()
    again = ask_variants(asker, questions, found, BOTH, answers=tmp_path)
    assert asker.asked == []
    assert again.predictions == first.predictions


def test_variants_of_one_picture_are_asked_next_to_each_other(asker, questions):
    found = ask(asker, questions, Split.TEST, PRINTS)
    asker.asked.clear()
    ask_variants(asker, questions, found, BOTH)
    shown = [(item.sha256_pixels, item.bbox_xyxy_px) for item in asker.asked]
    assert 1 + sum(a != b for a, b in pairwise(shown)) == len(set(shown))


def test_nothing_more_is_asked_unless_it_is_wanted(asker, questions):
    found = ask(asker, questions, Split.TEST, PRINTS)
    asker.asked.clear()
    assert ask_variants(asker, questions, found, EvalConfig()) is None
    assert asker.asked == []
    assert price_notes(found.items, EvalConfig()) == []


def test_both_models_are_written_and_read_back(asker, questions, tmp_path):
    found = ask(asker, questions, Split.TEST, PRINTS)
    varied = ask_variants(asker, questions, found, BOTH)
    content = write_robustness(tmp_path / "run", {"zero_shot": varied, "fine_tuned": varied})
    assert json.loads((tmp_path / "run" / "robustness.json").read_text()) == content
    assert content["n"] == 6
    assert content["difference"]["overall"]["estimate"] == 0
    assert content["models"]["zero_shot"]["fingerprints"] == PRINTS
    table = pl.read_parquet(tmp_path / "run" / "variants.parquet")
    assert table.columns == [
        *("variant", "item_id", "rotation", "paraphrase", "question", "options", "answer_index"),
        *(name for name in PREDICTION_SCHEMA if name != "item_id"),
    ]
    assert table.height == len(varied.variants)
    assert set(table["item_id"]) == {item.item_id for item in found.items}
    assert pl.read_parquet(tmp_path / "run" / "zero_shot" / "variants.parquet").equals(table)


def test_one_model_is_written_into_the_run_folder(asker, questions, tmp_path):
    varied = ask_variants(asker, questions, ask(asker, questions, Split.TEST, PRINTS), EvalConfig(rotations=True))
    write_robustness(tmp_path, {"zero_shot": varied})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["robustness.json", "variants.parquet"]


def test_what_could_not_be_varied_is_counted_and_said(asker, questions):
    bound, own, *rest = questions.items(Split.TEST)
    options = (*bound.options[:-1], "none of the above")
    bound = replace(bound, options=options, answer_index=0, answer=options[0])
    own = replace(own, question="Wat is dit?")
    questions.items = lambda split: [bound, own, *rest]
    found = ask(asker, questions, Split.TEST, PRINTS)
    varied = ask_variants(asker, questions, found, BOTH)
    assert (varied.asked["n_not_rotated"], varied.asked["n_in_own_words"]) == (1, 1)
    assert [note.rsplit(" ", 1)[1] for note in varied.notes] == ["1", "1"]
    alone = replace(found, items=[bound], predictions=found.predictions[:1])
    once = ask_variants(asker, questions, alone, EvalConfig(rotations=True))
    assert [variant.item for variant in once.variants] == [bound]


def test_a_place_that_cannot_be_written_is_named(asker, questions, tmp_path):
    varied = ask_variants(asker, questions, ask(asker, questions, Split.TEST, PRINTS), EvalConfig(paraphrases=2))
    (tmp_path / "run").write_text("a file in the way")
    with pytest.raises(StorageError, match="run"):
        write_robustness(tmp_path / "run", {"zero_shot": varied})


def test_the_price_is_said_before_a_server_is_asked(questions):
    items = questions.items(Split.TEST)
    further = sum(2 * len(item.options) for item in items) - len(items)
    (note,) = price_notes(items, BOTH)
    assert f"send {further} questions to the server beside the 6 as they are" in note
