import copy
import dataclasses

import pytest
import torch
from mini_batches import make_samples
from mini_items import make_item

from medvl.answering.letters import answer_all, score_batch
from medvl.answering.prediction import Scoring
from medvl.batching.collator import Batch, Collator
from medvl.batching.dataset import Sample
from medvl.errors import ModelError
from medvl.models.base import Base

TOLERANCE = 1e-4


class Scripted(torch.nn.Module):
    """A model whose answer logits are given: row i of the batch gets row i of the table."""

    def __init__(self, table: torch.Tensor) -> None:
        super().__init__()
        self.lm_head = torch.nn.Linear(table.shape[1], table.shape[1], bias=False)
        self.lm_head.weight.data = torch.eye(table.shape[1])
        self.config = type("Config", (), {"model_type": "scripted"})()
        self.table = table

    def model(self, input_ids, **options):
        hidden = torch.zeros(*input_ids.shape, self.table.shape[1])
        hidden[:, -1] = self.table[: len(input_ids)]
        return type("Output", (), {"last_hidden_state": hidden})()


LETTER_IDS = {letter: 10 + i for i, letter in enumerate("ABCDEFGHIJ")}


def scripted(rows: list[dict[int, float]], options: tuple[str, ...] = ("x", "y", "z")):
    table = torch.zeros(len(rows), 30)
    for row, logits in enumerate(rows):
        for token, value in logits.items():
            table[row, token] = value
    items = tuple(make_item(number=i, options=options) for i in range(len(rows)))
    positions = torch.full((len(rows),), 4)
    batch = Batch(items, {"input_ids": torch.zeros(len(rows), 5, dtype=torch.long)}, None, positions)
    return score_batch(Scripted(table), batch, LETTER_IDS), table


def batches(base: Base, samples: list[Sample], size: int) -> list[Batch]:
    collator = Collator(base.processor, with_answer=False)
    return [collator(samples[i : i + size]) for i in range(0, len(samples), size)]


def ids(base: Base) -> dict[str, int]:
    return Collator(base.processor, with_answer=False).tokens.letter_ids


def test_the_answer_is_the_likeliest_letter_among_the_options_only():
    (first, second), _ = scripted([{11: 2.0, 13: 9.0, 5: 20.0}, {12: 0.1}])
    assert (first.answer, second.answer) == ("B", "C")  # D and the word at 5 are likelier, but no options


def test_of_equal_letters_the_first_is_taken():
    (prediction,), _ = scripted([{11: 3.0, 12: 3.0}])
    assert prediction.answer == "B"


def test_log_probabilities_are_over_the_whole_vocabulary():
    predictions, table = scripted([{10: 1.0, 12: -2.0, 7: 4.0}, {11: 5.0}])
    for prediction, row in zip(predictions, table, strict=True):
        expected = torch.log(row.double().exp() / row.double().exp().sum())[10:13]
        assert prediction.option_logprobs == pytest.approx(expected.tolist(), abs=1e-6)
        assert prediction.outside_mass == pytest.approx(1 - float(expected.exp().sum()), abs=1e-6)


@pytest.mark.parametrize("logit", [-200.0, 0.0, 50.0, 200.0])
def test_the_outside_mass_is_a_probability(logit):
    (prediction,), _ = scripted([{11: logit}])
    assert 0.0 <= prediction.outside_mass <= 1.0


def test_a_number_that_is_not_one_is_refused_by_name():
    with pytest.raises(ModelError, match=r"not finite for items PI-1; .*model\.dtype=float32"):
        scripted([{11: 1.0}, {3: float("nan")}])


def test_an_infinite_logit_is_refused():
    with pytest.raises(ModelError, match="PI-0"):
        scripted([{3: float("inf")}])


@pytest.mark.parametrize("count", [2, 10])
def test_every_option_has_its_probability(count):
    (prediction,), _ = scripted([{12: 1.0}], options=tuple(f"option {i}" for i in range(count)))
    assert len(prediction.option_logprobs) == count


def test_predictions_stand_in_the_order_of_the_items(family_base):
    samples = make_samples()
    predictions = answer_all(family_base.model, batches(family_base, samples, 3), ids(family_base), "cpu")
    assert [p.item_id for p in predictions] == [s.item.item_id for s in samples]
    assert [p.item_fingerprint for p in predictions] == [s.item.fingerprint() for s in samples]
    assert {(p.scoring, p.rule, p.raw_text) for p in predictions} == {(Scoring.LETTER, "argmax", "")}
    assert all(p.latency_s > 0 for p in predictions)


