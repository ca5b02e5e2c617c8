"""The shipped checkpoint, read the way any program would read it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import medvl.models.tiny
from medvl.models.tiny.batch import Batch, block_logits, letter_hits, make_block

FOLDER = Path(medvl.models.tiny.__file__).parent / "checkpoint"

STRANGER = """
import json, sys
import numpy as np, torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor
folder = sys.argv[1]
model = AutoModelForImageTextToText.from_pretrained(folder)
processor = AutoProcessor.from_pretrained(folder)
image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (150, 200), dtype=np.uint8))
text = "Which is it?\\nA. dot\\nB. ring\\nAnswer with the letter of the correct option only."
chat = [{"role": "user", "content": [{"type": "image", "image": image}, {"type": "text", "text": text}]}]
inputs = processor.apply_chat_template(
    chat, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
)
out = model.generate(**inputs, max_new_tokens=4)
print(json.dumps({
    "medvl": any(name.split(".")[0] == "medvl" for name in sys.modules),
    "class": type(model).__name__,
    "pixels": list(inputs["pixel_values"].shape),
    "picture_tokens": int((inputs["input_ids"] == model.config.image_token_index).sum()),
    "new": out[0, inputs["input_ids"].shape[1]:].tolist(),
    "finite": bool(torch.isfinite(model(**inputs).logits).all()),
    "eos": model.generation_config.eos_token_id,
    "pad": model.generation_config.pad_token_id,
    "tokenizer": [processor.tokenizer.eos_token_id, processor.tokenizer.pad_token_id],
}))
"""


@pytest.fixture(scope="module")
def told() -> dict[str, object]:
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", STRANGER, str(FOLDER)], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_it_loads_with_the_plain_auto_classes_offline_without_medvl(told):
    assert told["class"] == "LlavaForConditionalGeneration"
    assert told["medvl"] is False
    assert told["finite"] is True


def test_a_grey_picture_of_any_shape_takes_36_tokens(told):
    assert told["pixels"] == [1, 3, 96, 96]
    assert told["picture_tokens"] == 36


def test_padding_and_end_of_turn_are_the_tokenizers_and_differ(told):
    assert told["tokenizer"] == [told["eos"], told["pad"]]
    assert told["eos"] != told["pad"]


def test_it_is_small_and_its_card_names_the_hash_of_the_weights():
    weights = FOLDER / "model.safetensors"
    assert weights.stat().st_size <= 12_000_000
    assert hashlib.sha256(weights.read_bytes()).hexdigest() in (FOLDER / "README.md").read_text()


def test_the_folder_holds_no_code_and_no_pickle():
    suffixes = {path.suffix for path in FOLDER.iterdir()}
    assert suffixes <= {".json", ".jinja", ".md", ".csv", ".safetensors"}


@pytest.fixture(scope="module")
def parts():
    from medvl.models.tiny.evaluate import load_for_evaluation

    return load_for_evaluation(FOLDER)


def test_it_answers_text_lookups_by_the_letter(parts):
    model, curriculum = parts
    rng = np.random.default_rng([77, 1])
    items = [curriculum.lookup.draw(rng) for _ in range(200)]
    block = make_block(items, curriculum.pad, curriculum.scaffold.opening)
    with torch.no_grad():
        ((_, logits),) = block_logits(model, Batch(None, (block,)), curriculum.scaffold)
    assert np.mean([hit for _, hit in letter_hits(block, logits)]) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize(
    ("held_out", "least"), [(False, 0.94), (True, 0.93)], ids=["fresh scenes", "held-out combinations"]
)
def test_it_answers_lettered_questions_on_scenes_it_never_saw(parts, held_out, least):
    from medvl.models.tiny.evaluate import scene_accuracy

    accuracy = scene_accuracy(*parts, pictures=800, held_out=held_out)
    assert accuracy["all"] >= least
    # Rare kinds come to a few dozen questions here; the card gives their figures on five times as many.
    assert min(accuracy.values()) >= 0.7
    assert min(accuracy[kind] for kind in ("boxed tone", "count", "size", "fill", "tone", "pose")) >= 0.96
