"""Builds a benchmark folder from the datasets under one data root.

find -> scan -> read pictures -> draft questions -> split by group -> leak audit -> options -> write

Up to the questions each source is on its own. The split and the audit see all of them, because sources share groups and
pictures.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import medvl
from medvl.benchmark.card import OTHER_CASE, SourceRow, build_card
from medvl.benchmark.groups import group_of
from medvl.benchmark.item import META_FIELDS, Item
from medvl.benchmark.leaks import Leaks, Placed, leak_rows, settle_leaks
from medvl.benchmark.near import Signature, near_pairs
from medvl.benchmark.options import draw_options, shuffle_options
from medvl.benchmark.pictures import read_records, small_box_warnings
from medvl.benchmark.questions import Draft, box_area, draft_questions, picture_key
from medvl.benchmark.readings import READINGS_FILE, Readings
from medvl.benchmark.split import ToSplit, label_counts, official_split_problem, split_sources, states_sides
from medvl.benchmark.store import CARD_FILE, ITEMS_FILE, Benchmark, read_benchmark, stored_inputs, write_benchmark
from medvl.benchmark.vocabulary import TaskVocabulary, load_vocabulary, vocabulary_text
from medvl.config.own_data import OwnDataConfig
from medvl.config.schema import BenchmarkConfig, SplitConfig, TierConfig
from medvl.errors import DataError
from medvl.sources.record import Record, Source, Split, Task

BUILD_VERSION = 2
"""Raised whenever the same files and settings no longer give the same benchmark. 2: sources share groups,
and on chest X-rays a finding without a box of its own is no distractor of one that has one."""

Progress = Callable[[str, int, int], None]
"""Called with (source, pictures done, pictures in all)."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What to build.

    Attributes:
        name: Name of the benchmark.
        root: Data root.
        sources: Sources to look for.
        config: Rules.
        strict: A listed picture that is absent fails the build.
        skip_broken: Pictures that cannot be read are left out instead of failing the build.
        own: What was said about those sources that are own data.
    """

    name: str
    root: Path
    sources: Sequence[Source]
    config: BenchmarkConfig
    strict: bool = False
    skip_broken: bool = False
    own: Sequence[OwnDataConfig] = ()

    def settings(self) -> dict[str, Any]:
        """Everything but the files that shapes the items."""
        return {
            "medvl_version": medvl.__version__,
            "sources": [source.name for source in self.sources],
            "own": [one.model_dump() for one in self.own],
            "benchmark": self.config.model_dump(),
            "strict": self.strict,
            "skip_broken": self.skip_broken,
        }


@dataclass(slots=True)
class _Part:
    """One source on its way through the build."""

    source: Source
    row: SourceRow
    drafts: list[Draft]
    true_of: dict[str, tuple[str, ...]]
    groups: dict[str, str]
    to_split: ToSplit
    sides: dict[str, Split] = field(default_factory=dict)


def build_benchmark(recipe: Recipe, folder: Path, progress: Progress | None = None) -> Benchmark:
    """Build a benchmark, or read it back when the folder already holds this one.

    Args:
        recipe: What to build.
        folder: Benchmark folder.
        progress: Called while pictures are read.

    Raises:
        DataError: The root is absent, nothing was found, a file is broken, a label is unknown, a group is absent, or a
            picture leaks under `benchmark.leaks=fail`.
        StorageError: The folder cannot be written.
    """
    recipe = replace(recipe, root=recipe.root.absolute())
    places = _find(recipe)
    inputs = _inputs_fingerprint(recipe, places)
    if stored_inputs(folder) == inputs:
        return read_benchmark(folder)
    vocabulary = load_vocabulary()
    rows = [SourceRow(source.name, found=places[source.name] is not None) for source in recipe.sources]
    parts = []
    with Readings(folder.parent / READINGS_FILE) as readings:
        for source, row in zip(recipe.sources, rows, strict=True):
            place = places[source.name]
            if place is None:
                row.why_absent = f"no copy of {source.title} under data.root; get it from {source.homepage}"
            else:
                parts.append(_prepare(source, row, place, recipe, vocabulary, readings, progress))
    sides = split_sources([part.to_split for part in parts], recipe.config.split, recipe.config.seed)
    for part, own in zip(parts, sides, strict=True):
        part.sides = own
    placed = _placed(parts, recipe.root)
    leaks = _settle_leaks(parts, placed, recipe.config.leaks)
    items = _items(parts, leaks, recipe, vocabulary)
    if not items:
        raise DataError(f"the sources under {recipe.root} give no question at all: {_why_empty(rows)}")
    by_name = {source.name: source for source in recipe.sources}
    leaked = leak_rows(leaks, placed, _item_ids(parts))
    card = build_card(recipe.name, items, rows, by_name, recipe.settings(), leaked, inputs)
    return write_benchmark(folder, items, card)


def _find(recipe: Recipe) -> dict[str, Path | None]:
    if not recipe.root.is_dir():
        what = "is a file" if recipe.root.exists() else "does not exist"
        raise DataError(f"the data root {recipe.root} {what}; say data.root=DIR with the folder of your datasets")
    places = {}
    for source in recipe.sources:
        with _named(source):
            places[source.name] = source.find(recipe.root)
    if not any(places.values()):
        looked = ", ".join(f"{s.title} ({s.homepage})" for s in recipe.sources)
        raise DataError(
            f"none of the sources lies under {recipe.root}; looked for: {looked}. Each is found by its own "
            "files, at the root or two levels below it; docs/datasets.md names them"
        )
    return places


def _inputs_fingerprint(recipe: Recipe, places: Mapping[str, Path | None]) -> str:
    """Hash of the settings, the vocabulary, and name, size and time of every file that may be read."""
    digest = hashlib.sha256(json.dumps([BUILD_VERSION, recipe.settings()], sort_keys=True).encode())
    digest.update(vocabulary_text().encode())
    for name, place in sorted(places.items()):
        digest.update(f"{name}:".encode())
        for path in sorted(_files(place)) if place is not None else ():
            status = path.stat()
            line = f"{path.relative_to(recipe.root)} {status.st_size} {status.st_mtime_ns}\n"
            digest.update(line.encode(errors="surrogateescape"))  # names of files need not be UTF-8
    return digest.hexdigest()[:16]


def _files(place: Path) -> Iterator[Path]:
    """Files below a folder, linked folders included, built benchmarks and what was kept of readings left out."""
    seen: set[str] = set()
    for folder, below, names in os.walk(place, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen or {CARD_FILE, ITEMS_FILE} <= set(names):
            below.clear()
            continue
        seen.add(real)
        paths = (Path(folder, name) for name in names if not name.startswith(READINGS_FILE))
        yield from (path for path in paths if path.is_file())


def _prepare(
    source: Source,
    row: SourceRow,
    place: Path,
    recipe: Recipe,
    vocabulary: Mapping[Task, TaskVocabulary],
    readings: Readings,
    progress: Progress | None,
) -> _Part:
    """Scan and read one source and draft its questions."""
    with _named(source):
        scan = source.scan(place)
    row.warnings += [_without_root(text, recipe.root) for text in scan.warnings]
    row.listed = len(scan.records)
    _check_ids(source, scan.records)
    askable = [r for r in scan.records if r.is_askable]
    present = [r for r in askable if r.is_present]
    row.absent = sum(not r.is_present for r in scan.records)
    row.unlabelled = sum(r.is_present for r in scan.records) - len(present)
    if recipe.strict and row.absent:
        first = next(r for r in scan.records if not r.is_present)
        raise DataError(
            f"{source.name}: {row.absent} of {row.listed} listed pictures are absent, the first is "
            f"{first.picture.name} ({first.where}); data.strict=false builds from the partial copy"
        )
    groups = {_key(r): group_of(source, r) for r in present}
    report = None if progress is None else lambda done, n: progress(source.name, done, n)
    within = (recipe.root, place)
    pictures, broken = read_records(present, recipe.config.boxes, report, readings=readings, within=within)
    row.warnings += small_box_warnings(pictures)
    census = Counter(note for picture in pictures for note in picture.notes)
    census[OTHER_CASE] += sum(picture.record.is_in_other_case for picture in pictures)
    row.reading = {note: count for note, count in sorted(census.items()) if count}
    if broken and not recipe.skip_broken:
        listed = "\n  ".join(broken[:10])
        more = f"\n  and {len(broken) - 10} more" if len(broken) > 10 else ""
        raise DataError(
            f"{len(broken)} pictures or masks cannot be used:\n  {listed}{more}\n"
            "  replace them, or say data.skip_broken=true to build without them"
        )
    row.broken = [_without_root(text, recipe.root) for text in broken]
    problem = _protocol(recipe.config.split) or official_split_problem(source, askable)
    if problem is not None and source.has_usable_official_split and states_sides(askable):
        row.warnings.append(f"the published split is not used: {problem}")
    row.official_split = problem is None
    drafts, true_of = draft_questions(pictures, vocabulary, recipe.config.findings, recipe.config.seed)
    official = {groups[_key(r)]: r.official_split or Split.TRAIN for r in present} if problem is None else None
    counts = label_counts([(groups[picture_key(d.picture)], f"{d.task}/{d.answer}") for d in drafts])
    domains = {groups[_key(r)]: r.domain for r in present}
    return _Part(source, row, drafts, true_of, groups, ToSplit(source, official, counts, domains))


@contextmanager
def _named(source: Source) -> Iterator[None]:
    """Name the source in its errors."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{source.name}: {error}") from error


