from pathlib import Path

import pytest

from medvl.benchmark.card import OTHER_CASE
from medvl.imaging.notes import Note
from medvl.sources.record import Source, Task
from medvl.sources.registry import SOURCES, unknown_sources

PAGE = Path(__file__).resolve().parents[3] / "docs" / "datasets.md"
COLUMNS = ("source", "home", "licence", "pages", "expects", "tasks", "group", "split", "known flaws")


@pytest.fixture(scope="module")
def page_rows():
    """Name of a source -> column -> cell of the page's table of sources."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = lines.index(f"| {' | '.join(COLUMNS)} |")
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start + 2 :] if line[:1] == "|"]
    return {row[0].strip("`"): dict(zip(COLUMNS, row, strict=True)) for row in cells}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_stands_under_its_own_name_and_says_all_that_a_card_needs(name):
    source = SOURCES[name]
    assert isinstance(source, Source)
    assert source.name == name
    assert name == name.casefold()
    for text in (source.title, source.homepage, source.licence, source.citation, source.group_rule, *source.flaws):
        assert text == text.strip()
        assert text
    assert source.homepage.startswith("https://") or name == "demo"
    assert source.published_pictures > 0
    assert source.tasks
    assert len(set(source.tasks)) == len(source.tasks)


def test_no_two_sources_share_a_name_a_title_or_a_home():
    for field in ("name", "title", "homepage"):
        assert len({getattr(source, field) for source in SOURCES.values()}) == len(SOURCES) == 18


@pytest.mark.parametrize("name", SOURCES)
def test_groups_are_shared_with_other_sources_that_there_are(name):
    shared = SOURCES[name].shares_groups_with
    assert set(shared) <= set(SOURCES) - {name}
    assert len(set(shared)) == len(shared)


def test_every_task_has_a_source_besides_the_demo():
    assert {task for name, source in SOURCES.items() if name != "demo" for task in source.tasks} == set(Task)


@pytest.mark.parametrize("name", SOURCES)
def test_nothing_is_found_in_an_empty_folder(name, tmp_path):
    assert SOURCES[name].find(tmp_path) is None
    (tmp_path / "images").mkdir()
    assert SOURCES[name].find(tmp_path) is None


def test_the_page_on_data_has_one_row_a_source_in_order(page_rows):
    assert list(page_rows) == list(SOURCES)


@pytest.mark.parametrize("name", SOURCES)
def test_the_row_of_a_source_says_what_the_source_says(name, page_rows):
    source, row = SOURCES[name], page_rows[name]
    assert row["home"] == source.homepage.removeprefix("https://")
    assert row["licence"] == source.licence
    assert row["pages"] == ("yes" if source.is_redistributable else "no")
    assert row["tasks"] == " ".join(task for task in Task if task in source.tasks)
    assert row["split"].startswith("published" if source.has_usable_official_split else "by group")
    assert all(row.values())


def test_the_page_on_data_explains_every_word_of_the_reading_census():
    words = {line.split("`")[1] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")}
    assert {OTHER_CASE, *(note.value for note in Note)} <= words


def test_a_name_that_is_no_source_is_answered_with_one_that_is_near():
    near, none = unknown_sources(["hc18", "hc81", "xyz"])
    assert near == "'hc81' is no source; did you mean hc18?"
    assert none == f"'xyz' is no source; known: {', '.join(sorted(SOURCES))}"


def test_no_source_takes_the_folder_of_another(mini_hc18, mini_fetal_planes, tmp_path):
    assert SOURCES["hc18"].find(tmp_path) == mini_hc18
    assert SOURCES["fetal_planes_db"].find(tmp_path) == mini_fetal_planes
    assert SOURCES["hc18"].find(mini_fetal_planes) is None
    assert SOURCES["fetal_planes_db"].find(mini_hc18) is None
