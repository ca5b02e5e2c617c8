import dataclasses
import json
import subprocess
import sys
from functools import partial

import pytest
import torch

import data_modules.question_datamodule as module
from data_modules.question_datamodule import QuestionDataModule
from medvl.batching.picture_control import PictureControl
from medvl.benchmark.store import Benchmark
from medvl.config.schema import (
    BenchmarkConfig,
    DataConfig,
    DebugConfig,
    DemoConfig,
    EvalConfig,
    EvaluateConfig,
    ModelConfig,
    PathsConfig,
    TaskMixConfig,
)
from medvl.errors import ConfigError, DataError
from medvl.imaging.augment import check_installed
from medvl.sources.record import Split, Task


@pytest.fixture
def configure(demo_root, demo_data, tmp_path):
    """Make a configuration on the shared demo dataset; it shares the built benchmark unless told otherwise."""

    def make(**changes) -> EvaluateConfig:
        data = {"name": "demo", "root": str(demo_root), "sources": ["demo"], **changes.pop("data", {})}
        values = {
            "name": "test",
            "model": ModelConfig(name="tiny", path="unused"),
            "data": DataConfig(**data),
            "paths": PathsConfig(data=str(demo_data.folder.parent.parent)),
        }
        return EvaluateConfig(**{**values, **changes})

    return make


def ready(config, processor=None, mix=None) -> QuestionDataModule:
    data = QuestionDataModule(config, mix)
    data.processor = processor
    data.setup()
    return data


def test_the_benchmark_is_built_when_it_is_not_there_and_read_when_it_is(configure, tmp_path, demo_items):
    config = configure(paths=PathsConfig(data=str(tmp_path)))
    said = []
    data = QuestionDataModule(config, progress=lambda *facts: said.append(facts))
    assert not data.folder.exists()
    data.prepare_data()
    assert said[-1][0] == "reading the pictures of demo"
    assert said[-1][1] == said[-1][2] > 0
    data.setup()
    assert data.benchmark.items == demo_items
    said.clear()
    stamp = (data.folder / "items.parquet").stat().st_mtime_ns
    QuestionDataModule(config, progress=lambda *facts: said.append(facts)).prepare_data()
    assert said == []
    assert (data.folder / "items.parquet").stat().st_mtime_ns == stamp


def test_the_demo_dataset_is_drawn_once_when_the_configuration_asks_for_it(tmp_path):
    config = EvaluateConfig(
        name="test",
        model=ModelConfig(name="tiny", path="unused"),
        data=DataConfig(name="demo", root=str(tmp_path / "r"), sources=["demo"], demo=DemoConfig(patients=3)),
        paths=PathsConfig(data=str(tmp_path / "d")),
    )
    said = []
    QuestionDataModule(config, progress=lambda what, done, n: said.append(what)).prepare_data()
    assert set(said) == {"drawing the demo pictures", "reading the pictures of demo"}
    said.clear()
    QuestionDataModule(config, progress=lambda what, done, n: said.append(what)).prepare_data()
    assert said == []


def test_the_folder_name_changes_with_what_the_benchmark_depends_on_and_with_nothing_else(configure):
    name = {
        "plain": configure(),
        "option pool": configure(benchmark=BenchmarkConfig(option_pool="task")),
        "seed of the benchmark": configure(benchmark=BenchmarkConfig(seed=1)),
        "strict": configure(data={"strict": True}),
        "root": configure(data={"root": "/elsewhere"}),
        "sources": configure(data={"sources": ["demo", "hc18"]}),
    }
    folders = {what: QuestionDataModule(config).folder.name for what, config in name.items()}
    assert len(set(folders.values())) == len(folders)
    same = [configure(seed=5), configure(data={"batch_size": 3}), configure(eval=EvalConfig(batch_size=2))]
    assert {QuestionDataModule(config).folder.name for config in same} == {folders["plain"]}


def test_an_unknown_source_is_refused_with_a_near_match(configure):
    with pytest.raises(
        ConfigError, match=r"data\.sources: 'fetal_plane_db' is no source; did you mean fetal_planes_db"
    ):
        QuestionDataModule(configure(data={"sources": ["demo", "fetal_plane_db"]}))


