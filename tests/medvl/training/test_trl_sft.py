"""TRL's loop trains what Lightning's does: the same losses, weights, figures and checkpoints."""

import copy
import csv
import dataclasses
import sys

import pytest
import torch
from pytorch_lightning.callbacks import Callback, EarlyStopping, ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger

from medvl.batching.prompt import answer_tokens
from medvl.config.schema import LoraConfig, OptimConfig, TrainConfig, TrainerConfig
from medvl.errors import ConfigError, TrainingError
from medvl.models.adapter import attach_adapter
from medvl.models.base import load_base
from medvl.sources.record import Split
from medvl.training import engine
from medvl.training.evaluation_callback import EvaluationCallback
from medvl.training.sft_module import SftModule

ENGINES = ("lightning", "trl_sft")

EVERYWHERE = LoraConfig(r=4, alpha=8, dropout=0.0, parts=["language", "vision", "projector"])


@dataclasses.dataclass
class Run:
    """What is left of a training."""

    module: SftModule
    fitted: engine.Fitted
    rows: list[dict[str, str]]
    checkpoints: dict[str, dict]
    seen: list[tuple[str, ...]]

    def column(self, name):
        """Step -> figure."""
        return {int(row["step"]): float(row[name]) for row in self.rows if row.get(name)}

    def weights(self):
        return {name: p.detach().clone() for name, p in self.module.named_parameters() if p.requires_grad}


class _Items(Callback):
    """Notes which items each batch holds; presses Ctrl-C after some batches."""

    def __init__(self, seen, interrupt_after):
        self.seen, self.interrupt_after = seen, interrupt_after

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.seen.append(tuple(item.item_id for item in batch.items))
        if len(self.seen) == self.interrupt_after:
            raise KeyboardInterrupt


def read_checkpoints(folder):
    return {path.name: torch.load(path, weights_only=True) for path in sorted(folder.glob("*/checkpoints/*.ckpt"))}


