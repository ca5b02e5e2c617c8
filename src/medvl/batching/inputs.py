"""Tensors that must travel with the token ids of a batch, by architecture."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from medvl.errors import ModelError

TOKENWISE = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "cross_attention_mask")
"""Model inputs that hold something for each token of a row; the others are about pictures."""


@dataclass(frozen=True, slots=True)
class Companions:
    """Names of model inputs beside `input_ids` and `attention_mask`.

    Attributes:
        always: In every batch.
        with_pictures: In every batch that shows pictures, beside `pixel_values`.
    """

    always: tuple[str, ...] = ()
    with_pictures: tuple[str, ...] = ()

    def check(self, names: Collection[str], *, pictures: bool) -> None:
        """Refuse a batch that lacks an input.

        Without them transformers answers as if nothing had happened: Gemma3 lets picture tokens look back only, Qwen
        gives the tokens of a picture the positions of plain text.

        Args:
            names: Inputs that are there.
            pictures: Whether the batch shows pictures.

        Raises:
            ModelError: Names the inputs that are absent.
        """
        wanted = (*self.always, *(("pixel_values", *self.with_pictures) if pictures else ()))
        absent = [name for name in wanted if name not in names]
        if absent:
            raise ModelError(
                f"a batch lacks {', '.join(absent)}, without which this architecture answers wrongly and says nothing; "
                f"it has {', '.join(sorted(names))}. Build batches with medvl's Collator and the model's own processor"
            )
