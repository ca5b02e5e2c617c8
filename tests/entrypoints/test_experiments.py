"""The experiments that any benchmark can run, on the demo; each ends in a table of what was learnt."""

import json

import pytest
import yaml
from commands import run

FEW = [
    "data.demo.patients=40",
    "trainer.accelerator=cpu",
    "trainer.max_steps=4",
    "eval.val_items=20",
    "eval.test_items=60",
    "eval.controls=[]",
    "logger=none",
]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Folder for the drawn pictures, made once."""
    return tmp_path_factory.mktemp("data")


def domains(folder):
    comparison = json.loads((folder / "comparison.json").read_text())
    return {name for name, cell in comparison["domains"].items() if cell}


@pytest.mark.parametrize(
    ("experiment", "tested"), [("phantom_to_clinical", "clinical"), ("clinical_to_phantom", "phantom")]
)
def test_one_domain_is_learnt_from_and_the_other_tested(experiment, tested, drawn, tmp_path):
    done = run("train.py", f"experiment={experiment}", *FEW, f"paths.data={drawn}", cwd=tmp_path)
    assert "zero-shot" in done.stdout
    assert domains(tmp_path / "outputs" / "latest") == {tested}


def test_few_patients_are_learnt_from_and_one_table_compares_the_shares(drawn, tmp_path):
    done = run("train.py", "experiment=few_shot", *FEW, f"paths.data={drawn}", cwd=tmp_path, COLUMNS="120")
    (sweep,) = (tmp_path / "outputs" / "sweeps").iterdir()
    shares = ["0.01", "0.05", "0.1", "0.5"]
    for number, share in enumerate(shares):
        config = yaml.safe_load((sweep / str(number) / "config.yaml").read_text())
        assert config["data"]["train_share"] == float(share)
        assert done.stdout.count(f"data.train_share={share} ") == 2  # with its folder, and with what it learnt
    assert "test, before and after fine-tuning" in done.stdout


def test_each_source_is_left_out_once(drawn, tmp_path):
    run("train.py", *FEW, f"paths.data={drawn}", cwd=tmp_path)  # draws the pictures
    pictures = sorted((drawn / "demo").rglob("*.png"))[:24]
    rows = [
        {
            "picture": str(path.relative_to(drawn)),
            "question": "Which of these is it?",
            "options": ["a head", "a femur"],
            "answer": ["a head", "a femur"][number % 2],
            "patient": f"p{number // 2}",
        }
        for number, path in enumerate(pictures)
    ]
    labs = []
    for name, part in (("one", rows[:12]), ("two", rows[12:])):
        (drawn / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
        labs.append(f"{{name: {name}, format: questions, path: {name}.jsonl, group: patient, task: CD}}")
    done = run(
        "train.py",
        "experiment=leave_one_source_out",
        "data=own",
        f"data.root={drawn}",
        f"data.own=[{', '.join(labs)}]",
        "benchmark.split.test_sources=[one],[two]",
        *(text for text in FEW if "demo" not in text),
        cwd=tmp_path,
        COLUMNS="120",
    )
    assert done.stdout.count("benchmark.split.test_sources=[one]") == 2
    assert done.stdout.count("benchmark.split.test_sources=[two]") == 2
    (sweep,) = (tmp_path / "outputs" / "sweeps").iterdir()
    assert json.loads((sweep / "0" / "comparison.json").read_text())["overall"]["n"] == 12
