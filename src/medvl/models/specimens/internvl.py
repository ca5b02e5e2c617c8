"""InternVL3 in transformers' own layout (arXiv:2504.10479); Lingshu-I is of this family."""

from __future__ import annotations

from transformers import (
    GotOcr2ImageProcessor,
    InternVLConfig,
    InternVLForConditionalGeneration,
    InternVLProcessor,
    InternVLVideoProcessor,
)

from medvl.models.specimens.tokenizer import Control, make_tokenizer, template
from medvl.models.specimens.writing import Specimen, rows

END, PAD = "<|im_end|>", "<|endoftext|>"

CONTROL = Control(
    after=(PAD, "<|im_start|>", END, "<img>", "</img>", "<IMG_CONTEXT>", "<video>"),
    roles={"eos_token": END, "pad_token": PAD},
    named={
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    },
)

SIDE, TILES, TILE_TOKENS = 56, 4, 4
"""Side of a tile in pixels, the most tiles of a picture (its thumbnail comes on top), and tokens of each."""


def internvl(vocabulary: int | None) -> Specimen:
    """InternVL3 with Qwen2; four patches become one token."""
    tokenizer = make_tokenizer(CONTROL)
    specials = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    config = InternVLConfig(
        text_config={
            **specials,
            "model_type": "qwen2",
            "bos_token_id": None,
            "vocab_size": rows(tokenizer, vocabulary),
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
        },
        vision_config={
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "attention_bias": True,
            "image_size": [SIDE, SIDE],
            "patch_size": [14, 14],
        },
        image_token_id=tokenizer.context_image_token_id,
        image_seq_length=TILE_TOKENS,
        tie_word_embeddings=False,
    )
    square = {"height": SIDE, "width": SIDE}
    processor = InternVLProcessor(
        GotOcr2ImageProcessor(size=square, crop_to_patches=True, min_patches=1, max_patches=TILES),
        tokenizer,
        InternVLVideoProcessor(size=square),
        image_seq_length=TILE_TOKENS,
        chat_template=template("internvl"),
    )
    return Specimen(InternVLForConditionalGeneration, config, processor, specials)
