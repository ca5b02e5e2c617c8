from dataclasses import replace

import numpy as np
import pytest
from mini_items import make_item

from medvl.batching.collator import Collator
from medvl.batching.dataset import Sample
from medvl.models.longest import longest_row, row_size

LONG = "Which of the four standard planes of the second trimester is shown in this picture?"


def items():
    return [
        make_item(number=0, width=300, height=60),
        make_item(number=1, width=40, height=30, question=LONG),
        make_item(number=2, width=120, height=110, options=("a head", "an abdomen", "a femur")),
    ]


def sample(item):
    return Sample(item, np.zeros((item.height, item.width, 3), dtype=np.uint8))


def test_no_batch_of_the_benchmark_is_larger(family_base):
    """The largest picture and the longest text are taken together, though no item has both."""
    row = longest_row(family_base.processor, family_base.family, family_base.model.config, items())
    collate = Collator(family_base.processor, with_answer=True)
    whole = collate([sample(item) for item in items()])
    assert row.tokens >= whole.inputs["input_ids"].shape[1]
    talkative = collate([sample(items()[1])])
    assert row.tokens >= talkative.inputs["input_ids"].shape[1]
    assert row.answer == 2


def test_one_item_is_measured_as_the_collator_makes_it(family_base):
    item = items()[0]
    row = row_size(family_base.processor, family_base.family, family_base.model.config, item)
    batch = Collator(family_base.processor, with_answer=True)([sample(item)])
    assert row.tokens == batch.inputs["input_ids"].shape[1]
    pixels = batch.inputs["pixel_values"]
    assert row.patches * 3 * family_base.model.config.vision_config.patch_size**2 == pixels.numel()
    assert row.states == (row.patches if family_base.family.model_type == "mllama" else 0)


@pytest.mark.parametrize("extra", ["", "more of it"])
def test_a_longer_question_makes_a_longer_row(family_base, extra):
    config, model = family_base.model.config, family_base
    short, long = (
        longest_row(model.processor, model.family, config, [replace(items()[0], question=f"Which{text}?")]).tokens
        for text in ("", extra)
    )
    assert (long > short) == bool(extra)
