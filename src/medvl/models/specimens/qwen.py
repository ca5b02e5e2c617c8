"""Qwen2-VL (arXiv:2409.12191), Qwen2.5-VL (arXiv:2502.13923), Qwen3-VL (arXiv:2511.21631): pictures of any size.

Lingshu, MedVLM-R1 and HuatuoGPT-Vision-7B-Qwen2.5VL are of these families.
"""

from __future__ import annotations

from typing import Any

from transformers import (
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    Qwen2VLImageProcessor,
    Qwen2VLProcessor,
    Qwen2VLVideoProcessor,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)

from medvl.models.specimens.tokenizer import Control, make_tokenizer, template
from medvl.models.specimens.writing import Specimen, rows

START, END, PAD = "<|im_start|>", "<|im_end|>", "<|endoftext|>"

CONTROL = Control(
    after=(
        *(PAD, START, END, "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>"),
        *("<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>"),
        *("<|image_pad|>", "<|video_pad|>"),
    ),
    roles={"eos_token": END, "pad_token": PAD},
)

LEAST_TOKENS, MOST_TOKENS = 4, 36
"""Fewest and most tokens that a picture becomes: 2 x 2 and 6 x 6 for a square one."""


def qwen2_vl(vocabulary: int | None) -> Specimen:
    """Qwen2-VL; output layer tied to the embedding, as in the 2B model."""
    tokenizer = make_tokenizer(CONTROL)
    config = Qwen2VLConfig(
        text_config=_text(tokenizer, vocabulary, mrope_section=[4, 6, 6]),
        vision_config={"depth": 2, "embed_dim": 64, "hidden_size": 128, "num_heads": 4, "mlp_ratio": 2},
        tie_word_embeddings=True,
        **_ids(tokenizer),
    )
    processor = Qwen2VLProcessor(
        Qwen2VLImageProcessor(**_pixels(28)), tokenizer, Qwen2VLVideoProcessor(), chat_template=template("qwen2_vl")
    )
    sampling = {"do_sample": True, "temperature": 0.01, "top_k": 1, "top_p": 0.001}
    return Specimen(Qwen2VLForConditionalGeneration, config, processor, _generation(tokenizer, **sampling))


def qwen25_vl(vocabulary: int | None) -> Specimen:
    """Qwen2.5-VL; one layer of the tower looks through windows, one at all of the picture."""
    tokenizer = make_tokenizer(CONTROL)
    config = Qwen2_5_VLConfig(
        text_config=_text(tokenizer, vocabulary, mrope_section=[4, 6, 6]),
        vision_config={
            **{"depth": 2, "hidden_size": 64, "intermediate_size": 128, "num_heads": 4, "out_hidden_size": 128},
            **{"window_size": 56, "fullatt_block_indexes": [1], "tokens_per_second": 2},
        },
        tie_word_embeddings=False,
        **_ids(tokenizer),
    )
    processor = Qwen2_5_VLProcessor(
        Qwen2VLImageProcessor(**_pixels(28)), tokenizer, Qwen2VLVideoProcessor(), chat_template=template("qwen2_vl")
    )
    sampling = {"do_sample": True, "temperature": 1e-6, "repetition_penalty": 1.05}
    return Specimen(Qwen2_5_VLForConditionalGeneration, config, processor, _generation(tokenizer, **sampling))


def qwen3_vl(vocabulary: int | None) -> Specimen:
    """Qwen3-VL; a layer of the tower feeds the first of the decoder (DeepStack), as the last would reach no answer."""
    tokenizer = make_tokenizer(CONTROL)
    text = _text(tokenizer, vocabulary, mrope_section=[6, 5, 5])
    text["rope_parameters"] |= {"mrope_interleaved": True, "rope_theta": 5e6}
    config = Qwen3VLConfig(
        text_config={**text, "head_dim": 32},
        vision_config={
            **{"depth": 3, "hidden_size": 64, "intermediate_size": 128, "num_heads": 4, "out_hidden_size": 128},
            **{"patch_size": 16, "num_position_embeddings": 64, "deepstack_visual_indexes": [0]},
        },
        tie_word_embeddings=False,
        **_ids(tokenizer),
    )
    half = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    processor = Qwen3VLProcessor(
        Qwen2VLImageProcessor(patch_size=16, **half, **_pixels(32)),
        tokenizer,
        Qwen3VLVideoProcessor(),
        chat_template=template("qwen3_vl"),
    )
    sampling = {"do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.8}
    return Specimen(Qwen3VLForConditionalGeneration, config, processor, _generation(tokenizer, **sampling))


def _text(tokenizer: PreTrainedTokenizerFast, vocabulary: int | None, *, mrope_section: list[int]) -> dict[str, Any]:
    return {
        "vocab_size": rows(tokenizer, vocabulary),
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32768,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": mrope_section},
        "bos_token_id": tokenizer.convert_tokens_to_ids(PAD),
        "eos_token_id": tokenizer.eos_token_id,
    }


def _ids(tokenizer: PreTrainedTokenizerFast) -> dict[str, int]:
    names = {
        "image_token_id": "<|image_pad|>",
        "video_token_id": "<|video_pad|>",
        "vision_start_token_id": "<|vision_start|>",
        "vision_end_token_id": "<|vision_end|>",
    }
    return {name: tokenizer.convert_tokens_to_ids(token) for name, token in names.items()}


def _pixels(side: int) -> dict[str, Any]:
    """Limits of a picture whose tokens cover `side` x `side` pixels."""
    return {"size": {"shortest_edge": LEAST_TOKENS * side**2, "longest_edge": MOST_TOKENS * side**2}}


def _generation(tokenizer: PreTrainedTokenizerFast, **sampling: Any) -> dict[str, Any]:
    end, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    return {"bos_token_id": pad, "pad_token_id": pad, "eos_token_id": [end, pad], **sampling}
