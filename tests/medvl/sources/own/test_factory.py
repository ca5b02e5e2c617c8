import pytest
from own_data import write_lines, write_picture

from medvl.benchmark.build import Recipe, build_benchmark
from medvl.benchmark.split import official_split_problem
from medvl.config.own_data import OwnDataConfig
from medvl.config.schema import BenchmarkConfig
from medvl.errors import DataError
from medvl.sources.own import make_source
from medvl.sources.record import Task


def source(**config):
    return make_source(OwnDataConfig(**{"name": "mylab", "format": "questions", "path": "q.jsonl", **config}))


def test_a_source_carries_what_the_configuration_says():
    made = source(task="VG", title="My lab", licence="internal", citation="us", group="patient")
    assert (made.name, made.title, made.licence, made.citation) == ("mylab", "My lab", "internal", "us")
    assert made.tasks == (Task.VG,)
    assert made.group_rule == "Column 'patient'."
    assert not made.is_redistributable


def test_known_datasets_bring_their_facts():
    made = source(format="slake", path="Slake1.0", task="FD")
    assert (made.title, made.licence) == ("SLAKE 1.0", "CC BY-SA 4.0")
    assert any("No patient" in flaw for flaw in made.flaws)


def test_pictures_as_groups_are_a_stated_flaw():
    assert any("own group" in flaw for flaw in source(group="picture").flaws)
    assert source(group="patient").flaws == ()


def test_few_own_pictures_are_split_unless_they_are_for_testing():
    assert source().published_pictures > 10**6
    assert source(is_test_only=True).published_pictures == 0


def test_a_path_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"path: expected the file .*q\.jsonl, found nothing"):
        source().find(tmp_path)


def test_sides_of_own_data_are_judged_like_published_ones(tmp_path):
    write_picture(tmp_path / "brain" / "P1.png")
    made = source(format="folders", path=".", task="PI", group_pattern=r"(P\d)")
    assert official_split_problem(made, made.scan(made.find(tmp_path)).records) is not None
    for name in ("train/brain/P1.png", "test/brain/P2.png"):
        write_picture(tmp_path / "sides" / name)
    made = source(format="folders", path="sides", task="PI", group_pattern=r"(P\d)")
    assert official_split_problem(made, made.scan(made.find(tmp_path)).records) is None


def test_folders_of_classes_build_a_benchmark(tmp_path):
    planes = ("Fetal brain", "Fetal femur")
    for number in range(20):
        write_picture(tmp_path / "root" / "lab" / planes[number % 2] / f"P{number}_a.png", 40 + number)
    made = source(format="folders", path="lab", task="PI", group_pattern=r"(P\d+)_", name="mylab")
    recipe = Recipe("own", tmp_path / "root", [made], BenchmarkConfig())
    benchmark = build_benchmark(recipe, tmp_path / "built")
    assert {item.answer for item in benchmark.items} == {"fetal brain plane", "fetal femur plane"}
    assert {item.source for item in benchmark.items} == {"mylab"}
    assert len({item.split for item in benchmark.items}) == 3


def test_the_same_data_are_scanned_alike_wherever_the_root_lies(tmp_path):
    row = {"picture": "a.png", "question": "Q?", "options": ["x", "y"], "answer": "x", "group": 1, "task": "PI"}
    ids = []
    for root in (tmp_path / "one", tmp_path / "two"):
        write_lines(root / "q.jsonl", [row])
        write_picture(root / "a.png")
        made = source()
        (record,) = made.scan(made.find(root)).records
        ids.append((record.record_id, record.questions, record.group))
    assert ids[0] == ids[1]
