"""The DataModule: datasets on disk -> benchmark folder -> loaders of training and question batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from torch.utils.data import DataLoader, Dataset

from medvl.batching.augment import NumberedDraws
from medvl.batching.collator import Batch, Collator
from medvl.batching.dataset import ItemDataset, Sample
from medvl.batching.inputs import Companions
from medvl.batching.loading import QuestionLoader, WholeBatches
from medvl.batching.option_rows import OptionCollator
from medvl.batching.permuted import permute_answers
from medvl.batching.picture_control import PictureControl
from medvl.batching.question_batches import picture_key, question_batches, row_lengths
from medvl.batching.sampler import TaskMixSampler
from medvl.batching.subset import asked_items
from medvl.benchmark.item import Item
from medvl.benchmark.prepare import Progress, benchmark_folder, data_root, prepare_benchmark, recipe_of
from medvl.benchmark.store import Benchmark, read_benchmark
from medvl.config.schema import EntryConfig, TaskMixConfig
from medvl.imaging.augment import Level, check_installed
from medvl.sources.record import Split


class QuestionDataModule(pl.LightningDataModule):
    """Multiple-choice questions on pictures.

    `prepare_data` draws the demo dataset if the configuration asks for it and builds the benchmark if it is not there;
    `setup` reads it. The processor is handed over by the entry file once the model is loaded.

    Args:
        config: Configuration of the entry file.
        task_mix: How often each task is seen in training; None for evaluation.
        progress: Called with (what, done, in all) while pictures are drawn and read.
    """

    def __init__(
        self, config: EntryConfig, task_mix: TaskMixConfig | None = None, progress: Progress | None = None
    ) -> None:
        super().__init__()
        recipe_of(config)  # refuses unknown sources before anything is done
        self._config = config
        self._mix = task_mix
        self._augment: Level | None = None if config.data.augment == "none" else config.data.augment
        if task_mix is not None and self._augment is not None:
            check_installed(self._augment)  # now, not after the zero-shot evaluation
        self._progress = progress
        self._root = data_root(config)
        self.processor: Any = None
        self.companions = Companions()
        self.picture_tokens: Callable[[int, int], int] | None = None
        """(height, width in pixels) -> tokens of a picture, handed over with the processor. None where they are not
        known: then only `eval.batch_size` limits a batch."""
        self._benchmark: Benchmark | None = None

    @property
    def folder(self) -> Path:
        """Benchmark folder."""
        return benchmark_folder(self._config)

    @property
    def benchmark(self) -> Benchmark:
        """The benchmark, once `setup` has run."""
        if self._benchmark is None:
            raise RuntimeError("call setup() first")
        return self._benchmark

    def prepare_data(self) -> None:
        """Draw the demo dataset and build the benchmark, where they are not there yet."""
        prepare_benchmark(self._config, self._progress)

    def setup(self, stage: str = "") -> None:
        """Read the benchmark folder."""
        if self._benchmark is None:
            self._benchmark = read_benchmark(self.folder)

    def items(self, split: Split) -> list[Item]:
        """Items that training sees (train), or that are asked (val and test), see `asked_items`."""
        return asked_items(self.benchmark, split, self._config)

    def train_dataloader(self) -> DataLoader[Batch]:
        """Batches with answers, drawn by the task mix, their pictures and options changed as the configuration says."""
        items = self.items(Split.TRAIN)
        if self._config.debug.permute_answers:
            items = permute_answers(items, self._config.seed)
        sampler = TaskMixSampler(items, self._mix or TaskMixConfig(), self._config.seed)
        shuffles = self._config.data.shuffle_options and self._config.debug.overfit_items is None
        dataset = ItemDataset(items, self._root, None, self._config.seed, self._augment, shuffles)
        return self._loader(
            dataset,
            self._collator(with_answer=True),
            batch_size=self._config.data.batch_size,
            sampler=NumberedDraws(sampler),
        )

    def val_dataloader(self) -> DataLoader[Batch]:
        """Question batches of val."""
        return self.question_loader(Split.VAL)

    def test_dataloader(self) -> DataLoader[Batch]:
        """Question batches of test."""
        return self.question_loader(Split.TEST)

    def question_loader(
        self, split: Split, control: PictureControl | None = None, items: list[Item] | None = None
    ) -> DataLoader[Batch]:
        """Question batches of a split, with their pictures or with what a control shows instead.

        Their order is fixed but not that of the items: those of one picture come together, the longest first (see
        `question_batches`).

        Args:
            split: Side of the benchmark.
            control: What stands in the place of the pictures.
            items: Those of its items that are asked; None asks all.
        """
        dataset = ItemDataset(self.items(split) if items is None else items, self._root, control, self._config.seed)
        collator = self._collator(with_answer=False)
        if isinstance(collator, OptionCollator):
            collator.check(dataset.items)  # before the first question is asked, not in the middle
        lengths = [1] * len(dataset)
        if self.picture_tokens is not None:
            lengths = row_lengths(self.processor, dataset.items, dataset.shown, self.picture_tokens)
        asked = self._config.eval
        pictures = map(picture_key, dataset.shown or dataset.items)
        batches = question_batches(pictures, lengths, rows=asked.batch_size, tokens=asked.batch_tokens)
        return self._loader(WholeBatches(dataset, batches), collator, batch_size=None)

    def question_samples(self, split: Split, control: PictureControl | None, items: list[Item]) -> Iterator[Sample]:
        """Some questions of a split one by one, with their pictures, not made ready for any model.

        Args:
            split: Side of the benchmark; the items say it themselves.
            control: What stands in the place of the pictures.
            items: Those that are asked, in this order.
        """
        dataset = ItemDataset(items, self._root, control, self._config.seed)
        return (dataset[index] for index in range(len(dataset)))

    def _collator(self, *, with_answer: bool) -> Collator | OptionCollator:
        if self.processor is None:
            raise RuntimeError("hand over the processor first: datamodule.processor = ...")
        asking = self._config.eval
        if asking.scoring == "likelihood" and not with_answer:
            relative = asking.likelihood == "relative"
            return OptionCollator(self.processor, companions=self.companions, text_only_too=relative)
        return Collator(
            self.processor,
            with_answer=with_answer,
            companions=self.companions,
            padding_side="left" if asking.scoring == "generation" else "right",
            opened=with_answer or asking.scoring != "generation" or not asking.reasoning_tokens,
        )

    def _loader(self, dataset: Dataset[Any], collator: Collator | OptionCollator, **options: Any) -> DataLoader[Batch]:
        workers = self._config.data.num_workers
        return QuestionLoader(
            dataset,
            num_workers=workers,
            collate_fn=collator,
            persistent_workers=workers > 0,
            **options,
        )
