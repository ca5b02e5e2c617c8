"""What a configuration may say: one closed class a node, with types, ranges and a sentence for each field.

Hydra composes the YAML files of `conf/`; `medvl.config.typed` checks the result against these classes and hands the
library plain typed values. Unknown keys are refused. A field with a default may be left out of the YAML files.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from medvl.config.asking import EvalConfig
from medvl.config.endpoint import EndpointConfig
from medvl.config.node import Count, Node, Positive, PositiveFloat, Share, TaskName
from medvl.config.own_data import OwnDataConfig

SplitName = Literal["train", "val", "test"]
PartName = Literal["language", "vision", "projector"]

OWN_EXAMPLE = "'data.own=[{name: mylab, format: questions, path: questions.jsonl, group: patient_id}]'"
"""What to write on a command line for data of one's own."""


class ModelConfig(Node):
    """The base model."""

    name: str
    """Name of the option, as in `model=NAME`."""
    hub_id: str | None = None
    """Repository on the hub; None for a model that exists as a folder only."""
    path: str | None = None
    """Local folder with the weights; wins over `hub_id`. `builtin:tiny` is the one shipped with medvl; `specimen:NAME`
    a random checkpoint of an architecture, made on first use."""
    endpoint: str | None = None
    """Name of the model at an OpenAI-compatible server, for models that can be asked but not loaded."""
    revision: str | None = None
    """Commit, tag or branch on the hub; None takes the newest and records its commit."""
    licence: str = "unknown"
    gated: bool = False
    """True when the hub asks for an accepted licence and a login."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    attention: Literal["auto", "sdpa", "eager", "flash_attention_2"] = "auto"
    """`auto`: flash_attention_2 where it is installed and can be used (GPU, half precision), else sdpa."""
    quick_tower: bool = True
    """The tower (Qwen-VL) takes windows of one size together; the same answers and gradients up to rounding, faster."""
    min_pixels: Positive | None = None
    """Fewest pixels a picture is enlarged to (Qwen-VL); None keeps the processor's own limit."""
    max_pixels: Positive | None = None
    """Most pixels a picture keeps (Qwen-VL), 28 x 28 or 32 x 32 of them are one token; None as above."""
    max_tiles: Positive | None = None
    """Most tiles a picture is cut into (Llama 3.2 Vision, InternVL, SmolVLM); 1 shows it whole; None as above."""
    prompt: Literal["letter", "reasoning"] = "letter"
    """How an answer is asked for. `letter`: the letter alone. `reasoning`: for models that think in tags first; the
    thought is left empty and the letter stands in answer tags, unless `eval.reasoning_tokens` lets them think."""
    quantization: Literal["none", "nf4"] = "none"
    """`nf4`: the linear layers of the language part in 4 bits (QLoRA); tower, projector and head stay as they are."""
    train_parts: list[PartName] = Field(default_factory=list)
    """Parts that are trained in full beside the adapter; their weights are saved with it."""
    checkpointing: list[Literal["language", "vision"]] = Field(default_factory=list)
    """Parts whose activations are computed again in the backward pass: less memory, about a third more time."""
    lr: PositiveFloat = 2e-4
    """Learning rate that suits an adapter of this base; `optim.lr` takes it unless it is set."""
    training_data_note: Literal["ultrasound", "chest X-ray", "none", "unknown"] = "unknown"
    """Medical pictures that the model's authors declare as training data."""

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        if self.hub_id is None and self.path is None and self.endpoint is None:
            raise ValueError("needs hub_id or path: say where the weights are, e.g. model.path=DIR")
        return self

    @model_validator(mode="after")
    def _pixels_ordered(self) -> Self:
        if self.min_pixels and self.max_pixels and self.min_pixels > self.max_pixels:
            raise ValueError(f"min_pixels ({self.min_pixels}) is above max_pixels ({self.max_pixels})")
        return self

    @model_validator(mode="after")
    def _full_training_needs_full_weights(self) -> Self:
        if self.quantization != "none" and "language" in self.train_parts:
            raise ValueError("train_parts names language, which quantization holds in 4 bits; keep one of them")
        return self


