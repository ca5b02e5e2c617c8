import dataclasses

import pytest
import torch
from mini_batches import make_samples
from towers import pixels_encoded

from medvl.batching.collator import Collator
from medvl.models.pictures import EncodedPictures, encode_once, of_rows, row_inputs


@pytest.fixture
def inputs(family_base):
    """Two pictures, the first one twice."""
    one, other = make_samples(((80, 60), (50, 90)))
    return Collator(family_base.processor, with_answer=False)([one, other, one]).inputs


@torch.inference_mode()
def states(base, inputs):
    return base.model.model(**inputs, use_cache=False).last_hidden_state


def test_the_encodings_stand_for_the_pixels(family_base, inputs):
    with torch.inference_mode(), pixels_encoded(family_base.model) as seen:
        shared = encode_once(family_base.model, family_base.family, inputs, [0, 1, 0])
    assert "pixel_values" not in shared
    assert sum(seen) == inputs["pixel_values"].numel()
    plain = row_inputs(family_base.model, inputs, [0, 1, 0])
    assert len(plain["pixel_values"]) == 3
    assert torch.allclose(states(family_base, shared), states(family_base, plain), atol=1e-5)


def test_they_are_given_for_any_rows_in_any_order(family_base, inputs):
    with torch.inference_mode():
        pictures = EncodedPictures(family_base.model, family_base.family, inputs, [0, 1, 0])
    plain = row_inputs(family_base.model, inputs, [0, 1, 0])
    turned = {name: value[[1, 0, 1, 1]] for name, value in plain.items()}
    rest = {name: value for name, value in turned.items() if name != "pixel_values"}
    found = states(family_base, {**rest, **pictures.inputs([1, 0, 1, 1])})
    assert torch.allclose(found, states(family_base, turned), atol=1e-5)


def test_a_family_that_cannot_share_gets_the_pixels_of_every_row(family_base, inputs):
    abilities = dataclasses.replace(family_base.family.abilities, encodes_pictures_once=False)
    unable = dataclasses.replace(family_base.family, abilities=abilities)
    found = encode_once(family_base.model, unable, inputs, [0, 1, 0])
    assert torch.equal(found["pixel_values"], inputs["pixel_values"][[0, 1, 0]])


def test_inputs_stay_as_they_are_where_no_picture_is_shared(family_base, inputs):
    blind = {"input_ids": inputs["input_ids"]}
    two = {name: value[:2] for name, value in inputs.items()}
    assert encode_once(family_base.model, family_base.family, two, [0, 1]) is two
    assert encode_once(family_base.model, family_base.family, blind, [0, 1, 0]) is blind
    assert row_inputs(family_base.model, two, [0, 1]) is two
    assert row_inputs(family_base.model, blind, [0, 1, 0]) is blind


def test_what_is_known_of_a_picture_stands_in_every_row(inputs):
    found = of_rows({**inputs, "sizes": torch.tensor([[1, 2], [3, 4]])}, [0, 1, 0])
    assert found["sizes"].tolist() == [[1, 2], [3, 4], [1, 2]]
    assert found["pixel_values"] is inputs["pixel_values"]
    assert found["input_ids"] is inputs["input_ids"]