def test_splits_hold_their_own_items_in_order(configure, demo_items):
    data = ready(configure())
    for split in Split:
        assert data.items(split) == [item for item in demo_items if item.split is split]


def test_fewer_val_and_test_items_are_asked_when_limited(configure, demo_items):
    data = ready(configure(eval=EvalConfig(val_items=4, test_items=6)))
    assert [len(data.items(split)) for split in (Split.VAL, Split.TEST)] == [4, 6]
    assert len(data.items(Split.TRAIN)) == sum(item.split is Split.TRAIN for item in demo_items)
    assert len({item.task for item in data.items(Split.TEST)}) == 5


def test_overfitting_uses_the_same_few_train_items_everywhere(configure, tiny_base):
    data = ready(configure(debug=DebugConfig(overfit_items=5)), tiny_base.processor)
    few = data.items(Split.TRAIN)
    assert len(few) == 5
    assert {item.split for item in few} == {Split.TRAIN}
    assert data.items(Split.VAL) == data.items(Split.TEST) == few
    trained = {item.item_id for batch in data.train_dataloader() for item in batch.items}
    asked = [item.item_id for batch in data.val_dataloader() for item in batch.items]
    assert sorted(asked) == sorted(item.item_id for item in few)
    assert trained == set(asked)


def test_permuted_answers_reach_training_and_nothing_else(configure, tiny_base):
    honest = ready(configure(), tiny_base.processor)
    permuted = ready(configure(debug=DebugConfig(permute_answers=True)), tiny_base.processor)
    answers = {item.item_id: item.answer_index for item in honest.items(Split.TRAIN)}
    trained = [item for batch in permuted.train_dataloader() for item in batch.items]
    assert any(item.answer_index != answers[item.item_id] for item in trained)
    assert permuted.items(Split.TEST) == honest.items(Split.TEST)


def ids(batch) -> list[str]:
    return [item.item_id for item in batch.items]


def pixels(batch) -> torch.Tensor:
    """The picture of each row."""
    return batch.inputs["pixel_values"][batch.picture_of]


def test_a_control_changes_the_pictures_and_not_the_questions(configure, tiny_base):
    data = ready(configure(eval=EvalConfig(batch_size=6)), tiny_base.processor)
    seen = list(data.question_loader(Split.TEST))
    own = {item: row for b in seen for item, row in zip(ids(b), pixels(b), strict=True)}
    for control in PictureControl:
        asked = list(data.question_loader(Split.TEST, control))
        assert sorted(item for b in asked for item in ids(b)) == sorted(own)
        pictures = [b.inputs.get("pixel_values") for b in asked]
        if control is PictureControl.TEXT_ONLY:
            assert not any(rows is not None for rows in pictures)
        else:
            for b in asked:
                rows = zip(ids(b), pixels(b), strict=True)
                assert not any(torch.equal(row, own[item]) for item, row in rows)


@pytest.mark.parametrize("debug", [DebugConfig(), DebugConfig(overfit_items=4)])
def test_an_empty_split_is_refused_with_the_counts(configure, monkeypatch, demo_data, debug):
    built = demo_data.benchmark
    tests_only = [dataclasses.replace(item, split=Split.TEST) for item in built.items]
    monkeypatch.setattr(module, "read_benchmark", lambda folder: Benchmark(folder, tests_only, built.card))
    data = ready(configure(debug=debug))
    with pytest.raises(DataError, match=r"the train split of benchmark demo is empty; items by source: .*demo"):
        data.items(Split.TRAIN)


def test_training_batches_have_answers_and_question_batches_have_none(configure, tiny_base):
    data = ready(configure(data={"batch_size": 3}, eval=EvalConfig(batch_size=5)), tiny_base.processor)
    train, val = next(iter(data.train_dataloader())), next(iter(data.val_dataloader()))
    assert (len(train.items), len(val.items)) == (3, 5)
    assert train.labels is not None
    assert val.labels is None


def test_question_batches_cover_a_split_once_in_an_order_that_stays(configure, tiny_base):
    data = ready(configure(eval=EvalConfig(batch_size=7)), tiny_base.processor)
    asked, again = (
        [item.item_id for batch in data.question_loader(Split.TEST) for item in batch.items] for _ in range(2)
    )
    assert sorted(asked) == sorted(item.item_id for item in data.items(Split.TEST))
    assert asked == again


