"""Writes docs/models.md from conf/ and code: `python -m medvl.models.page > docs/models.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from medvl.config.composing import find_conf
from medvl.config.schema import LoraConfig, ModelConfig
from medvl.models.families import FAMILIES, Family
from medvl.models.locate import SPECIMEN
from medvl.models.memory import NF4_BYTES

FAMILY_OF = {
    "gemma3_4b": "gemma3",
    "huatuogpt_vision_7b": "llava",
    "huatuogpt_vision_7b_qwen25vl": "qwen2_5_vl",
    "internvl3_8b": "internvl",
    "lingshu_32b": "qwen2_5_vl",
    "lingshu_7b": "qwen2_5_vl",
    "llama32_11b": "mllama",
    "llava15_7b": "llava",
    "llava_med_v15_7b": "llava",
    "llava_onevision_7b": "llava_onevision",
    "medgemma_4b": "gemma3",
    "medvlm_r1": "qwen2_vl",
    "qwen25vl_32b": "qwen2_5_vl",
    "qwen25vl_72b": "qwen2_5_vl",
    "qwen25vl_7b": "qwen2_5_vl",
    "qwen3vl_8b": "qwen3_vl",
    "smolvlm2_2b": "smolvlm",
    "tiny": "llava",
}
"""Option -> family by its publisher's description. What counts is `model_type` of the folder that is loaded."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A full-size model whose parameters were counted on the meta device, with configurations written from memory.

    Attributes:
        name: Model.
        family: `model_type`.
        total: Parameters.
        linear: Those of the language part's linear layers, which NF4 holds in 4 bits.
        language: Parameters of an adapter of rank 16 on the language part.
        attention: The same on its attention layers only.
        with_vision: The same on language and vision.
        everything: The same on all linear layers; None where the projector has none.
    """

    name: str
    family: str
    total: int
    linear: int
    language: int
    attention: int
    with_vision: int
    everything: int | None


COUNTED: tuple[Counted, ...] = (
    Counted(
        "Llama-3.2-11B-Vision", "mllama", 10_670_220_835, 8_724_152_320, 52_428_800, 17_039_360, 67_174_400, 67_362_816
    ),
    Counted("Qwen2.5-VL-3B", "qwen2_5_vl", 3_754_622_976, 2_774_532_096, 29_933_568, 7_372_800, 41_084_928, 41_363_456),
    Counted(
        "Qwen2.5-VL-7B", "qwen2_5_vl", 8_292_166_656, 6_525_288_448, 40_370_176, 10_092_544, 51_521_536, 51_824_640
    ),
    Counted(
        "Qwen2.5-VL-32B",
        "qwen2_5_vl",
        33_452_718_336,
        31_205_621_760,
        134_217_728,
        33_554_432,
        145_424_384,
        145_752_064,
    ),
    Counted(
        "Qwen2.5-VL-72B",
        "qwen2_5_vl",
        73_410_777_344,
        70_212_648_960,
        210_534_400,
        65_536_000,
        221_741_056,
        222_117_888,
    ),
    Counted("Qwen2-VL-2B", "qwen2_vl", 2_208_985_600, 1_310_195_712, 18_464_768, 4_358_144, 28_950_528, 29_220_864),
    Counted("Qwen2-VL-7B", "qwen2_vl", 8_291_375_616, 6_525_288_448, 40_370_176, 10_092_544, 50_855_936, 51_159_040),
    Counted("Gemma3-4B", "gemma3", 4_300_079_472, 3_208_642_560, 29_802_496, 8_912_896, 38_497_792, None),
    Counted("Gemma3-27B", "gemma3", 27_432_406_640, 25_598_361_600, 113_516_544, 33_521_664, 122_211_840, None),
    Counted("Qwen3-VL-8B", "qwen3_vl", 8_767_123_696, 6_945_767_424, 43_646_976, 15_335_424, 51_346_944, 52_493_824),
    Counted(
        "HuatuoGPT-Vision-7B", "llava", 7_935_646_208, 6_525_288_448, 40_370_176, 10_092_544, 47_153_152, 47_341_568
    ),
)
"""Stated again from the configurations in the tests."""


def page(conf: Path) -> str:
    """Text of docs/models.md.

    Args:
        conf: The folder `conf`.
    """
    options = [ModelConfig(**_read(path)) for path in sorted((conf / "model").glob("*.yaml"))]
    recipes = {path.stem: LoraConfig(**_read(path)) for path in sorted((conf / "lora").glob("*.yaml"))}
    specimens = [option.name for option in options if (option.path or "").startswith(SPECIMEN)]
    parts = [
        _INTRO,
        _table(_OPTION_HEAD, [_option_row(option) for option in options if option.name not in specimens]),
        _AFTER_OPTIONS.format(specimens=", ".join(f"`{name}`" for name in specimens)),
        _table(_FAMILY_HEAD, [_family_row(family) for family in FAMILIES.values()]),
        _RECIPES,
        _table(_RECIPE_HEAD, [_recipe_row(name, recipe) for name, recipe in recipes.items()]),
        _SIZES,
        _table(_COUNTED_HEAD, [_counted_row(counted) for counted in COUNTED]),
        _MEMORY,
    ]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


_INTRO = """
# Models

Written by `python -m medvl.models.page > docs/models.md`; change the code or `conf/`, not this page.

