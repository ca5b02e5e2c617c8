import copy
import dataclasses

import numpy as np
import pytest
from mini_batches import make_samples
from mini_items import make_item
from written_replies import collate, ends, saying

from medvl.answering.generation import answer_all, reply_batch
from medvl.answering.prediction import Scoring, predictions_to_frame
from medvl.batching.dataset import Sample
from medvl.benchmark.item import items_to_frame
from medvl.config.schema import ModelConfig
from medvl.errors import ModelError
from medvl.evaluation.metrics import accuracy, letter_histogram
from medvl.evaluation.scored import score_predictions
from medvl.models.base import load_base
from medvl.models.greedy import Decoding
from medvl.models.specimens import build_specimen
from medvl.sources.record import Task

SHORT = Decoding(max_new_tokens=6)


@pytest.fixture(scope="module")
def shipped():
    """The model that medvl ships. Shared: leave it as it is."""
    return load_base(ModelConfig(name="tiny", path="builtin:tiny"))


def replies(base, samples, decoding=SHORT, size=8, **options):
    batches = [collate(base, samples[i : i + size]) for i in range(0, len(samples), size)]
    tokenizer = base.processor.tokenizer
    return answer_all(base.model, batches, tokenizer, ends(base), decoding, "cpu", **options)


def test_the_shipped_model_replies_with_a_letter_and_stops(shipped):
    samples = make_samples()
    for prediction, sample in zip(replies(shipped, samples), samples, strict=True):
        assert prediction.item_id == sample.item.item_id
        assert prediction.item_fingerprint == sample.item.fingerprint()
        assert prediction.raw_text in sample.item.letters
        assert prediction.answer == prediction.raw_text
        assert (prediction.rule, prediction.scoring) == ("leading", Scoring.GENERATION)
        assert (prediction.option_logprobs, prediction.outside_mass) == ((), None)
        assert prediction.latency_s > 0


def test_the_shipped_model_sees_the_shape(shipped):
    y, x = np.mgrid[:96, :96]
    disc = np.uint8(255) * ((x - 48) ** 2 + (y - 48) ** 2 < 900)
    item = make_item(question="What shape is it?", options=("square", "circle", "triangle"))
    (prediction,) = replies(shipped, [Sample(item, np.stack([disc] * 3, axis=-1))])
    assert prediction.answer == "B"


def test_yes_and_no_are_read_from_what_is_stated(shipped):
    item = make_item(Task.FD, question="Is there a nodule?", options=("no", "yes"), answer_index=0, answer="no")
    with saying(shipped, "There is a nodule.<|im_end|>"):
        (prediction,) = replies(shipped, [Sample(item, make_samples()[0].pixels)], Decoding(max_new_tokens=20))
    assert (prediction.answer, prediction.rule) == ("B", "statement")


def test_a_reply_that_is_cut_is_read_without_the_word_it_was_cut_in(shipped):
    script = "The answer is A<|im_end|>"
    length = len(shipped.processor.tokenizer(script)["input_ids"])
    with saying(shipped, script):
        (whole,) = replies(shipped, make_samples()[:1], Decoding(max_new_tokens=length))
    with saying(shipped, script):
        (cut,) = replies(shipped, make_samples()[:1], Decoding(max_new_tokens=length - 1))
    assert (whole.answer, whole.rule) == ("A", "declared")
    assert (cut.answer, cut.rule) == (None, "truncated")
    assert cut.raw_text == whole.raw_text == "The answer is A"


def test_a_model_that_always_refuses_is_never_right(shipped):
    samples = make_samples()
    with saying(shipped, *["I cannot tell.<|im_end|>"] * len(samples)):
        found = replies(shipped, samples, Decoding(max_new_tokens=20))
    assert {(prediction.answer, prediction.rule) for prediction in found} == {(None, "refusal")}
    scored = score_predictions(items_to_frame([sample.item for sample in samples]), predictions_to_frame(found))
    assert accuracy(scored) == 0.0
    assert scored["is_invalid"].mean() == 1.0
    assert letter_histogram(scored)["predicted"]["invalid"] == len(samples)


def test_numbers_that_are_none_are_refused_by_name(shipped):
    with (
        saying(shipped, "A<|im_end|>", "A", [5, 5, float("nan")], "A"),
        pytest.raises(ModelError, match=r"not finite for items PI-2; .*model\.dtype=float32"),
    ):
        replies(shipped, make_samples())


def test_a_batch_with_its_answers_is_refused(shipped):
    batch = collate(shipped, make_samples(), with_answer=True)
    with pytest.raises(ValueError, match="holds the answers"):
        reply_batch(shipped.model, batch, shipped.processor.tokenizer, ends(shipped), SHORT)