def _check_ids(source: Source, records: Sequence[Record]) -> None:
    first: dict[str, Record] = {}
    for record in records:
        known = first.setdefault(record.record_id, record)
        if known is not record:
            raise DataError(
                f"{source.name}: expected each picture once, found {record.record_id} twice ({known.where} and "
                f"{record.where}). Remove one of them."
            )


def _protocol(config: SplitConfig) -> str | None:
    """What overrides published splits, if anything does."""
    if config.test_sources:
        return f"benchmark.split.test_sources={config.test_sources}"
    return None if config.test_domain is None else f"benchmark.split.test_domain={config.test_domain}"


def _without_root(text: str, root: Path) -> str:
    """The card names files below the data root; where that lies stays out of it. Bytes that are no text are spelt."""
    text = text.encode(errors="backslashreplace").decode()
    return text.replace(f"{root}{os.sep}", "").replace(str(root), "data.root")


def _key(record: Record) -> str:
    return f"{record.source}/{record.record_id}"


def _settle_leaks(parts: Sequence[_Part], placed: Sequence[Placed], policy: str) -> Leaks:
    """Find what lies on two sides; moved groups are entered into the parts."""
    signatures = {picture_key(d.picture): d.picture.signature for part in parts for d in part.drafts}

    def find_near(placed: Sequence[Placed]) -> list[tuple[int, int, float]]:
        found = [Signature.from_bytes(signatures[p.key]) for p in placed]
        return near_pairs(found, group=[p.group for p in placed], side=[p.split for p in placed])

    leaks = settle_leaks(placed, policy, find_near)
    for part in parts:
        is_official = part.row.official_split
        part.sides = {g: leaks.side_of(g, side, is_official=is_official) for g, side in part.sides.items()}
        part.row.leaked = sum(key in leaks.dropped for key in {picture_key(d.picture) for d in part.drafts})
    return leaks


