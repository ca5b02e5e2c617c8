"""A model is asked by letter or by its reply, and neither takes the other's answers for its own."""

from dataclasses import replace

import pytest

from medvl.answering.option_likelihoods import OptionLikelihoods
from medvl.answering.prediction import Scoring
from medvl.batching.picture_control import PictureControl
from medvl.batching.prompt import use_style
from medvl.config.asking import EvalConfig
from medvl.config.schema import ModelConfig
from medvl.errors import ModelError
from medvl.models.base import load_base
from medvl.sources.record import Split
from medvl.training import askers
from medvl.training.askers import by_likelihood, local_asker
from medvl.training.session import ask, ask_controls

PRINTS = {"benchmark": "x", "base": "b", "processor": "p", "prompt": "q", "dtype": "float32"}
FEW = {"batch_size": 8, "test_items": 16}
WRITTEN = EvalConfig(scoring="generation", **FEW)


@pytest.fixture(scope="module")
def shipped():
    """The shipped base: the tiny ones of other tests have random weights, and reply with noise."""
    return load_base(ModelConfig(name="tiny", path="builtin:tiny"))


@pytest.fixture
def configured(demo_data, shipped, monkeypatch):
    """Sets what a configuration says about asking; gives (way of asking, questions)."""
    monkeypatch.setattr(demo_data, "processor", shipped.processor)
    monkeypatch.setattr(demo_data, "companions", shipped.family.companions)

    def configure(config):
        monkeypatch.setattr(demo_data, "_config", demo_data._config.model_copy(update={"eval": config}))
        return local_asker(shipped.model, shipped.processor, config), demo_data

    return configure


def test_a_model_that_replies_with_its_letter_gets_the_same_answer_either_way(configured):
    by_letter, by_reply = (ask(*configured(config), Split.TEST, PRINTS) for config in (EvalConfig(**FEW), WRITTEN))
    assert [p.answer for p in by_reply.predictions] == [p.answer for p in by_letter.predictions]
    assert {p.raw_text for p in by_reply.predictions} <= set("ABCD")
    assert (by_letter.metrics["scoring"], by_reply.metrics["scoring"]) == ("letter", "generation")


def test_figures_of_generation_say_how_replies_were_written_and_those_of_letters_are_as_before(configured):
    by_letter, by_reply = (ask(*configured(config), Split.TEST, PRINTS) for config in (EvalConfig(**FEW), WRITTEN))
    assert by_letter.metrics["fingerprints"] == PRINTS
    assert set(by_reply.metrics["fingerprints"]) == {*PRINTS, "decoding", "end_of_turn"}


@pytest.mark.parametrize("score", ["sum", "per_token", "relative"])
def test_figures_of_likelihood_name_the_score_and_the_prompt(configured, score, tmp_path):
    config = EvalConfig(scoring="likelihood", likelihood=score, **FEW)
    asker, questions = configured(config)
    found = ask(asker, questions, Split.TEST, PRINTS, answers=tmp_path)
    assert found.metrics["scoring"] == f"likelihood:{score}"
    assert set(found.metrics["fingerprints"]) == {*PRINTS, "open_prompt"}
    assert found.metrics["overall"]["invalid_rate"] == found.metrics["overall"]["uncommitted_rate"] == 0
    assert found.metrics["overall"]["calibration"]["n"] == 16
    assert ask(asker, questions, Split.TEST, PRINTS, answers=tmp_path).predictions == found.predictions


def test_a_score_is_the_same_whichever_of_them_decides(configured):
    """Each run keeps the sums and token counts, so any of the scores can be had from any run."""
    runs = {}
    for score in ("sum", "per_token", "relative"):
        asked = ask(*configured(EvalConfig(scoring="likelihood", likelihood=score, **FEW)), Split.TEST, PRINTS)
        runs[score] = [OptionLikelihoods.from_json(p.raw_text) for p in asked.predictions]
    for a, b, c in zip(*runs.values(), strict=True):
        assert (a.sums, a.tokens) == (b.sums, b.tokens) == (c.sums, c.tokens)
        assert (a.text_only_sums, b.text_only_sums) == (None, None)
        assert len(c.text_only_sums) == len(c.sums)


