import pytest

from medvl.config.rules import DOMAINS, HIGHER_IS_BETTER, TASKS, TIERS, logged_names, rule_problems
from medvl.config.schema import EvaluateConfig, TrainConfig
from medvl.sources.record import Domain, Task

BASE = {
    "name": "n",
    "model": {"name": "m", "path": "p"},
    "data": {"name": "d", "root": "r", "sources": ["s"]},
    "paths": {"run": "x"},
}


def problems(**changes):
    return rule_problems(TrainConfig.model_validate({**BASE, **changes}))


def watching(**node):
    return problems(callbacks={"stop": {"_target_": "x", **node}, "off": None})


def test_a_plain_configuration_has_no_problem():
    assert problems() == []
    assert rule_problems(EvaluateConfig.model_validate(BASE)) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("adapter", "run/adapter"),
        ("compare", ["run"]),
        ("endpoint", {"name": "s", "model": "m", "base_url": "http://127.0.0.1/v1"}),
    ],
)
def test_earlier_answers_are_scored_or_a_model_is_asked(name, value):
    both = EvaluateConfig.model_validate({**BASE, "predictions": "run/predictions.parquet", name: value})
    assert any(f"predictions and {name} are both set" in problem for problem in rule_problems(both))
    alone = EvaluateConfig.model_validate({**BASE, "predictions": "run/predictions.parquet"})
    assert rule_problems(alone) == []


def test_the_names_agree_with_the_records():
    assert set(TASKS) == set(Task)
    assert set(DOMAINS) == set(Domain)
    for name in logged_names("val"):
        assert name.rsplit("/", 1)[-1] in HIGHER_IS_BETTER
    assert f"val/tier/{TIERS[0]}/accuracy" in logged_names("val")


@pytest.mark.parametrize(
    ("monitor", "mode"),
    [("val/macro_accuracy", "max"), ("val/task/VG/accuracy", "max"), ("val/loss", "min"), ("val/invalid_rate", "min")],
)
def test_the_direction_of_a_watched_name_is_checked(monitor, mode):
    assert watching(monitor=monitor, mode=mode) == []
    (problem,) = watching(monitor=monitor, mode={"max": "min", "min": "max"}[mode])
    assert f"is the wrong direction for {monitor}: use {mode}" in problem


def test_libraries_watch_for_less_unless_told_so():
    assert watching(monitor="val/loss") == []
    assert "use max" in watching(monitor="val/accuracy")[0]


def test_a_name_that_is_never_logged_is_refused_with_near_names():
    (problem,) = watching(monitor="val/macro_acuracy", mode="max")
    assert "callbacks.stop.monitor='val/macro_acuracy' is never logged; did you mean val/macro_accuracy" in problem


def test_callbacks_that_watch_nothing_are_left_alone():
    assert watching() == []


def test_a_mix_without_any_task_is_refused():
    assert "nothing would be trained" in problems(task_mix={"weights": dict.fromkeys(TASKS, 0)})[0]
    assert problems(task_mix={"weights": dict.fromkeys(TASKS[:5], 0)}) == []


def test_half_precision_on_the_cpu_is_refused():
    assert "needs a GPU" in problems(trainer={"precision": "16-mixed", "accelerator": "cpu"})[0]
    assert problems(trainer={"precision": "bf16-mixed", "accelerator": "cpu"}) == []


def test_several_devices_are_refused_until_validation_can_gather_them():
    assert "trainer.devices=1" in problems(trainer={"devices": 2})[0]
    assert problems(trainer={"devices": 1}) == []


def test_no_step_is_refused_before_anything_is_loaded():
    assert "trainer.max_steps=0 trains nothing" in problems(trainer={"max_steps": 0})[0]
    assert problems(trainer={"max_steps": -1}) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lora": {"parts": []}}, "both empty"),
        ({"model": {"train_parts": ["language"]}}, "language is in lora.parts and in model.train_parts"),
        ({"optim": {"part_lr": {"vision": 1e-5}}}, "optim.part_lr names vision, where nothing is trained"),
        ({"model": {"path": None, "endpoint": "gpt-5"}}, "can only be asked, at an endpoint"),
    ],
)
def test_what_is_trained_must_make_sense(changes, message):
    if "model" in changes:
        changes = {**changes, "model": {**BASE["model"], **changes["model"]}}
    (problem,) = problems(**changes)
    assert message in problem


