import copy
import json
from pathlib import Path

import pytest
from mini_items import make_item
from transformers import AutoTokenizer

from medvl.batching import prompt
from medvl.batching.prompt import (
    STYLES,
    answer_tokens,
    conversation,
    open_prompt_fingerprint,
    open_question_text,
    prompt_fingerprint,
    question_text,
    render,
    style_of,
    use_style,
    worded_ending,
)
from medvl.benchmark.item import LETTERS
from medvl.errors import ModelError

END_OF_TURN = {"llava": "<|im_end|>", "mllama": "<|eot_id|>"}

TEMPLATES = {
    "control token that is not the end token": (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% for c in m['content'] %}"
        "{{ '<image>' if c['type'] == 'image' else c['text'] }}{% endfor %}<turn_end>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        ["{letter}", "<turn_end>"],
    ),
    "no marker, a space after the answer": (
        "{% for m in messages %}{{ m['role'] }}:{% for c in m['content'] %}"
        "{{ '<image>' if c['type'] == 'image' else c['text'] + ' ' }}{% endfor %}{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}",
        ["{letter}", "<|im_end|>"],
    ),
    "no marker at all": (
        "{% for m in messages %}{{ m['role'] }}\n{% for c in m['content'] %}"
        "{{ '<image>' if c['type'] == 'image' else c['text'] }}{% endfor %}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant\n{% endif %}",
        ["{letter}", "<|im_end|>"],
    ),
}
"""Chat template -> tokens of an answer."""


@pytest.fixture
def processor(tiny_base):
    """A copy that a test may change."""
    return copy.deepcopy(tiny_base.processor)


@pytest.fixture(params=["drawn", "Qwen2.5-VL"])
def joining(request, processor):
    """A copy whose tokenizer has `>A` as one token: our own with such tokens, and the real vocabulary that has them."""
    if request.param == "drawn":
        processor.tokenizer.add_tokens([f">{letter}" for letter in LETTERS])
        return processor
    folder = Path(__file__).resolve().parents[4] / "shared/model_configs/Qwen__Qwen2.5-VL-7B-Instruct"
    if not folder.is_dir():
        pytest.skip(f"no vocabulary of a real model at {folder}")
    processor.tokenizer = AutoTokenizer.from_pretrained(folder)
    processor.chat_template = json.loads((folder / "chat_template.json").read_text())["chat_template"]
    return processor


def test_the_question_is_one_line_an_option_and_the_instruction():
    assert question_text(make_item(options=("head", "no plane"))).splitlines() == [
        "Which plane is it?",
        "A. head",
        "B. no plane",
        "Answer with the letter of the correct option only.",
    ]


def test_the_picture_comes_before_the_text():
    assert [part["type"] for part in conversation("x")[0]["content"]] == ["image", "text"]
    assert [message["role"] for message in conversation("x", "B")] == ["user", "assistant"]


def test_an_answer_is_the_letter_and_the_end_of_turn(family_base):
    tokens, tokenizer = answer_tokens(family_base.processor), family_base.processor.tokenizer
    for letter in LETTERS:
        end = END_OF_TURN[family_base.family.model_type]
        assert tokenizer.convert_ids_to_tokens(tokens.ending_ids[letter]) == [letter, end]
        assert tokenizer.decode([tokens.letter_ids[letter]]) == letter
        assert tokens.endings[letter] == letter + end
    assert len(set(tokens.letter_ids.values())) == len(LETTERS)


@pytest.mark.parametrize("name", TEMPLATES)
def test_an_answer_is_the_letter_and_the_end_of_turn_for_other_templates(processor, name):
    template, expected = TEMPLATES[name]
    processor.tokenizer.add_tokens(["<turn_end>"], special_tokens=True)
    processor.chat_template = template
    tokens = answer_tokens(processor)
    for letter in "AJ":
        text = [processor.tokenizer.decode([i]) for i in tokens.ending_ids[letter]]
        assert text == [part.format(letter=letter) for part in expected]
        assert tokens.letter_ids[letter] == tokens.ending_ids[letter][0]


def test_an_answer_in_words_is_written_as_a_letter_is(family_base):
    processor, tokens = family_base.processor, answer_tokens(family_base.processor)
    for letter in LETTERS:
        assert worded_ending(processor, tokens, letter) == (tokens.endings[letter], tokens.ending_ids[letter])
    text, ids = worded_ending(processor, tokens, "an Animal's head")
    assert "an Animal's head" in text
    assert ids[-1] == tokens.ending_ids["A"][-1]
    assert processor.tokenizer.decode(ids) == text


@pytest.mark.parametrize("name", TEMPLATES)
def test_an_answer_in_words_has_the_end_of_turn_of_other_templates(processor, name):
    processor.chat_template = TEMPLATES[name][0]
    processor.tokenizer.add_special_tokens({"additional_special_tokens": ["<turn_end>"]})
    text, ids = worded_ending(processor, answer_tokens(processor), "four-chamber view")
    assert text == f"four-chamber view{TEMPLATES[name][1][1]}"
    assert processor.tokenizer.decode(ids) == text


