"""Llama 3.2 Vision: tiles, and cross-attention layers in the decoder (The Llama 3 Herd of Models, arXiv:2407.21783)."""

from __future__ import annotations

from transformers import MllamaConfig, MllamaForConditionalGeneration, MllamaImageProcessor, MllamaProcessor
from transformers.image_utils import OPENAI_CLIP_MEAN, OPENAI_CLIP_STD

from medvl.errors import ModelError
from medvl.models.specimens.tokenizer import Control, make_tokenizer, template
from medvl.models.specimens.writing import Specimen

BEGIN, END, PAD, PICTURE = "<|begin_of_text|>", "<|eot_id|>", "<|finetune_right_pad_id|>", "<|image|>"

CONTROL = Control(
    after=(
        *(BEGIN, "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>", PAD),
        *("<|step_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", END, "<|python_tag|>", PICTURE),
    ),
    roles={"bos_token": BEGIN, "eos_token": END, "pad_token": PAD},
    writes_bos=True,
)

TILE, TILES = 56, 4
"""Side of a tile in pixels, and the most tiles of a picture."""


def mllama(vocabulary: int | None) -> Specimen:
    """Llama 3.2 Vision. As in the real one, the output layer has no row for the picture token, the embedding has."""
    tokenizer = make_tokenizer(CONTROL)
    picture = tokenizer.convert_tokens_to_ids(PICTURE)
    if vocabulary is not None and vocabulary < picture:
        raise ModelError(f"vocabulary={vocabulary} is below the {picture} tokens of the specimen's tokenizer")
    ends = [tokenizer.convert_tokens_to_ids(token) for token in ("<|end_of_text|>", "<|eom_id|>", END)]
    specials = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": ends, "pad_token_id": tokenizer.pad_token_id}
    config = MllamaConfig(
        text_config={
            **specials,
            "vocab_size": vocabulary or picture,
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_hidden_layers": 4,
            "cross_attention_layers": [1, 3],
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "rope_parameters": {
                **{"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0},
                **{"high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
            },
        },
        vision_config={
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_global_layers": 1,
            "attention_heads": 4,
            "intermediate_layers_indices": [0],
            "vision_output_dim": 128,  # that layer and the last
            "image_size": TILE,
            "patch_size": 14,
            "max_num_tiles": TILES,
        },
        image_token_index=picture,
    )
    pictures = MllamaImageProcessor(
        size={"height": TILE, "width": TILE},
        max_image_tiles=TILES,
        image_mean=OPENAI_CLIP_MEAN,
        image_std=OPENAI_CLIP_STD,
    )
    processor = MllamaProcessor(pictures, tokenizer, chat_template=template("llama32_vision"))
    sampling = {"do_sample": True, "temperature": 0.6, "top_p": 0.9}
    return Specimen(MllamaForConditionalGeneration, config, processor, {**specials, **sampling})