class LoraConfig(Node):
    """The adapter."""

    r: Annotated[int, Field(gt=0, le=1024)] = 16
    """Rank."""
    alpha: Annotated[float, Field(gt=0)] = 32.0
    """The update is scaled by alpha / r."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.05
    parts: list[PartName] = Field(default=["language"])
    """Parts of the model whose linear layers get an adapter. Empty: none (zero-shot, or `model.train_parts` alone)."""
    layers: Literal["all_linear", "attention"] = "all_linear"
    """Which linear layers of those parts."""
    dora: bool = False
    """Weight-decomposed adaptation (arXiv:2402.09353): learns sizes and directions apart."""
    rslora: bool = False
    """Scales by alpha / sqrt(r) (arXiv:2312.03732), which keeps large ranks learning."""

    @model_validator(mode="after")
    def _parts_once(self) -> Self:
        if len(set(self.parts)) != len(self.parts):
            raise ValueError(f"parts names one part twice: {self.parts}")
        return self


class TaskMixConfig(Node):
    """How often each task is seen in training."""

    weights: dict[TaskName, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """Task -> factor on its share. 0 leaves the task out; a task not named has 1."""
    temperature: PositiveFloat = 1.0
    """Share of a task ~ weight * items^(1/temperature): 1 keeps natural shares, large values even them out."""
    caps: dict[TaskName, Positive] = Field(default_factory=dict)
    """Task -> most items of it drawn in one epoch."""


class DemoConfig(Node):
    """The drawn demo dataset."""

    seed: Count = 0
    patients: Positive = 400


class DataConfig(Node):
    """Where the pictures are and how they are loaded."""

    name: str
    """Name of the benchmark that is built, as in `data=NAME`."""
    root: str
    """Folder under which the datasets lie."""
    sources: list[str] = Field(default_factory=list)
    """Sources to look for under the root, see `medvl.sources.registry`."""
    own: list[OwnDataConfig] = Field(default_factory=list)
    """Data of your own, beside the sources or alone."""
    demo: DemoConfig | None = None
    """Set: the drawn demo dataset is written to the root when it is not there."""
    strict: bool = False
    """True: a table row whose picture is absent fails the build. False: it is counted as a partial copy."""
    skip_broken: bool = False
    """True: pictures that cannot be read are left out and listed. False: they fail the build."""
    augment: Literal["none", "light", "ultrasound"] = "none"
    """Random changes of training pictures that keep the answer right. `light`: moves, brightness, blur, noise.
    `ultrasound`: also shadows, attenuation with depth, haze, less speckle. val and test are never changed."""
    shuffle_options: bool = True
    """Options of training questions come in a new order in each epoch, so that no picture is learnt by its letter.
    Options that speak of each other ("all of the above") stay. Questions of val and test never change."""
    train_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of each source's train patients that is learnt from; what a smaller share holds is part of a larger one."""
    batch_size: Positive = 8
    """Questions in a training batch on one device."""
    num_workers: Count = 0
    """Processes that load pictures; 0 loads in the training process."""

    @model_validator(mode="after")
    def _names_once(self) -> Self:
        if len(set(self.sources)) != len(self.sources):
            raise ValueError(f"sources names one source twice: {self.sources}")
        if taken := [name for name in self.own_names if name in self.sources or self.own_names.count(name) > 1]:
            raise ValueError(f"own needs names of its own, and '{taken[0]}' is taken: give each set another name")
        return self

    @model_validator(mode="after")
    def _has_pictures(self) -> Self:
        if not self.sources and not self.own:
            raise ValueError(f"sources and own are both empty: say data.sources=[NAME, ...] or {OWN_EXAMPLE}")
        return self

    @property
    def own_names(self) -> list[str]:
        """Names of the sets of own data."""
        return [one.name for one in self.own]


class BoxConfig(Node):
    """How masks become boxes."""

    per: Literal["structure", "component"] = "structure"
    """`structure`: one box around all of a structure. `component`: one for each connected piece."""
    min_area_share: Share = 0.001
    """Pieces under this share of the picture are left out (component only)."""


class TierConfig(Node):
    """Box sizes by share of the picture's area: small < small_below <= medium < large_from <= large."""

    small_below: Annotated[float, Field(gt=0, lt=1)] = 0.05
    large_from: Annotated[float, Field(gt=0, lt=1)] = 0.20

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.small_below >= self.large_from:
            raise ValueError(f"small_below ({self.small_below}) must be under large_from ({self.large_from})")
        return self


class SplitConfig(Node):
    """The patient split, where no usable official one exists."""

    val_share: Annotated[float, Field(gt=0, lt=1)] = 0.10
    """Share of the groups (of the train side, when the split is official) that go to val."""
    test_share: Annotated[float, Field(gt=0, lt=1)] = 0.20
    small_source_below: Count = 500
    """A source with fewer published pictures goes wholly to test."""
    test_sources: list[str] = Field(default_factory=list)
    """Leave-one-source-out: these sources go wholly to test and no other gives test items. Empty: the usual rule."""
    test_domain: Literal["clinical", "phantom"] | None = None
    """`clinical`: trained on phantoms, tested on patients only (or the reverse). null: the usual rule."""

    @model_validator(mode="after")
    def _one_protocol(self) -> Self:
        if self.test_sources and self.test_domain:
            raise ValueError("test_sources and test_domain are two protocols; keep one of them")
        return self

    @model_validator(mode="after")
    def _leaves_train(self) -> Self:
        if self.val_share + self.test_share >= 1:
            raise ValueError(f"val_share + test_share must stay under 1, got {self.val_share + self.test_share}")
        return self