@pytest.mark.parametrize("answer", ["\n\nhead", "head<|im_end|>"])
def test_an_answer_that_cannot_be_told_from_what_is_around_it_is_refused(processor, answer, monkeypatch):
    """Line breaks melt with the one that ends the prompt, an end of the turn in the words would end them."""
    tokens, plain = answer_tokens(processor), prompt._ids
    monkeypatch.setattr(prompt, "_ids", lambda tokenizer, text: plain(tokenizer, text.replace("\n\n\n", "#")))
    with pytest.raises(ModelError, match=r"does not keep the answer .* apart"):
        worded_ending(processor, tokens, answer)


def test_an_open_question_shows_no_options_and_has_a_fingerprint_of_its_own(tiny_base):
    item = make_item()
    assert open_question_text(item).startswith(item.question + "\n")
    assert not any(option in open_question_text(item) for option in item.options)
    assert open_prompt_fingerprint(tiny_base.processor) != prompt_fingerprint(tiny_base.processor)


def test_a_template_that_puts_something_before_the_answer_is_refused(processor):
    processor.chat_template = processor.chat_template.replace(
        "{{ part['text'] }}", "{% if message['role'] == 'assistant' %}<think>{% endif %}{{ part['text'] }}"
    )
    with pytest.raises(ModelError, match="share a token id"):
        answer_tokens(processor)


def test_a_template_whose_prompt_is_not_followed_by_the_answer_is_refused(processor):
    processor.chat_template = processor.chat_template.replace("assistant\n{% endif %}", "model\n{% endif %}")
    with pytest.raises(ModelError, match="does not write the answer after its generation prompt"):
        answer_tokens(processor)


@pytest.mark.parametrize("template", ["{% for", "{{ raise_exception('no pictures') }}", "{{ messages[9].role }}"])
def test_a_template_that_cannot_be_rendered_is_refused(processor, template):
    processor.chat_template = template
    with pytest.raises(ModelError, match="chat template of LlavaProcessor cannot write a picture and a question"):
        answer_tokens(processor)


def test_the_prompt_ends_where_the_answer_starts(family_base):
    prompt, full = render(family_base.processor, "What?"), render(family_base.processor, "What?", "C")
    assert full.startswith(prompt + "C")


def test_the_fingerprint_sees_a_system_turn_that_only_one_side_adds(processor):
    before = prompt_fingerprint(processor)
    assert before == prompt_fingerprint(copy.deepcopy(processor))
    processor.chat_template = "<|im_start|>system\nYou are a doctor.<|im_end|>\n" + processor.chat_template
    assert prompt_fingerprint(processor) != before


def reads(processor, answer, letter):
    """What a server would read of a turn that is answered with a letter."""
    prompt = render(processor, "?") + answer.opening
    return processor.tokenizer.decode(
        [*processor.tokenizer(prompt, add_special_tokens=False)["input_ids"], *answer.ending_ids[letter]]
    )


def test_a_reasoning_model_is_made_to_leave_its_thought_empty(processor):
    use_style(processor, "reasoning")
    tokens = answer_tokens(processor)
    assert tokens.opening == "<think>\n\n</think>\n<answer>"
    assert len(set(tokens.letter_ids.values())) == len(LETTERS)
    for letter in LETTERS:
        assert reads(processor, tokens, letter).endswith(f"<think>\n\n</think>\n<answer>{letter}</answer><|im_end|>")
        assert tokens.endings[letter] == f"{letter}</answer><|im_end|>"


def test_the_opening_ends_before_the_letter_where_a_tokenizer_joins_both(joining):
    use_style(joining, "reasoning")
    tokens = answer_tokens(joining)
    assert tokens.opening == "<think>\n\n</think>\n<answer"
    assert joining.tokenizer.convert_ids_to_tokens(list(tokens.letter_ids.values())) == [f">{x}" for x in LETTERS]
    assert tokens.endings["B"] == ">B</answer><|im_end|>"
    assert tokens.ending_ids["B"][0] == tokens.letter_ids["B"]


def test_a_template_that_drops_thoughts_does_not_matter(processor):
    before = copy.deepcopy(processor)
    processor.chat_template = processor.chat_template.replace(
        "{{ part['text'] }}", "{{ part['text'].split('</think>')[-1] }}"
    )
    for one in (before, processor):
        use_style(one, "reasoning")
    assert answer_tokens(processor) == answer_tokens(before)


def test_a_style_changes_the_instruction_and_the_fingerprint(processor):
    before = prompt_fingerprint(processor)
    assert style_of(processor) is STYLES["letter"]
    use_style(processor, "reasoning")
    text = question_text(make_item(), style_of(processor))
    assert "<think>" in text.splitlines()[-1]
    assert text.splitlines()[:-1] == question_text(make_item()).splitlines()[:-1]
    assert prompt_fingerprint(processor) != before
    use_style(processor, "letter")
    assert prompt_fingerprint(processor) == before