def test_the_questions_of_a_picture_are_asked_together(configure, tiny_base):
    data = ready(configure(eval=EvalConfig(batch_size=7)), tiny_base.processor)
    batches = list(data.question_loader(Split.TEST))
    held = [{(item.sha256_pixels, item.bbox_xyxy_px) for item in batch.items} for batch in batches]
    assert sum(map(len, held)) == len(set.union(*held)) < len(data.items(Split.TEST))


@pytest.mark.parametrize("control", [None, *PictureControl])
def test_a_batch_holds_no_more_tokens_than_it_may(configure, tiny_base, control):
    data = ready(configure(eval=EvalConfig(batch_size=64, batch_tokens=900)), tiny_base.processor)
    data.picture_tokens = partial(tiny_base.family.picture_tokens, tiny_base.processor)
    sizes = [batch.inputs["input_ids"].shape for batch in data.question_loader(Split.TEST, control)]
    assert all(rows * longest <= 900 for rows, longest in sizes)
    assert min(rows for rows, _ in sizes[:-1]) > 1


def test_training_follows_the_task_mix(configure, tiny_base):
    data = ready(configure(), tiny_base.processor, TaskMixConfig(weights={"VG": 0.0}))
    drawn = [item for batch in data.train_dataloader() for item in batch.items]
    assert drawn
    assert all(item.task is not Task.VG for item in drawn)


def test_loading_processes_change_nothing(configure, tiny_base):
    seen = []
    for workers in (0, 2):
        data = ready(configure(data={"num_workers": workers}), tiny_base.processor)
        seen.append([item.item_id for batch in data.train_dataloader() for item in batch.items])
    assert seen[0] == seen[1]


def test_without_a_processor_there_are_no_batches(configure):
    with pytest.raises(RuntimeError, match="hand over the processor first"):
        ready(configure()).val_dataloader()


def test_before_setup_there_is_no_benchmark(configure):
    with pytest.raises(RuntimeError, match="call setup"):
        _ = QuestionDataModule(configure()).benchmark


