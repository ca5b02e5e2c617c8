"""Gradient checkpointing of chosen parts (Chen et al., arXiv:1604.06174).

Their layers keep nothing but their input, and are computed again in the backward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from medvl.models.families import Family
from medvl.models.layers import transformer_layers

# Non-reentrant: gradients reach an adapter inside a layer whose input needs none (frozen embeddings, pixels), so no
# hook on the inputs is needed. The state of the random numbers is kept: dropout falls the same way the second time.
_AGAIN = partial(checkpoint, use_reentrant=False)


def checkpoint_layers(model: Any, family: Family, parts: Sequence[str]) -> dict[str, int]:
    """Let the layers of parts be computed again in the backward pass, whenever the model is in training mode.

    Losses and gradients stay what they are.

    Args:
        model: A transformers image-text model, with or without a PEFT adapter; changed in place.
        family: Its architecture.
        parts: Parts to change; the others are left as they are.

    Returns:
        Part -> number of layers that are computed again.
    """
    bare = model.get_base_model() if hasattr(model, "get_base_model") else model
    counts = {}
    for part in parts:
        layers = transformer_layers(bare, family, part).values()
        for layer in layers:
            if not isinstance(layer, GradientCheckpointingLayer):  # Llama 3.2's tower
                kind = type(layer)
                layer.__class__ = type(kind.__name__, (GradientCheckpointingLayer, kind), {})
            layer.gradient_checkpointing = True
            layer._gradient_checkpointing_func = _AGAIN
        counts[part] = len(layers)
    return counts
