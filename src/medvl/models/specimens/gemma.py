"""Gemma 3 (arXiv:2503.19786) and MedGemma (arXiv:2507.05201): one square picture, attended to in both directions."""

from __future__ import annotations

from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3ImageProcessor, Gemma3Processor

from medvl.models.specimens.tokenizer import Control, make_tokenizer, template
from medvl.models.specimens.writing import Specimen, rows

TURN_END = "<end_of_turn>"

CONTROL = Control(
    before=("<pad>", "<eos>", "<bos>", "<unk>"),
    after=("<start_of_turn>", TURN_END, "<start_of_image>", "<end_of_image>", "<image_soft_token>"),
    roles={"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"},
    named={"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"},
    writes_bos=True,
)

SIDE, PICTURE_TOKENS = 56, 4


def gemma3(vocabulary: int | None) -> Specimen:
    """Gemma 3. As in the real one, the tokenizer's end token is `<eos>` and turns end with another."""
    tokenizer = make_tokenizer(CONTROL)
    ends = [tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids(TURN_END)]
    specials = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": ends, "pad_token_id": tokenizer.pad_token_id}
    config = Gemma3Config(
        text_config={
            **specials,
            "vocab_size": rows(tokenizer, vocabulary),
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_hidden_layers": 2,
            "layer_types": ["sliding_attention", "full_attention"],
            "sliding_window": 64,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 64,  # 4 x 64 is not the hidden size, as in the real one
            "query_pre_attn_scalar": 64,
        },
        vision_config={
            "model_type": "siglip_vision_model",
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": SIDE,
            "patch_size": 14,
            "vision_use_head": False,
        },
        mm_tokens_per_image=PICTURE_TOKENS,
        boi_token_index=tokenizer.boi_token_id,
        eoi_token_index=tokenizer.eoi_token_id,
        image_token_index=tokenizer.image_token_id,
        eos_token_id=ends,
    )
    pictures = Gemma3ImageProcessor(size={"height": SIDE, "width": SIDE}, image_seq_length=PICTURE_TOKENS)
    processor = Gemma3Processor(pictures, tokenizer, chat_template=template("gemma3"), image_seq_length=PICTURE_TOKENS)
    sampling = {"do_sample": True, "top_k": 64, "top_p": 0.95}
    return Specimen(Gemma3ForConditionalGeneration, config, processor, {**specials, **sampling})