def test_it_imports_nothing_of_models_and_training():
    code = (
        "import sys, json, data_modules.question_datamodule\n"
        "others = ('transformers', 'peft', 'albumentations')\n"
        "print(json.dumps([n for n in sys.modules if n.startswith('medvl.') or n in others]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert "medvl.batching.collator" in loaded
    assert "albumentations" not in loaded
    assert not [n for n in loaded if n.split(".")[:2][-1] in ("models", "training", "answering", "evaluation", "peft")]


def test_augmented_pictures_reach_training_and_nothing_else(configure, tiny_base):
    plain, changed = (
        ready(configure(data={"augment": level, "batch_size": 16}), tiny_base.processor, TaskMixConfig())
        for level in ("none", "ultrasound")
    )
    pairs = list(zip(plain.train_dataloader(), changed.train_dataloader(), strict=True))
    assert all(a.items == b.items for a, b in pairs)
    differ = [not torch.equal(a.inputs["pixel_values"], b.inputs["pixel_values"]) for a, b in pairs]
    assert all(differ)
    for split in (Split.VAL, Split.TEST):
        for a, b in zip(plain.question_loader(split), changed.question_loader(split), strict=True):
            assert torch.equal(a.inputs["pixel_values"], b.inputs["pixel_values"])


def test_augmented_rows_share_equal_pictures_only_and_still_share(configure, tiny_base):
    data = ready(configure(data={"augment": "light", "batch_size": 16}), tiny_base.processor, TaskMixConfig())
    plain = ready(configure(data={"batch_size": 16}), tiny_base.processor, TaskMixConfig())
    changed, unchanged = ([batch.picture_of for batch in one.train_dataloader()] for one in (data, plain))
    assert changed == unchanged
    assert any(max(pictures) + 1 < len(pictures) for pictures in changed)


def test_augmented_pictures_are_new_each_epoch_and_the_same_whoever_loads_them(configure, tiny_base):
    seen = {}
    for workers in (0, 2):
        config = configure(data={"augment": "light", "num_workers": workers, "batch_size": 64})
        loader = ready(config, tiny_base.processor, TaskMixConfig()).train_dataloader()
        for epoch in (0, 1, 0):  # loading processes stay between epochs
            loader.sampler.set_epoch(epoch)
            rows = [
                (item.item_id, row.numpy().tobytes())
                for batch in loader
                for item, row in zip(batch.items, pixels(batch), strict=True)
            ]
            assert seen.setdefault(epoch, rows) == rows
    first, second = (dict(seen[epoch]) for epoch in (0, 1))
    assert sum(first[item] == second[item] for item in first) < 0.1 * len(first)


def test_a_missing_augmentation_package_is_refused_before_training_and_not_missed_elsewhere(configure, monkeypatch):
    monkeypatch.setitem(sys.modules, "usaugment.albumentations", None)
    check_installed.cache_clear()
    config = configure(data={"augment": "ultrasound"})
    QuestionDataModule(config)
    with pytest.raises(ConfigError, match=r"data\.augment=ultrasound needs .* pip install"):
        QuestionDataModule(config, TaskMixConfig())


@pytest.mark.parametrize(
    ("data", "debug", "moves"),
    [
        ({}, DebugConfig(), True),
        ({"shuffle_options": False}, DebugConfig(), False),
        ({}, DebugConfig(overfit_items=5), False),
    ],
)
def test_options_move_in_training_alone_and_not_where_a_few_items_are_learnt_by_heart(
    configure, tiny_base, data, debug, moves
):
    module = ready(configure(data=data, debug=debug), tiny_base.processor, TaskMixConfig())
    built = {item.item_id: item.options for item in module.benchmark.items}
    loader = module.train_dataloader()
    orders = []
    for epoch in (0, 1):
        loader.sampler.set_epoch(epoch)
        orders.append({item.item_id: item.options for batch in loader for item in batch.items})
    assert (orders[0] != orders[1]) == moves
    assert any(options != built[name] for name, options in orders[1].items()) == moves
    assert all(
        item.options == built[item.item_id] for batch in module.question_loader(Split.TEST) for item in batch.items
    )


@pytest.mark.parametrize("scoring", ["letter", "generation"])
def test_only_questions_that_are_replied_to_are_padded_on_the_left(configure, tiny_base, scoring):
    data = ready(configure(eval=EvalConfig(batch_size=16, scoring=scoring)), tiny_base.processor)
    batch = next(iter(data.question_loader(Split.TEST)))
    seen = batch.inputs["attention_mask"]
    assert not seen.all()
    first, last = bool(seen[:, 0].all()), bool(seen[:, -1].all())
    assert (first, last) == ((True, False) if scoring == "letter" else (False, True))


@pytest.mark.parametrize("score", ["sum", "relative"])
def test_the_options_of_a_question_are_rows_where_their_likelihood_is_asked(configure, tiny_base, score):
    asking = EvalConfig(batch_size=4, scoring="likelihood", likelihood=score)
    data = ready(configure(eval=asking), tiny_base.processor)
    batch = next(iter(data.question_loader(Split.TEST)))
    assert 0 < len(batch.items) <= 4
    assert sum(len(part.items) for part in batch.parts) == sum(len(item.options) for item in batch.items)
    assert bool(batch.blind) == (score == "relative")


def test_options_that_cannot_be_asked_by_likelihood_are_refused_before_the_first_question(configure, tiny_base):
    data = ready(configure(eval=EvalConfig(batch_size=4, scoring="likelihood")), tiny_base.processor)
    *others, last = data.items(Split.TEST)
    broken = dataclasses.replace(last, options=("all of the above", *last.options[1:]))
    with pytest.raises(DataError, match=f"item {last.item_id}: its options speak of each other"):
        data.question_loader(Split.TEST, items=[*others, broken])


def test_questions_come_one_by_one_without_a_model(configure):
    data = ready(configure())
    items = data.items(Split.TEST)[:3]
    shown = list(data.question_samples(Split.TEST, None, items))
    assert [sample.item for sample in shown] == items
    assert all(sample.pixels.shape == (item.height, item.width, 3) for sample, item in zip(shown, items, strict=True))
    bare = list(data.question_samples(Split.TEST, PictureControl.TEXT_ONLY, items))
    assert [sample.pixels for sample in bare] == [None] * 3
