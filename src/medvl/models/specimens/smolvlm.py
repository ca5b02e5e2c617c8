"""SmolVLM2 (arXiv:2504.05299), of the family of Idefics3: tiles named by row and column, and the whole picture."""

from __future__ import annotations

import importlib.util

from transformers import (
    SmolVLMConfig,
    SmolVLMForConditionalGeneration,
    SmolVLMImageProcessor,
    SmolVLMProcessor,
    SmolVLMVideoProcessor,
)

from medvl.errors import ModelError
from medvl.models.specimens.tokenizer import Control, make_tokenizer, template
from medvl.models.specimens.writing import Specimen, rows

BEGIN, END, PAD, PICTURE = "<|im_start|>", "<end_of_utterance>", "<|im_end|>", "<image>"

CONTROL = Control(
    before=("<|endoftext|>", BEGIN, PAD),
    after=(
        *("<fake_token_around_image>", PICTURE, "<global-img>"),
        *(f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)),
        END,
    ),
    roles={"bos_token": BEGIN, "eos_token": END, "pad_token": PAD, "unk_token": "<|endoftext|>"},
    named={
        "fake_image_token": "<fake_token_around_image>",
        "image_token": PICTURE,
        "global_image_token": "<global-img>",
        "end_of_utterance_token": END,
    },
)

SIDE, ACROSS, TILE_TOKENS = 56, 2, 4
"""Side of a tile in pixels, tiles along the longer side of every picture, and tokens of each."""


def smolvlm(vocabulary: int | None) -> Specimen:
    """SmolVLM2 with Llama; four patches become one token, and every picture is enlarged until it has tiles.

    Raises:
        ModelError: The package that transformers' processor of this family insists on is not installed.
    """
    if importlib.util.find_spec("num2words") is None:
        raise ModelError(
            "tiny_smolvlm: transformers' processor of SmolVLM needs the package num2words, which is not installed: "
            "pip install num2words"
        )
    tokenizer = make_tokenizer(CONTROL)
    specials = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    config = SmolVLMConfig(
        text_config={
            **specials,
            "model_type": "llama",
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
            "image_size": SIDE,
            "patch_size": 14,
        },
        scale_factor=2,
        image_token_id=tokenizer.convert_tokens_to_ids(PICTURE),
        pad_token_id=tokenizer.pad_token_id,
    )
    edges = {"size": {"longest_edge": SIDE * ACROSS}, "max_image_size": {"longest_edge": SIDE}}
    processor = SmolVLMProcessor(
        SmolVLMImageProcessor(**edges),
        tokenizer,
        SmolVLMVideoProcessor(**edges),
        image_seq_len=TILE_TOKENS,
        chat_template=template("smolvlm"),
    )
    return Specimen(SmolVLMForConditionalGeneration, config, processor, specials)
