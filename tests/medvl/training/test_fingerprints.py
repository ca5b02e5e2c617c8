"""Fingerprints change with what they stand for, and with nothing else."""

from medvl.config.schema import ModelConfig
from medvl.training.fingerprints import fingerprints_of, run_record

MODEL = ModelConfig(name="tiny", path="unused")


def test_every_number_carries_data_base_processor_prompt_and_precision(tiny_base, demo_data):
    prints = fingerprints_of(tiny_base, demo_data.benchmark, MODEL)
    assert set(prints) == {"benchmark", "base", "processor", "prompt", "dtype"}
    assert prints == fingerprints_of(tiny_base, demo_data.benchmark, MODEL)


def test_another_template_or_pixel_size_is_seen(tiny_base, demo_data, monkeypatch):
    before = fingerprints_of(tiny_base, demo_data.benchmark, MODEL)
    monkeypatch.setattr(tiny_base.processor.image_processor, "size", {"height": 48, "width": 48})
    resized = fingerprints_of(tiny_base, demo_data.benchmark, MODEL)
    assert {k for k in before if before[k] != resized[k]} == {"processor"}
    template = tiny_base.processor.chat_template.replace("user", "User")
    monkeypatch.setattr(tiny_base.processor, "chat_template", template + " ")
    other = fingerprints_of(tiny_base, demo_data.benchmark, MODEL)
    assert {k for k in before if resized[k] != other[k]} == {"processor", "prompt"}


def test_the_record_of_an_adapter_holds_the_configuration_it_is_judged_with(tiny_base):
    composed = {name: {} for name in ("seed", "model", "data", "benchmark", "eval", "debug", "paths", "logger")}
    record = run_record(tiny_base, composed, {"base": "x"})
    assert set(record["config"]) == {"seed", "model", "data", "benchmark", "eval", "debug"}
    assert record["fingerprints"] == {"base": "x"}


def test_four_bits_are_no_float32(tiny_base, demo_data):
    quantised = MODEL.model_copy(update={"quantization": "nf4"})
    assert fingerprints_of(tiny_base, demo_data.benchmark, quantised)["dtype"] == "float32, nf4"
