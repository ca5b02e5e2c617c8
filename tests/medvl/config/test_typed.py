import pytest
from omegaconf import OmegaConf

from medvl.config.schema import TrainConfig
from medvl.config.typed import check, key_line, to_typed
from medvl.errors import ConfigError

BASE = {
    "name": "n",
    "model": {"name": "m", "path": "p"},
    "data": {"name": "d", "root": "r", "sources": ["s"]},
    "paths": {"run": "x"},
}


def problems(conf, changes, choices=None, overrides=()):
    composed = OmegaConf.create(BASE)
    for key, value in changes.items():  # merging would not let ??? win
        for name, inner in value.items() if isinstance(value, dict) else [(None, value)]:
            OmegaConf.update(composed, key if name is None else f"{key}.{name}", inner)
    return check(
        composed, TrainConfig, conf_dir=conf, choices=choices or {}, overrides=list(overrides), config_name="train"
    )[1]


def test_a_good_configuration_becomes_plain_values(conf):
    composed = OmegaConf.merge(BASE, {"seed": "${lora.r}", "lora": {"r": 3}, "hydra": {"x": "???"}})
    config = to_typed(composed, TrainConfig, conf_dir=conf, choices={}, overrides=[])
    assert (config.seed, config.lora.r, config.data.sources) == (3, 3, ["s"])
    assert type(config.data.sources) is list


def test_all_problems_come_in_one_error(conf):
    composed = OmegaConf.merge(BASE, {"seed": -1, "lora": {"r": "x", "q": 1}, "nam": 1, "optim": {"lr": "${nope}"}})
    with pytest.raises(ConfigError) as caught:
        to_typed(composed, TrainConfig, conf_dir=conf, choices={}, overrides=[])
    text = str(caught.value)
    assert text.startswith("5 problems in the configuration")
    for part in ("seed=-1", "lora.r='x'", "no key 'q' in lora", "no key 'nam'", "optim.lr: Interpol"):
        assert part in text


def test_a_reference_to_an_unset_key_is_reported_once_at_its_cause(conf):
    found = problems(conf, {"data": {"root": "???"}, "name": "${data.root}", "callbacks": {"c": {"d": "${name}"}}})
    assert found == ["data.root is not set: say data.root=..."]


def test_an_unset_value_in_a_list_is_reported(conf):
    assert problems(conf, {"data": {"sources": ["a", "???"]}}) == ["data.sources.1 is not set: say data.sources.1=..."]


def test_a_value_of_the_wrong_type_gives_one_sentence(conf):
    (problem,) = problems(conf, {"trainer": {"devices": "foo"}})
    assert problem.startswith("trainer.devices='foo': input should be a valid integer")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"task_mix": {"weights": {"PJ": 1}}}, "no key 'PJ' in task_mix.weights; did you mean PI?"),
        ({"trainer": {"engine": "lightnig"}}, "did you mean lightning?"),
        ({"lora": {"parts": ["langage"]}}, "lora.parts.0='langage'"),
        ({"name": 2024}, "name=\"'2024'\""),
        ({"callbacks": {"c": 5}}, "callbacks.c=5: input should be a valid dictionary"),
        ({"model": {"path": None}}, "model: needs hub_id or path"),
        ({"nam": 1}, "no key 'nam' at the top; did you mean name?"),
        ({"benchmark": {"boxes": {"pre": 1}}}, "no key 'pre' in benchmark.boxes; did you mean per?"),
    ],
)
def test_problems_name_key_value_and_what_is_allowed(conf, changes, says):
    (problem,) = problems(conf, changes)
    assert says in problem


OWN = {"name": "mylab", "format": "questions", "path": "q.jsonl"}


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ([{**OWN, "grup": "p"}], "no key 'grup' in data.own.0; did you mean group?"),
        ([OWN, {**OWN, "name": "b", "columns": {"boxes": "b"}}], "no key 'boxes' in data.own.1.columns; did you mean"),
        ([{**OWN, "format": "question"}], "did you mean questions?"),
        ([{"name": "mylab", "format": "coco"}], "data.own.0.path is not set: say data.own.0.path=..."),
        ([{**OWN, "path": "???"}], "data.own.0.path is not set: say data.own.0.path=..."),
        ([{**OWN, "only": {"a": []}}], "data.own.0.only.a=[]: list should have at least 1 item"),
        (["mylab"], "data.own.0='mylab': input should be a valid dictionary"),
        ([{**OWN, "task": "CD", "labels": {"a": "b"}}], "data.own.0: labels has no effect on format questions"),
        ([OWN, OWN], "data: own needs names of its own"),
    ],
)
def test_problems_inside_a_list_name_the_entry(conf, own, says):
    (problem,) = problems(conf, {"data": {"own": own}})
    assert says in problem


def test_the_place_of_an_entry_of_a_list_is_its_line(conf):
    (conf / "data/mine.yaml").write_text("own:\n  - name: a\n    format: coco\n    path: c.json\n    grup: x\n")
    own = [{"name": "a", "format": "coco", "path": "c.json", "grup": "x"}]
    (problem,) = problems(conf, {"data": {"own": own}}, {"data": "mine"}, ["data=mine"])
    assert "(conf/data/mine.yaml:5)" in problem


def test_a_long_override_is_cut(conf):
    long = f"name={'n' * 300}"
    (problem,) = problems(conf, {"name": 5}, overrides=[long])
    assert long[:80] + "...)" in problem
    assert long not in problem


def test_the_password_of_an_address_is_not_repeated(conf):
    (problem,) = problems(conf, {"name": 5}, overrides=["name=http://me:secret@host/v1"])
    assert problem.endswith("(override name=http://***@host/v1)")


def test_the_place_is_the_last_override(conf):
    (problem,) = problems(conf, {"lora": {"r": -1}}, overrides=["lora.r=3", "lora.r=-1"])
    assert problem.endswith("(override lora.r=-1)")
    (problem,) = problems(conf, {"lora": {"r": -1}}, overrides=["lora={r: -1}"])
    assert problem.endswith("(override lora={r: -1})")


def test_the_place_of_a_value_from_a_file_is_file_and_line_though_the_option_was_chosen(conf):
    (conf / "lora/bad.yaml").write_text("# a comment\nalpha: 3\nr: -1\n")
    (problem,) = problems(conf, {"lora": {"r": -1}}, {"lora": "bad"}, ["lora=bad"])
    assert problem.endswith("(conf/lora/bad.yaml:3)")


def test_global_files_and_the_entry_files_own_keys_have_a_place_too(conf):
    (conf / "experiment/bad.yaml").write_text("# @package _global_\nlora:\n  alpha: 1\n  r: -1\n")
    (problem,) = problems(conf, {"lora": {"r": -1}}, {"lora": "r16", "experiment": "bad"}, ["experiment=bad"])
    assert problem.endswith("(conf/experiment/bad.yaml:4)")
    (conf / "train.yaml").write_text("defaults: []\nnam: 1\n")
    assert "(conf/train.yaml:2)" in problems(conf, {"nam": 1})[0]


def test_lines_of_nested_keys():
    text = "a:\n  b:\n    c: 1\n  d: [1, 2]\nc: 2\nl:\n  - x: 1\n    y: 2\n  - x: 3\n"
    assert [key_line(text, parts) for parts in (["a"], ["a", "b", "c"], ["c"], ["a", "d", "1"])] == [1, 3, 5, 4]
    assert [key_line(text, ["l", *parts]) for parts in (["0"], ["0", "y"], ["1", "x"], ["2"])] == [7, 8, 9, 6]
    assert key_line(text, ["a", "x"]) == 0
    assert key_line("", ["a"]) == 0
