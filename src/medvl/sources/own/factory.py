"""Sources made from what a configuration says about own data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from medvl.config.own_data import PICTURE_GROUP, FormatName, OwnDataConfig
from medvl.sources.own import coco, fetus_vqa, folders, omnimedvqa, questions, slake, yolo
from medvl.sources.own.place import Place, find_place, place_in
from medvl.sources.record import Source, SourceScan, Task

NOT_SMALL = 1_000_000_000
"""Published size of own data that are not wholly for testing: they count as large, however few they are."""


@dataclass(frozen=True, slots=True)
class _Format:
    """A format and what is known about the dataset behind it."""

    scan: Callable[[OwnDataConfig, Place], SourceScan]
    tasks: tuple[Task, ...] = tuple(Task)
    title: str = ""
    homepage: str = ""
    licence: str = "not stated"
    citation: str = ""
    group_rule: str = ""
    flaws: tuple[str, ...] = ()


FORMATS: dict[FormatName, _Format] = {
    "questions": _Format(questions.scan),
    "coco": _Format(coco.scan, (Task.VG,)),
    "yolo": _Format(yolo.scan, (Task.VG,)),
    "folders": _Format(folders.scan, (Task.PI, Task.VC, Task.FO, Task.CD)),
    "fetus_vqa": _Format(
        fetus_vqa.scan,
        (Task.PI,),
        "FetUS-VQA",
        "https://github.com/hu2274898/FetUSAgents",
        citation="Towards reliable fetal ultrasound interpretation with multi-agent collaboration, arXiv:2605.25357",
        group_rule="The patient of a country in the names of the African planes; else the picture.",
        flaws=(
            "Its pictures come from the African planes, HC18, JNU-IFM and Zenodo record 14093338: they may lie in "
            "other sources too, and only identical pixels tell.",
            "Pictures of brain planes carry no patient, so pictures of one patient can lie on both sides of the split.",
            "Brain planes are written into the names of the pictures, and option orders do not vary.",
        ),
    ),
    "omnimedvqa": _Format(
        omnimedvqa.scan,
        title="OmniMedVQA",
        homepage="https://huggingface.co/datasets/foreverbeliever/OmniMedVQA",
        licence="CC BY-NC 4.0 (annotations); pictures as their datasets say",
        citation="Hu et al., OmniMedVQA: A new large-scale comprehensive evaluation benchmark for medical LVLM, "
        "CVPR 2024",
        group_rule="The picture: the dataset states no patient.",
        flaws=(
            "No patient is stated: slices and films of one patient can lie on both sides of the split.",
            "Questions and distractors were written by a language model, so that some can be answered without the "
            "picture.",
        ),
    ),
    "slake": _Format(
        slake.scan,
        title="SLAKE 1.0",
        homepage="https://www.med-vqa.com/slake/",
        licence="CC BY-SA 4.0",
        citation="Liu et al., SLAKE: A semantically-labeled knowledge-enhanced dataset for medical visual question "
        "answering, ISBI 2021",
        group_rule="The picture: the dataset states no patient.",
        flaws=(
            "No patient is stated: slices of one patient can lie on both sides of the split.",
            "Options of closed questions are read from the text of the question.",
        ),
    ),
}
"""Format -> how it is read."""


def make_source(config: OwnDataConfig) -> Source:
    """A source for one set of own data.

    Args:
        config: Checked configuration.

    Returns:
        The source. Its `find` raises DataError where the data are not at their path: who names a path wants them.
    """
    known = FORMATS[config.format]
    return Source(
        name=config.name,
        title=config.title or known.title or config.name,
        homepage=known.homepage or f"own data at {config.path}",
        licence=config.licence or known.licence,
        is_redistributable=False,
        published_pictures=0 if config.is_test_only else NOT_SMALL,
        group_rule=_group_rule(config, known),
        citation=config.citation or known.citation or "own data",
        tasks=known.tasks if config.task is None else (Task(config.task),),
        find=partial(_find, config),
        scan=partial(_scan, config),
        has_usable_official_split=config.use_split,
        flaws=known.flaws + _flaws(config),
    )


def _find(config: OwnDataConfig, root: Path) -> Path | None:
    return find_place(config, root)


def _scan(config: OwnDataConfig, folder: Path) -> SourceScan:
    return FORMATS[config.format].scan(config, place_in(config, folder))


def _group_rule(config: OwnDataConfig, known: _Format) -> str:
    if config.group == PICTURE_GROUP:
        return "The picture, as the configuration says (group: picture)."
    if config.group_pattern is not None:
        return f"The part of the picture's name that {config.group_pattern!r} picks."
    if config.group is None and known.group_rule:
        return known.group_rule
    return f"Column {config.group or config.columns.get('group', 'group')!r}."


def _flaws(config: OwnDataConfig) -> tuple[str, ...]:
    if config.group != PICTURE_GROUP or FORMATS[config.format].group_rule:
        return ()
    return ("Each picture is its own group: pictures of one patient, if there are any, can lie on both sides.",)
