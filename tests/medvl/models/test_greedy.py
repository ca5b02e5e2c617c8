import copy
import dataclasses
import logging
import warnings

import pytest
import torch
from mini_batches import make_samples
from transformers import GenerationConfig
from written_replies import collate, ends, saying, step_by_step

from medvl.batching.dataset import Sample
from medvl.config.schema import LoraConfig, ModelConfig
from medvl.errors import ModelError
from medvl.models.adapter import attach_adapter
from medvl.models.base import load_base
from medvl.models.greedy import Decoding, write_replies
from medvl.models.pictures import row_inputs
from medvl.models.specimens import SPECIMENS, build_specimen

SHORT = Decoding(max_new_tokens=6)
QUICK = ("tiny_mllama", "tiny_qwen25vl", "tiny_gemma3")
"""In the fast tier: cross-attention, three-axis positions and published sampling, masks per layer type."""


@pytest.fixture(scope="module")
def shipped():
    """The model that medvl ships. Shared: leave it as it is."""
    return load_base(ModelConfig(name="tiny", path="builtin:tiny"))


@pytest.fixture
def own(shipped):
    """The same for one test, which may change its model."""
    return dataclasses.replace(shipped, model=copy.deepcopy(shipped.model))


@pytest.fixture(
    scope="module",
    params=[name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in SPECIMENS],
)
def specimen(request, tmp_path_factory):
    """Shared: leave it as it is."""
    folder = build_specimen(request.param, tmp_path_factory.mktemp("specimens") / request.param)
    return load_base(ModelConfig(name=folder.name, path=str(folder)))


def written(base, samples, decoding=SHORT, model=None, side="left"):
    batch = collate(base, samples, side)
    inputs = row_inputs(base.model, batch.inputs, batch.picture_of)
    return write_replies(model or base.model, inputs, base.processor.tokenizer, ends(base), decoding)


def ids(base, samples, **options):
    return [reply.ids for reply in written(base, samples, **options)]


def alone(base, samples):
    return [reply for sample in samples for reply in ids(base, [sample])]


def sampling():
    return GenerationConfig(
        do_sample=True,
        temperature=9.0,
        top_k=7,
        top_p=0.9,
        repetition_penalty=3.0,
        num_beams=2,
        min_new_tokens=5,
        max_length=3,
        no_repeat_ngram_size=1,
        suppress_tokens=list(range(20, 300)),
        forced_eos_token_id=7,
        use_cache=False,
        return_dict_in_generate=True,
        eos_token_id=2,
    )


def test_each_token_is_the_likeliest_one(specimen):
    for sample, found in zip(make_samples(), ids(specimen, make_samples()), strict=True):
        expected, is_whole = step_by_step(specimen, sample, SHORT.max_new_tokens)
        assert found == expected if is_whole else found[: len(expected)] == expected


def test_a_row_gets_the_reply_that_it_gets_alone(specimen):
    samples = make_samples()
    together = ids(specimen, samples)
    assert together == alone(specimen, samples)
    if specimen.family.model_type != "gemma3":  # this one writes line ends, whatever it sees
        assert len(set(map(tuple, together))) > 1


def test_questions_on_one_picture_and_without_pictures_are_answered(specimen):
    (sample,) = make_samples(((80, 60),))
    other = Sample(dataclasses.replace(sample.item, item_id="other", question="Is the head seen?"), sample.pixels)
    for pair in ([sample, other], [Sample(sample.item, None), Sample(other.item, None)]):
        assert ids(specimen, pair) == alone(specimen, pair)


def test_the_sampling_that_a_checkpoint_publishes_is_left_out(own, caplog):
    samples = make_samples()
    plain = ids(own, samples)
    own.model.generation_config = published = sampling()
    own.model.config.use_cache = own.model.config.text_config.use_cache = False
    logging.getLogger("transformers").addHandler(caplog.handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = [ids(own, samples) for _ in range(2)]
    finally:
        logging.getLogger("transformers").removeHandler(caplog.handler)
    assert found == [plain, plain]
    assert caplog.messages == []
    assert own.model.generation_config is published
    assert published.to_dict() == sampling().to_dict()


def test_an_adapter_writes_too(own):
    model = attach_adapter(own, LoraConfig(r=4, parts=["language", "vision"]), seed=0).eval()
    samples = make_samples()
    before = ids(own, samples, model=model)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.05)
    after = ids(own, samples, model=model)
    assert after != before
    assert after[:2] == [step_by_step(own, sample, SHORT.max_new_tokens, model)[0] for sample in samples[:2]]


def test_each_step_reads_one_token_whatever_the_configuration_says(own):
    own.model.gradient_checkpointing_enable()
    own.model.config.use_cache = own.model.config.text_config.use_cache = False
    lengths = []
    layer = own.model.model.language_model.layers[0]
    layer.register_forward_pre_hook(lambda _, inputs: lengths.append(inputs[0].shape[1]))
    with saying(own, "one two three four five six"):
        (reply,) = written(own, make_samples()[:1])
    assert len(reply.ids) == len(lengths) == SHORT.max_new_tokens
    assert lengths[0] > 1
    assert set(lengths[1:]) == {1}


