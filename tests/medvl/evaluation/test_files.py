import errno
import json
import os

import pytest

from medvl.errors import DataError, StorageError
from medvl.evaluation.comparison import compare
from medvl.evaluation.details import details_of
from medvl.evaluation.files import read_comparison, read_details, read_metrics, write_json
from medvl.evaluation.summary import summarise


@pytest.fixture
def metrics(thirty):
    return summarise(thirty["after"], split="test", scoring="letter", fingerprints={"benchmark": "é"})


@pytest.fixture
def comparison(thirty):
    return compare(thirty["before"], thirty["after"], split="test", scoring="letter", fingerprints={})


@pytest.fixture
def details(thirty):
    return details_of(thirty["after"], split="test", scoring="letter", fingerprints={"benchmark": "é"})


def test_metrics_and_comparison_survive_a_round_trip(tmp_path, metrics, comparison):
    write_json(tmp_path / "new" / "metrics.json", metrics)
    write_json(tmp_path / "comparison.json", comparison)
    assert read_metrics(tmp_path / "new" / "metrics.json") == metrics
    assert read_comparison(tmp_path / "comparison.json") == comparison


def test_details_survive_a_round_trip(tmp_path, details):
    write_json(tmp_path / "details.json", details)
    assert read_details(tmp_path / "details.json") == details


def test_key_order_is_kept_and_nothing_else_is_left_in_the_folder(tmp_path, metrics):
    write_json(tmp_path / "metrics.json", metrics)
    assert list(json.loads((tmp_path / "metrics.json").read_text())) == list(metrics)
    assert [p.name for p in tmp_path.iterdir()] == ["metrics.json"]


def test_a_full_disk_is_named_and_leaves_the_old_file_and_no_part(tmp_path, monkeypatch):
    path = tmp_path / "metrics.json"
    write_json(path, {"old": 1})

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"metrics\.json: No space left on device"):
        write_json(path, {"new": 2})
    assert json.loads(path.read_text()) == {"old": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["metrics.json"]


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"Could not write .*metrics\.json"):
        write_json(tmp_path / "file" / "metrics.json", {})


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_figure_that_is_no_number_is_named_and_not_written(tmp_path, bad):
    with pytest.raises(DataError, match=r"finite number, got one at 'tasks\.PI\.ci95\.1'"):
        write_json(tmp_path / "metrics.json", {"tasks": {"PI": {"ci95": [0.1, bad]}}})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("read", [read_metrics, read_comparison, read_details])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "There is no file"),
        ("{", "is not a JSON file"),
        ("[1]", "should hold a JSON object, got list"),
        ("{}", "has schema_version None, this version reads 1"),
        ('{"schema_version": 2}', "has schema_version 2"),
        ('{"schema_version": 1}', "lacks split, scoring, "),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_its_fault(tmp_path, read, text, words):
    path = tmp_path / "figures.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DataError, match=rf"figures\.json.*{words}|{words}.*figures\.json"):
        read(path)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "metrics.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="is not a JSON file"):
        read_metrics(tmp_path / "metrics.json")


def test_files_without_the_figures_that_came_later_are_still_read(tmp_path, metrics, comparison):
    for key in ("terciles", "area_curve", "domain_gap", "confusion", "letter_bias", "selective_risk"):
        del metrics[key]
    del metrics["tasks"]["PI"]["top_letter"]
    del comparison["tasks"]["PI"]["difference"]["p_clustered"], comparison["sources"]
    write_json(tmp_path / "metrics.json", metrics)
    write_json(tmp_path / "comparison.json", comparison)
    assert read_metrics(tmp_path / "metrics.json") == metrics
    assert read_comparison(tmp_path / "comparison.json") == comparison


def drop(data, *keys):
    for key in keys[:-1]:
        data = data[key]
    del data[keys[-1]]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (("letters",), "the file lacks letters"),
        (("overall", "macro_accuracy"), "overall lacks macro_accuracy"),
        (("tasks", "PI", "ci95"), r"tasks\.PI lacks ci95"),
        (("tiers", "large"), "tiers lacks large"),
        (("sources", "views", "n"), r"sources\.views lacks n"),
    ],
)
def test_a_key_that_metrics_lack_is_named(tmp_path, metrics, keys, words):
    drop(metrics, *keys)
    write_json(tmp_path / "metrics.json", metrics)
    with pytest.raises(DataError, match=words):
        read_metrics(tmp_path / "metrics.json")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (("box_tiers",), "the file lacks box_tiers"),
        (("tasks", "FO"), "tasks lacks FO"),
        (("overall", "zero_shot", "ci95"), r"overall\.zero_shot lacks ci95"),
        (("overall", "difference", "p"), r"overall\.difference lacks p"),
        (("tasks", "PI", "difference", "estimate"), r"tasks\.PI\.difference lacks estimate"),
        (("domains", "phantom", "chance"), r"domains\.phantom lacks chance"),
    ],
)
def test_a_key_that_a_comparison_lacks_is_named(tmp_path, comparison, keys, words):
    drop(comparison, *keys)
    write_json(tmp_path / "comparison.json", comparison)
    with pytest.raises(DataError, match=words):
        read_comparison(tmp_path / "comparison.json")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (("items",), "the file lacks items"),
        (("overall", "unknown"), "overall lacks unknown"),
        (("tasks", "PI", "devices"), r"tasks\.PI lacks devices"),
        (("tasks", "PI", "counts", "wrong"), r"tasks\.PI\.counts lacks wrong"),
        (("tasks", "VC", "domains", "phantom", "ci95"), r"domains\.phantom lacks ci95"),
    ],
)
def test_a_key_that_details_lack_is_named(tmp_path, details, keys, words):
    drop(details, *keys)
    write_json(tmp_path / "details.json", details)
    with pytest.raises(DataError, match=words):
        read_details(tmp_path / "details.json")


@pytest.mark.parametrize("bad", [25, "24", None])
def test_counts_that_do_not_add_up_are_refused(tmp_path, details, bad):
    details["tasks"]["PI"]["counts"]["right"] = bad
    write_json(tmp_path / "details.json", details)
    with pytest.raises(DataError, match=r"tasks\.PI\.counts should add up to n=10"):
        read_details(tmp_path / "details.json")


def test_a_node_of_another_kind_is_named(tmp_path, metrics):
    metrics["tasks"] = []
    write_json(tmp_path / "metrics.json", metrics)
    with pytest.raises(DataError, match="'tasks' should be an object, got list"):
        read_metrics(tmp_path / "metrics.json")
