"""The tiny model: a LLaVA-class VLM (SigLIP tower, two-layer projector, Qwen2 decoder) built from scratch.

Same classes as real checkpoints, so that adapters, processors and loaders meet nothing special:
LLaVA (Liu et al. 2023, arXiv 2304.08485), SigLIP (Zhai et al. 2023, arXiv 2303.15343), Qwen2 (arXiv 2407.10671).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers import (
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
    Qwen2Config,
    SiglipImageProcessor,
    SiglipVisionConfig,
)

from medvl.models.tiny.tokenizer import END, PAD, PICTURE


@dataclass(frozen=True, slots=True)
class TinySize:
    """Sizes of the model.

    Attributes:
        picture_px: Side of the square picture.
        patch_px: Side of a patch; (picture_px / patch_px)^2 picture tokens.
        hidden: Width of tower and decoder.
        layers: Layers of tower and of decoder, each.
        heads: Attention heads of both.
        inner: Width of the feed-forward parts.
    """

    picture_px: int = 96
    patch_px: int = 16
    hidden: int = 128
    layers: int = 4
    heads: int = 4
    inner: int = 384

    @property
    def picture_tokens(self) -> int:
        """Number of tokens a picture takes in the prompt."""
        return (self.picture_px // self.patch_px) ** 2


def build_model(tokenizer: PreTrainedTokenizerFast, size: TinySize, seed: int) -> LlavaForConditionalGeneration:
    """Build the model with random weights.

    Args:
        tokenizer: Tokenizer whose vocabulary the embeddings cover.
        size: Sizes.
        seed: Seed of the weights.

    Returns:
        The model in float32 and training mode.
    """
    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in (PAD, END, PICTURE)}
    text = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=size.hidden,
        intermediate_size=size.inner,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        pad_token_id=ids[PAD],
        eos_token_id=ids[END],
        bos_token_id=None,
        use_sliding_window=False,
    )
    vision = SiglipVisionConfig(
        hidden_size=size.hidden,
        intermediate_size=size.inner,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        image_size=size.picture_px,
        patch_size=size.patch_px,
        vision_use_head=False,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=ids[PICTURE],
        image_seq_length=size.picture_tokens,
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
        tie_word_embeddings=True,
        pad_token_id=ids[PAD],
        eos_token_id=ids[END],
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlavaForConditionalGeneration(config)
        # The default is a tenth of what a flat patch gives, so that places took thousands of steps to be learnt.
        torch.nn.init.normal_(model.model.vision_tower.embeddings.position_embedding.weight, std=0.5)
    generation = model.generation_config
    generation.pad_token_id, generation.eos_token_id, generation.bos_token_id = ids[PAD], ids[END], None
    generation.do_sample = False
    return model.train()


def build_processor(tokenizer: PreTrainedTokenizerFast, size: TinySize) -> LlavaProcessor:
    """Build the processor that belongs to the model: SigLIP pictures in [-1, 1], ChatML text."""
    side = {"height": size.picture_px, "width": size.picture_px}
    pictures = SiglipImageProcessor(size=side, do_convert_rgb=True, image_mean=[0.5] * 3, image_std=[0.5] * 3)
    return LlavaProcessor(
        image_processor=pictures,
        tokenizer=tokenizer,
        patch_size=size.patch_px,
        vision_feature_select_strategy="full",
        num_additional_image_tokens=0,
        image_token=PICTURE,
        chat_template=tokenizer.chat_template,
    )