def _placed(parts: Sequence[_Part], root: Path) -> list[Placed]:
    placed: dict[str, Placed] = {}
    for part in parts:
        for picture in (draft.picture for draft in part.drafts):
            key, record = picture_key(picture), picture.record
            group = part.groups[key]
            place = record.picture.relative_to(root).as_posix()
            side, is_official = part.sides[group], part.row.official_split
            placed[key] = Placed(key, picture.sha256_pixels, group, side, is_official, place, record.frame)
    return list(placed.values())


def _item_ids(parts: Sequence[_Part]) -> dict[str, list[str]]:
    """Key of a picture -> ids of the items about it, those of dropped pictures included."""
    ids: dict[str, list[str]] = defaultdict(list)
    for part in parts:
        for draft in part.drafts:
            ids[picture_key(draft.picture)].append(draft.item_id)
    return ids


def _items(
    parts: Sequence[_Part], leaks: Leaks, recipe: Recipe, vocabulary: Mapping[Task, TaskVocabulary]
) -> list[Item]:
    items = []
    for part in parts:
        drafts = [d for d in part.drafts if picture_key(d.picture) not in leaks.dropped]
        answers = {task: {d.answer for d in drafts if d.task is task} for task in Task}
        for task in part.source.tasks:
            if len(answers[task]) == 1 and any(d.options is None for d in drafts if d.task is task):
                only = next(iter(answers[task]))
                part.row.warnings.append(
                    f"{task} has one answer only ('{only}'): marked constant_answer and left out of macro figures"
                )
        items += [_item(draft, part, answers[draft.task], recipe, vocabulary[draft.task]) for draft in drafts]
    return items


