import re

import pytest
from mini_items import make_item

from medvl.config.asking import EvalConfig
from medvl.config.schema import DataConfig, LoraConfig, ModelConfig, PathsConfig, TrainConfig, TrainerConfig
from medvl.errors import ModelError
from medvl.models import fitting
from medvl.models.fitting import check_fits, free_bytes, outlook, ways_out
from medvl.models.quantization import empty_model

ITEMS = [make_item(number=n, width=120, height=110) for n in range(3)]
GIB = 2**30


def config_of(folder, *, batch_size=8, asked=16, tokens=10**9, model=None, **rest):
    return TrainConfig(
        name="test",
        model=ModelConfig(name="tiny", path=str(folder), **(model or {})),
        lora=LoraConfig(r=4),
        data=DataConfig(name="demo", root="unused", sources=["demo"], batch_size=batch_size),
        eval=EvalConfig(batch_size=asked, batch_tokens=tokens),
        paths=PathsConfig(run="unused"),
        trainer=TrainerConfig(**rest),
    )


def found_of(config, folder):
    return outlook(config, ITEMS, empty_model(folder), folder, "cpu")


def set_free(monkeypatch, count):
    monkeypatch.setattr(fitting, "free_bytes", lambda device: count)


def test_a_run_that_fits_says_nothing(family_folder):
    assert check_fits(config_of(family_folder), ITEMS, "cpu") == []


def test_a_run_that_is_close_is_warned_of(family_folder, monkeypatch):
    config = config_of(family_folder)
    set_free(monkeypatch, int(found_of(config, family_folder).memory.total * 0.9))
    (note,) = check_fits(config, ITEMS, "cpu")
    assert "may run out of memory" in note


def test_a_run_that_does_not_fit_is_refused_with_figures_and_ways_out(family_folder, monkeypatch):
    config = config_of(family_folder, batch_size=4096)
    need = found_of(config, family_folder).memory.total
    set_free(monkeypatch, need // 2)
    with pytest.raises(ModelError) as refused:
        check_fits(config, ITEMS, "cpu")
    text = str(refused.value)
    assert f"needs about {need / GIB:.1f} GiB on cpu, {need // 2 / GIB:.1f} GiB are free" in text
    assert "4096 rows" in text
    ways = re.findall(r"^  - (.*): about ([\d.]+) GiB(.*)$", text, re.MULTILINE)
    assert len(ways) == 3
    assert [way[0].split("=")[0] for way in ways if not way[2]]
    assert all(float(way[1]) * GIB <= need for way in ways)


def test_the_batch_is_the_largest_that_fits_and_the_step_stays_as_it_was(family_folder, monkeypatch):
    config = config_of(family_folder, batch_size=4096, asked=1, accumulate_batches=3)
    found = found_of(config, family_folder)
    for free in (found.memory.total // 2, found.memory.total // 5):
        ways = ways_out(config, ITEMS, empty_model(family_folder), found, "cpu", free)
        rows, batches = map(int, re.search(r"data.batch_size=(\d+) trainer.accumulate_batches=(\d+)", ways[0]).groups())
        assert rows * batches == 4096 * 3
        assert found_of(config_of(family_folder, batch_size=rows, asked=1), family_folder).memory.total <= free
        assert found_of(config_of(family_folder, batch_size=2 * rows, asked=1), family_folder).memory.total > free


def test_questions_are_asked_in_smaller_batches_where_they_would_lead(family_folder):
    few = found_of(config_of(family_folder, batch_size=64, asked=1), family_folder).memory.total
    config = config_of(family_folder, batch_size=64, asked=4096)
    found = found_of(config, family_folder)
    assert found.memory.asking > found.memory.activations
    ways = ways_out(config, ITEMS, empty_model(family_folder), found, "cpu", few)
    assert re.match(r"data.batch_size=\d+ trainer.accumulate_batches=\d+ eval.batch_size=\d+: about", ways[0])
    alone = config_of(family_folder, batch_size=1, asked=4096)
    found = found_of(alone, family_folder)
    ways = ways_out(alone, ITEMS, empty_model(family_folder), found, "cpu", few)
    assert re.match(r"eval.batch_size=\d+: about", ways[0])


def test_questions_are_asked_within_their_budget_of_tokens(family_folder):
    row = found_of(config_of(family_folder), family_folder).row
    for tokens, asked in ((1, 1), (5 * row.tokens, 5), (500 * row.tokens, 16)):
        assert fitting.asked_at_once(config_of(family_folder, tokens=tokens), row) == asked
    few, many = (
        found_of(config_of(family_folder, asked=4096, tokens=tokens), family_folder).memory.asking
        for tokens in (row.tokens, 10**9)
    )
    assert few < many / 1000


def test_where_no_single_change_is_enough_it_is_said(family_folder):
    config = config_of(family_folder, batch_size=4096)
    found = found_of(config, family_folder)
    *ways, last = ways_out(config, ITEMS, empty_model(family_folder), found, "cpu", 1)
    assert all(way.endswith("still too much") for way in ways)
    assert 0 < len(ways) <= 3
    assert "several of these together, or a smaller model" in last


def test_a_change_that_is_made_already_is_not_proposed(family_folder):
    model = {"checkpointing": ["language", "vision"], "dtype": "bfloat16", "quantization": "nf4", "max_tiles": 1}
    if "llava" in str(family_folder):
        del model["max_tiles"]
    config = config_of(family_folder, batch_size=1, asked=1, model=model)
    found = found_of(config, family_folder)
    assert ways_out(config, ITEMS, empty_model(family_folder), found, "cpu", 1) == [
        "several of these together, or a smaller model=..."
    ]


def test_pictures_are_made_smaller_where_the_family_can(tiny_mllama_folder):
    config = config_of(tiny_mllama_folder, batch_size=64, asked=1)
    found = found_of(config, tiny_mllama_folder)
    changes = [kind[0][0] for kind in fitting._changes(config, empty_model(tiny_mllama_folder), found)]
    assert "model.max_tiles=1" in changes


def test_free_memory_is_found_on_a_cpu_and_absent_without_a_gpu(monkeypatch):
    assert 2**20 < free_bytes("cpu") < 2**50
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert free_bytes("cuda") is None
