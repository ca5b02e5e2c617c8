"""Fixtures of the model tests."""

import pytest
from trained_adapter import LORA, logits, train

from medvl.models.adapter import adapter_weights_fingerprint, attach_adapter
from medvl.models.adapter_files import save_adapter


@pytest.fixture
def saved(fresh_base, tmp_path):
    """An adapter folder as train.py writes it, and what its model answers."""
    model = train(attach_adapter(fresh_base, LORA, 0), fresh_base)
    prints = {"base": fresh_base.fingerprint, "adapter": adapter_weights_fingerprint(model)}
    record = {"base": fresh_base.label, "fingerprints": prints, "config": {"model": {}}}
    save_adapter(model, tmp_path / "adapter", record)
    return tmp_path / "adapter", logits(model, fresh_base)