def test_a_reply_ends_where_the_template_or_the_checkpoint_says(own):
    for published, expected in (([0, 2], (0, 2)), (0, (0, 2)), (None, (2,)), (0, (0, 2))):
        own.model.generation_config.eos_token_id = published
        assert ends(own) == expected
    scripts = ("B<|im_end|>, or C", "B<|endoftext|>, or C", "B, or C<|im_end|>")
    with saying(own, *scripts):
        found = written(own, make_samples()[:3], Decoding(max_new_tokens=12))
    assert [own.processor.tokenizer.decode(reply.ids) for reply in found] == ["B", "B", "B, or C"]
    assert not any(reply.is_cut or reply.is_lost for reply in found)


def test_a_reply_that_does_not_end_is_cut_at_its_longest(shipped):
    script = [5, 6, 7, *ends(shipped)]
    for longest, is_cut in ((3, True), (4, False), (5, False)):
        with saying(shipped, script):
            (reply,) = written(shipped, make_samples()[:1], Decoding(max_new_tokens=longest))
        assert (reply.ids, reply.is_cut) == ([5, 6, 7], is_cut)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_row_is_lost_by_a_number_that_is_none_before_its_end_only(shipped, number):
    (end,) = ends(shipped)
    with saying(shipped, [5, end], [5], [5, 5, number], [end, number]):
        found = written(shipped, make_samples())
    assert [reply.is_lost for reply in found] == [False, False, True, False]


def test_rows_that_are_padded_on_the_right_are_refused(shipped):
    with pytest.raises(ValueError, match=r"padded on the right.*padding_side='left'"):
        written(shipped, make_samples(), side="right")
    sample = make_samples()[:1]
    assert written(shipped, sample, side="right") == written(shipped, sample)  # alone, it is not padded


def test_a_batch_without_a_needed_input_is_refused(specimen):
    inputs, companions = collate(specimen, make_samples()).inputs, specimen.family.companions
    for name in companions.always + companions.with_pictures:
        rest = {key: value for key, value in inputs.items() if key != name}
        with pytest.raises(ModelError, match=name):
            write_replies(specimen.model, rest, specimen.processor.tokenizer, ends(specimen), SHORT)


# Thoughts


THINKING = Decoding(max_new_tokens=6, reasoning_tokens=20)


def thoughts(base, *scripts, decoding=THINKING):
    """(text, whether it is cut) a script."""
    with saying(base, *scripts):
        found = written(base, make_samples()[: len(scripts)], decoding)
    return [(base.processor.tokenizer.decode(reply.ids), reply.is_cut) for reply in found]


def test_a_thought_that_is_closed_in_time_is_left_as_it_is(shipped):
    text = "<think>It is A</think>\n\nC"
    assert thoughts(shipped, text + "<|im_end|>") == [(text, False)]


def test_a_thought_that_uses_up_its_tokens_is_closed_and_answered(shipped):
    tokenizer = shipped.processor.tokenizer
    bridge = tokenizer("</think><answer>")["input_ids"]
    thought = [5] * (THINKING.reasoning_tokens + len(bridge))
    answer = tokenizer("B<|im_end|>")["input_ids"]
    with saying(shipped, [*thought, *answer]):
        (reply,) = written(shipped, make_samples()[:1], THINKING)
    assert reply.ids == [*thought[: THINKING.reasoning_tokens], *bridge, *answer[:-1]]
    assert not reply.is_cut


def test_each_row_thinks_and_answers_within_its_own_limits(shipped):
    scripts = ("<think>A</think>B<|im_end|>", "<think>A</think>" + "C and so on " * 20, "B<|im_end|>", "A " * 99)
    found = thoughts(shipped, *scripts)
    assert [is_cut for _, is_cut in found] == [False, True, False, True]
    assert (found[0][0], found[2][0]) == ("<think>A</think>B", "B")
    run_on = found[1][0].removeprefix("<think>A</think>")
    assert len(shipped.processor.tokenizer(run_on)["input_ids"]) == THINKING.max_new_tokens
    assert found[3][0].count("</think><answer>") == 1
    assert found == [reply for script in scripts for reply in thoughts(shipped, script)]


def test_a_model_that_ends_its_turn_in_its_thought_is_not_made_to_go_on(shipped):
    found = thoughts(shipped, "<think>It is A.<|im_end|>", "A " * 99)
    assert found[0] == ("<think>It is A.", False)


def test_a_tag_is_found_where_its_tokens_are_merged_with_what_stands_beside_it(shipped):
    decoding = Decoding(3, 40, closing="## Final Response")
    ((text, is_cut),) = thoughts(shipped, "so A.## Final Response:\n\nC and so on and on", decoding=decoding)
    assert text.startswith("so A.## Final Response")
    assert is_cut
    assert "<answer>" not in text


def test_every_setting_of_the_decoding_is_in_its_description():
    texts = {
        decoding.describe()
        for decoding in (
            Decoding(),
            Decoding(max_new_tokens=17),
            Decoding(reasoning_tokens=1),
            Decoding(opening="<t>"),
            Decoding(closing="</t>"),
            Decoding(answer_prefix=""),
        )
    }
    assert len(texts) == 1 + len(dataclasses.fields(Decoding))
    assert Decoding().describe() == Decoding(max_new_tokens=16).describe()


@pytest.mark.parametrize(
    "wrong", [{"max_new_tokens": 1}, {"reasoning_tokens": -1}, {"closing": ""}, {"opening": ""}], ids=str
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong)) if "tokens" in next(iter(wrong)) else "tags"):
        Decoding(**wrong)
