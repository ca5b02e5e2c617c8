from itertools import pairwise
from pathlib import Path

import yaml
from full_size import FULL_SIZE

from medvl.models.families import FAMILIES
from medvl.models.locate import SPECIMEN
from medvl.models.page import COUNTED, FAMILY_OF, page

PROJECT = Path(__file__).resolve().parents[3]
OPTIONS = {path.stem: yaml.safe_load(path.read_text()) for path in (PROJECT / "conf" / "model").glob("*.yaml")}


def test_the_committed_page_is_the_one_that_the_code_writes():
    assert (PROJECT / "docs" / "models.md").read_text(encoding="utf-8") == page(PROJECT / "conf")


def test_every_option_that_can_be_loaded_has_a_family():
    loadable = {
        name
        for name, option in OPTIONS.items()
        if "endpoint" not in option and not option.get("path", "").startswith(SPECIMEN)
    }
    assert set(FAMILY_OF) == loadable
    assert set(FAMILY_OF.values()) <= set(FAMILIES)


def test_every_option_family_and_recipe_is_on_the_page():
    text = page(PROJECT / "conf")
    recipes = [path.stem for path in (PROJECT / "conf" / "lora").glob("*.yaml")]
    assert [name for name in [*OPTIONS, *recipes, *FAMILIES] if f"`{name}`" not in text] == []
    assert [
        option["hub_id"] for option in OPTIONS.values() if "hub_id" in option and option["hub_id"] not in text
    ] == []


def test_the_sizes_are_of_the_configurations_that_are_counted_again():
    assert [counted.name for counted in COUNTED] == list(FULL_SIZE)


def test_tables_are_whole():
    lines = page(PROJECT / "conf").splitlines()
    for above, line in pairwise(lines):
        if line.startswith("|") and above.startswith("|"):
            assert line.count("|") == above.count("|")
