import pytest
from mini_batches import make_samples
from mini_items import make_item

from medvl.batching import option_rows
from medvl.batching.collator import IGNORED
from medvl.batching.dataset import Sample
from medvl.batching.option_rows import OptionCollator
from medvl.errors import DataError


def texts_of(base, part):
    """What a part's rows say, and which of it is labelled."""
    decode = base.processor.tokenizer.decode
    rows = zip(part.inputs["input_ids"], part.inputs["attention_mask"].bool(), part.labels, strict=True)
    return [(decode(ids[mask]), decode(labels[labels != IGNORED])) for ids, mask, labels in rows]


def made(base, options, **words):
    """The rows of one question without a picture."""
    sample = Sample(make_item(options=tuple(options), answer="", answer_index=0), None)
    return [row for part in OptionCollator(base.processor, **words)([sample]).parts for row in texts_of(base, part)]


def test_a_row_is_the_question_without_options_and_one_option_as_the_reply(family_base):
    batch = OptionCollator(family_base.processor)(make_samples())
    rows = [row for part in batch.parts for row in texts_of(family_base, part)]
    wanted = [(sample.item, option) for sample in make_samples() for option in sample.item.options]
    assert [item for part in batch.parts for item in part.items] == [item for item, _ in wanted]
    end = family_base.processor.tokenizer.eos_token
    for (text, labelled), (item, option) in zip(rows, wanted, strict=True):
        assert item.question.strip() in text
        assert "A. " not in text
        others = set(item.options) - {option}
        assert not any(other in text for other in others - {"head"})  # some templates name their headers so
        assert text.endswith(labelled)
        assert labelled.strip().removesuffix(end) == option
        assert labelled.endswith(end)
    assert batch.blind == []


@pytest.mark.parametrize("size", [1, 2, 4])
def test_no_part_has_more_rows_than_the_batch_has_questions(family_base, size):
    batch = OptionCollator(family_base.processor)(make_samples()[:size])
    rows = [len(part.items) for part in batch.parts]
    assert sum(rows) == 3 * size
    assert max(rows) == size


def test_long_options_make_smaller_parts_but_none_is_lost(family_base, monkeypatch):
    monkeypatch.setattr(option_rows, "TOKENS_AT_ONCE", 12)
    options = ("head", "head " * 20 + "end", "arm", "leg")
    samples = [Sample(make_item(number=i, options=options), None) for i in range(4)]
    parts = OptionCollator(family_base.processor)(samples).parts
    for part in parts:
        assert len(part.items) == 1 or int((part.labels != IGNORED).sum()) <= 12
    assert sum(len(part.items) for part in parts) == 16


def test_the_rows_without_pictures_are_the_same_but_for_the_picture(family_base):
    batch = OptionCollator(family_base.processor, text_only_too=True)(make_samples())
    for seen, blind in zip(batch.parts, batch.blind, strict=True):
        assert seen.items == blind.items
        assert "pixel_values" in seen.inputs
        assert "pixel_values" not in blind.inputs
        assert [text for _, text in texts_of(family_base, seen)] == [text for _, text in texts_of(family_base, blind)]


def test_the_padding_side_changes_no_row(family_base):
    right, left = (OptionCollator(family_base.processor, padding_side=s)(make_samples()) for s in ("right", "left"))
    for a, b in zip(right.parts, left.parts, strict=True):
        assert texts_of(family_base, a) == texts_of(family_base, b)
    assert any(not part.inputs["attention_mask"][:, 0].all() for part in left.parts)


def test_words_of_all_kinds_are_kept_as_they_are(family_base):
    options = ["Kopf (Fötus)", "頭部", "A", "3.5 mm", "yes, it is", "x" * 300, "  spaced", "🩻"]
    rows = made(family_base, options)
    for (text, labelled), option in zip(rows, options, strict=True):
        assert text.endswith(labelled)
        assert option.strip() in labelled


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("head", "  "), "PI-0: an option without text"),
        (("head", ""), "PI-0: an option without text"),
        (("head", "arm", "head"), "PI-0: options A and C are the same to the model"),
        (("head", "arm", "Both A and B"), "PI-0: its options speak of each other"),
        (("head", "none of the above"), "PI-0: its options speak of each other"),
        (("head", "END"), "PI-0: its question or options hold"),
    ],
)
def test_options_that_are_no_answers_on_their_own_are_refused_before_anything_is_asked(family_base, options, message):
    end = family_base.processor.tokenizer.eos_token
    item = make_item(options=tuple(option.replace("END", f"a{end}") for option in options))
    with pytest.raises(DataError, match=message):
        OptionCollator(family_base.processor).check([item])


def test_a_batch_for_another_device_holds_the_same_rows(tiny_base):
    batch = OptionCollator(tiny_base.processor, text_only_too=True)(make_samples())
    moved = batch.to("meta")
    assert (batch.device, moved.device) == ("cpu", "meta")
    assert (moved.items, moved.parts, moved.blind) == (batch.items, batch.parts, batch.blind)
