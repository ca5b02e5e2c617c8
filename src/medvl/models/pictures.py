"""The pictures of a batch, each of them once: encoded for the rows that show it, or repeated for every row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from medvl.batching.inputs import TOKENWISE
from medvl.models.families import FAMILIES, Family


class EncodedPictures:
    """The pictures of a batch as the decoder takes them.

    Args:
        bare: A transformers image-text model without the wrapper of an adapter.
        family: Its architecture.
        inputs: What its processor made, with each picture once.
        picture_of: `Batch.picture_of`.
    """

    def __init__(self, bare: Any, family: Family, inputs: dict[str, Tensor], picture_of: Sequence[int]) -> None:
        names = ("pixel_values", *(name for name in family.companions.with_pictures if name not in TOKENWISE))
        pictures = {name: inputs[name] for name in names}
        if family.cross_tokens is not None:
            states = bare.model.multi_modal_projector(bare.model.vision_model(**pictures).last_hidden_state)
            self._states: Tensor = states.flatten(1, 2)  # [pictures, tiles, states of a tile, D]
            self._give = self._cross_attention
            return
        self._encoded = bare.model.get_image_features(**pictures, return_dict=True)
        self._sizes = _entries(bare, family, inputs, picture_of)
        self._give = self._row_tokens

    def inputs(self, picture_of: Sequence[int]) -> dict[str, Any]:
        """Model inputs that stand for the pixels of a batch.

        Args:
            picture_of: For each row of that batch, the number of the picture it shows.
        """
        return self._give(list(picture_of))

    def _cross_attention(self, places: list[int]) -> dict[str, Any]:
        return {"cross_attention_states": self._states[places].flatten(0, 1)}

    def _row_tokens(self, places: list[int]) -> dict[str, Any]:
        features = self._encoded.pooler_output
        chosen: Any
        if not isinstance(features, Tensor):
            chosen = [features[place] for place in places]
        elif self._sizes is None:
            chosen = features[places]
        else:
            parts = torch.split(features, self._sizes)
            chosen = torch.cat([parts[place] for place in places])
        further = {}
        if (layers := getattr(self._encoded, "deepstack_features", None)) is not None:  # Qwen3-VL
            further["deepstack_features"] = [[layer[place] for place in places] for layer in layers]
        return {"mm_encoder_outputs": {"image": type(self._encoded)(pooler_output=chosen, **further)}}


def encode_once(bare: Any, family: Family, inputs: dict[str, Tensor], picture_of: Sequence[int]) -> dict[str, Any]:
    """Inputs in which rows that show one picture share its encoding.

    Args:
        bare: See `EncodedPictures`.
        family: Its architecture.
        inputs: What its processor made, with each picture once.
        picture_of: `Batch.picture_of`.

    Returns:
        The inputs as they are where no picture is shown twice; with the pixels of every row where the family cannot
        share encodings.
    """
    if not _is_shared(inputs, picture_of):
        return inputs
    if not family.abilities.encodes_pictures_once:
        return row_inputs(bare, inputs, picture_of)
    rest = {name: value for name, value in inputs.items() if name != "pixel_values"}
    pictures = EncodedPictures(bare, family, inputs, picture_of)
    return {**of_rows(rest, picture_of), **pictures.inputs(picture_of)}


def row_inputs(model: Any, inputs: dict[str, Tensor], picture_of: Sequence[int]) -> dict[str, Tensor]:
    """Inputs as any transformers model takes them, in which every row has a picture of its own.

    Args:
        model: A transformers image-text model, with or without a PEFT adapter.
        inputs: What its processor made, with each picture once.
        picture_of: `Batch.picture_of`.
    """
    if not _is_shared(inputs, picture_of):
        return inputs
    bare = model.get_base_model() if hasattr(model, "get_base_model") else model
    family = FAMILIES.get(bare.config.model_type)
    pixels, entries = inputs["pixel_values"], None
    if family is not None:
        entries = _entries(bare, family, inputs, picture_of)
    if entries is None:
        pixels = pixels[list(picture_of)]
    else:
        parts = torch.split(pixels, entries)
        pixels = torch.cat([parts[number] for number in picture_of])
    return {**of_rows(inputs, picture_of), "pixel_values": pixels}


def of_rows(inputs: dict[str, Tensor], picture_of: Sequence[int]) -> dict[str, Tensor]:
    """Inputs in which what is known of a picture, its pixels excepted, stands in every row that shows it.

    Args:
        inputs: What a processor made, with each picture once.
        picture_of: `Batch.picture_of`.
    """
    own = (*TOKENWISE, "pixel_values")
    return {name: value if name in own else value[list(picture_of)] for name, value in inputs.items()}


def _is_shared(inputs: dict[str, Tensor], picture_of: Sequence[int]) -> bool:
    return "pixel_values" in inputs and len(set(picture_of)) < len(picture_of)


def _entries(bare: Any, family: Family, inputs: dict[str, Tensor], picture_of: Sequence[int]) -> list[int] | None:
    """Rows of `pixel_values` that each picture takes; None where it is one."""
    if family.pixel_rows is None:
        return None
    first = [list(picture_of).index(number) for number in range(len(set(picture_of)))]
    return family.pixel_rows(bare.config, {**inputs, "input_ids": inputs["input_ids"][first]})
