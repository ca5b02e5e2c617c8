"""What every specimen must do to stand in for the real model of its family."""

import json

import pytest
import torch
from transformers import AutoModelForImageTextToText

LETTERS = "ABCDEFGHIJ"

MODEL_TYPES = {
    "tiny_mllama": "mllama",
    "tiny_qwen2_vl": "qwen2_vl",
    "tiny_qwen25vl": "qwen2_5_vl",
    "tiny_qwen3vl": "qwen3_vl",
    "tiny_gemma3": "gemma3",
    "tiny_llava": "llava",
    "tiny_llava_next": "llava_next",
    "tiny_llava_onevision": "llava_onevision",
    "tiny_internvl": "internvl",
    "tiny_smolvlm": "smolvlm",
}

_HELPFUL = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
_HEAD = "<|start_header_id|>{}<|end_header_id|>\n\n"
_LLAMA = "<|begin_of_text|>" + _HEAD.format("user") + "<|image|>Q?<|eot_id|>" + _HEAD.format("assistant")
_QWEN = "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Q?<|im_end|>\n<|im_start|>assistant\n"

PROMPTS = {
    "tiny_mllama": _LLAMA,
    "tiny_qwen2_vl": _HELPFUL + _QWEN,
    "tiny_qwen25vl": _HELPFUL + _QWEN,
    "tiny_qwen3vl": _QWEN,
    "tiny_gemma3": "<bos><start_of_turn>user\n<start_of_image>Q?<end_of_turn>\n<start_of_turn>model\n",
    "tiny_llava": "USER: <image>\nQ? ASSISTANT:",
    "tiny_llava_next": "[INST] <image>\nQ? [/INST]",
    "tiny_llava_onevision": "<|im_start|>user <image>\nQ?<|im_end|><|im_start|>assistant\n",
    "tiny_internvl": "<|im_start|>user\n<IMG_CONTEXT>\nQ?<|im_end|>\n<|im_start|>assistant\n",
    "tiny_smolvlm": "<|im_start|>User:<image>Q?<end_of_utterance>\nAssistant:",
}
ANSWERS = {
    "tiny_mllama": "A<|eot_id|>",
    "tiny_qwen2_vl": "A<|im_end|>\n",
    "tiny_qwen25vl": "A<|im_end|>\n",
    "tiny_qwen3vl": "A<|im_end|>\n",
    "tiny_gemma3": "A<end_of_turn>\n",
    "tiny_llava": " A ",
    "tiny_llava_next": " A</s> ",
    "tiny_internvl": "A<|im_end|>\n",
    "tiny_smolvlm": " A<end_of_utterance>\n",
}
"""What follows the prompt when the answer is A. LLaVA-OneVision's public template writes another prompt there."""


def test_it_loads_whole_as_its_family(shelf, name):
    folder = shelf.folder(name)
    config = json.loads((folder / "config.json").read_text())
    assert config["model_type"] == MODEL_TYPES[name]
    model, info = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not any(info.values()), info
    assert config["architectures"] == [type(model).__name__]
    assert sum(file.stat().st_size for file in folder.iterdir()) < 6e6


def test_the_prompt_is_that_of_the_public_template(shelf, name):
    assert shelf.text(name, ("user", None, "Q?"), prompt=True) == PROMPTS[name]


def test_the_answer_is_that_of_the_public_template(shelf, name):
    text = shelf.text(name, ("user", None, "Q?"), ("assistant", "A"))
    if name == "tiny_llava_onevision":
        assert text == PROMPTS[name].removesuffix("\n") + " \nA<|im_end|>"
    else:
        assert text == PROMPTS[name] + ANSWERS[name]


