import pytest
from hypothesis import given
from hypothesis import strategies as st
from mini_items import make_item

from medvl.batching.task_mix import exposures, plan_epoch
from medvl.config.schema import TaskMixConfig
from medvl.errors import ConfigError
from medvl.sources.record import Task

TASKS = [task.value for task in Task]
COUNTS = st.dictionaries(st.sampled_from(TASKS), st.integers(0, 50_000), min_size=1)
WEIGHTS = st.dictionaries(st.sampled_from(TASKS), st.floats(0, 1e6, allow_subnormal=False))
CAPS = st.dictionaries(st.sampled_from(TASKS), st.integers(1, 60_000))
MIXES = st.builds(TaskMixConfig, weights=WEIGHTS, caps=CAPS, temperature=st.floats(1e-3, 1e3))


def live(counts: dict[str, int], mix: TaskMixConfig) -> list[str]:
    return [task for task, n in counts.items() if n and mix.weights.get(task, 1.0) > 0]


@given(COUNTS, MIXES)
def test_the_plan_is_as_long_as_the_live_tasks_within_their_caps(counts, mix):
    tasks = live(counts, mix)
    if not tasks:
        with pytest.raises(ConfigError, match="nothing to train on"):
            plan_epoch(counts, mix)
        return
    plan = plan_epoch(counts, mix)
    assert sum(plan.values()) == sum(min(counts[task], mix.caps.get(task, counts[task])) for task in tasks)
    assert all(0 < drawn <= mix.caps.get(task, drawn) for task, drawn in plan.items())
    assert set(plan) <= set(tasks)


@given(COUNTS.filter(lambda counts: any(counts.values())))
def test_without_settings_the_plan_is_the_natural_counts(counts):
    assert plan_epoch(counts, TaskMixConfig()) == {task: n for task, n in counts.items() if n}


@given(COUNTS.filter(lambda counts: any(counts.values())))
def test_a_large_temperature_evens_the_tasks_out(counts):
    plan = plan_epoch(counts, TaskMixConfig(temperature=1e9))
    drawn = [plan.get(task, 0) for task, n in counts.items() if n]
    assert max(drawn) - min(drawn) <= 1


@given(COUNTS.filter(lambda counts: all(counts.values())), MIXES, st.sampled_from(TASKS), st.floats(1.01, 50))
def test_more_weight_never_means_fewer_items(counts, mix, task, factor):
    if task not in live(counts, mix):
        return
    more = mix.model_copy(update={"weights": {**mix.weights, task: mix.weights.get(task, 1.0) * factor}})
    assert plan_epoch(counts, more).get(task, 0) >= plan_epoch(counts, mix).get(task, 0)


def test_shares_follow_the_weights():
    plan = plan_epoch({"PI": 100, "VG": 100}, TaskMixConfig(weights={"VG": 3.0}))
    assert plan == {"PI": 50, "VG": 150}


def test_a_task_at_its_cap_gives_the_rest_to_the_others():
    plan = plan_epoch({"PI": 10, "CD": 10, "VG": 100}, TaskMixConfig(caps={"VG": 8}, weights={"PI": 3.0}))
    assert plan == {"PI": 15, "CD": 5, "VG": 8}
    assert plan_epoch({"PI": 10, "VG": 100}, TaskMixConfig(caps={"VG": 20})) == {"PI": 10, "VG": 20}


@pytest.mark.parametrize("temperature", [1e-6, 1e-3, 1e6])
def test_an_extreme_temperature_gives_a_plan(temperature):
    plan = plan_epoch({"PI": 40_000, "VG": 39_000}, TaskMixConfig(temperature=temperature))
    assert sum(plan.values()) == 79_000


def test_exposures_add_up_and_count_pictures_once():
    items = [make_item(Task.PI, 0), make_item(Task.VG, 1, picture="a.png"), make_item(Task.VG, 2, picture="a.png")]
    rows = {row.task: row for row in exposures(items, TaskMixConfig(weights={"VG": 2.0}))}
    assert (rows["VG"].items, rows["VG"].pictures) == (2, 1)
    assert sum(row.share for row in rows.values()) == pytest.approx(1)
    assert sum(row.drawn for row in rows.values()) == 3
    assert rows["VG"].times_per_item == rows["VG"].drawn / 2


def test_a_task_left_out_is_shown_with_nothing_drawn():
    items = [make_item(Task.PI, 0), make_item(Task.VG, 1)]
    rows = {row.task: row for row in exposures(items, TaskMixConfig(weights={"VG": 0.0}))}
    assert (rows["VG"].drawn, rows["VG"].share, rows["PI"].drawn) == (0, 0.0, 1)
