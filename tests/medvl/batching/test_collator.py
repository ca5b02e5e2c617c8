import copy
import dataclasses

import numpy as np
import pytest
import torch
from mini_items import make_item
from PIL import Image
from pytorch_lightning.plugins.precision import HalfPrecision

from medvl.batching.collator import IGNORED, Batch, Collator
from medvl.batching.dataset import Sample
from medvl.batching.prompt import conversation, question_text, use_style
from medvl.errors import DataError

END_OF_TURN = {"llava": "<|im_end|>", "mllama": "<|eot_id|>"}


def samples(sizes=((40, 30), (200, 50), (60, 180), (96, 96))) -> list[Sample]:
    """Pictures of several sizes, questions of several lengths."""
    rng = np.random.default_rng(0)
    found = []
    for number, (width, height) in enumerate(sizes):
        item = make_item(number=number, width=width, height=height, question="Which plane is it? " * (1 + 3 * number))
        found.append(Sample(item, rng.integers(0, 255, (height, width, 3), dtype=np.uint8)))
    return found


@pytest.fixture
def processor(tiny_base):
    """A copy that a test may change."""
    return copy.deepcopy(tiny_base.processor)


def test_exactly_the_letter_and_the_end_of_turn_are_supervised(family_base):
    tokenizer = family_base.processor.tokenizer
    batch = Collator(family_base.processor, with_answer=True)(samples())
    for row, item in enumerate(batch.items):
        supervised = batch.labels[row] != IGNORED
        assert torch.equal(batch.labels[row][supervised], batch.inputs["input_ids"][row][supervised])
        tokens = tokenizer.convert_ids_to_tokens(batch.labels[row][supervised].tolist())
        assert tokens == [item.answer_letter, END_OF_TURN[family_base.family.model_type]]
        assert batch.inputs["attention_mask"][row][supervised].all()


def test_the_answer_position_is_the_one_before_the_letter(family_base):
    batch = Collator(family_base.processor, with_answer=True)(samples())
    first = (batch.labels != IGNORED).int().argmax(dim=1)
    assert torch.equal(batch.answer_position, first - 1)


def test_a_text_only_batch_has_no_picture_and_ends_like_the_others(family_base):
    collate = Collator(family_base.processor, with_answer=False)
    with_pictures = collate(samples())
    blind = collate([Sample(sample.item, None) for sample in samples()])
    assert not [name for name in blind.inputs if name not in ("input_ids", "attention_mask", "token_type_ids")]
    picture = family_base.processor.tokenizer.convert_tokens_to_ids(family_base.processor.image_token)
    assert (with_pictures.inputs["input_ids"] == picture).any()
    assert not (blind.inputs["input_ids"] == picture).any()
    for row, (end, seen) in enumerate(zip(blind.answer_position, with_pictures.answer_position, strict=True)):
        tail = blind.inputs["input_ids"][row, : end + 1][-20:]
        assert torch.equal(tail, with_pictures.inputs["input_ids"][row, : seen + 1][-20:])


def test_questions_with_and_without_pictures_do_not_mix(processor):
    one, other, *_ = samples()
    with pytest.raises(ValueError, match="not both"):
        Collator(processor, with_answer=False)([one, Sample(other.item, None)])


def test_rows_that_borrow_one_picture_share_it(processor):
    one, other, *_ = samples()
    borrowed = Sample(other.item, one.pixels, one.item)
    assert Collator(processor, with_answer=False)([one, borrowed, other]).picture_of == [0, 0, 1]


def test_a_question_batch_stops_at_the_same_answer_position(family_base):
    with_answer = Collator(family_base.processor, with_answer=True)(samples())
    question = Collator(family_base.processor, with_answer=False)(samples())
    assert question.labels is None
    assert torch.equal(question.answer_position, with_answer.answer_position)
    for row, end in enumerate(question.answer_position.tolist()):
        asked, trained = (b.inputs["input_ids"][row, : end + 1] for b in (question, with_answer))
        assert torch.equal(asked, trained)
        assert question.inputs["attention_mask"][row].sum() == end + 1


def test_rows_are_what_the_chat_template_tokenizes_with_the_picture(family_base):
    for sample in samples():
        batch = Collator(family_base.processor, with_answer=False)([sample])
        messages = conversation(question_text(sample.item))
        messages[0]["content"][0]["image"] = Image.fromarray(sample.pixels)
        expected = family_base.processor.apply_chat_template(
            messages, tokenize=True, add_generation_prompt=True, return_dict=True, return_tensors="pt"
        )
        assert batch.inputs["input_ids"].tolist() == expected["input_ids"].tolist()
        assert set(batch.inputs) == set(expected)
        assert torch.equal(batch.inputs["pixel_values"], expected["pixel_values"])


def test_a_row_begins_with_one_begin_token_where_the_family_has_one(family_base):
    begin = family_base.processor.tokenizer.bos_token_id
    ids = Collator(family_base.processor, with_answer=True)(samples()).inputs["input_ids"]
    if family_base.family.model_type == "llava":
        assert begin is None
        return
    assert (ids == begin).sum(dim=1).tolist() == [1] * len(ids)
    assert (ids[:, 0] == begin).all()


