"""Questions are asked once, answers outlive a run, and the device is the one asked for."""

import dataclasses

import polars as pl
import pytest
import torch

from medvl.batching.picture_control import PictureControl
from medvl.config.schema import LoraConfig
from medvl.errors import ConfigError
from medvl.models.adapter import attach_adapter, without_adapter
from medvl.sources.record import Split
from medvl.training.askers import by_letter
from medvl.training.session import ask, choose_device

PRINTS = {"benchmark": "x", "base": "b", "processor": "p", "prompt": "q", "dtype": "float32"}


class Counted:
    """The questions of a data module, counting those that are put to the model; may break off after some."""

    def __init__(self, data, limit=None):
        self.data, self.limit, self.asked = data, limit, []

    def items(self, split):
        return self.data.items(split)

    def question_loader(self, split, control=None, items=None):
        for batch in self.data.question_loader(split, control, items):
            if self.limit is not None and len(self.asked) >= self.limit:
                raise KeyboardInterrupt
            self.asked += [item.item_id for item in batch.items]
            yield batch


@pytest.fixture
def questions(demo_data, tiny_base, monkeypatch):
    monkeypatch.setattr(demo_data, "processor", tiny_base.processor)
    monkeypatch.setattr(demo_data, "companions", tiny_base.family.companions)
    config = demo_data._config
    small = config.eval.model_copy(update={"batch_size": 8})
    monkeypatch.setattr(demo_data, "_config", config.model_copy(update={"eval": small}))
    return demo_data


def asked(base, questions, folder, prints=PRINTS, control=None):
    asker = by_letter(base.model, base.processor)
    return ask(asker, questions, Split.TEST, prints, control=control, answers=folder)


def bare(evaluation):
    return [(p.item_id, p.answer, p.option_logprobs) for p in evaluation.predictions]


def test_a_second_run_asks_nothing_and_gives_the_same(tiny_base, questions, tmp_path):
    first, second = Counted(questions), Counted(questions)
    before = asked(tiny_base, first, tmp_path)
    after = asked(tiny_base, second, tmp_path)
    assert len(first.asked) == len(questions.items(Split.TEST)) > 16
    assert second.asked == []
    assert bare(before) == bare(after)
    assert before.metrics == after.metrics


def test_an_evaluation_that_was_broken_off_goes_on(tiny_base, questions, tmp_path):
    broken = Counted(questions, limit=16)
    with pytest.raises(KeyboardInterrupt):
        asked(tiny_base, broken, tmp_path)
    rest = Counted(questions)
    resumed = asked(tiny_base, rest, tmp_path)
    assert 16 <= len(broken.asked) < len(questions.items(Split.TEST))
    assert sorted(broken.asked + rest.asked) == sorted(item.item_id for item in questions.items(Split.TEST))
    whole = asked(tiny_base, Counted(questions), tmp_path / "elsewhere")
    for one, other in zip(bare(resumed), bare(whole), strict=True):
        assert one[:2] == other[:2]
        assert torch.allclose(torch.tensor(one[2]), torch.tensor(other[2]), atol=1e-4)


@pytest.mark.parametrize("name", ["base", "processor", "prompt", "dtype", "adapter"])
def test_another_way_of_asking_asks_anew(tiny_base, questions, tmp_path, name):
    asked(tiny_base, Counted(questions), tmp_path)
    other = Counted(questions)
    asked(tiny_base, other, tmp_path, {**PRINTS, name: "other"})
    assert len(other.asked) == len(questions.items(Split.TEST))


def test_another_benchmark_with_the_same_questions_does_not(tiny_base, questions, tmp_path):
    asked(tiny_base, Counted(questions), tmp_path)
    other = Counted(questions)
    asked(tiny_base, other, tmp_path, {**PRINTS, "benchmark": "other"})
    assert other.asked == []


def test_answers_without_a_picture_are_kept_apart_and_shuffled_ones_not_at_all(tiny_base, questions, tmp_path):
    asked(tiny_base, Counted(questions), tmp_path)
    for control, again in ((PictureControl.TEXT_ONLY, False), (PictureControl.SHUFFLED, True)):
        first, second = Counted(questions), Counted(questions)
        asked(tiny_base, first, tmp_path, control=control)
        asked(tiny_base, second, tmp_path, control=control)
        assert len(first.asked) == len(questions.items(Split.TEST))
        assert bool(second.asked) == again


def test_kept_answers_that_cannot_be_read_are_said_and_asked_again(tiny_base, questions, tmp_path):
    asked(tiny_base, Counted(questions), tmp_path)
    torn = next(tmp_path.glob("*/part-*.parquet"))
    lost = pl.read_parquet(torn, glob=False)["item_id"].to_list()
    torn.write_bytes(torn.read_bytes()[:-20])
    second = Counted(questions)
    found = asked(tiny_base, second, tmp_path)
    assert sorted(second.asked) == sorted(lost)
    assert found.notes == [f"kept answers {torn.name} could not be read; their questions were asked again"]
    assert asked(tiny_base, Counted(questions), tmp_path).notes == []


def test_two_items_that_ask_the_same_are_asked_once(tiny_base, questions, tmp_path, monkeypatch):
    items = questions.items(Split.TEST)[:8]
    twins = [*items, *(dataclasses.replace(item, item_id=f"{item.item_id} again") for item in items)]
    monkeypatch.setattr(questions, "items", lambda split: twins)
    counted = Counted(questions)
    found = asked(tiny_base, counted, tmp_path)
    assert len(counted.asked) == 8
    assert [p.item_id for p in found.predictions] == [item.item_id for item in twins]
    assert [p.answer for p in found.predictions[:8]] == [p.answer for p in found.predictions[8:]]


def test_with_shuffled_pictures_two_items_that_ask_the_same_keep_their_own_answers(
    tiny_base, questions, tmp_path, monkeypatch
):
    items = questions.items(Split.TEST)[:24]
    twins = [
        *items,
        *(
            dataclasses.replace(item, item_id=f"{item.item_id} again", group=f"{number} again")
            for number, item in enumerate(items)
        ),
    ]
    monkeypatch.setattr(questions, "items", lambda split: twins)
    with_store = asked(tiny_base, Counted(questions), tmp_path, control=PictureControl.SHUFFLED)
    without = asked(tiny_base, Counted(questions), None, control=PictureControl.SHUFFLED)
    assert bare(with_store) == bare(without)
    apart = {p.item_id: p.option_logprobs for p in with_store.predictions}
    assert any(apart[item.item_id] != apart[f"{item.item_id} again"] for item in items)


def test_a_fresh_adapter_that_is_switched_off_gives_the_zero_shot_answers_to_the_bit(fresh_base, questions, tmp_path):
    questions.processor, questions.companions = fresh_base.processor, fresh_base.family.companions
    plain = ask(by_letter(fresh_base.model, fresh_base.processor), questions, Split.VAL, PRINTS)
    model = attach_adapter(fresh_base, LoraConfig(r=4, parts=["language", "vision", "projector"]), 0)
    with without_adapter(model):
        assert bare(ask(by_letter(model, fresh_base.processor), questions, Split.VAL, PRINTS)) == bare(plain)


def test_the_cpu_can_always_be_chosen():
    assert choose_device("cpu") == torch.device("cpu")


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu")
    with pytest.raises(ConfigError, match="use trainer=cpu"):
        choose_device("gpu")
