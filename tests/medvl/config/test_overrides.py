from pathlib import Path

import pytest
from omegaconf import OmegaConf

from medvl.config.overrides import check_overrides, is_sweep, options_of, split_unknown
from medvl.config.schema import TrainConfig

CONF = Path(__file__).resolve().parents[3] / "conf"
GROUPS = ["data", "model", "lora", "experiment", "logger", "callbacks", "task_mix"]


def problems(*overrides):
    good, found = check_overrides(list(overrides), CONF, TrainConfig, GROUPS)
    assert len(good) + len(found) == len(overrides)
    return found


@pytest.mark.parametrize(
    "text",
    [
        "lora.r=3",
        "++lora.r=3",
        "lora.r=8,16",
        "lora=r8,r16",
        "model='tiny'",
        "name='a b'",
        "~logger.wandb",
        "~logger",
        "experiment=null",
        "task_mix.weights.PI=0",
        "+trainer.extra.anything=1",
        "callbacks.checkpoint.monitor=val/loss",
        "hydra.job.chdir=true",
        "data.sources=[hc18,demo]",
        "name=",
        "data.root=/disk/lab@home",
        "debug.overfit_items=3",
        "data.own=[{name: mylab, format: questions, path: q.jsonl, group_pattern: '^(P\\d+)_'}]",
        "data.own=[]",
        "data.own.0.group=patient",
        "data.own.0.columns.picture=image",
        "data.own.1={name: mylab}",
        "~data.own",
    ],
)
def test_good_overrides_pass(text):
    assert problems(text) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lora.rr=3", "no key 'rr' in lora; did you mean r"),
        ("lorra.r=3", "no key 'lorra' at the top; did you mean lora"),
        ("+foo=1", "no key 'foo' at the top; known: benchmark"),
        ("lora.r.x=3", "lora.r is a value and has no key 'x'"),
        ("lora=r99", "conf/lora has no option 'r99'; known: all_linear"),
        ("model=tyny", "did you mean tiny?"),
        ("model=tiny,tyny", "'model=tyny': conf/model has no option 'tyny'; did you mean tiny?"),
        ("experiment=demo_balancd", "did you mean demo_balanced?"),
        ("trainer=cpu", "this command has no group 'trainer'; it takes data, model"),
        ("modl@x=tiny", "conf has no group 'modl'; did you mean model"),
        ("loggr/x=csv", "conf has no group 'loggr/x'; did you mean logger"),
        ("lora.r", "cannot read the override 'lora.r'"),
        ("name=a b)", "cannot read the override"),
        ("~lorra", "no key 'lorra'"),
        ("benchmark.boxes.pre=component", "no key 'pre' in benchmark.boxes; did you mean per?"),
        ("data.own.0.grup=patient", "no key 'grup' in data.own.0; did you mean group"),
        ("data.own.0.name.x=1", "data.own.0.name is a value and has no key 'x'"),
        ("data.own.name=mylab", "data.own is a list, data.own.0 its first entry, and has no key 'name'"),
        ("data.own={name: mylab}", "data.own is a list, so its entries stand in brackets: data.own=[{...}]"),
        ("data.sources.x=1", "data.sources is a value and has no key 'x'"),
    ],
)
def test_bad_overrides_are_named_with_what_was_meant(text, says):
    (problem,) = problems(text)
    assert text in problem or "," in text
    assert says in problem


def test_all_bad_overrides_are_found():
    assert len(problems("lora.rr=3", "seed=1", "model=tyny", "+foo=1")) == 3


def test_options_are_the_files_of_a_group():
    assert options_of(CONF, "lora") == sorted(path.stem for path in (CONF / "lora").iterdir())
    assert options_of(CONF, "nothing") == []


@pytest.mark.parametrize(("text", "sweeps"), [("lora.r=8,16", True), ("lora.r=range(1,4)", True), ("a=[1,2]", False)])
def test_sweeps_are_known(text, sweeps):
    assert is_sweep(text) is sweeps


@pytest.fixture
def base():
    node = OmegaConf.create({"callbacks": {"checkpoint": {"monitor": "a", "mode": "???"}}, "open": {}, "off": None})
    OmegaConf.set_struct(node, True)
    OmegaConf.set_struct(node.open, False)
    return node


@pytest.mark.parametrize(
    "text", ["callbacks.checkpoint.monitor=b", "callbacks.checkpoint.mode=max", "+callbacks.new={a: 1}", "open.any=1"]
)
def test_keys_of_foreign_nodes_that_exist_pass(base, text):
    assert split_unknown([text], base, CONF) == ([text], [])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("callbacks.checkpoint.monitr=b", "no key 'monitr' in callbacks.checkpoint; did you mean monitor?; +callbacks"),
        (
            "~callbacks.chekpoint=null",
            "'~callbacks.chekpoint': no key 'chekpoint' in callbacks; did you mean checkpoint?",
        ),
    ],
)
def test_keys_of_foreign_nodes_that_do_not_exist_are_named(base, text, says):
    good, (problem,) = split_unknown([text, "open.x=1"], base, CONF)
    assert good == ["open.x=1"]
    assert says in problem


def test_a_key_of_a_group_of_which_nothing_is_chosen_names_the_options():
    base = OmegaConf.create({"endpoint": None})
    OmegaConf.set_struct(base, True)
    good, (problem,) = split_unknown(["endpoint.model=m"], base, CONF)
    assert good == []
    assert problem.startswith("'endpoint.model=m': no endpoint is chosen; say endpoint=NAME first, one of gpt5, sglang")
