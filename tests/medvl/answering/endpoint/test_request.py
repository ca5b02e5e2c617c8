import base64
import io
import json

import numpy as np
import pytest
from PIL import Image
from scripted_endpoint import make_questions

from medvl.answering.endpoint.request import TEMPLATE_TOKENS, data_uri, most_input_tokens, request_body
from medvl.batching.dataset import Sample
from medvl.batching.prompt import question_text
from medvl.config.endpoint import EndpointProfile


def profile(**changes):
    return EndpointProfile(**{"name": "lab", "base_url": "http://localhost/v1", "model": "m", **changes})


def pixels_of(uri: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1]))))


def test_a_request_holds_picture_then_text_and_the_accepted_settings():
    (sample,) = make_questions(1)
    body = request_body(sample, profile())
    picture, text = body["messages"][0]["content"]
    np.testing.assert_array_equal(pixels_of(picture["image_url"]["url"]), sample.pixels)
    assert text == {"type": "text", "text": question_text(sample.item)}
    assert {key: body[key] for key in body if key != "messages"} == {"model": "m", "max_tokens": 64, "temperature": 0}
    assert [message["role"] for message in body["messages"]] == ["user"]


def test_what_a_reasoning_model_refuses_is_not_sent():
    (sample,) = make_questions(1)
    strict = profile(
        accepts_temperature=False,
        token_limit_name="max_completion_tokens",
        max_output_tokens=4096,
        extra_body={"reasoning_effort": "low"},
    )
    body = request_body(sample, strict)
    assert set(body) == {"model", "messages", "max_completion_tokens", "reasoning_effort"}
    assert body["max_completion_tokens"] == 4096


def test_log_probabilities_are_asked_for_where_they_are_given():
    (sample,) = make_questions(1)
    body = request_body(sample, profile(accepts_logprobs=True, top_logprobs=5))
    assert (body["logprobs"], body["top_logprobs"]) == (True, 5)


def test_a_question_without_a_picture_is_text_alone():
    sample = Sample(make_questions(1)[0].item, None)
    body = request_body(sample, profile())
    assert [part["type"] for part in body["messages"][0]["content"]] == ["text"]


def test_nothing_but_picture_and_question_leaves():
    (sample,) = make_questions(1, group="patient-77", picture="ward/p77.png", item_id="id-77", raw_label="raw-77")
    assert "77" not in json.dumps(request_body(sample, profile())["messages"][0]["content"][1])
    uri = request_body(sample, profile())["messages"][0]["content"][0]["image_url"]["url"]
    assert Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1]))).info == {}


@pytest.mark.parametrize("picture_format", ["png", "jpeg"])
def test_a_data_uri_says_its_format(picture_format):
    uri = data_uri(np.zeros((1, 1, 3), np.uint8), picture_format)
    assert uri.startswith(f"data:image/{picture_format};base64,")
    assert Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1]))).format == picture_format.upper()


def test_jpeg_keeps_a_thin_red_box_red():
    pixels = np.full((64, 64, 3), 90, np.uint8)
    pixels[20:44, 20], pixels[20:44, 43] = (255, 0, 0), (255, 0, 0)
    seen = pixels_of(data_uri(pixels, "jpeg")).astype(int)
    assert np.abs(seen - pixels.astype(int)).max() < 25


def test_the_upper_bound_counts_bytes_and_the_picture():
    (sample,) = make_questions(1, question="Größe? 胎児")
    text = len(question_text(sample.item).encode()) + TEMPLATE_TOKENS
    assert most_input_tokens(sample, profile(picture_tokens=7)) == text + 7
    assert most_input_tokens(Sample(sample.item, None), profile()) == text