def test_the_model_replies_in_evaluation_mode_and_gets_its_mode_back(shipped):
    base = dataclasses.replace(shipped, model=copy.deepcopy(shipped.model).train())
    seen = []
    base.model.lm_head.register_forward_hook(lambda *_: seen.append(base.model.training))
    replies(base, make_samples())
    assert seen
    assert not any(seen)
    assert all(module.training for module in base.model.modules())


def test_progress_counts_items_and_answers_are_kept_as_they_come(shipped):
    seen, kept = [], []
    found = replies(shipped, make_samples(), size=3, progress=seen.append, keep=kept.append)
    assert seen == [3, 4]
    assert [prediction for answers in kept for prediction in answers] == found
    assert replies(shipped, []) == []


# Thoughts


THINKING = Decoding(max_new_tokens=6, reasoning_tokens=20)


def thoughts(base, *scripts, decoding=THINKING):
    with saying(base, *scripts):
        return replies(base, make_samples()[: len(scripts)], decoding)


def test_what_stands_before_the_closing_tag_is_not_the_answer(shipped):
    (found,) = thoughts(shipped, "<think>It is A</think>\n\nC<|im_end|>")
    assert (found.answer, found.raw_text) == ("C", "<think>It is A</think>\n\nC")


def test_the_answer_after_a_thought_that_was_closed_for_the_model_counts(shipped):
    tokenizer = shipped.processor.tokenizer
    bridge = len(tokenizer("</think><answer>")["input_ids"])
    thought = tokenizer("A " * 99)["input_ids"][: THINKING.reasoning_tokens + bridge]
    (found,) = thoughts(shipped, [*thought, *tokenizer("B<|im_end|>")["input_ids"]])
    assert found.raw_text.endswith("</think><answer>B")
    assert (found.answer, found.rule) == ("B", "answer_tag")


def test_an_answer_that_is_stopped_before_the_others_is_read_without_its_last_word(shipped):
    answer = "The answer is C"
    length = len(shipped.processor.tokenizer(answer)["input_ids"])
    scripts = (f"<think></think>{answer}<|im_end|>", f"<think></think>{answer}", "A " * 99)
    whole, _, _ = thoughts(shipped, *scripts, decoding=Decoding(length + 1, 20))
    assert (whole.answer, whole.rule) == ("C", "declared")
    _, cut, _ = thoughts(shipped, *scripts, decoding=Decoding(length, 20))
    assert (cut.answer, cut.rule, cut.raw_text) == (None, "truncated", f"<think></think>{answer}")


def test_a_thought_that_is_never_closed_is_no_answer(shipped):
    ended, cut = thoughts(shipped, "<think>It is A.<|im_end|>", "<think>" + "It is A. " * 9, decoding=Decoding(12))
    assert (ended.answer, ended.rule) == (None, "unfinished_thought")
    assert (cut.answer, cut.rule) == (None, "unfinished_thought")


def test_other_tags_are_read_in_the_same_way(shipped):
    decoding = Decoding(8, 40, opening="## Thinking", closing="## Final Response", answer_prefix="\n\n")
    closed, open_ended = thoughts(
        shipped, "## Thinking\nA\n## Final Response\nC<|im_end|>", "## Thinking\nA<|im_end|>", decoding=decoding
    )
    assert closed.answer == "C"
    assert (open_ended.answer, open_ended.rule) == (None, "unfinished_thought")


def test_tags_that_are_control_tokens_stay_in_the_reply(tmp_path):
    base = load_base(ModelConfig(name="tiny", path=str(build_specimen("tiny_qwen25vl", tmp_path / "specimen"))))
    base.processor.tokenizer.add_special_tokens({"additional_special_tokens": ["<think>", "</think>"]})
    assert len(base.processor.tokenizer) <= base.model.lm_head.out_features
    (found,) = thoughts(base, "<think>A<|object_ref_start|></think>C<|im_end|>")
    assert (found.answer, found.raw_text) == ("C", "<think>A</think>C")


def test_what_the_reply_was_made_to_begin_with_is_read_with_it(shipped):
    item = make_item(options=("head", "abdomen", "femur"))
    sample = Sample(item, np.zeros((40, 40, 3), dtype=np.uint8))
    with saying(shipped, ">B</answer><|im_end|>"):
        (alone,) = replies(shipped, [sample], Decoding(max_new_tokens=40))
    with saying(shipped, ">B</answer><|im_end|>"):
        (opened,) = replies(shipped, [sample], Decoding(max_new_tokens=40), opening="<think>\n\n</think>\n<answer")
    assert alone.answer is None
    assert (opened.answer, opened.rule) == ("B", "answer_tag")
    assert opened.raw_text == alone.raw_text == ">B</answer>"
