"""A question as the body of a chat-completions request."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from medvl.batching.prompt import question_text
from medvl.config.endpoint import EndpointProfile

if TYPE_CHECKING:  # the dataset is torch's, which asking an endpoint does not need
    from medvl.batching.dataset import Sample

JPEG_QUALITY = 95
PNG_COMPRESSION = 1
"""Of 9: higher levels take several times as long for files that are hardly smaller."""

TEMPLATE_TOKENS = 64
"""Most tokens that a chat template adds around a question."""


def request_body(sample: Sample, profile: EndpointProfile) -> dict[str, Any]:
    """Write the request for one question.

    Args:
        sample: Item and its picture; without one, the text is asked alone.
        profile: Says which settings are sent.

    Returns:
        What is sent as JSON. It holds pixels, question and options: no item id, group or path.
    """
    content: list[dict[str, Any]] = [{"type": "text", "text": question_text(sample.item)}]
    if sample.pixels is not None:
        picture = {"type": "image_url", "image_url": {"url": data_uri(sample.pixels, profile.picture_format)}}
        content.insert(0, picture)
    body: dict[str, Any] = {
        "model": profile.model,
        "messages": [{"role": "user", "content": content}],
        profile.token_limit_name: profile.max_output_tokens,
    }
    if profile.accepts_temperature:
        body["temperature"] = 0
    if profile.accepts_logprobs:
        body |= {"logprobs": True, "top_logprobs": profile.top_logprobs}
    return body | profile.extra_body


def data_uri(pixels: npt.NDArray[np.uint8], picture_format: str) -> str:
    """A picture as a data URI.

    Args:
        pixels: uint8 [H, W, 3] RGB.
        picture_format: `png` or `jpeg`.
    """
    file = io.BytesIO()
    # 4:4:4, or the thin red box bleeds into its surroundings
    jpeg = {"quality": JPEG_QUALITY, "subsampling": 0}
    settings = jpeg if picture_format == "jpeg" else {"compress_level": PNG_COMPRESSION}
    Image.fromarray(pixels).save(file, picture_format, **settings)
    return f"data:image/{picture_format};base64,{base64.b64encode(file.getvalue()).decode()}"


def most_input_tokens(sample: Sample, profile: EndpointProfile) -> int:
    """Upper bound of the input tokens of a request: no token is shorter than a byte of UTF-8."""
    text = len(question_text(sample.item).encode()) + TEMPLATE_TOKENS
    return text if sample.pixels is None else text + profile.picture_tokens
