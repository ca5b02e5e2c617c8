import dataclasses

import pytest
import torch
from mini_batches import make_samples
from towers import pixels_encoded

from medvl.batching.collator import Collator
from medvl.models.pictures import EncodedPictures, encode_once


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
    assert sum(seen) == inputs["pixel_values"].numel() * 2 / 3
    assert torch.allclose(states(family_base, shared), states(family_base, inputs), atol=1e-5)


def test_they_are_given_for_any_rows_in_any_order(family_base, inputs):
    with torch.inference_mode():
        pictures = EncodedPictures(family_base.model, family_base.family, inputs, [0, 1])
    turned = {name: value[[1, 0, 1, 1]] for name, value in inputs.items()}
    rest = {name: value for name, value in turned.items() if name != "pixel_values"}
    found = states(family_base, {**rest, **pictures.inputs([1, 0, 1, 1])})
    assert torch.allclose(found, states(family_base, turned), atol=1e-5)


def test_inputs_stay_as_they_are_where_no_picture_is_shared(family_base, inputs):
    unable = dataclasses.replace(
        family_base.family, abilities=dataclasses.replace(family_base.family.abilities, encodes_pictures_once=False)
    )
    blind = {"input_ids": inputs["input_ids"]}
    assert encode_once(family_base.model, family_base.family, inputs, [0, 1, 2]) is inputs
    assert encode_once(family_base.model, unable, inputs, [0, 1, 0]) is inputs
    assert encode_once(family_base.model, family_base.family, blind, [0, 1, 0]) is blind