def test_a_part_may_be_trained_in_full_without_an_adapter():
    model = {**BASE["model"], "train_parts": ["projector"]}
    assert problems(lora={"parts": []}, model=model, optim={"part_lr": {"projector": 1e-5}}) == []


def test_training_compares_by_letter_scoring_and_says_how_to_get_replies():
    (problem,) = problems(eval={"scoring": "generation"})
    assert "python evaluate.py adapter=outputs/latest/adapter eval.scoring=generation" in problem
    assert rule_problems(EvaluateConfig.model_validate({**BASE, "eval": {"scoring": "generation"}})) == []


@pytest.mark.parametrize("further", [{"rotations": True}, {"paraphrases": 2}])
def test_training_asks_every_question_once_and_says_how_to_ask_in_more_ways(further):
    (problem,) = problems(eval=further)
    assert "python evaluate.py adapter=outputs/latest/adapter eval=robustness" in problem
    assert rule_problems(EvaluateConfig.model_validate({**BASE, "eval": further})) == []


def test_what_is_relative_to_the_text_alone_is_not_asked_with_the_text_alone():
    def found(score):
        asking = {"scoring": "likelihood", "likelihood": score, "controls": ["text_only", "blank"]}
        return rule_problems(EvaluateConfig.model_validate({**BASE, "eval": asking}))

    (problem,) = found("relative")
    assert "say eval.controls=[blank]" in problem
    assert found("sum") == found("per_token") == []


@pytest.mark.parametrize("further", [{"rotations": True}, {"paraphrases": 2}])
def test_a_comparison_of_several_asks_every_question_once(further):
    (problem,) = rule_problems(EvaluateConfig.model_validate({**BASE, "eval": further, "compare": ["a"]}))
    assert "compare asks every question once" in problem
    for scoring in ("letter", "generation", "likelihood"):
        changes = {"eval": {"scoring": scoring}, "compare": ["a", "b"], "adapter": "c"}
        assert rule_problems(EvaluateConfig.model_validate({**BASE, **changes})) == []


HERE = {"name": "lab", "base_url": "http://localhost:8000/v1", "model": "m"}
AWAY = {**HERE, "base_url": "https://lab.example/v1"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"endpoint": HERE}, None),
        ({"endpoint": AWAY, "privacy": {"images": True}}, None),
        ({"endpoint": AWAY}, "say privacy.images=true"),
        ({"endpoint": HERE, "adapter": "a"}, "adapter and endpoint are both set"),
        ({"endpoint": HERE, "compare": ["a"]}, "compare and endpoint are both set"),
        ({"endpoint": HERE, "eval": {"scoring": "generation"}}, "eval.scoring=generation is for models on this"),
    ],
)
def test_a_server_is_asked_in_its_own_way_and_gets_pictures_only_where_they_may_leave(changes, message):
    found = rule_problems(EvaluateConfig.model_validate({**BASE, **changes}))
    assert len(found) == (message is not None)
    assert message is None or message in found[0]


@pytest.mark.parametrize(
    ("changes", "alone"),
    [({"endpoint": HERE}, "endpoint"), ({"predictions": "p.parquet"}, "predictions"), ({"compare": ["a"]}, None)],
)
def test_a_team_asks_models_on_this_machine_only(changes, alone, monkeypatch):
    config = EvaluateConfig.model_validate({**BASE, **changes})
    assert rule_problems(config) == []
    monkeypatch.setenv("WORLD_SIZE", "2")
    found = rule_problems(config)
    assert len(found) == (alone is not None)
    assert alone is None or f"{alone} takes one process" in found[0]


def test_an_order_that_is_not_shown_is_not_turned():
    def found(**asking):
        return rule_problems(EvaluateConfig.model_validate({**BASE, "eval": asking}))

    (problem,) = found(scoring="likelihood", rotations=True)
    assert "their order decides nothing; say eval.rotations=false" in problem
    assert found(scoring="likelihood") == found(rotations=True) == []
