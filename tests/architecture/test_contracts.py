"""What keeps the library in the shape that the design gives it."""

import ast
import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest

from medvl import errors
from medvl.sources.registry import SOURCES

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src" / "medvl"
FILES = sorted([*SRC.rglob("*.py"), *(ROOT / "data_modules").rglob("*.py")])
ENTRIES = ("train", "evaluate")

LONG: dict[str, str] = {}
"""File above 400 lines -> why it is one."""

WITHOUT_TWIN = {
    "cli/comparing.py": "prints; shown by tests/entrypoints/test_compare.py",
    "models/families/family.py": "data; every family goes through families/test_every_family.py",
    "models/families/gemma3.py": "patterns; covered by families/test_every_family.py",
    "models/families/internvl.py": "patterns; covered by families/test_every_family.py",
    "models/families/qwen_vl.py": "patterns; covered by families/test_every_family.py",
    "models/families/smolvlm.py": "patterns; covered by families/test_every_family.py",
    "models/tiny/__main__.py": "a command line over tested functions",
    "models/tiny/card.py": "text; the shipped card is checked by tiny/test_checkpoint.py",
    "models/tiny/evaluate.py": "covered by tiny/test_checkpoint.py",
    "models/tiny/facts.py": "covered by tiny/test_scenes.py and tiny/test_asking.py",
    "models/tiny/shapes.py": "covered by tiny/test_scenes.py",
    "models/tiny/words.py": "constants",
    "reporting/console_lines.py": "prints; shown by tests/entrypoints/test_train.py",
    "reporting/progress.py": "prints; shown by tests/entrypoints/test_train.py",
    "sources/record.py": "dataclasses without behaviour",
}
"""Module -> why it has no test file of its own."""


def imports(path: Path) -> set[str]:
    """Names of all modules that a file imports, at any depth."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return names


def test_the_import_contracts_hold():
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Contracts: [1-9]\d* kept, 0 broken", done.stdout)


def test_every_package_has_its_place_in_the_layers():
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    layers = re.findall(r"[\w.]+", parser["importlinter:contract:layers"]["layers"])
    packages = {f"medvl.{path.parent.name}" for path in SRC.glob("*/__init__.py")}
    assert packages <= set(layers)
    assert len(layers) == len(set(layers))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nobody_imports_an_entry_file(path):
    assert not {name.split(".")[0] for name in imports(path)} & set(ENTRIES)


def test_long_files_have_a_reason():
    long = {path.relative_to(ROOT).as_posix() for path in FILES if len(path.read_text().splitlines()) > 400}
    assert long == set(LONG)
    assert all(LONG.values())


def test_every_module_says_what_it_is_for():
    silent = [path for path in FILES if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def test_no_module_is_a_drawer_for_everything():
    assert not [path for path in FILES if path.stem in {"utils", "util", "helpers", "helper", "common", "misc"}]


def test_every_error_has_a_documented_exit_code():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.MedvlError)]
    assert len(kinds) >= 6
    for kind in kinds:
        assert kind.exit_code in errors.EXIT_CODES
        assert kind.__doc__
    codes = [kind.exit_code for kind in kinds]
    assert len(codes) == len(set(codes))


def test_a_configuration_error_lists_its_problems():
    error = errors.ConfigError(["a is wrong", "b is wrong"])
    assert str(error) == "2 problems in the configuration:\n  - a is wrong\n  - b is wrong"
    assert str(errors.ConfigError(["a"])).startswith("1 problem in")


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_says_where_it_is_from_and_what_a_group_is(name):
    source = SOURCES[name]
    assert source.name == name
    for field in ("title", "homepage", "licence", "citation", "group_rule"):
        assert getattr(source, field).strip(), field
    assert source.homepage.startswith(("https://", "none: "))
    assert source.tasks
    assert source.published_pictures > 0


def test_every_module_has_a_test_file():
    missing = []
    for path in sorted(SRC.rglob("*.py")):
        module = path.relative_to(SRC)
        twin = ROOT / "tests" / "medvl" / module.parent / f"test_{path.name}"
        if path.name != "__init__.py" and not twin.is_file():
            missing.append(module.as_posix())
    assert sorted(set(missing) - set(WITHOUT_TWIN)) == []
    assert sorted(set(WITHOUT_TWIN) - set(missing)) == [], "has a test file now: take it off the list"


def test_no_file_speaks_of_this_machine():
    for path in [*FILES, *(ROOT / "conf").rglob("*.yaml"), *(ROOT / f"{name}.py" for name in ENTRIES)]:
        assert not re.search(r"/(work|home|root|tmp)/", path.read_text()), path
