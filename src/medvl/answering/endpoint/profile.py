"""What of an endpoint identifies the answers that it gives."""

from __future__ import annotations

import hashlib
import json

from medvl.batching.prompt import PROMPT_VERSION, STYLES
from medvl.config.endpoint import EndpointProfile


def asking(profile: EndpointProfile, repeats: int = 1) -> dict[str, str]:
    """Everything about an endpoint that can change an answer, for `medvl.answering.store.AnswerStore`.

    Args:
        profile: The endpoint.
        repeats: How often each item is asked.

    Returns:
        Names and values. What stands in the place of the pictures is left to the caller.
    """
    prompt = hashlib.sha256(f"{PROMPT_VERSION}\n{STYLES['letter'].instruction}".encode()).hexdigest()[:16]
    return {
        "scoring": "endpoint",
        "endpoint": profile.base_url,
        "model": profile.model,
        "prompt": prompt,
        "picture_format": profile.picture_format,
        "temperature": "0" if profile.accepts_temperature else "not set",
        "top_logprobs": str(profile.top_logprobs) if profile.accepts_logprobs else "none",
        "max_output_tokens": str(profile.max_output_tokens),
        "extra_body": json.dumps(profile.extra_body, sort_keys=True),
        "repeats": str(repeats),
    }
