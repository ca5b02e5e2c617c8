"""All sources together: their miniatures under one root make one benchmark."""

from importlib import import_module

import pytest

from medvl.benchmark.build import Recipe, build_benchmark
from medvl.benchmark.vocabulary import load_vocabulary
from medvl.config.schema import BenchmarkConfig, SplitConfig
from medvl.sources.record import Domain, Split, Task
from medvl.sources.registry import SOURCES

PUBLIC = {name: source for name, source in SOURCES.items() if name != "demo"}
GENERATORS = {name: "fetal_planes" if name == "fetal_planes_db" else name for name in PUBLIC}
"""Source -> what its generator in tests/fixtures is called after."""
PHANTOMS = {"fpus23", "pbf_us1"}


@pytest.fixture(scope="module")
def union_root(tmp_path_factory):
    root = tmp_path_factory.mktemp("union") / "root"
    for name, generator in GENERATORS.items():
        getattr(import_module(f"mini_{generator}"), f"write_mini_{generator}")(root / name)
    return root


@pytest.fixture(scope="module")
def build(union_root):
    def build_with(**split):
        config = BenchmarkConfig(split=SplitConfig(**split))
        folder = union_root.parent / f"built {split}"
        return build_benchmark(Recipe("union", union_root, list(PUBLIC.values()), config), folder)

    return build_with


@pytest.fixture(scope="module")
def union(build):
    return build()


@pytest.mark.parametrize("name", PUBLIC)
def test_a_source_is_found_in_its_own_folder_and_in_no_other(name, union_root):
    own = union_root / name
    assert PUBLIC[name].find(union_root).is_relative_to(own)
    assert [other for other in PUBLIC if PUBLIC[name].find(union_root / other) is not None] == [name]


@pytest.mark.parametrize("name", PUBLIC)
def test_the_vocabulary_knows_every_label_of_a_source(name, union_root):
    vocabulary = load_vocabulary()
    records = PUBLIC[name].scan(PUBLIC[name].find(union_root)).records
    labels = {pair for record in records for pair in record.labels.items()}
    labels |= {(Task.VG, structure.label) for record in records for structure in record.structures}
    labels |= {(Task.FD, finding) for record in records for finding in record.findings}
    assert {task for task, _ in labels} == set(PUBLIC[name].tasks)
    assert [(task, raw) for task, raw in labels if vocabulary[task].answer_to(raw) is None] == []


def test_every_source_gives_items_of_all_its_tasks(union):
    found = {name: {item.task for item in union.items if item.source == name} for name in PUBLIC}
    assert found == {name: set(source.tasks) for name, source in PUBLIC.items()}
    assert {item.task for item in union.items} == set(Task)


def test_no_group_and_no_picture_lies_on_two_sides(union):
    for key in ("group", "sha256_pixels"):
        sides: dict[str, set[Split]] = {}
        for item in union.items:
            sides.setdefault(getattr(item, key), set()).add(item.split)
        assert [value for value, found in sides.items() if len(found) > 1] == []


def test_a_picture_that_two_sources_hold_stays_on_the_side_of_the_test(build):
    union = build(test_sources=["psfhs"])
    shared = "image_mha/03744.mha"
    assert {item.source for item in union.items if item.picture.endswith(shared)} == {"psfhs"}
    leaks = [leak for leak in union.card["leaks"] if leak["copy_picture"].endswith(shared)]
    assert [(leak["kept_source"], leak["copy_source"]) for leak in leaks] == [("psfhs", "fh_ps_aop")]
    assert leaks[0]["kept_picture"].endswith(shared)


def test_a_patient_that_two_sources_name_is_one_group_on_one_side(union):
    patient = [item for item in union.items if item.group == "fetal_planes_db:2"]
    assert {item.source for item in patient} == {"fetal_planes_db", "head_biometry"}
    assert {item.split for item in patient} == {Split.TEST}  # the published side
    subject = [item for item in union.items if item.group == "hc18:10"]
    assert {item.source for item in subject} == {"hc18", "head_biometry"}
    assert len({item.split for item in subject}) == 1


def test_pictures_of_phantoms_are_those_of_the_two_phantom_sources(union):
    assert {item.source for item in union.items if item.domain is Domain.PHANTOM} == PHANTOMS
    assert not any(item.domain is Domain.CLINICAL for item in union.items if item.source in PHANTOMS)


def test_a_source_can_be_left_out_of_training_with_the_groups_that_others_share(build):
    union = build(test_sources=["head_biometry"])
    assert {item.source for item in union.items if item.split is Split.TEST} == {"head_biometry"}
    assert {item.split for item in union.items if item.source == "head_biometry"} == {Split.TEST}
    tested, others = ({i.group for i in union.items if (i.source == "head_biometry") is own} for own in (True, False))
    assert not tested & others
    shared = [leak for leak in union.card["leaks"] if leak["kind"] == "group"]
    assert {leak["copy_source"] for leak in shared} == {"fetal_planes_db", "hc18"}
    assert all(leak["done"] == "dropped" and leak["dropped_items"] for leak in shared)


def test_phantoms_can_train_what_patients_test(build):
    items = build(test_domain="clinical").items
    assert {item.source for item in items if item.split is not Split.TEST} == PHANTOMS
    assert not {item.source for item in items if item.split is Split.TEST} & PHANTOMS
