"""Every file under conf/ composes into a configuration that the schema accepts and whose targets can be called."""

from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from omegaconf import open_dict

from medvl.config.endpoint import EndpointConfig
from medvl.config.entry import default_node
from medvl.config.schema import BuildConfig, DataConfig, EvaluateConfig, TrainConfig
from medvl.config.targets import target_problems
from medvl.config.typed import check

CONF = Path(__file__).resolve().parents[2] / "conf"
ENTRIES = {"train": TrainConfig, "evaluate": EvaluateConfig, "build": BuildConfig}
GROUPS = {path.name: sorted(option.stem for option in path.glob("*.yaml")) for path in CONF.iterdir() if path.is_dir()}
DOCUMENTED = {
    "callbacks", "data", "debug", "endpoint", "eval", "experiment", "hparams_search", "logger", "lora", "model",
    "optim", "paths", "task_mix", "trainer",
}  # fmt: skip
"""Groups of the design that exist so far."""

FILLED = ("data.root=somewhere",)
"""What only the user can know."""
OWN = "data.own=[{name: mylab, format: questions, path: questions.jsonl, group: patient_id}]"


def groups_of(entry: str) -> dict[str, str | None]:
    """Group -> default option of an entry file."""
    defaults = yaml.safe_load((CONF / f"{entry}.yaml").read_text())["defaults"]
    pairs = [next(iter(item.items())) for item in defaults if isinstance(item, dict)]
    named = {group: option for group, option in pairs if not group.startswith("override ")}
    return {group.removeprefix("optional "): None if "optional " in group else named[group] for group in named}


REFUSED = {
    ("train", "model", "gpt5"): "can only be asked",
    ("train", "lora", "none"): "nothing would be trained",
    ("train", "eval", "generation"): "compares by letter scoring",
    ("train", "eval", "robustness"): "train.py asks every question once",
    ("train", "eval", "full"): "train.py asks every question once",
    ("train", "eval", "likelihood"): "compares by letter scoring",
    ("evaluate", "model", "gpt5"): "say privacy.images=true",
    ("evaluate", "endpoint", "gpt5"): "say privacy.images=true",
}
"""Options that are refused when nothing else is said -> why."""

CASES = [(entry, group, option) for entry in ENTRIES for group in groups_of(entry) for option in GROUPS[group]]


@pytest.fixture(scope="module", autouse=True)
def hydra():
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        yield
    GlobalHydra.instance().clear()


def checked(entry, *overrides):
    ConfigStore.instance().store(name="schema", node=default_node(ENTRIES[entry]))
    filled = [*FILLED, OWN] if "data=own" in overrides else list(FILLED)
    if any(text.startswith("endpoint=") and text != "endpoint=gpt5" for text in overrides):
        filled.append("endpoint.model=served")
    composed = compose(entry, overrides=[*filled, *overrides], return_hydra_config=True)
    params = dict(composed.hydra.sweeper.get("params") or {})
    with open_dict(composed):
        choices = dict(composed.hydra.runtime.choices)
        composed.pop("hydra")
        composed.paths.run = "run"
    config, problems = check(composed, ENTRIES[entry], conf_dir=CONF, choices=choices, overrides=[], config_name=entry)
    return config, problems, params


@pytest.mark.parametrize(("entry", "group", "option"), CASES)
def test_every_option_of_every_group_is_valid(entry, group, option):
    config, problems, params = checked(entry, f"{group}={option}")
    if (entry, group, option) in REFUSED:
        (problem,) = problems
        assert REFUSED[entry, group, option] in problem
        return
    assert problems == []
    for key, values in params.items():
        for value in str(values).split(","):
            problems = checked(entry, f"{group}={option}", f"{key}={value}")[1]
            assert problems == [], f"{group}={option}, {key}={value}"
    if group == "hparams_search":
        assert params
    if group in ("model", "data"):
        assert getattr(config, group).name == option


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_defaults_of_an_entry_file_exist_and_are_valid(entry):
    for group, option in groups_of(entry).items():
        assert option is None or option in GROUPS[group]
    assert checked(entry)[1] == []


def test_every_file_is_reachable_and_every_group_documented():
    reachable = {(group, option) for _, group, option in CASES}
    assert reachable == {(group, option) for group, options in GROUPS.items() for option in options}
    assert set(GROUPS) == DOCUMENTED
    stray = [path for path in CONF.rglob("*") if path.is_file() and path.suffix != ".yaml"]
    assert stray == []
    assert {path.stem for path in CONF.glob("*.yaml")} == set(ENTRIES)


@pytest.mark.parametrize("group", sorted(GROUPS))
def test_an_option_file_starts_from_its_group(group):
    roots = set(TrainConfig.model_fields) | set(EvaluateConfig.model_fields)
    for option in GROUPS[group]:
        text = (CONF / group / f"{option}.yaml").read_text()
        node = yaml.safe_load(text) or {}
        if text.startswith("# @package _global_"):
            assert set(node) <= roots | {"defaults", "hydra"}
        else:
            assert group in roots
            known = getattr(TrainConfig.model_fields[group].annotation, "model_fields", None)
            assert known is None or set(node) <= set(known)


@pytest.mark.parametrize("option", GROUPS["endpoint"])
def test_every_key_of_an_endpoint_can_be_set_without_a_plus(option):
    node = yaml.safe_load((CONF / "endpoint" / f"{option}.yaml").read_text())["endpoint"]
    assert list(node) == list(EndpointConfig.model_fields)
    assert node["name"] == option


def test_a_model_that_can_only_be_asked_brings_its_endpoint_and_another_may_be_named():
    allowed = "privacy.images=true"
    assert checked("evaluate", "model=gpt5", allowed)[0].endpoint.name == "gpt5"
    assert checked("evaluate", "model=gpt5", "endpoint=vllm", "endpoint.model=m")[0].endpoint.name == "vllm"
    assert checked("evaluate", "model=tiny")[0].endpoint is None


def test_experiments_fix_their_seed_and_name():
    for option in GROUPS["experiment"]:
        node = yaml.safe_load((CONF / "experiment" / f"{option}.yaml").read_text())
        assert node["name"] == option
        assert "seed" in node


@pytest.mark.parametrize("group", ["callbacks", "logger"])
def test_every_target_takes_its_keys(group):
    seen = 0
    for option in GROUPS[group]:
        config, problems, _ = checked("train", f"{group}={option}")
        assert problems == []
        nodes = getattr(config, group)
        assert target_problems(group, nodes) == []
        seen += sum(node is not None for node in nodes.values())
    assert seen >= 2


def test_a_typo_in_a_target_would_be_found():
    node = checked("train")[0].callbacks["checkpoint"]
    (problem,) = target_problems("callbacks", {"checkpoint": {**node, "monitr": "x"}})
    assert "did you mean monitor" in problem


def test_the_online_logger_differs_from_the_offline_one_in_one_key_only():
    online, offline = (checked("train", f"logger={name}")[0].logger["wandb"] for name in ("wandb", "default"))
    assert {key for key in online if online[key] != offline[key]} == {"offline"}
    assert online["settings"]["disable_git"] is online["settings"]["disable_code"] is True


def test_the_template_for_own_data_is_what_it_says():
    """The command in its head and the commented example, with their comments taken away, are valid."""
    text = (CONF / "data" / "own.yaml").read_text()
    assert OWN in text
    example = text[text.index("# In place of []:") :].splitlines()[1:]
    own = yaml.safe_load("\n".join(line.removeprefix("#") for line in example if line.startswith("#")))
    assert DataConfig(name="own", root="r", own=own).own_names == ["mylab"]
