"""Lightning's callbacks do under another engine what they do under their own."""

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, EarlyStopping, ModelCheckpoint

from medvl.training.stand_in import StandIn


class _Module(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)


def stand_in(callbacks, folder):
    module = _Module()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    made = StandIn(module, optimizer, schedule, callbacks, [], folder)
    made.tell("setup", "fit")
    return made, module


def validate(made, module, values):
    """One validation after each step; returns the steps at which training went on."""
    for step, value in enumerate(values, start=1):
        torch.nn.init.constant_(module.layer.weight, step)
        made.global_step, made.callback_metrics = step, {"val/loss": torch.tensor(value)}
        made.tell("on_validation_end")
        if made.should_stop:
            return step
    return None


def test_the_best_weights_and_the_last_ones_are_kept(tmp_path):
    keeper = ModelCheckpoint(
        tmp_path / "kept", "step-{step}", auto_insert_metric_name=False, monitor="val/loss", save_last=True
    )
    made, module = stand_in([keeper], tmp_path)
    validate(made, module, [3.0, 1.0, 2.0])
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["last.ckpt", "step-2.ckpt"]
    best = torch.load(keeper.best_model_path, weights_only=True)
    assert best["global_step"] == 2
    assert best["state_dict"]["layer.weight"].unique().item() == 2.0
    assert {"optimizer_states", "lr_schedulers"} <= best.keys()


def test_without_a_folder_of_its_own_a_checkpoint_lies_in_the_run(tmp_path):
    keeper = ModelCheckpoint(monitor="val/loss", save_weights_only=True)
    made, module = stand_in([keeper], tmp_path)
    validate(made, module, [1.0])
    (path,) = (tmp_path / "checkpoints").iterdir()
    assert "optimizer_states" not in torch.load(path, weights_only=True)


@pytest.mark.parametrize(("patience", "stops_at"), [(1, 3), (2, 4), (3, None)])
def test_early_stopping_counts_validations_without_a_better_figure(tmp_path, patience, stops_at):
    made, module = stand_in([EarlyStopping("val/loss", patience=patience)], tmp_path)
    assert validate(made, module, [2.0, 1.0, 1.5, 1.2]) == stops_at


def test_checkpoints_are_told_last_as_by_lightning(tmp_path):
    told = []

    class Plain(Callback):
        def on_train_end(self, trainer, pl_module):
            told.append("plain")

    class Keeper(ModelCheckpoint):
        def on_train_end(self, trainer, pl_module):
            told.append("keeper")

    made, _ = stand_in([Keeper(tmp_path), Plain()], tmp_path)
    made.tell("on_train_end")
    assert told == ["plain", "keeper"]
