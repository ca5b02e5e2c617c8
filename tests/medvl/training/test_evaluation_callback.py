"""Callbacks watch only figures that exist."""

from medvl.training.evaluation_callback import EvaluationCallback, log_everywhere, watchable

NODES = {
    "checkpoint": {"_target_": "x", "monitor": "val/macro_accuracy", "mode": "max"},
    "timer": {"_target_": "y"},
    "off": None,
}


def test_a_figure_that_exists_is_watched():
    nodes, remarks = watchable(NODES, {"val/macro_accuracy": 0.5, "val/loss": 1.0})
    assert nodes == [NODES["checkpoint"], NODES["timer"]]
    assert remarks == []


def test_without_macro_accuracy_the_loss_is_watched_and_said():
    nodes, remarks = watchable(NODES, {"val/accuracy": 0.5, "val/loss": 1.0})
    assert nodes[0]["monitor"] == "val/loss"
    assert nodes[0]["mode"] == "min"
    assert len(remarks) == 1
    assert "val/macro_accuracy" in remarks[0]


class _Logger:
    def __init__(self):
        self.rows = []

    def log_metrics(self, figures, step):
        self.rows.append((step, figures))

    def save(self):
        self.rows.append("saved")


def test_every_logger_gets_the_same_figures():
    loggers = [_Logger(), _Logger()]
    log_everywhere(loggers, {"val/loss": 1 / 3}, 5)
    assert loggers[0].rows == loggers[1].rows == [(5, {"val/loss": 1 / 3}), "saved"]


def test_the_best_of_no_validation_is_not_a_number():
    best = EvaluationCallback([], {}, print).best("val/macro_accuracy")
    assert best != best