@pytest.fixture
def train(tiny_config, demo_data, tmp_path):
    """Trains a fresh adapter, always from the same state."""

    def run(
        name,
        *,
        model=tiny_config,
        lora=EVERYWHERE,
        callbacks=(),
        interrupt_after=None,
        prepare=lambda module: None,
        **settings,
    ):
        folder = tmp_path / name
        config = TrainerConfig(engine=name, accelerator="cpu", progress=False, **{"log_every_steps": 1, **settings})
        letters = answer_tokens(demo_data.processor).letter_ids
        module = SftModule(attach_adapter(load_base(model), lora, seed=0), OptimConfig(lr=5e-3), letters)
        prepare(module)
        seen, scorer = [], EvaluationCallback(demo_data.items(Split.VAL), {}, lambda step, figures: None)
        watching = [scorer, _Items(seen, interrupt_after), *(callback(folder) for callback in callbacks)]
        torch.manual_seed(7)
        fitted = engine.fit(config, module, demo_data, watching, [CSVLogger(folder, name="", version="")], folder)
        with (folder / "metrics.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        files = {path.name: torch.load(path, weights_only=True) for path in (folder / "checkpoints").glob("*.ckpt")}
        return Run(module, fitted, rows, files, seen)

    return run


def checkpoint(folder, mode="min"):
    return ModelCheckpoint(
        folder / "checkpoints",
        filename="step-{step}",
        auto_insert_metric_name=False,
        monitor="val/loss",
        mode=mode,
        save_last=True,
        save_on_exception=True,
    )


def largest_difference(ours, theirs):
    assert ours.keys() == theirs.keys()
    return max(float(abs(ours[key] - theirs[key]).max()) for key in ours)


SETTINGS = {
    "plain": {"max_steps": 20, "val_every_steps": 10},
    "in steps of three batches, clipped, with dropout": {
        "max_epochs": 2,  # epochs of seven batches: the last step of each has one
        "accumulate_batches": 3,
        "val_every_steps": 4,
        "gradient_clip": 0.05,
        "log_every_steps": 2,
        "lora": LoraConfig(r=4, alpha=8, dropout=0.3),
    },
    "in bfloat16": {"max_steps": 3, "gradient_clip": None, "precision": "bf16-mixed"},
    "wholly in bfloat16": {"max_steps": 3, "precision": "bf16-true", "shared_prefix": False},
}


@pytest.mark.parametrize(
    "settings",
    [pytest.param(SETTINGS[name], marks=[] if name == "plain" else pytest.mark.slow, id=name) for name in SETTINGS],
)
def test_a_run_is_that_of_lightning(train, settings):
    theirs, ours = (train(name, callbacks=[checkpoint], **settings) for name in ENGINES)
    assert ours.seen == theirs.seen
    assert ours.fitted.steps == theirs.fitted.steps
    for name in ("train/loss", "train/grad_norm", "val/loss", "val/macro_accuracy", "epoch"):
        differences = largest_difference(
            {k: torch.tensor(v) for k, v in ours.column(name).items()},
            {k: torch.tensor(v) for k, v in theirs.column(name).items()},
        )
        assert differences < 1e-4, name
    losses = list(ours.column("train/loss").values())
    assert losses[-1] < losses[0]
    assert [row["step"] for row in ours.rows] == [row["step"] for row in theirs.rows]
    assert largest_difference(ours.weights(), theirs.weights()) < 1e-4
    assert ours.checkpoints.keys() == theirs.checkpoints.keys()
    for name, one in ours.checkpoints.items():
        assert largest_difference(one["state_dict"], theirs.checkpoints[name]["state_dict"]) < 1e-4
        assert one["global_step"] == theirs.checkpoints[name]["global_step"]
        assert len(one["optimizer_states"][0]["state"]) == len(ours.weights())


def test_a_run_ends_with_the_weights_of_its_best_validation(train):
    run = train("trl_sft", callbacks=[lambda folder: checkpoint(folder, "max")], max_steps=4, val_every_steps=2)
    losses = run.column("val/loss")
    best = max(losses, key=losses.get)
    assert best < 4
    assert set(run.checkpoints) == {f"step-{best}.ckpt", "last.ckpt"}
    assert largest_difference(run.weights(), run.checkpoints[f"step-{best}.ckpt"]["state_dict"]) == 0


def test_a_run_stops_early_where_lightning_stops(train):
    def stopping(folder):
        return EarlyStopping(monitor="val/loss", mode="max", patience=2)

    runs = [train(name, callbacks=[stopping], max_steps=6, val_every_steps=1) for name in ENGINES]
    assert runs[0].fitted.steps == runs[1].fitted.steps < 6
    assert runs[0].column("val/loss") == pytest.approx(runs[1].column("val/loss"), abs=1e-4)


def test_ctrl_c_keeps_the_last_weights(train, tmp_path, ctrl_c_works):
    with pytest.raises(KeyboardInterrupt):
        train("trl_sft", callbacks=[checkpoint], max_steps=6, interrupt_after=3)
    assert {one["global_step"] for one in read_checkpoints(tmp_path).values()} == {3}


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_items(train, demo_data):
    def spoil(module):
        module.model.get_base_model().lm_head.weight.data[0] = torch.nan

    with pytest.raises(TrainingError, match="the loss is nan; items: "):
        train("trl_sft", max_steps=2, prepare=spoil)


def test_the_model_is_left_as_it_was(train):
    before = {}

    def remember(module):
        bare = module.model.get_base_model()
        before["config"] = copy.deepcopy((bare.config.to_dict(), bare.generation_config.to_dict()))

    module = train("trl_sft", max_steps=2, prepare=remember).module
    bare = module.model.get_base_model()
    assert (bare.config.to_dict(), bare.generation_config.to_dict()) == before["config"]
    assert not {"forward", "_original_forward"} & (set(vars(module.model)) | set(vars(bare)))


def test_on_a_base_in_4_bits_the_adapter_keeps_its_precision(train, tiny_config):
    pytest.importorskip("bitsandbytes")
    quantized = tiny_config.model_copy(update={"quantization": "nf4"})
    lora = LoraConfig(r=4, alpha=8, dropout=0.0)
    theirs, ours = (train(name, model=quantized, lora=lora, max_steps=2) for name in ENGINES)
    assert {p.dtype for p in ours.weights().values()} == {torch.float32}
    assert largest_difference(ours.weights(), theirs.weights()) < 1e-4


def test_nothing_is_sent_or_written_beside_the_run(train, tmp_path, monkeypatch, capfd):
    from trl.trainer import base_trainer

    sent = []
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(base_trainer, "send_telemetry", lambda *a, **k: sent.append(k))
    train("trl_sft", max_steps=2)
    assert sent == []
    assert sorted(path.name for path in (tmp_path / "trl_sft").iterdir()) == ["metrics.csv"]
    assert capfd.readouterr().out == ""


BASE = {
    "name": "n",
    "model": {"name": "m", "path": "p"},
    "data": {"name": "d", "root": "r", "sources": ["s"]},
    "paths": {"run": "x"},
}
CHECKPOINT = "pytorch_lightning.callbacks.ModelCheckpoint"


def config_of(callbacks=None, **trainer):
    settings = {"engine": "trl_sft", "accelerator": "cpu", **trainer}
    return TrainConfig.model_validate({**BASE, "trainer": settings, "callbacks": callbacks or {}})


@pytest.mark.parametrize(
    ("said", "settings"),
    [
        ("no key 'tf23' in trainer.extra: TRL's SFTConfig does not take it; did you mean tf32", {"extra": {"tf23": 1}}),
        ("trainer.extra.learning_rate: .* say optim.lr instead", {"extra": {"learning_rate": 1e-3}}),
        ("trainer.extra.packing: medvl decides this itself; leave it out", {"extra": {"packing": True}}),
        ("TRL refuses the settings of trainer: .*nonsense", {"extra": {"debug": "nonsense"}}),
        ("callbacks.rate: .* say callbacks.rate=null", {"callbacks": {"rate": "LearningRateMonitor"}}),
        ("callbacks.keep.every_n_train_steps: .* leave it out", {"callbacks": {"keep": {"every_n_train_steps": 5}}}),
        ("trainer.precision=16-mixed needs a GPU", {"precision": "16-mixed"}),
    ],
)
def test_what_trl_cannot_do_is_refused_by_key(said, settings):
    for name, node in settings.get("callbacks", {}).items():
        target = {"_target_": f"pytorch_lightning.callbacks.{node}"} if isinstance(node, str) else {}
        settings = {"callbacks": {name: target or {"_target_": CHECKPOINT, **node}, "off": None}}
    with pytest.raises(ConfigError, match=said) as error:
        engine.check(config_of(**settings))
    assert len(error.value.problems) == 1


def test_what_it_can_do_is_not_refused():
    keep = {"_target_": CHECKPOINT, "monitor": "val/loss", "save_top_k": 2}
    engine.check(config_of({"keep": keep}, extra={"torch_empty_cache_steps": 5}))


def test_several_processes_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="trains in one process"):
        engine.check(config_of())


def test_without_trl_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "trl", None)
    monkeypatch.delitem(sys.modules, "medvl.training.trl_sft", raising=False)
    monkeypatch.delattr("medvl.training.trl_sft", raising=False)
    with pytest.raises(ConfigError, match=r"needs TRL, which cannot be imported here .*pip install 'medvl\[trl\]'"):
        engine.check(config_of())
