"""The distinct pictures of a batch, encoded once each, in the place of the pixels of every row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from medvl.models.families import Family

TOKENWISE = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "cross_attention_mask")
"""Inputs that hold something for each token; the others are about pictures."""


class EncodedPictures:
    """Some pictures of a batch as the decoder takes them.

    Args:
        bare: A transformers image-text model without the wrapper of an adapter.
        family: Its architecture.
        inputs: What its processor made, one picture a row.
        rows: Rows whose pictures are encoded.
    """

    def __init__(self, bare: Any, family: Family, inputs: dict[str, Tensor], rows: Sequence[int]) -> None:
        self._place = {row: place for place, row in enumerate(rows)}
        pictures, sizes = _pictures_of(bare.config, family, inputs, rows)
        if family.cross_tokens is not None:
            states = bare.model.multi_modal_projector(bare.model.vision_model(**pictures).last_hidden_state)
            self._states: Tensor = states.flatten(1, 2)  # [pictures, tiles, states of a tile, D]
            self._give = self._cross_attention
            return
        self._encoded = bare.model.get_image_features(**pictures, return_dict=True)
        self._sizes = sizes
        self._give = self._row_tokens

    def inputs(self, rows: Sequence[int]) -> dict[str, Any]:
        """Model inputs that stand for the pixels of a batch.

        Args:
            rows: For each row of that batch, the row whose picture it shows, one of those that were encoded.
        """
        return self._give([self._place[row] for row in rows])

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


def encode_once(bare: Any, family: Family, inputs: dict[str, Tensor], same_picture: Sequence[int]) -> dict[str, Any]:
    """Inputs with the encodings of distinct pictures in the place of the pixels of every row.

    Args:
        bare: See `EncodedPictures`.
        family: Its architecture.
        inputs: What its processor made.
        same_picture: For each row, the first row that shows the same picture.

    Returns:
        The inputs as they are where no picture is shown twice, or the family cannot share it.
    """
    distinct = sorted(set(same_picture))
    shares = family.abilities.encodes_pictures_once and "pixel_values" in inputs
    if not shares or len(distinct) == len(same_picture):
        return inputs
    rest = {name: value for name, value in inputs.items() if name != "pixel_values"}
    return {**rest, **EncodedPictures(bare, family, inputs, distinct).inputs(same_picture)}


def _pictures_of(
    config: Any, family: Family, inputs: dict[str, Tensor], rows: Sequence[int]
) -> tuple[dict[str, Tensor], list[int] | None]:
    """Picture tensors of some rows; how many rows of `pixel_values` each takes where it is not one."""
    names = [name for name in family.companions.with_pictures if name not in TOKENWISE]
    chosen = {name: inputs[name][list(rows)] for name in names}
    if family.pixel_rows is None:
        return {**chosen, "pixel_values": inputs["pixel_values"][list(rows)]}, None
    sizes = family.pixel_rows(config, inputs)
    parts = torch.split(inputs["pixel_values"], sizes)
    return {**chosen, "pixel_values": torch.cat([parts[row] for row in rows])}, [sizes[row] for row in rows]
