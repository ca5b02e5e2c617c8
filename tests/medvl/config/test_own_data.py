import re
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from medvl.config.own_data import OwnDataConfig
from medvl.config.schema import DataConfig

DOCS = (Path(__file__).resolve().parents[3] / "docs" / "own_data.md").read_text(encoding="utf-8")


def config(**values):
    return OwnDataConfig(**{"name": "mylab", "format": "questions", "path": "q.jsonl", **values})


def test_few_words_are_enough():
    made = config(task="VG", group="patient_id", columns={"question": "q"})
    assert (made.columns, made.group, made.use_split) == ({"question": "q"}, "patient_id", True)


def test_paths_are_written_one_way():
    assert config(path=r"lab\data//q.jsonl").path == "lab/data/q.jsonl"


@pytest.mark.parametrize(
    ("path", "is_file"), [("q.jsonl", True), ("a/Q.JSON", True), ("t.tsv", True), ("saved", False), ("v1.2", False)]
)
def test_the_ending_says_whether_a_path_is_a_file(path, is_file):
    assert config(path=path).is_file is is_file


@pytest.mark.parametrize("values", [{}, {"format": "coco", "path": "c.json"}, {"format": "yolo", "path": "d"}])
def test_what_is_written_out_is_read_again(values):
    made = config(**values)
    assert OwnDataConfig.model_validate(made.model_dump()) == made


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"colums": {}}, "colums"),
        ({"name": "My Lab"}, "lower-case letters"),
        ({"format": "excel"}, "format"),
        ({"path": "../q.jsonl"}, "without '..'"),
        ({"path": " "}, "without '..'"),
        ({"path": "/data/q.jsonl"}, "relative to data.root"),
        ({"path": r"D:\q.jsonl"}, "relative to data.root"),
        ({"pictures": "a/../../b"}, "without '..'"),
        ({"cache": ".."}, "without '..'"),
        ({"task": "XX"}, "task"),
        ({"columns": {"image": "img"}}, "columns"),
        ({"group_pattern": "("}, "no regular expression"),
        ({"group_pattern": "P"}, "one group in brackets.*got 0"),
        ({"group_pattern": "(P)(Q)"}, "got 2"),
        ({"group": "patient", "group_pattern": "(P)"}, "say one of them"),
        ({"group": "patient", "columns": {"group": "p"}}, "say one of them"),
        ({"format": "folders", "path": "d"}, "folders needs task"),
        ({"format": "slake", "path": "d"}, "slake needs task"),
        ({"format": "folders", "path": "d", "task": "VG"}, "feeds PI, VC, FO, CD, not VG"),
        ({"format": "coco", "path": "c.json", "task": "PI"}, "feeds VG, not PI"),
        ({"format": "yolo", "path": "d", "group": "patient"}, "no columns; say group_pattern"),
        ({"format": "yolo", "path": "d.json", "group": "picture"}, "needs a folder"),
        ({"format": "coco", "path": "c.json", "columns": {"box": "b"}}, "columns has no effect on format coco"),
        ({"labels": {"a": "b"}}, "labels has no effect on format questions"),
        ({"format": "yolo", "path": "d", "only": {"a": ["b"]}}, "only has no effect"),
        ({"only": {"a": []}}, "only"),
    ],
)
def test_what_cannot_be_meant_is_refused(values, message):
    with pytest.raises(ValidationError, match=message):
        config(**values)


def test_the_examples_of_the_documentation_are_valid():
    examples = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", DOCS, re.DOTALL)]
    made = [DataConfig.model_validate(example) for example in examples]
    assert [data.own[0].format for data in made] == ["questions", "yolo", "folders"]
    pattern = made[2].own[0].group_pattern
    assert re.search(pattern, "train/AC/17/001.png")[1] == "17"
    assert re.search(made[1].own[0].group_pattern, "images/train/P17_003.png")[1] == "P17"


@pytest.mark.parametrize("key", sorted(OwnDataConfig.model_fields))
def test_the_documentation_names_every_key(key):
    assert re.search(rf"\b{key}\b", DOCS)
