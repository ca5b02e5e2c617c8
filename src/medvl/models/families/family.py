"""What medvl must know of an architecture: data, and one function for the size of a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from medvl.batching.inputs import Companions

Resolution = Literal["fixed", "tiles", "free"]


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a family can do with a batch.

    Attributes:
        text_only: Rows without a picture.
        mixed_rows: Rows with and without a picture in one batch.
        several_pictures: More than one picture a row.
        resolution: `fixed`: every picture is brought to one size. `tiles`: large ones are also cut into tiles of one
            size. `free`: any size within the pixel limits, a token for each block of pixels.
        encodes_pictures_once: The questions of one picture in a batch can share its encoding.
        branched_rows: The questions of one picture can share its prefix in one row, see `models.shared_prefix`. Claimed
            where a test shows that log-probabilities stay the same.
    """

    text_only: bool
    mixed_rows: bool
    several_pictures: bool
    resolution: Resolution
    encodes_pictures_once: bool = False
    branched_rows: bool = False


@dataclass(frozen=True, slots=True)
class Family:
    """One architecture.

    Attributes:
        model_type: `model_type` in config.json.
        title: Name for people.
        roots: Part (`language`, `vision`, `projector`) -> regular expression that matches the beginning of the names of
            all its parameters. Every parameter of the model belongs to exactly one part.
        linear: Part -> regular expression that matches the full names of its linear layers, anchored at the start of
            the model. Absent where a part has none.
        attention: The same for its attention layers only.
        companions: Tensors that must travel with the token ids.
        abilities: What it can do with a batch.
        measure: (processor, height, width in pixels) -> what the processor's `replace_image_token` needs to know of a
            picture, found without reading it. None where a picture costs the one token of its placeholder.
        limit_tiles: (image processor, most tiles): sets the limit. None where a picture is not cut, or the number of
            tiles cannot be chosen.
        cross_tokens: (processor, config, height, width) -> states of a picture that the decoder attends to beside its
            row, for architectures with cross-attention.
        pixel_rows: (configuration, inputs of a row for each picture) -> rows of `pixel_values` that each picture takes.
            None where it is one.
        positions: (model, inputs) -> positions of the tokens, int64 [axes, B, T], of a batch with pictures. None where
            a token's position is its number in the row.
        blocks: (inputs) -> int64 [B, T]: number of the picture whose tokens all see each other, -1 for other tokens.
            None where tokens look back only.
        idle: Configuration -> regular expression that matches the beginning of the names of layers whose output nothing
            uses. An adapter there would never learn.
        quicken: (model): lets its tower compute the same in less time. None where there is nothing to gain.
    """

    model_type: str
    title: str
    roots: dict[str, str]
    linear: dict[str, str]
    attention: dict[str, str]
    companions: Companions
    abilities: Abilities
    measure: Callable[[Any, int, int], dict[str, Any]] | None
    limit_tiles: Callable[[Any, int], None] | None = None
    cross_tokens: Callable[[Any, Any, int, int], int] | None = None
    pixel_rows: Callable[[Any, dict[str, Any]], list[int]] | None = None
    positions: Callable[[Any, dict[str, Any]], Any] | None = None
    blocks: Callable[[dict[str, Any]], Any] | None = None
    idle: Callable[[Any], str] | None = None
    quicken: Callable[[Any], None] | None = None

    def picture_text(self, processor: Any, height: int, width: int) -> str:
        """Text that the processor puts in the place of the placeholder of a picture, found without reading it."""
        if self.measure is None:
            return str(processor.image_token)
        return str(processor.replace_image_token(self.measure(processor, height, width), image_idx=0))

    def row_tokens(self, processor: Any, text: str, height: int, width: int, *, adds_special_tokens: bool) -> int:
        """Tokens of a rendered conversation with one picture, exactly as the collator will make them.

        Args:
            processor: The model's processor.
            text: The conversation as the chat template writes it.
            height: Pixels of the picture, before the processor changes it.
            width: The same.
            adds_special_tokens: `AnswerTokens.adds_special_tokens`.
        """
        expanded = text.replace(processor.image_token, self.picture_text(processor, height, width), 1)
        return len(processor.tokenizer(expanded, add_special_tokens=adds_special_tokens)["input_ids"])

    def picture_tokens(self, processor: Any, height: int, width: int) -> int:
        """Tokens of a row that a picture costs, with the markers that the processor itself puts around it."""
        text = self.picture_text(processor, height, width)
        return len(processor.tokenizer(text, add_special_tokens=False)["input_ids"])


def parts_of(*, decoder: str = r"model\.language_model", vision: str, projector: str) -> dict[str, str]:
    """Roots of a model with an output layer `lm_head`; `vision` and `projector` are complete patterns."""
    return {"language": rf"({decoder}|lm_head)\.", "vision": vision, "projector": projector}


def encoder_layers(root: str) -> tuple[str, str]:
    """Patterns of (all linear layers, attention layers only) of a CLIP or SigLIP tower's layers."""
    attention = rf"{root}\.\d+\.self_attn\.(q_proj|k_proj|v_proj|out_proj)"
    return rf"({attention}|{root}\.\d+\.mlp\.fc[12])", attention


def decoder_layers(root: str, *, attention: str = "self_attn") -> tuple[str, str]:
    """Patterns of (all linear layers, attention layers only) of a Llama-like decoder below a module."""
    query = rf"{root}\.layers\.\d+\.{attention}\.(q|k|v|o)_proj"
    return rf"({query}|{root}\.layers\.\d+\.mlp\.(gate|up|down)_proj)", query
