"""Against a real server: `transformers serve` with the checkpoint that is shipped."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np
import pytest
from mini_items import make_item
from written_replies import collate, ends

from medvl.answering.endpoint.run import answer_samples
from medvl.answering.generation import answer_all
from medvl.batching.dataset import Sample
from medvl.config.endpoint import EndpointProfile
from medvl.config.schema import ModelConfig
from medvl.models.base import load_base
from medvl.models.greedy import Decoding

CHECKPOINT = Path(__file__).parents[4] / "src" / "medvl" / "models" / "tiny" / "checkpoint"


@pytest.fixture
def address():
    from transformers.utils.import_utils import is_serve_available

    if not is_serve_available():
        pytest.skip("transformers serve is not installed; it needs transformers[serving] (fastapi, uvicorn, openai)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["serve", "--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--dtype", "float32"]
    program = Path(sys.executable).with_name("transformers")
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    with subprocess.Popen([program, *command], env=environment, stdout=subprocess.DEVNULL) as server:
        try:
            wait_for(f"http://127.0.0.1:{port}/health", server)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()


def wait_for(url, server):
    for _ in range(240):
        assert server.poll() is None, "transformers serve ended"
        try:
            if httpx.get(url, trust_env=False).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.5)
    raise AssertionError("transformers serve did not start")


def answers_here(samples):
    """What the same checkpoint replies without a server."""
    base = load_base(ModelConfig(name="tiny", path="builtin:tiny"))
    batches = [collate(base, samples)]
    replies = answer_all(base.model, batches, base.processor.tokenizer, ends(base), Decoding(max_new_tokens=4), "cpu")
    return [reply.answer for reply in replies]


@pytest.mark.slow
def test_a_served_checkpoint_answers_every_question(address):
    profile = EndpointProfile(
        name="tiny", base_url=address, model=str(CHECKPOINT), max_output_tokens=4, in_flight=2, timeout_s=120
    )
    rng = np.random.default_rng(0)
    samples = [
        Sample(make_item(number=number), rng.integers(0, 255, (30, 40, 3), dtype=np.uint8)) for number in range(4)
    ]
    run = answer_samples(samples, profile)
    assert run.failures == []
    assert [answer.answer for answer in run.predictions] == answers_here(samples)
    assert run.usage.input_tokens > 0
    assert [answer.answer for answer in answer_samples(samples, profile).predictions] == [
        answer.answer for answer in run.predictions
    ]