`python train.py model=NAME` takes one of these, or any folder of the same families with `model.path=DIR`. `medvl model
info model=NAME lora=NAME` says what a model is and what a recipe trains of it, from its config.json alone; no weights
are needed. The licence is what the publisher states; read it. "Medical training data" is what the authors declare of
the pictures that the model was trained on: figures on such pictures may be flattered.
"""

_OPTION_HEAD = ("`model=`", "hub id", "licence", "gated", "family", "prompt", "medical training data")

_AFTER_OPTIONS = """
The family is what the publisher's description says; what counts is `model_type` in the config.json that is loaded, and
layouts that would run code from the hub are refused. {specimens} are specimens: the true architecture, processor and
chat template of a family with random weights, a few megabytes, made on first use, for trying things out.

"Prompt" is `model.prompt`. A model that learnt to think in tags first is asked with `reasoning`: it is trained and
scored by letter after an empty thought, `<think></think><answer>`, and every figure says that its thought was left
empty. With `eval.scoring=generation eval.reasoning_tokens=512` it thinks before it answers.

## What a family can do

"Fixed": every picture is brought to one size; "tiles": large ones are also cut into tiles (`model.max_tiles`, where the
family has it); "free": any size within `model.min_pixels` and `model.max_pixels`. Gradient checkpointing
(`model.checkpointing=[language,vision]`) works for all families. The towers of the three Qwen families are computed in
fewer steps than in transformers, with the same results up to rounding (`model.quick_tower=false` leaves them alone).
"""

_FAMILY_HEAD = (
    *("family", "`model_type`", "resolution", "questions without a picture", "with and without in one batch"),
    *(
        "several pictures",
        "a picture encoded once a batch",
        "questions share a row",
        "adapters on",
        "pictures enter by",
    ),
)

_RECIPES = """
## Recipes
"""

_RECIPE_HEAD = ("`lora=`", "rank", "alpha", "dropout", "parts", "layers", "variant")

_SIZES = """
## Sizes

Parameters of full-size models and of an adapter of rank 16, counted on empty models (no weights) whose configurations
were written from memory; a test counts them again. For other models, and for the truth about these, `medvl model info`
reads the config.json. An adapter of another rank has proportionally more parameters: `lora.r=8` half of them,
`lora.r=64` four times as many. DoRA adds one number for each output of a layer.
"""

_COUNTED_HEAD = (
    *(
        "model",
        "parameters",
        "adapter: language",
        "share",
        "attention only",
        "language and vision",
        "all linear layers",
    ),
    *("weights in bfloat16, GiB", "in NF4, GiB"),
)

_MEMORY = """
`quantization=nf4` holds the linear layers of the language part in 4 bits; tower, projector, embeddings and output layer
stay in bfloat16.

## Will it fit?

`train.py` estimates the memory of a run before it loads weights, and refuses one that would not fit, with up to three
ways out and what each would need; `medvl model info` prints the same estimate. It adds up

- the weights;
- for each trained number its value, gradient and two moments of AdamW (4 x 4 bytes for an adapter);
- what the layers keep for the backward pass, for the longest row of the benchmark times `data.batch_size`, every
  picture counted anew (the count by operation is in `medvl.models.layer_memory`); with `model.checkpointing` the input
  of each layer of those parts, and one whole layer;
- logits at the supervised positions only;
- a fixed amount for libraries.

Or, where that is more, the working memory of a batch of questions (`eval.batch_size`, `eval.batch_tokens`). The
activations agree with what autograd keeps on a CPU within the bounds that the tests state; the shares for libraries and
for what an allocator loses are guesses, and no GPU has confirmed the sum. So a run is refused only when it would not
fit with a fifth less, and warned of in between.
"""


def _option_row(option: ModelConfig) -> Sequence[str]:
    family = FAMILIES[FAMILY_OF[option.name]].title if option.endpoint is None else "asked over the network only"
    place = option.hub_id or ("ships with medvl" if option.path else "-")
    gated = "yes" if option.gated else "no"
    return (f"`{option.name}`", place, option.licence, gated, family, option.prompt, option.training_data_note)


def _family_row(family: Family) -> Sequence[str]:
    can = family.abilities
    abilities = (can.text_only, can.mixed_rows, can.several_pictures, can.encodes_pictures_once, can.branched_rows)
    enters = "cross-attention" if family.cross_tokens is not None else "tokens of the row"
    return (
        *(family.title, f"`{family.model_type}`", can.resolution, *("yes" if able else "no" for able in abilities)),
        *(", ".join(family.linear), enters),
    )


def _recipe_row(name: str, recipe: LoraConfig) -> Sequence[str]:
    variant = " ".join(word for word, on in (("DoRA", recipe.dora), ("rsLoRA", recipe.rslora)) if on)
    layers = {"all_linear": "all linear", "attention": "attention"}[recipe.layers]
    if not recipe.parts:
        return (f"`{name}`", "-", "-", "-", "none", "-", "no adapter; for `model.train_parts`")
    numbers = (str(recipe.r), f"{recipe.alpha:g}", f"{recipe.dropout:g}")
    return (f"`{name}`", *numbers, ", ".join(recipe.parts), layers, variant or "LoRA")


def _counted_row(counted: Counted) -> Sequence[str]:
    everything = "-" if counted.everything is None else f"{counted.everything:,}"
    in_nf4 = (counted.total - counted.linear) * 2 + counted.linear * NF4_BYTES
    return (
        *(counted.name, f"{counted.total:,}", f"{counted.language:,}", f"{counted.language / counted.total:.2%}"),
        *(f"{counted.attention:,}", f"{counted.with_vision:,}", everything),
        *(f"{counted.total * 2 / 2**30:.1f}", f"{in_nf4 / 2**30:.1f}"),
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _read(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8")) or {}


if __name__ == "__main__":
    sys.stdout.write(page(find_conf()))
