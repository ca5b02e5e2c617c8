import json

import pytest
import yaml
from written_run import write_record

from medvl.errors import DataError
from medvl.evaluation.run_facts import RunFacts, read_run_facts, run_folder_of


def test_a_model_on_this_machine_is_asked_once_and_steadily(tmp_path):
    run = write_record(tmp_path / "run", model="lingshu_7b", note="chest X-ray")
    assert read_run_facts(run) == RunFacts("lingshu_7b", "chest X-ray", sampled=False, repeats=1)


def at_a_server(tmp_path, option, asked):
    run = write_record(tmp_path / "run")
    (run / "config.yaml").write_text(yaml.safe_dump({"model": option, "endpoint": {"model": "served"}}))
    (run / "run.json").write_text(json.dumps({"endpoint": asked}))
    return read_run_facts(run)


def test_a_model_at_a_server_has_its_name_there_and_how_it_was_asked(tmp_path):
    option = {"name": "gpt5", "endpoint": "gpt-5", "training_data_note": "unknown"}
    assert at_a_server(tmp_path, option, {"sampled": True, "repeats": 3}) == RunFacts(
        "served", "unknown", sampled=True, repeats=3
    )


def test_the_note_of_the_default_model_is_not_said_of_a_model_at_a_server(tmp_path):
    option = {"name": "tiny", "endpoint": None, "training_data_note": "none"}
    assert at_a_server(tmp_path, option, None) == RunFacts("served", "unknown", sampled=None, repeats=None)


def test_answers_that_were_scored_again_keep_the_facts_of_the_model_that_gave_them(tmp_path):
    facts = {"model": "medgemma_4b", "training_data_note": "chest X-ray", "sampled": False, "repeats": 1}
    run = write_record(tmp_path / "run", model="tiny", answered_by=facts)
    assert read_run_facts(run) == RunFacts(**facts)


def test_without_files_nothing_is_known(tmp_path):
    assert read_run_facts(None) == read_run_facts(tmp_path) == RunFacts()
    assert RunFacts().model == RunFacts().training_data_note == "unknown"


@pytest.mark.parametrize("inside", [".", "zero_shot", "controls/blank"])
def test_the_run_around_a_folder_of_answers_is_found(tmp_path, inside):
    run = write_record(tmp_path / "run")
    (run / inside).mkdir(parents=True, exist_ok=True)
    assert run_folder_of(run / inside) == run.resolve()
    assert run_folder_of(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("run.json", "{", r"run\.json is damaged"),
        ("config.yaml", "a: [", r"config\.yaml is damaged"),
        ("config.yaml", "- 1", r"config\.yaml should hold a mapping, got list"),
        ("config.yaml", "model: 3", "no record of a run"),
        ("config.yaml", "model: {}", "no record of a run"),
        ("run.json", '{"answered_by": {"who": 1}}', "no record of a run"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, name, text, words):
    run = write_record(tmp_path / "run")
    (run / name).write_text(text)
    with pytest.raises(DataError, match=words):
        read_run_facts(run)