class BenchmarkConfig(Node):
    """How records become items."""

    seed: Count = 0
    option_pool: Literal["source", "task"] = "source"
    """Where distractors come from first: the source's own answers, or the whole vocabulary of the task."""
    leaks: Literal["drop_train", "move", "fail"] = "drop_train"
    """What to do with a picture that lies on both sides: drop the train copy, move its group to test, or stop."""
    findings: Literal["balanced", "all"] = "balanced"
    """Findings asked of a picture: those present and as many absent ones (at least one), or all that are stated."""
    boxes: BoxConfig = BoxConfig()
    tiers: TierConfig = TierConfig()
    split: SplitConfig = SplitConfig()


class TrainerConfig(Node):
    """How training runs."""

    engine: Literal["lightning", "trl_sft"] = "lightning"
    """What leads the training: Lightning's Trainer, or TRL's SFTTrainer over the same batches, loss and optimiser."""
    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    devices: Positive = 1
    precision: Literal["32-true", "bf16-mixed", "16-mixed", "bf16-true"] = "32-true"
    max_epochs: Positive = 3
    max_steps: Annotated[int, Field(ge=-1)] = -1
    """Optimiser steps; -1 lets max_epochs decide."""
    shared_prefix: bool = True
    """Questions of one picture in a batch share what they have in common; the same loss and gradients, faster."""
    accumulate_batches: Positive = 1
    """Batches in one optimiser step."""
    gradient_clip: PositiveFloat | None = 1.0
    """Largest norm of the gradient; None switches clipping off."""
    val_every_steps: Positive = 100
    """Optimiser steps between two validations."""
    log_every_steps: Positive = 10
    progress: bool = True
    extra: dict[str, Any] = Field(default_factory=dict)
    """Passed to the engine as it is: settings of Lightning's Trainer, or of TRL's SFTConfig."""


class OptimConfig(Node):
    """The optimiser (AdamW)."""

    lr: PositiveFloat = 2e-4
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    warmup_share: Share = 0.05
    """Share of the steps over which the rate rises from 0."""
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    part_lr: dict[PartName, PositiveFloat] = Field(default_factory=dict)
    """Part -> learning rate of its weights, where it is not `lr`."""


class PathsConfig(Node):
    """Folders, relative to where the command is run."""

    data: str = "data"
    """Drawn datasets and built benchmarks."""
    outputs: str = "outputs"
    """Run folders."""
    run: str = "???"
    """Folder of this run."""


class DebugConfig(Node):
    """Switches for finding faults."""

    overfit_items: Positive | None = None
    """Train, validate and test on the same few train items (spread over tasks): the loop must learn them all."""
    permute_answers: bool = False
    """Train on answers dealt out anew among the questions of a task: every task must end at chance."""


class BuildConfig(Node):
    """Everything that `medvl build` reads."""

    data: DataConfig
    benchmark: BenchmarkConfig = BenchmarkConfig()
    paths: PathsConfig

    @model_validator(mode="after")
    def _known_test_sources(self) -> Self:
        known = [*self.data.sources, *self.data.own_names]
        if absent := [name for name in self.benchmark.split.test_sources if name not in known]:
            raise ValueError(f"benchmark.split.test_sources names {absent}, not among data.sources and own {known}")
        return self


class EntryConfig(BuildConfig):
    """What both entry files share."""

    seed: Count = 0
    name: str
    """Label of the run, part of its folder name."""
    model: ModelConfig
    eval: EvalConfig = EvalConfig()
    debug: DebugConfig = DebugConfig()


class TrainConfig(EntryConfig):
    """Everything that `train.py` reads."""

    lora: LoraConfig = LoraConfig()
    task_mix: TaskMixConfig = TaskMixConfig()
    trainer: TrainerConfig = TrainerConfig()
    optim: OptimConfig = OptimConfig()
    callbacks: dict[str, dict[str, Any] | None] = Field(default_factory=dict)
    """Name -> `_target_` node of a Lightning callback."""
    logger: dict[str, dict[str, Any] | None] = Field(default_factory=dict)
    """Name -> `_target_` node of a Lightning logger."""


class PrivacyConfig(Node):
    """What may leave this machine."""

    images: bool = False
    """True: pictures may be sent to an endpoint on another machine, of sources whose licence lets them be passed on."""


class EvaluateConfig(EntryConfig):
    """Everything that `evaluate.py` reads."""

    adapter: str | None = None
    """Folder of an adapter; None evaluates the base model alone (zero-shot)."""
    compare: list[str] = Field(default_factory=list)
    """Folders of training runs or adapters that are compared with one baseline: `adapter` where it is set, else the
    base of the first of them. Runs that differ in their seed alone are one row. Every question is asked once."""
    split: SplitName = "test"
    endpoint: EndpointConfig | None = None
    """Server that is asked in place of a model on this machine."""
    predictions: str | None = None
    """File of answers (`predictions.parquet` of a run) that are scored again; no model is asked."""
    privacy: PrivacyConfig = PrivacyConfig()
