import shutil

import numpy as np
import pytest
import yaml

from medvl.benchmark.prepare import BENCHMARKS, ROOT_FILE
from medvl.models.agreement_questions import questions_of
from medvl.sources.record import Split


def record(fingerprint):
    return {"fingerprints": {"base": "b", "adapter": "a", "benchmark": fingerprint}}


@pytest.fixture
def home(demo_data, tmp_path, monkeypatch):
    """A working folder in whose data folder the demo benchmark lies."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(demo_data.folder, tmp_path / "data" / BENCHMARKS / "demo")
    return tmp_path


def test_the_benchmark_of_the_record_is_found_by_its_fingerprint(home, demo_data):
    questions = questions_of(home / "run" / "adapter", record(demo_data.benchmark.fingerprint), 5)
    assert questions.origin == "5 test questions of demo"
    items = [questions.samples[index].item for index in range(len(questions.samples))]
    assert all(item in demo_data.benchmark.items and item.split is Split.TEST for item in items)
    assert len({item.task for item in items}) == 5, "spread over the tasks"


def test_there_are_no_more_questions_than_the_benchmark_has(home, demo_data):
    test_items = [item for item in demo_data.benchmark.items if item.split is Split.TEST]
    questions = questions_of(home / "adapter", record(demo_data.benchmark.fingerprint), 10_000)
    assert len(questions.samples) == len(test_items)


def test_it_is_also_looked_for_where_the_run_had_its_data(home, demo_data):
    (home / "data").rename(home / "scratch")
    run = home / "run"
    run.mkdir()
    (run / "config.yaml").write_text(yaml.safe_dump({"paths": {"data": str(home / "scratch")}}))
    fingerprint = demo_data.benchmark.fingerprint
    assert "of demo" in questions_of(run / "adapter", record(fingerprint), 3).origin
    (run / "config.yaml").write_text("[]")
    assert "drawn" in questions_of(run / "adapter", record(fingerprint), 3).origin


def test_a_benchmark_whose_pictures_are_gone_is_as_good_as_absent(home, demo_data):
    (home / "data" / BENCHMARKS / "demo" / ROOT_FILE).write_text(str(home / "nowhere"))
    questions = questions_of(home / "adapter", record(demo_data.benchmark.fingerprint), 3)
    assert questions.origin == "3 drawn questions (the benchmark of its run record is not on this machine)"


def test_another_benchmark_that_is_damaged_does_not_matter(home, demo_data):
    damaged = home / "data" / BENCHMARKS / "a_damaged_one"
    damaged.mkdir()
    (damaged / "card.json").write_text("{")
    assert "of demo" in questions_of(home / "adapter", record(demo_data.benchmark.fingerprint), 3).origin


def test_drawn_questions_are_the_same_each_time_and_their_answers_are_options(tmp_path):
    one, other = (questions_of(tmp_path, None, 12).samples for _ in range(2))
    assert len(one) == 12
    for index in range(12):
        a, b = one[index], other[index]
        assert a.item == b.item
        assert np.array_equal(a.pixels, b.pixels)
        assert a.pixels.shape == (a.item.height, a.item.width, 3)
        assert a.item.options[a.item.answer_index] == a.item.answer
    assert len({one[index].item.item_id for index in range(12)}) == 12


def test_an_adapter_without_record_is_asked_drawn_questions(tmp_path):
    assert questions_of(tmp_path, None, 2).origin == "2 drawn questions (the adapter's files name no benchmark)"