def test_letters_are_single_tokens_at_one_place_after_the_prompt(shelf, name):
    tokenizer = shelf.load(name)[1].tokenizer

    def ids(text):
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    prompt = ids(shelf.text(name, ("user", None, "Q?"), prompt=True))
    answered = [ids(shelf.text(name, ("user", None, "Q?"), ("assistant", letter))) for letter in LETTERS]
    assert len({len(row) for row in answered}) == 1
    places = [i for i, column in enumerate(zip(*answered, strict=True)) if len(set(column)) > 1]
    assert len(places) == 1
    assert len({row[places[0]] for row in answered}) == len(LETTERS)
    if name != "tiny_llava_onevision":
        assert places == [len(prompt)]
        assert all(row[: len(prompt)] == prompt for row in answered)


def test_control_tokens_have_one_id_and_the_settings_name_them(shelf, name):
    model, processor = shelf.load(name)
    tokenizer = processor.tokenizer
    control = list(tokenizer.added_tokens_decoder.values())
    assert len(control) > 3
    for token in control:
        assert tokenizer(token.content, add_special_tokens=False)["input_ids"] == [
            tokenizer.convert_tokens_to_ids(token.content)
        ]
    ends = model.generation_config.eos_token_id
    assert tokenizer.eos_token_id in (ends if isinstance(ends, list) else [ends])
    assert model.generation_config.pad_token_id == tokenizer.pad_token_id
    assert model.generation_config.bos_token_id in (tokenizer.bos_token_id, tokenizer.pad_token_id)


@torch.no_grad()
def test_the_picture_matters(shelf, name, pictures):
    model, processor = shelf.load(name)
    logits = [model(**shelf.inputs(name, picture)).logits[0, -1] for picture in pictures]
    tokenizer = processor.tokenizer
    letters = [tokenizer(f"\n{letter}", add_special_tokens=False)["input_ids"][-1] for letter in LETTERS]
    for one, other in ((0, 1), (1, 2)):
        assert (logits[one] - logits[other])[letters].abs().max() > 1e-3
    assert torch.isfinite(torch.stack(logits)).all()


def test_the_learning_signal_reaches_the_first_layer_of_the_tower(shelf, name, pictures):
    model = shelf.load(name)[0]
    first = next(
        parameter
        for path, parameter in model.named_parameters()
        if ("visual" in path or "vision" in path) and "patch_embed" in path and parameter.ndim >= 2
    )
    logits = model(**shelf.inputs(name, pictures[0])).logits[0, -1]
    (gradient,) = torch.autograd.grad(logits.log_softmax(-1)[5], first)
    assert gradient.abs().max() > 1e-5


def test_widths_divide_into_blocks_of_4_bit_weights(shelf, name):
    model = shelf.load(name)[0]
    layers = {path: module for path, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    odd = [path for path, m in layers.items() if path != "lm_head" and (m.in_features % 64 or m.out_features % 64)]
    assert odd == []
    assert len(layers) > 20


@torch.no_grad()
def test_it_generates(shelf, name, pictures):
    model = shelf.load(name)[0]
    inputs = shelf.inputs(name, pictures[0])
    out = model.generate(**inputs, max_new_tokens=3, min_new_tokens=3, do_sample=False)
    assert out.shape == (1, inputs["input_ids"].shape[1] + 3)


@pytest.mark.slow
def test_an_adapter_learns_an_answer_that_depends_on_the_picture(shelf, name, pictures):
    from peft import LoraConfig, get_peft_model

    model, processor = shelf.load(name, fresh=True)
    layers = r".*\.(language_model|text_model)\.layers\.\d+\.(self_attn|cross_attn|mlp)\.\w+_proj"
    torch.manual_seed(0)
    model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=layers))
    wanted = [processor.tokenizer.convert_tokens_to_ids(letter) for letter in "AB"]
    batch = [(shelf.inputs(name, picture), token) for picture, token in zip(pictures, wanted, strict=False)]
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = -sum(model(**inputs).logits[0, -1].log_softmax(-1)[token] for inputs, token in batch) / 2
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.7 * losses[0], losses
