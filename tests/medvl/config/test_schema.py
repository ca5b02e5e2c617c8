import inspect

import pytest
from pydantic import ValidationError

from medvl.config import schema
from medvl.config.schema import (
    BuildConfig,
    DataConfig,
    LoraConfig,
    ModelConfig,
    Node,
    OptimConfig,
    SplitConfig,
    TierConfig,
)

NODES = [kind for _, kind in inspect.getmembers(schema, inspect.isclass) if issubclass(kind, Node)]
DATA = {"name": "d", "root": "r", "sources": ["hc18"]}
OWN = {"name": "mylab", "format": "coco", "path": "c.json"}


@pytest.mark.parametrize("kind", NODES, ids=lambda kind: kind.__name__)
def test_nodes_are_closed_and_read_only(kind):
    assert kind.model_config["extra"] == "forbid"
    assert kind.model_config["frozen"] is True
    assert kind.__doc__


@pytest.mark.parametrize(
    ("kind", "values", "says"),
    [
        (LoraConfig, {"r": 0}, "greater than 0"),
        (LoraConfig, {"r": 1025}, "less than or equal to 1024"),
        (LoraConfig, {"dropout": 1.0}, "less than 1"),
        (LoraConfig, {"parts": ["vision", "vision"]}, "one part twice"),
        (OptimConfig, {"lr": float("inf")}, "finite"),
        (OptimConfig, {"lr": float("nan")}, "finite|greater"),
        (OptimConfig, {"weight_decay": float("inf")}, "finite"),
        (ModelConfig, {"name": "m"}, "needs hub_id or path"),
        (TierConfig, {"small_below": 0.3}, "must be under large_from"),
        (SplitConfig, {"val_share": 0.5, "test_share": 0.5}, "must stay under 1"),
        (DataConfig, {**DATA, "sources": ["hc18", "hc18"]}, "one source twice"),
        (DataConfig, {**DATA, "sources": []}, "sources and own are both empty: say data.sources="),
        (DataConfig, {"name": "d", "root": "r"}, "sources and own are both empty"),
        (DataConfig, {**DATA, "own": [OWN, OWN]}, "'mylab' is taken"),
        (DataConfig, {**DATA, "own": [{**OWN, "name": "hc18"}]}, "'hc18' is taken"),
        (DataConfig, {**DATA, "own": OWN}, "valid list"),
        (DataConfig, {**DATA, "batchsize": 3}, "Extra inputs"),
    ],
)
def test_values_out_of_range_are_refused(kind, values, says):
    with pytest.raises(ValidationError, match=says):
        kind.model_validate(values)


def test_own_data_need_no_source_beside_them():
    data = DataConfig.model_validate({"name": "d", "root": "r", "own": [OWN, {**OWN, "name": "other"}]})
    assert (data.sources, data.own_names) == ([], ["mylab", "other"])


@pytest.mark.parametrize(("name", "is_known"), [("hc18", True), ("mylab", True), ("mylb", False)])
def test_what_is_held_out_is_among_sources_or_own_data(name, is_known):
    facts = {"data": {**DATA, "own": [OWN]}, "paths": {}, "benchmark": {"split": {"test_sources": [name]}}}
    if is_known:
        assert BuildConfig.model_validate(facts).benchmark.split.test_sources == [name]
    else:
        with pytest.raises(ValidationError, match=r"not among data\.sources and own \['hc18', 'mylab'\]"):
            BuildConfig.model_validate(facts)


def test_nodes_do_not_share_their_defaults():
    assert LoraConfig().parts == ["language"]
    assert LoraConfig().parts is not LoraConfig().parts


def test_values_cannot_be_changed_afterwards():
    with pytest.raises(ValidationError, match="frozen"):
        LoraConfig().r = 3
