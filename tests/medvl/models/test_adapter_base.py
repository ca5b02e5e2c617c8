import json

import pytest

from medvl.errors import ModelError
from medvl.models.adapter_base import base_of, record_of
from medvl.models.record import write_record

MODEL = {"name": "tiny", "path": "builtin:tiny", "dtype": "bfloat16", "quantization": "nf4"}
RECORD = {"base": "tiny", "fingerprints": {"base": "b", "adapter": "a"}, "config": {"model": MODEL}}


@pytest.fixture
def adapter(tmp_path):
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "org/base-7b"}))
    return tmp_path


def test_a_folder_without_adapter_is_refused_with_or_without_record(tmp_path):
    with pytest.raises(ModelError, match="holds no adapter"):
        record_of(tmp_path)


def test_an_adapter_of_another_trainer_has_no_record(adapter):
    assert record_of(adapter) is None
    write_record(adapter, RECORD)
    assert record_of(adapter) == RECORD


def test_the_base_is_the_one_of_the_record_unless_another_folder_is_named(adapter, tiny_folder):
    assert base_of(adapter, RECORD, None).path == "builtin:tiny"
    config = base_of(adapter, RECORD, str(tiny_folder))
    assert (config.path, config.dtype, config.quantization) == (str(tiny_folder), "bfloat16", "nf4")


def test_a_record_without_a_base_needs_one_named(adapter, tiny_folder):
    record = {**RECORD, "config": {"model": {}}}
    with pytest.raises(ModelError, match=r"does not say which base .* say --base DIR"):
        base_of(adapter, record, None)
    assert base_of(adapter, record, str(tiny_folder)).path == str(tiny_folder)


def test_without_record_the_message_says_which_base_the_adapter_names(adapter):
    with pytest.raises(ModelError, match=r"names org/base-7b\); say --base DIR"):
        base_of(adapter, None, None)


@pytest.mark.parametrize(
    ("config", "dtype"),
    [
        ({"dtype": "float16"}, "float16"),
        ({"torch_dtype": "float32"}, "float32"),
        ({"text_config": {"dtype": "float16"}}, "float16"),
        ({"dtype": "float64"}, "bfloat16"),
        ({}, "bfloat16"),
    ],
)
def test_without_record_the_precision_is_that_of_the_base(adapter, tmp_path, config, dtype):
    base = tmp_path / "base"
    base.mkdir()
    (base / "config.json").write_text(json.dumps(config))
    found = base_of(adapter, None, str(base))
    assert (found.name, found.dtype, found.quantization) == ("base", dtype, "none")


def test_a_named_base_that_is_absent_is_said_at_once(adapter, tmp_path):
    for record in (None, RECORD):
        with pytest.raises(ModelError, match=r"holds no model .* \(for this command: --base DIR\)"):
            base_of(adapter, record, str(tmp_path / "gone"))