@pytest.mark.parametrize("size", [1, 8])
def test_the_batch_size_does_not_change_an_answer(family_base, size):
    samples = [s for seed in range(6) for s in make_samples(seed=seed)]
    letters = ids(family_base)
    plain = answer_all(family_base.model, batches(family_base, samples, 3), letters, "cpu")
    other = answer_all(family_base.model, batches(family_base, samples, size), letters, "cpu")
    for a, b in zip(plain, other, strict=True):
        assert b.option_logprobs == pytest.approx(a.option_logprobs, abs=TOLERANCE)
        assert b.outside_mass == pytest.approx(a.outside_mass, abs=TOLERANCE)
        best = sorted(a.option_logprobs)[-2:]
        assert a.answer == b.answer or best[1] - best[0] < 2 * TOLERANCE
    assert len({p.answer for p in plain}) > 1 or len({p.option_logprobs for p in plain}) == len(plain)


def test_two_questions_on_one_picture_are_answered_as_they_are_alone(family_base):
    (sample,) = make_samples(((80, 60),))
    other = dataclasses.replace(sample.item, item_id="other", question="Is the head seen?", options=("yes", "no"))
    samples = [sample, Sample(other, sample.pixels)]
    together = answer_all(family_base.model, batches(family_base, samples, 2), ids(family_base), "cpu")
    alone = answer_all(family_base.model, batches(family_base, samples, 1), ids(family_base), "cpu")
    assert [len(p.option_logprobs) for p in together] == [3, 2]
    for a, b in zip(together, alone, strict=True):
        assert a.option_logprobs == pytest.approx(b.option_logprobs, abs=TOLERANCE)


def test_questions_without_pictures_are_answered_from_the_text(family_base):
    samples = [s for seed in range(3) for s in make_samples(seed=seed)]
    blind = [Sample(s.item, None) for s in samples]
    seen, unseen = (
        answer_all(family_base.model, batches(family_base, s, 3), ids(family_base), "cpu") for s in (samples, blind)
    )
    again = answer_all(family_base.model, batches(family_base, blind, 1), ids(family_base), "cpu")
    assert any(a.option_logprobs != b.option_logprobs for a, b in zip(seen, unseen, strict=True))
    for a, b in zip(unseen, again, strict=True):
        assert a.option_logprobs == pytest.approx(b.option_logprobs, abs=TOLERANCE)


def test_the_modes_of_all_modules_are_as_before(family_folder):
    from medvl.config.schema import ModelConfig
    from medvl.models.base import load_base

    base = load_base(ModelConfig(name="tiny", path=str(family_folder)))
    base.model.train()
    base.model.lm_head.eval()
    before = [module.training for module in base.model.modules()]
    modes = []
    base.model.lm_head.register_forward_hook(lambda *_: modes.append(base.model.training))
    answer_all(base.model, batches(base, make_samples(), 2), ids(base), "cpu")
    assert [module.training for module in base.model.modules()] == before
    assert modes == [False, False]


def test_the_modes_are_as_before_after_an_error_too(tiny_base):
    model = copy.deepcopy(tiny_base.model).train()

    def breaking():
        yield from batches(tiny_base, make_samples(), 2)
        raise ModelError("broken")

    with pytest.raises(ModelError, match="broken"):
        answer_all(model, breaking(), ids(tiny_base), "cpu")
    assert all(module.training for module in model.modules())


def test_training_goes_on_after_questions_were_asked(family_folder):
    from medvl.config.schema import LoraConfig, ModelConfig
    from medvl.models.adapter import attach_adapter
    from medvl.models.answer_head import logits_at
    from medvl.models.base import load_base

    base = load_base(ModelConfig(name="tiny", path=str(family_folder)))
    model = attach_adapter(base, LoraConfig(r=2, parts=["language", "vision"]), 0).train()
    batch = Collator(base.processor, with_answer=True)(make_samples())
    for _ in range(2):
        logits_at(model, batch.inputs, batch.labels != -100).sum().backward()
        answer_all(model, batches(base, make_samples(), 4), ids(base), "cpu")
    assert model.training


def test_progress_counts_items_and_nothing_to_ask_is_no_error(tiny_base):
    seen = []
    answer_all(tiny_base.model, batches(tiny_base, make_samples(), 3), ids(tiny_base), "cpu", seen.append)
    assert seen == [3, 4]
    assert answer_all(tiny_base.model, [], ids(tiny_base), "cpu") == []


def test_half_precision_answers_as_full_precision_within_its_rounding(family_base):
    half = copy.deepcopy(family_base.model).to(torch.bfloat16)
    full = answer_all(family_base.model, batches(family_base, make_samples(), 4), ids(family_base), "cpu")
    rough = answer_all(half, batches(family_base, make_samples(), 4), ids(family_base), "cpu")
    for a, b in zip(full, rough, strict=True):
        assert b.option_logprobs == pytest.approx(a.option_logprobs, abs=0.1)
