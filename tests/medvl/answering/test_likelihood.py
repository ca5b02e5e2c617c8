"""The likelihood of an option is that of its tokens in the model's own full logits, for every family tried."""

import dataclasses
import math

import pytest
import torch
from mini_batches import make_samples
from mini_items import make_item
from PIL import Image

from medvl.answering.likelihood import answer_all, score_batch
from medvl.answering.option_likelihoods import OptionLikelihoods
from medvl.answering.prediction import Scoring
from medvl.batching.collator import IGNORED, Batch
from medvl.batching.dataset import Sample
from medvl.batching.option_rows import OptionBatch, OptionCollator
from medvl.batching.prompt import answer_tokens, open_question_text, render
from medvl.config.schema import ModelConfig
from medvl.errors import ModelError
from medvl.models.base import load_base
from medvl.models.specimens import specimen_folder

TOLERANCE = 1e-4
FAMILIES = ("tiny_mllama", "tiny_qwen25vl", "tiny_gemma3", "tiny_llava")
OPTIONS = ("head", "the femur, seen along its whole length", "no")


@pytest.fixture(scope="module", params=FAMILIES)
def base(request, tmp_path_factory):
    folder = specimen_folder(request.param, tmp_path_factory.mktemp("specimen"))
    return load_base(ModelConfig(name="tiny", path=str(folder)))


def questions(seed=0):
    """Four questions on pictures of several sizes, with options of very different lengths; two share a picture."""
    samples = [
        Sample(dataclasses.replace(sample.item, options=OPTIONS[i % 2 :]), sample.pixels)
        for i, sample in enumerate(make_samples(((40, 30), (60, 90), (120, 110)), seed=seed))
    ]
    other = dataclasses.replace(samples[0].item, item_id="other", question="Is it seen?", options=("yes", "no"))
    return [*samples, Sample(other, samples[0].pixels)]


def asked(base, samples, size=4, score="relative", **words):
    collate = OptionCollator(base.processor, companions=base.family.companions, text_only_too=True, **words)
    batches = [collate(samples[i : i + size]) for i in range(0, len(samples), size)]
    return answer_all(base.model, batches, score, "cpu")


def found(predictions):
    return [OptionLikelihoods.from_json(prediction.raw_text) for prediction in predictions]


def plain_sum(base, sample, option, *, picture=True):
    """log P(option and end of turn) from the full logits of a row that the processor made alone, and its length."""
    prompt = render(base.processor, open_question_text(sample.item), picture=picture)
    tokens = answer_tokens(base.processor)
    space = tokens.endings["A"].split("A")[0]
    end, adds = base.processor.tokenizer.decode([tokens.ending_ids["A"][-1]]), tokens.adds_special_tokens
    images = [[Image.fromarray(sample.pixels)]] if picture else None
    before, whole = (
        base.processor(text=[text], images=images, add_special_tokens=adds, return_tensors="pt")
        for text in (prompt, f"{prompt}{space}{option}{end}")
    )
    start, ids = before["input_ids"].shape[1], whole["input_ids"][0]
    assert ids[:start].tolist() == before["input_ids"][0].tolist()
    logprobs = torch.log_softmax(base.model(**whole).logits[0, start - 1 : -1].double(), dim=-1)
    return float(logprobs.gather(1, ids[start:, None]).sum()), len(ids) - start


@torch.inference_mode()
def test_sums_and_counts_are_those_of_the_models_full_logits_row_by_row(base):
    samples = questions()
    for sample, one in zip(samples, found(asked(base, samples)), strict=True):
        for option, total, count, blind in zip(
            sample.item.options, one.sums, one.tokens, one.text_only_sums, strict=True
        ):
            assert (total, count) == pytest.approx(plain_sum(base, sample, option), abs=TOLERANCE)
            assert (blind, count) == pytest.approx(plain_sum(base, sample, option, picture=False), abs=TOLERANCE)


@pytest.mark.parametrize("words", [{"size": 1}, {"size": 3}, {"padding_side": "left"}])
def test_batch_size_and_padding_side_change_nothing(base, words):
    samples = questions()
    for a, b in zip(asked(base, samples), asked(base, samples, **words), strict=True):
        (x,), (y,) = found([a]), found([b])
        assert x.tokens == y.tokens
        assert y.sums == pytest.approx(x.sums, abs=TOLERANCE)
        assert y.text_only_sums == pytest.approx(x.text_only_sums, abs=TOLERANCE)
        best = sorted(x.scores("relative"))[-2:]
        assert a.answer == b.answer or best[1] - best[0] < 2 * TOLERANCE


def test_the_order_of_the_options_moves_no_score(base):
    samples = questions()
    turned = [Sample(dataclasses.replace(s.item, options=s.item.options[::-1]), s.pixels) for s in samples]
    for a, b in zip(found(asked(base, samples)), found(asked(base, turned)), strict=True):
        assert b.sums[::-1] == pytest.approx(a.sums, abs=TOLERANCE)


def test_what_the_options_share_is_computed_once_and_changes_nothing(base):
    collate = OptionCollator(base.processor, companions=base.family.companions, text_only_too=True)
    batches = [collate(questions())]
    plain, shared = (
        found(answer_all(base.model, batches, "relative", "cpu", shared_prefix=shares)) for shares in (False, True)
    )
    decoder = base.model.model.language_model.layers[0]
    seen = []
    hook = decoder.register_forward_pre_hook(
        lambda module, args, words: seen.append((args[0] if args else words["hidden_states"]).shape[:2].numel()),
        with_kwargs=True,
    )
    try:
        for shares in (False, True):
            answer_all(base.model, batches, "relative", "cpu", shared_prefix=shares)
            seen.append(None)
    finally:
        hook.remove()
    for one, other in zip(plain, shared, strict=True):
        assert other.sums == pytest.approx(one.sums, abs=TOLERANCE)
        assert other.text_only_sums == pytest.approx(one.text_only_sums, abs=TOLERANCE)
        assert other.tokens == one.tokens
    first = seen.index(None)
    assert sum(seen[first + 1 : -1]) < 0.75 * sum(seen[:first])


