"""Fixtures of the training tests."""

import pytest

from medvl.config.schema import ModelConfig
from medvl.sources.record import Split


@pytest.fixture
def demo_data(demo_data, tiny_base):
    """The miniature benchmark with the tiny model's processor."""
    demo_data.processor = tiny_base.processor
    return demo_data


@pytest.fixture
def demo_samples(demo_data):
    """A few items with their pictures."""
    return list(demo_data.question_samples(Split.TRAIN, None, demo_data.items(Split.TRAIN)[:8]))


@pytest.fixture
def tiny_config(tiny_folder):
    """Configuration of the random tiny model, for tests that change it."""
    return ModelConfig(name="tiny", path=str(tiny_folder))
