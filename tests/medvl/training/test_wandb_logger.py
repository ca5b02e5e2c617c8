"""The W&B logger writes an offline run that can be read back, and warns of nothing."""

import wandb
from wandb_file import read_history

from medvl.training.wandb_logger import QuietWandbLogger


def test_figures_are_read_back_as_they_were_logged(tmp_path, capfd):
    logger = QuietWandbLogger(
        project="medvl", save_dir=str(tmp_path), offline=True, settings=wandb.Settings(console="off")
    )
    logger.log_metrics({"val/accuracy": 1 / 3}, step=0)
    logger.log_metrics({"val/accuracy": 2 / 3}, step=7)
    logger.experiment.finish()
    wandb.teardown()  # its service writes the file, and is done with it when it has ended
    (path,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    rows = [(r["trainer/global_step"], r["val/accuracy"]) for r in read_history(path)]
    assert rows == [(0, 1 / 3), (7, 2 / 3)]
    assert "anonymous" not in capfd.readouterr().err