def test_another_picture_gives_other_likelihoods_to_its_own_question_only(base):
    samples = questions()
    changed = [samples[0], Sample(samples[1].item, 255 - samples[1].pixels), *samples[2:]]
    before, after = found(asked(base, samples)), found(asked(base, changed))
    moved = [max(abs(x - y) for x, y in zip(a.sums, b.sums, strict=True)) for a, b in zip(before, after, strict=True)]
    assert moved[1] > TOLERANCE / 10
    assert max(moved[0], *moved[2:]) < TOLERANCE / 10


@pytest.mark.parametrize("score", ["sum", "per_token", "relative"])
def test_a_prediction_says_what_it_is_made_of(tiny_base, score):
    predictions = asked(tiny_base, questions(), score=score)
    assert [p.item_id for p in predictions] == [s.item.item_id for s in questions()]
    for prediction, one, sample in zip(predictions, found(predictions), questions(), strict=True):
        scores = one.scores(score)
        assert prediction.scoring is Scoring(f"likelihood:{score}")
        assert prediction.item_fingerprint == sample.item.fingerprint()
        assert prediction.answer == sample.item.letters[max(range(len(scores)), key=scores.__getitem__)]
        assert prediction.outside_mass is None
        assert math.fsum(map(math.exp, prediction.option_logprobs)) == pytest.approx(1.0)
        differences = [x - scores[0] for x in scores]
        assert [x - prediction.option_logprobs[0] for x in prediction.option_logprobs] == pytest.approx(differences)


def test_questions_without_pictures_are_relative_to_themselves(tiny_base):
    for one in found(asked(tiny_base, [Sample(s.item, None) for s in questions()])):
        assert one.scores("relative") == pytest.approx([0.0] * len(one.sums), abs=TOLERANCE)


def test_the_relative_score_needs_rows_without_pictures(tiny_base):
    batch = OptionCollator(tiny_base.processor)(questions())
    with pytest.raises(ValueError, match="text_only_too"):
        score_batch(tiny_base.model, batch, "relative")


class Scripted(torch.nn.Module):
    """After token i comes token j with the logit that a table of [V, V] gives."""

    def __init__(self, table):
        super().__init__()
        self.lm_head = torch.nn.Linear(len(table), len(table), bias=False)
        self.lm_head.weight.data = torch.eye(len(table))
        self.config = type("Config", (), {"model_type": "scripted"})()
        self.table = table

    def model(self, input_ids, **options):
        return type("Output", (), {"last_hidden_state": self.table[input_ids]})()


def scripted(table, replies):
    """Asks one question after token 0; replies are the options' token ids."""
    longest = max(map(len, replies))
    ids = torch.tensor([[0, *reply, *[0] * (longest - len(reply))] for reply in replies])
    labels = torch.tensor([[IGNORED, *reply, *[IGNORED] * (longest - len(reply))] for reply in replies])
    item = make_item(options=tuple(map(str, replies)))
    part = Batch((item,) * len(replies), {"input_ids": ids}, labels, torch.zeros(len(replies), dtype=torch.long))
    (prediction,) = answer_all(Scripted(table), [OptionBatch((item,), [part], [])], "sum", "cpu")
    return prediction


def test_whole_replies_exclude_each_other():
    """All replies of one word and the end, or of two and the end: with the longer ones they share out all there is."""
    table = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    chances = table.double().softmax(dim=-1)
    replies = [[1, 3], [1, 2, 3], [2, 3]]
    (one,) = found([scripted(table, replies)])
    steps = [[(0, 1), (1, 3)], [(0, 1), (1, 2), (2, 3)], [(0, 2), (2, 3)]]
    wanted = [math.prod(float(chances[step]) for step in path) for path in steps]
    assert [math.exp(total) for total in one.sums] == pytest.approx(wanted, rel=1e-5)
    assert one.tokens == (2, 3, 2)


def test_of_equal_scores_the_first_is_taken():
    assert scripted(torch.zeros(6, 6), [[3, 4], [1, 2], [2, 1]]).answer == "A"


def test_a_near_tie_goes_to_the_larger():
    table = torch.zeros(6, 6)
    table[0, 2] = 1e-4
    assert scripted(table, [[1, 5], [2, 5]]).answer == "B"


@pytest.mark.parametrize("lost", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_one_is_refused_by_name(lost):
    table = torch.zeros(6, 6)
    table[1, 5] = lost
    with pytest.raises(ModelError, match="not finite for items PI-0"):
        scripted(table, [[1, 5], [2, 5]])


def test_parts_go_to_the_device_one_by_one(tiny_base, monkeypatch):
    batch = OptionCollator(tiny_base.processor, text_only_too=True)(questions())
    moved = []
    plain = Batch.to
    monkeypatch.setattr(Batch, "to", lambda part, device: moved.append((part, device)) or plain(part, device))
    before = [OptionLikelihoods.from_json(p.raw_text) for p in score_batch(tiny_base.model, batch.to("cpu"), "sum")]
    assert [part for part, _ in moved] == [*batch.parts, *batch.blind]
    assert len(before) == 4