def _item(draft: Draft, part: _Part, source_answers: set[str], recipe: Recipe, vocabulary: TaskVocabulary) -> Item:
    picture, record = draft.picture, draft.picture.record
    key = picture_key(picture)
    if draft.options is None:
        options, answer_index, pool = draw_options(
            draft.answer,
            item_id=draft.item_id,
            seed=recipe.config.seed,
            vocabulary=vocabulary,
            source_answers=source_answers,
            excluded=draft.excluded,
            option_pool=recipe.config.option_pool,
        )
    else:
        options, answer_index = shuffle_options(
            draft.answer, draft.options, item_id=draft.item_id, seed=recipe.config.seed
        )
        pool = "given"
    share = None if draft.bbox_xyxy_px is None else box_area(draft.bbox_xyxy_px) / (picture.width * picture.height)
    return Item(
        item_id=draft.item_id,
        picture=record.picture.relative_to(recipe.root).as_posix(),
        frame=record.frame,
        sha256_pixels=picture.sha256_pixels,
        width=picture.width,
        height=picture.height,
        task=draft.task,
        question=draft.question or vocabulary.question,
        options=options,
        answer_index=answer_index,
        raw_label=draft.raw_label,
        answer=draft.answer,
        generic_plane=draft.answer in vocabulary.generic,
        polarity=draft.polarity,
        labels=part.true_of[key],
        group=part.groups[key],
        source=record.source,
        domain=record.domain,
        split=part.sides[part.groups[key]],
        bbox_xyxy_px=draft.bbox_xyxy_px,
        area_share=share,
        tier=None if share is None else tier_of(share, recipe.config.tiers),
        option_pool=pool,
        constant_answer=draft.options is None and len(source_answers) == 1,
        meta={name: record.meta.get(name, "") for name in META_FIELDS},
    )


def tier_of(area_share: float, tiers: TierConfig) -> str:
    """Tier of a box: small < small_below <= medium < large_from <= large."""
    if area_share < tiers.small_below:
        return "small"
    return "medium" if area_share < tiers.large_from else "large"


def _why_empty(rows: Sequence[SourceRow]) -> str:
    facts: Counter[str] = Counter()
    for row in rows:
        facts.update({"absent": row.absent, "without labels": row.unlabelled, "broken": len(row.broken)})
    said = [f"\n  {row.source}: {warning}" for row in rows for warning in row.warnings]
    counts = ", ".join(f"{count} pictures {what}" for what, count in facts.items() if count)
    return (counts or "they are empty") + "".join(said[:10])
