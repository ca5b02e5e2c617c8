"""LLaVA 1.5 (arXiv:2310.03744), LLaVA-NeXT (LLaVA 1.6) and LLaVA-OneVision (arXiv:2408.03326)."""

from __future__ import annotations

from typing import Any

from transformers import (
    CLIPImageProcessor,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaNextConfig,
    LlavaNextForConditionalGeneration,
    LlavaNextImageProcessor,
    LlavaNextProcessor,
    LlavaOnevisionConfig,
    LlavaOnevisionForConditionalGeneration,
    LlavaOnevisionImageProcessor,
    LlavaOnevisionProcessor,
    LlavaOnevisionVideoProcessor,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)

from medvl.models.specimens.tokenizer import Control, make_tokenizer, template
from medvl.models.specimens.writing import Specimen, rows

PICTURE, VIDEO = "<image>", "<video>"

VICUNA = Control(
    before=("<unk>", "<s>", "</s>"),
    after=(PICTURE,),
    # Llama's tokenizer has no padding token of its own, and many conversions pad with the end token.
    roles={"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "</s>"},
    writes_bos=True,
)
MISTRAL = Control(
    before=("<unk>", "<s>", "</s>"),
    after=(PICTURE, "<pad>"),
    roles={"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
    writes_bos=True,
)
QWEN2 = Control(
    after=("<|endoftext|>", "<|im_start|>", "<|im_end|>", PICTURE, VIDEO),
    roles={"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
)

SIDE, PATCH = 56, 14
PATCHES = (SIDE // PATCH) ** 2
"""Tokens of a tile."""


def llava(vocabulary: int | None) -> Specimen:
    """LLaVA 1.5: CLIP, of which the last layer but one is taken, and Llama; padding and end share a token."""
    tokenizer = make_tokenizer(VICUNA)
    config = LlavaConfig(
        text_config={"model_type": "llama", **_text(tokenizer, vocabulary), "num_key_value_heads": 4},
        vision_config=_clip(),
        image_token_index=tokenizer.convert_tokens_to_ids(PICTURE),
        image_seq_length=PATCHES,
        vision_feature_layer=-2,
        vision_feature_select_strategy="default",
        pad_token_id=tokenizer.pad_token_id,
    )
    processor = LlavaProcessor(
        CLIPImageProcessor(size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}),
        tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,  # CLIP's class token, which "default" drops again
        image_token=PICTURE,
        chat_template=template("llava_vicuna"),
    )
    return Specimen(LlavaForConditionalGeneration, config, processor, _generation(tokenizer))


def llava_next(vocabulary: int | None) -> Specimen:
    """LLaVA-NeXT with Mistral: the whole picture and up to four tiles of it."""
    tokenizer = make_tokenizer(MISTRAL)
    pinpoints = [[SIDE * h, SIDE * w] for h, w in ((1, 2), (2, 1), (2, 2), (3, 1), (1, 3))]
    config = LlavaNextConfig(
        text_config={"model_type": "mistral", **_text(tokenizer, vocabulary), "sliding_window": None},
        vision_config=_clip(),
        image_token_index=tokenizer.convert_tokens_to_ids(PICTURE),
        image_seq_length=PATCHES,
        image_grid_pinpoints=pinpoints,
        vision_feature_layer=-2,
        vision_feature_select_strategy="default",
        pad_token_id=tokenizer.pad_token_id,
    )
    pictures = LlavaNextImageProcessor(
        size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}, image_grid_pinpoints=pinpoints
    )
    processor = LlavaNextProcessor(
        pictures,
        tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token=PICTURE,
        chat_template=template("llava_mistral"),
    )
    return Specimen(LlavaNextForConditionalGeneration, config, processor, _generation(tokenizer))


def llava_onevision(vocabulary: int | None) -> Specimen:
    """LLaVA-OneVision: SigLIP and Qwen2, up to nine tiles; more features than four tiles have are shrunk to them."""
    tokenizer = make_tokenizer(QWEN2)
    pinpoints = [[SIDE * h, SIDE * w] for h in (1, 2, 3) for w in (1, 2, 3)]
    config = LlavaOnevisionConfig(
        text_config={"model_type": "qwen2", **_text(tokenizer, vocabulary), "bos_token_id": None},
        vision_config={**_clip(), "model_type": "siglip_vision_model", "vision_use_head": False},
        image_token_index=tokenizer.convert_tokens_to_ids(PICTURE),
        video_token_index=tokenizer.convert_tokens_to_ids(VIDEO),
        image_grid_pinpoints=pinpoints,
        vision_aspect_ratio="anyres_max_4",
        pad_token_id=tokenizer.pad_token_id,
    )
    square = {"height": SIDE, "width": SIDE}
    processor = LlavaOnevisionProcessor(
        LlavaOnevisionImageProcessor(size=square, image_grid_pinpoints=pinpoints),
        tokenizer,
        LlavaOnevisionVideoProcessor(size=square),
        num_image_tokens=PATCHES,
        vision_feature_select_strategy="full",
        vision_aspect_ratio="anyres_max_4",
        image_token=PICTURE,
        video_token=VIDEO,
        chat_template=template("llava_onevision"),
    )
    return Specimen(LlavaOnevisionForConditionalGeneration, config, processor, _generation(tokenizer))


def _text(tokenizer: PreTrainedTokenizerFast, vocabulary: int | None) -> dict[str, Any]:
    return {
        "vocab_size": rows(tokenizer, vocabulary),
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        **_generation(tokenizer),
    }


def _clip() -> dict[str, Any]:
    return {
        "model_type": "clip_vision_model",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "image_size": SIDE,
        "patch_size": PATCH,
    }


def _generation(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    return {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
