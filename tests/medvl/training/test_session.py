"""The device is the one asked for, or the run does not start."""

import pytest
import torch

from medvl.errors import ConfigError
from medvl.training.session import choose_device


def test_the_cpu_can_always_be_chosen():
    assert choose_device("cpu") == torch.device("cpu")


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu")
    with pytest.raises(ConfigError, match="use trainer=cpu"):
        choose_device("gpu")
