import json

import polars as pl
import pytest
from own_data import write_lines, write_saved

from medvl.errors import DataError
from medvl.sources.own import rows as rows_module
from medvl.sources.own.rows import objects, read_rows

ROWS = [{"picture": "a.png", "answer": "x"}, {"picture": "b.png", "answer": "y"}]


def read(path, required=("picture",)):
    return list(read_rows(path, list(required)))


def write_json(path, content):
    path.write_text(json.dumps(content))
    return path


def write_table(path, delimiter):
    path.write_text(
        "".join(delimiter.join(row) + "\n" for row in [("picture", "answer"), ("a.png", "x"), ("b.png", "y")])
    )
    return path


def write_parquet(path):
    pl.DataFrame(ROWS).write_parquet(path)
    return path


WRITERS = {
    "q.jsonl": lambda folder: write_lines(folder / "q.jsonl", ROWS),
    "q.NDJSON": lambda folder: write_lines(folder / "q.NDJSON", ROWS),
    "q.json": lambda folder: write_json(folder / "q.json", ROWS),
    "wrapped.json": lambda folder: write_json(folder / "wrapped.json", {"version": 1, "data": ROWS}),
    "q.csv": lambda folder: write_table(folder / "q.csv", ","),
    "semicolon.csv": lambda folder: write_table(folder / "semicolon.csv", ";"),
    "tab.csv": lambda folder: write_table(folder / "tab.csv", "\t"),
    "q.tsv": lambda folder: write_table(folder / "q.tsv", "\t"),
    "q.parquet": lambda folder: write_parquet(folder / "q.parquet"),
    "data-00000-of-00001.arrow": lambda folder: write_saved(folder / "saved", ROWS),
}


@pytest.mark.parametrize("name", list(WRITERS))
def test_every_form_gives_the_same_rows(tmp_path, name):
    found = read(WRITERS[name](tmp_path))
    assert [dict(row.values) for row in found] == ROWS
    first = 2 if name.endswith((".csv", ".tsv")) else 1
    assert [row.where for row in found] == [f"{name} row {first}", f"{name} row {first + 1}"]


def test_lines_are_counted_as_an_editor_does(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text('\n{"picture": "a"}\r\n\n{"picture": "b"}')
    assert [row.where for row in read(path)] == ["q.jsonl row 2", "q.jsonl row 4"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_text_is_read_in_the_encodings_that_occur(tmp_path, encoding):
    path = tmp_path / "q.jsonl"
    path.write_bytes('{"picture": "Mädchen.png"}\n'.encode(encoding))
    assert read(path)[0].values["picture"] == "Mädchen.png"


def test_saved_splits_say_their_side(tmp_path):
    folder = tmp_path / "saved"
    for side in ("train", "test"):
        write_saved(folder / side, ROWS[:1])
    write_json(folder / "dataset_dict.json", {"splits": ["train", "test"]})
    assert [(row.where, row.side) for row in read(folder)] == [
        ("train/data-00000-of-00001.arrow row 1", "train"),
        ("test/data-00000-of-00001.arrow row 1", "test"),
    ]


def test_numbers_of_classes_become_their_names(tmp_path):
    features = {"answer": {"names": ["no", "yes"], "_type": "ClassLabel"}, "picture": {"_type": "Value"}}
    folder = write_saved(tmp_path / "saved", [{"picture": "a.png", "answer": 1}], features)
    assert dict(read(folder)[0].values) == {"picture": "a.png", "answer": "yes"}


def test_shards_of_parquet_say_their_side(tmp_path):
    for name in ("train-00000-of-00001.parquet", "test-00000-of-00001.parquet", "more.parquet"):
        write_parquet(tmp_path / name)
    assert [row.side for row in read(tmp_path)] == ["", "", "test", "test", "train", "train"]


def test_parquet_with_pictures_is_read_in_slices(tmp_path, monkeypatch):
    monkeypatch.setattr(rows_module, "SLICE_ROWS", 2)
    pl.DataFrame({"picture": [{"bytes": bytes([n]), "path": f"{n}"} for n in range(5)]}).write_parquet(
        tmp_path / "q[1].parquet"
    )
    found = read(tmp_path / "q[1].parquet")
    assert [row.values["picture"]["bytes"] for row in found] == [bytes([n]) for n in range(5)]
    assert found[-1].where == "q[1].parquet row 5"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("q.jsonl", '{"picture": 1}\n{broken', r"q\.jsonl row 2: expected one JSON object"),
        ("q.jsonl", "[1]\n", r"q\.jsonl row 1: expected an object, found list"),
        ("q.jsonl", "", "expected rows"),
        ("q.jsonl", '{"image": "a"}\n', r"row 1: expected 'picture', found 'image'.*columns: "),
        ("q.json", "{", "expected JSON"),
        ("q.json", "[" * 200_000, "expected JSON"),
        ("q.json", "7", "expected a list of objects, found int"),
        ("q.json", '{"a": [], "b": []}', "expected a list of objects, found dict"),
        ("q.json", "[7]", r"q\.json row 1: expected an object, found int"),
        ("q.csv", "image,answer\na,b\n", "expected column.s. 'picture'"),
        ("q.parquet", "no parquet", "expected a Parquet file"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        read(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("state.json", {"_data_files": []}, "expected the data files"),
        ("state.json", {"_data_files": [{"filename": "../q.arrow"}]}, "expected the name of a file"),
        ("state.json", {"_data_files": [{"filename": "x.arrow"}], "_indices_data_files": [{}]}, "flatten_indices"),
        ("state.json", {"_data_files": [{"filename": "dataset_info.json"}]}, "expected an Arrow stream"),
        ("dataset_dict.json", {"splits": []}, "names of splits"),
        ("dataset_dict.json", {"splits": ["../x"]}, "expected the name of a file"),
    ],
)
def test_a_saved_dataset_that_is_not_whole_is_refused(tmp_path, name, content, message):
    folder = write_saved(tmp_path / "saved", ROWS)
    write_json(folder / name, content)
    with pytest.raises(DataError, match=message):
        read(folder)


def test_a_folder_that_is_no_dataset_is_refused(tmp_path):
    with pytest.raises(DataError, match="save_to_disk"):
        read(tmp_path)


def test_objects_are_numbered_from_one(tmp_path):
    assert [where for where, _ in objects(tmp_path / "a.json", [{}, {}])] == ["a.json row 1", "a.json row 2"]