def test_a_family_that_must_see_a_picture_is_not_asked_relative_to_none(shipped, monkeypatch):
    bound = replace(shipped.family, abilities=replace(shipped.family.abilities, text_only=False))
    monkeypatch.setattr(askers, "family_of_model", lambda model: bound)
    assert by_likelihood(shipped.model, shipped.processor, "sum").scoring is Scoring.LIKELIHOOD_SUM
    with pytest.raises(ModelError, match=r"eval\.likelihood=relative subtracts; use per_token or sum"):
        by_likelihood(shipped.model, shipped.processor, "relative")


def test_answers_come_in_the_order_of_the_items_however_they_are_asked(configured):
    asker, questions = configured(EvalConfig(batch_size=8, batch_tokens=900))
    items = sorted(questions.items(Split.TEST)[:24], key=lambda item: item.task)  # one picture's are apart
    batches = questions.question_loader(Split.TEST, None, items)
    assert [item for batch in batches for item in batch.items] != items
    found = asker.answer(questions, Split.TEST, None, items, None, None)
    assert [p.item_id for p in found] == [item.item_id for item in items]
    assert [p.item_fingerprint for p in found] == [item.fingerprint() for item in items]


def test_shared_beginnings_can_be_switched_off_and_change_no_answer(configured, monkeypatch):
    from medvl.answering import letters

    asked = []
    real = letters.answer_logits
    monkeypatch.setattr(letters, "answer_logits", lambda *a, **o: (asked.append(o["shared_prefix"]), real(*a, **o))[1])
    on, off = (
        ask(*configured(EvalConfig(**FEW, shared_prefix=shared)), Split.TEST, PRINTS) for shared in (True, False)
    )
    assert sorted(set(asked)) == [False, True]
    assert [p.answer for p in on.predictions] == [p.answer for p in off.predictions]
    for one, other in zip(on.predictions, off.predictions, strict=True):
        assert one.option_logprobs == pytest.approx(other.option_logprobs, abs=1e-4)


def test_kept_answers_of_one_way_of_asking_are_not_those_of_another(configured, tmp_path):
    longer = WRITTEN.model_copy(update={"max_new_tokens": 3})
    likely = [EvalConfig(scoring="likelihood", likelihood=score, **FEW) for score in ("sum", "per_token")]
    ways = [EvalConfig(**FEW), WRITTEN, longer, *likely]
    for number, config in enumerate(ways, start=1):
        found = ask(*configured(config), Split.TEST, PRINTS, answers=tmp_path)
        assert len(list(tmp_path.iterdir())) == number
        (scoring,) = {p.scoring for p in found.predictions}
        named = f"likelihood:{config.likelihood}" if config.scoring == "likelihood" else config.scoring
        assert scoring is Scoring(named)


def test_kept_replies_are_read_back(configured, tmp_path):
    asker, questions = configured(WRITTEN)
    first = ask(asker, questions, Split.TEST, PRINTS, answers=tmp_path)
    assert ask(asker, questions, Split.TEST, PRINTS, answers=tmp_path).predictions == first.predictions


def test_a_model_replies_without_pictures_and_to_blank_ones(configured, tmp_path):
    names = [PictureControl.TEXT_ONLY, PictureControl.BLANK]
    asker, questions = configured(WRITTEN)
    found = ask_controls(asker, questions, Split.TEST, PRINTS, names, tmp_path)
    for name in names:
        assert found[name]["scoring"] == "generation"
        assert found[name]["fingerprints"]["picture_control"] == name
        assert (tmp_path / name / "predictions.parquet").is_file()


@pytest.fixture
def thinking(shipped):
    """The shipped base, asked as a model that thinks in tags first."""
    use_style(shipped.processor, "reasoning")
    yield
    use_style(shipped.processor, "letter")


def test_figures_of_a_model_that_may_not_think_say_so(configured, thinking):
    ways = [EvalConfig(**FEW), WRITTEN, WRITTEN.model_copy(update={"reasoning_tokens": 4})]
    closed, written, free = (ask(*configured(config), Split.TEST, PRINTS) for config in ways)
    for found in (closed, written):
        assert found.metrics["fingerprints"]["thought"] == "left empty"
        assert any("leave its thought empty" in note for note in found.notes)
    assert "thought" not in free.metrics["fingerprints"]
    assert free.notes == []