def test_the_end_token_is_supervised_when_it_is_also_the_padding(processor):
    processor.tokenizer.pad_token = processor.tokenizer.eos_token
    batch = Collator(processor, with_answer=True)(samples())
    end = processor.tokenizer.eos_token_id
    assert processor.tokenizer.pad_token_id == end
    assert ((batch.labels == end).sum(dim=1) == 1).all()
    assert ((batch.labels != IGNORED).sum(dim=1) == 2).all()
    assert (batch.inputs["attention_mask"].sum(dim=1) < batch.labels.shape[1]).any()


def test_items_keep_their_order_and_a_moved_batch_its_content(family_base):
    given = samples()
    batch = Collator(family_base.processor, with_answer=True)(given)
    assert batch.items == tuple(sample.item for sample in given)
    moved = batch.to("meta")
    assert {t.device.type for t in (*moved.inputs.values(), moved.labels, moved.answer_position)} == {"meta"}
    assert moved.items == batch.items


def test_lightning_may_convert_a_batch_for_half_precision(family_base):
    batch = Collator(family_base.processor, with_answer=True)(samples())
    assert HalfPrecision("bf16-true").convert_input(batch).items == batch.items


def test_rows_of_one_picture_are_found_by_pixels_and_box():
    shown = [("a", None), ("b", None), ("a", None), ("a", (0.0, 0.0, 5.0, 5.0)), ("b", None)]
    items = [make_item(number=i, sha256_pixels=pixels, bbox_xyxy_px=box) for i, (pixels, box) in enumerate(shown)]
    assert Batch(tuple(items), {}, None, torch.zeros(5)).picture_of == [0, 1, 0, 2, 1]


@pytest.mark.parametrize("with_answer", [True, False])
def test_a_row_longer_than_the_model_takes_is_refused_by_name(processor, with_answer):
    processor.tokenizer.model_max_length = 120
    with pytest.raises(DataError, match=r"item PI-3: \d+ tokens with its picture, the model takes at most 120"):
        Collator(processor, with_answer=with_answer)(samples())


def test_no_length_limit_is_no_error(processor):
    processor.tokenizer.model_max_length = int(1e30)
    assert len(Collator(processor, with_answer=True)(samples()).items) == 4


def test_an_answer_that_was_cut_off_is_refused_by_name(processor):
    call = type(processor).__call__

    class Cutting(type(processor)):
        def __call__(self, *args, **kwargs):
            encoded = call(self, *args, **kwargs)
            for name in ("input_ids", "attention_mask"):
                encoded[name] = encoded[name][:, :100]
            return encoded

    processor.__class__ = Cutting
    collator = Collator(processor, with_answer=True)
    with pytest.raises(DataError, match=r"item PI-2: expected the tokens .* of its answer at the end of the row"):
        collator(samples())


@pytest.mark.parametrize("text", ["<image>", "a<|im_end|>b"])
@pytest.mark.parametrize("where", ["question", "options"])
def test_a_label_that_holds_a_control_token_is_refused_by_name(tiny_base, text, where):
    sample = samples()[0]
    item = dataclasses.replace(sample.item, **{where: text if where == "question" else ("head", text, "femur")})
    with pytest.raises(DataError, match="item PI-0: its question or options hold"):
        Collator(tiny_base.processor, with_answer=False)([Sample(item, sample.pixels)])


@pytest.mark.parametrize("size", [(1, 1), (1, 400), (3, 3), (400, 1)])
def test_pictures_of_extreme_shape_make_a_batch(family_base, size):
    batch = Collator(family_base.processor, with_answer=True)(samples((size, (40, 30))))
    assert torch.isfinite(batch.inputs["pixel_values"]).all()


def test_a_reasoning_style_opens_the_turn_for_the_model_unless_it_may_think(processor):
    use_style(processor, "reasoning")
    tokenizer = processor.tokenizer
    trained = Collator(processor, with_answer=True)(samples())
    closed, open_ended = (Collator(processor, with_answer=False, opened=opened)(samples()) for opened in (True, False))
    for row, item in enumerate(trained.items):
        said = tokenizer.decode(trained.labels[row][trained.labels[row] != IGNORED])
        assert said == f"{item.answer_letter}</answer><|im_end|>"
        asked, thinking = (
            tokenizer.decode(batch.inputs["input_ids"][row][: int(batch.answer_position[row]) + 1])
            for batch in (closed, open_ended)
        )
        assert asked == f"{thinking}<think>\n\n</think>\n<answer>"
        assert "inside <answer> </answer> tags" in thinking
    assert torch.equal(trained.answer_position, closed.answer_position)


def test_an_answer_without_its_opening_is_refused(processor):
    with pytest.raises(ValueError, match="an answer follows the opening"):
        Collator(processor, with_answer=True, opened=False)
