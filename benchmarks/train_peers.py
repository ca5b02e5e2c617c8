"""Items a second of training: medvl's `train.py`, TRL's SFTTrainer, LLaMA-Factory and ms-swift, in turns.

`python benchmarks/train_peers.py --factory DIR/factory/bin/python --swift DIR/swift/bin/python` fine-tunes a random
Qwen2.5-VL (4 layers of width 256) with 4,096 and with 152,064 rows of vocabulary on four, two and one question about
each 448-pixel picture: float32, LoRA r16 on the language part's linear layers, 8 questions a step, no gradient
checkpointing, sdpa, and the answer's letter and end of turn supervised, files to optimiser step. TRL comes from this
environment; without the two options the others are left out.

All are started and warmed up, then take turns of a few steps; who is not in turn is stopped as a whole (SIGSTOP,
`in_turns.py`), so that all meet the same spells of a noisy machine. A turn's figure is its items over its wall time;
medians over the turns are printed, and of the ratios within a round. CPU time suffers less from what else the machine
does. The token ids of the first batches' rows must be those that medvl asks for; what is supervised is printed (the
peers add the newline behind the end of turn). A peer, which sees each question as a row for itself, runs once a
vocabulary, over the questions of all three cases in their order; medvl runs once a case. Peaks are of a trainer's main
process since its start. `--workers NAME=N,N` lets a trainer compete with several numbers of processes that load
pictures; ratios are to medvl's first. OMP_NUM_THREADS holds for all.

The peers' environments lie over the one that runs this file (Linux), which has torch and TRL:

    PACKAGES=$(python -c "import sysconfig; print(sysconfig.get_path('purelib'))")
    for P in factory swift; do python -m venv DIR/$P; echo $PACKAGES > `echo DIR/$P/lib/*/site-packages`/base.pth; done
    DIR/factory/bin/pip install llamafactory==0.9.5 transformers==5.6.0 trl==0.24.0 peft==0.18.1 datasets==4.0.0
    DIR/swift/bin/pip install ms-swift==4.6.0 qwen-vl-utils transformers==5.19.0 trl==0.29.1 peft==0.20.0
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import psutil
import torch
from drawn_models import qwen25_vl
from peers import LETTERS, QUESTIONS, SIDE, draw_picture
from transformers import AutoProcessor

from medvl.batching.prompt import STYLES, render
from medvl.models.specimens import qwen
from medvl.models.specimens.writing import Specimen, write_checkpoint

HERE = Path(__file__).resolve().parent
BATCH, PATCH = 8, 28  # questions in a step; pixels of a picture token's side
ASKED = (4, 2, 1)  # questions a picture
AHEAD = 12  # batches behind the last one, which workers may already load
NAMES = {"medvl": "medvl", "trl": "trl", "factory": "llamafactory", "swift": "ms-swift"}  # of the packages
WORKERS = ("medvl=0", "trl=0", "factory=0", "swift=0")


class Turn(NamedTuple):
    """Wall and CPU seconds an item."""

    wall: float
    cpu: float


class Trainer:
    """A trainer that runs in turns.

    Args:
        label: Name and number of workers.
        command: Starts it.
        environment: Of the process.
        work: Folder for its output.
    """

    def __init__(self, label: str, command: Sequence[str], environment: dict[str, str], work: Path) -> None:
        self.label, self.log, self._notes = label, work / "log", work / "notes"
        self._notes.touch()
        environment = environment | {"TURNS_NOTES": str(self._notes)}
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                command, env=environment, cwd=work, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
            )
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    def _wait(self) -> None:
        _, status = os.waitpid(self._process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            self._process.returncode = os.waitstatus_to_exitcode(status)
            raise SystemExit(f"{self.label} ended early: {self.log.read_text(errors='replace')[-6000:]}")

    def _cpu(self) -> float:
        own = psutil.Process(self._process.pid)
        times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
        return sum(one.user + one.system for one in times)

    def turn(self, steps: int) -> Turn:
        """Take steps."""
        cpu, wall = self._cpu(), 0.0
        for _ in range(steps):
            start = time.perf_counter()
            os.killpg(self._process.pid, signal.SIGCONT)
            self._wait()
            wall += time.perf_counter() - start
        return Turn(wall / steps / BATCH, (self._cpu() - cpu) / steps / BATCH)

    def notes(self, key: str) -> list[Any]:
        """What it wrote down under a name."""
        lines = map(json.loads, self._notes.read_text(encoding="utf-8").splitlines())
        return [line[key] for line in lines if key in line]

    def peak_mib(self) -> float:
        """Of the main process."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    def close(self) -> None:
        """End it and its workers."""
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def wide(specimen: Specimen) -> Specimen:
    """The specimen with whole pictures and a decoder of 4 layers of width 256."""
    specimen = qwen25_vl(specimen)
    old = specimen.config.to_dict()
    text = {key: value for key, value in old["text_config"].items() if key not in ("layer_types", "head_dim")}
    text |= {"hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4, "max_window_layers": 4}
    text["rope_parameters"] = text["rope_parameters"] | {"mrope_section": [8, 12, 12]}
    old |= {"text_config": text, "vision_config": old["vision_config"] | {"out_hidden_size": 256}}
    old.pop("model_type")
    return replace(specimen, config=type(specimen.config)(**old))


def draw(work: Path, items: int) -> None:
    """Pictures, and a file of questions for each number of questions a picture, the texts alike long."""
    rng = np.random.default_rng(0)
    (work / "pictures").mkdir(parents=True)
    held = BATCH  # items of val, and of test
    for number in range(items + 2 * held):
        draw_picture(rng).save(work / "pictures" / f"{number:04}.png")
    for asked in ASKED:
        rows = []
        for number in range(items + 2 * held):
            question, options = QUESTIONS[number % len(QUESTIONS)]
            row = {"picture": f"pictures/{number // asked:04}.png", "question": question, "options": options}
            side = "val" if number < held else "test" if number < 2 * held else "train"
            rows.append(row | {"answer": options[rng.integers(len(options))], "split": side, "id": str(number)})
        (work / f"asked{asked}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def own_data(work: Path, asked: int) -> list[str]:
    own = f"{{name: peers, format: questions, path: asked{asked}.jsonl, group: picture, task: CD}}"
    return ["data=own", f"data.name=asked{asked}", f"data.root={work}", f"data.own=[{own}]", f"paths.data={work}/built"]


def conversations(work: Path, asked: int) -> list[dict[str, Any]]:
    """The train items as medvl asks them (it draws the order of the options), in the form that the peers read."""
    built = pl.read_parquet(next((work / "built").rglob(f"*asked{asked}*/**/items.parquet")))
    rows = []
    for item in built.filter(pl.col("split").cast(str) == "train").sort("picture").iter_rows(named=True):
        options = [f"{letter}. {text}" for letter, text in zip(LETTERS, item["options"], strict=True)]
        text = "\n".join([item["question"], *options, STYLES["letter"].instruction])
        said = [("user", f"<image>{text}"), ("assistant", LETTERS[item["answer_index"]])]
        turns = [{"role": role, "content": content} for role, content in said]
        rows.append({"messages": turns, "images": [str(work / item["picture"])], "text": text})
    return rows


def expected_rows(checkpoint: Path, rows: Sequence[dict[str, Any]]) -> set[tuple[int, ...]]:
    """Token ids of all rows, to the end of the answer's turn."""
    processor, picture = AutoProcessor.from_pretrained(checkpoint), "<|image_pad|>"
    texts = [render(processor, row["text"], row["messages"][1]["content"]).rstrip() for row in rows]
    texts = [text.replace(picture, picture * (SIDE // PATCH) ** 2) for text in texts]
    return {tuple(ids) for ids in processor.tokenizer(texts, add_special_tokens=False)["input_ids"]}


def check(trainer: Trainer, checkpoint: Path, rows: Sequence[dict[str, Any]]) -> str:
    """Refuse a trainer that sees other rows; tell what it supervises."""
    tokenizer = AutoProcessor.from_pretrained(checkpoint).tokenizer
    end, expected = tokenizer.convert_tokens_to_ids("<|im_end|>"), expected_rows(checkpoint, rows)
    seen = [row for batch in trainer.notes("rows") for row in batch]
    for row in seen:
        if tuple(row[: len(row) - row[::-1].index(end)]) not in expected:
            text = tokenizer.decode(row)
            raise SystemExit(f"{trainer.label} trains on a row of {len(row)} tokens that was not given: {text}")
    answers = {json.dumps(tokenizer.decode(ids)) for batch in trainer.notes("answers") for ids in batch}
    sizes = f"{trainer.notes('trained')[0]:,} parameters learn, {', '.join(trainer.notes('dtypes')[0])}"
    lengths = f"rows of {min(map(len, seen))} to {max(map(len, seen))} tokens, {BATCH} a step"
    return f"{trainer.label}: {sizes}; {lengths}; supervised: {' '.join(sorted(answers))}"


class Plan(NamedTuple):
    """What is measured, and where everything lies."""

    work: Path
    checkpoint: Path
    tree: str
    pythons: dict[str, str]
    workers: dict[str, list[int]]
    steps: int  # of a peer's turn
    own: int  # of medvl's turn
    rounds: int
    warm: int
    environment: dict[str, str]

    @property
    def peer_steps(self) -> int:
        """All steps of a peer."""
        return self.warm + len(ASKED) * self.rounds * self.steps

    @property
    def own_steps(self) -> int:
        """All steps of a process of medvl."""
        return self.warm + self.rounds * self.own


def start_medvl(plan: Plan, workers: int, asked: int) -> Trainer:
    """`train.py` of the tree, its own evaluations kept small."""
    folder = Path(tempfile.mkdtemp(dir=plan.work))
    command = [plan.pythons["medvl"], f"{plan.tree}/train.py", *own_data(plan.work, asked), f"paths.outputs={folder}"]
    command += [f"hydra.run.dir={folder}/run", "model=tiny_qwen25vl", f"model.path={plan.checkpoint}", "lora=r16"]
    command += ["trainer=cpu", f"trainer.max_steps={plan.own_steps + AHEAD}", "trainer.val_every_steps=100000"]
    command += [f"data.batch_size={BATCH}", f"data.num_workers={workers}", "data.shuffle_options=false"]
    command += ["eval.controls=[]", "eval.reuse_answers=false", "logger=none", "callbacks=none"]
    command += ["+callbacks.turns._target_=in_turns.StopBeforeSteps"]
    return Trainer(f"medvl, {workers} workers", command, plan.environment, folder)


def start_peer(plan: Plan, name: str, workers: int, data: Path) -> Trainer:
    """A peer, over the questions of all cases in their order."""
    folder = Path(tempfile.mkdtemp(dir=plan.work))
    arguments: dict[str, Any] = {"output_dir": f"{folder}/out", "per_device_train_batch_size": BATCH}
    arguments |= {"gradient_accumulation_steps": 1, "max_steps": plan.peer_steps + AHEAD, "learning_rate": 2e-4}
    arguments |= {"dataloader_num_workers": workers, "report_to": "none", "save_strategy": "no", "bf16": False}
    arguments |= {"use_cpu": True}
    given: Any
    if name == "trl":
        arguments |= {"gradient_checkpointing": False, "max_length": None, "train_sampling_strategy": "sequential"}
        given = {"data": str(data), "checkpoint": str(plan.checkpoint), "arguments": arguments}
    elif name == "factory":
        tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}
        columns = {"messages": "messages", "images": "images"}
        about = {"file_name": data.name, "formatting": "sharegpt", "columns": columns, "tags": tags}
        (data.parent / "dataset_info.json").write_text(json.dumps({"peers": about}))
        given = arguments | {"model_name_or_path": str(plan.checkpoint), "stage": "sft", "do_train": True}
        given |= {"finetuning_type": "lora", "lora_rank": 16, "lora_alpha": 32, "lora_dropout": 0.05}
        given |= {"lora_target": "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj", "flash_attn": "sdpa"}
        given |= {"freeze_vision_tower": True, "template": "qwen2_vl"}
        given |= {"dataset": "peers", "dataset_dir": str(data.parent)}
        given |= {"disable_gradient_checkpointing": True, "disable_shuffling": True, "image_max_pixels": SIDE**2}
    else:
        more = {"model": plan.checkpoint, "model_type": "qwen2_5_vl", "template": "qwen2_5_vl", "dataset": data}
        more |= {"tuner_type": "lora", "lora_rank": 16, "lora_alpha": 32, "lora_dropout": 0.05, "freeze_vit": True}
        more |= {"target_modules": "all-linear", "torch_dtype": "float32", "attn_impl": "sdpa"}
        more |= {"gradient_checkpointing": False, "split_dataset_ratio": 0, "dataset_shuffle": False}
        more |= {"train_dataloader_shuffle": False}
        given = [word for key, value in (arguments | more).items() for word in (f"--{key}", str(value))]
    (folder / "settings.json").write_text(json.dumps(given))
    command = [plan.pythons[name], str(HERE / "in_turns.py"), name, str(folder / "settings.json")]
    return Trainer(f"{name}, {workers} workers", command, plan.environment, folder)


def data_of_peers(plan: Plan, cases: dict[int, list[dict[str, Any]]]) -> Path:
    """Questions of all cases, as many of each as are trained on; those of the warm-up first, some more behind."""
    folder = Path(tempfile.mkdtemp(dir=plan.work))
    count = plan.rounds * plan.steps * BATCH
    rows = [*cases[ASKED[0]][: plan.warm * BATCH], *(row for case in cases.values() for row in case[:count])]
    rows += cases[ASKED[-1]][: 2 * AHEAD * BATCH]
    (folder / "peers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder / "peers.jsonl"


@contextmanager
def warmed(trainer: Trainer, warm: int) -> Iterator[Trainer]:
    try:
        trainer.turn(warm)
        yield trainer
    finally:
        trainer.close()


def tell(trainers: Sequence[Trainer], rounds: Sequence[dict[str, Turn]], own: int) -> None:
    ours = trainers[0].label
    print("| trainer | items/s | medvl faster by | CPU ms an item | by CPU time | peak, MiB |")
    print("|---|---|---|---|---|---|")
    for trainer in trainers:
        turns = [one[trainer.label] for one in rounds]
        rates = [1 / turn.wall for turn in turns]
        by = [turn.wall / one[ours].wall for turn, one in zip(turns, rounds, strict=True)]
        spans = " | ".join(f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f})" for values in (rates, by))
        cpu = 1000 * median(turn.cpu for turn in turns)
        by_cpu = median(turn.cpu / one[ours].cpu for turn, one in zip(turns, rounds, strict=True))
        print(f"| {trainer.label} | {spans} | {cpu:.1f} | {by_cpu:.1f} | {trainer.peak_mib():.0f} |", flush=True)
    for trainer in trainers:
        if steps := trainer.notes("step")[-len(rounds) * own :]:
            print(f"{trainer.label}: {BATCH / median(steps):.1f} items/s in the step alone, batches ready")


def compare(plan: Plan, cases: dict[int, list[dict[str, Any]]]) -> None:
    """All trainers in turns, case by case."""
    every, data = [row for case in cases.values() for row in case], data_of_peers(plan, cases)
    with ExitStack() as open_peers:
        peers = []
        for name in plan.pythons:
            for workers in plan.workers[name] if name != "medvl" else ():
                peers.append(open_peers.enter_context(warmed(start_peer(plan, name, workers, data), plan.warm)))
                print(check(peers[-1], plan.checkpoint, every), flush=True)
        for asked in ASKED:
            with ExitStack() as open_own:
                own = []
                for workers in plan.workers["medvl"]:
                    own.append(open_own.enter_context(warmed(start_medvl(plan, workers, asked), plan.warm)))
                    told = check(own[-1], plan.checkpoint, cases[asked])
                print(f"\n{asked} questions a picture; {told}\n", flush=True)
                rounds = []
                for _ in range(plan.rounds):
                    turns = {one.label: one.turn(plan.own) for one in own}
                    rounds.append(turns | {one.label: one.turn(plan.steps) for one in peers})
                tell([*own, *peers], rounds, plan.own)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--factory", help="python with LLaMA-Factory")
    parser.add_argument("--swift", help="python with ms-swift")
    parser.add_argument("--medvl", type=os.path.abspath, default=HERE.parent, help="tree to measure")
    parser.add_argument("--workers", nargs="+", default=[], help=f"that load pictures; default {' '.join(WORKERS)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", type=int, default=2, help="steps of each before the first turn; at least 2")
    parser.add_argument("--vocabularies", type=int, nargs="+", default=[4096, 152064])
    parser.add_argument("--steps", type=int, nargs="+", default=[2, 1], help="of a peer's turn, for each vocabulary")
    parser.add_argument("--own-steps", type=int, default=8, help="of medvl's turn")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # a trainer that is stopped must not be left so
    pairs = (one.split("=") for one in (*WORKERS, *args.workers))
    workers = {name: [int(number) for number in numbers.split(",")] for name, numbers in pairs}
    pythons = {"medvl": sys.executable, "trl": sys.executable, "factory": args.factory, "swift": args.swift}
    pythons = {name: python for name, python in pythons.items() if python}
    find = "import sys, importlib.metadata as m; print(*(f'{n} {m.version(n)}' for n in sys.argv[1:]), sep=', ')"
    print(f"Python {sys.version.split()[0]}, {torch.get_num_threads()} threads, {os.cpu_count()} cores, {time.ctime()}")
    for name, python in pythons.items():
        packages = [NAMES[name], "torch", "transformers", "peft"]
        print(subprocess.check_output([python, "-c", find, *packages], text=True).strip(), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        env = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": f"{work}/hf", "MODELSCOPE_CACHE": f"{work}/modelscope"}
        env |= {"PYTHONPATH": f"{args.medvl}/src:{HERE}", "MAX_PIXELS": str(SIDE**2), "CUDA_VISIBLE_DEVICES": ""}
        most = max(args.warm + args.rounds * args.own_steps + AHEAD, args.rounds * max(args.steps) + 2 * AHEAD)
        draw(work, most * BATCH)
        for asked in ASKED:
            command = [f"{sys.prefix}/bin/medvl", "build", *own_data(work, asked)]
            subprocess.run(command, env=env, cwd=work, check=True, stdout=subprocess.DEVNULL)
        cases = {asked: conversations(work, asked) for asked in ASKED}
        for vocabulary, steps in zip(args.vocabularies, args.steps, strict=True):
            print(f"\nvocabulary {vocabulary:,}", flush=True)
            checkpoint = work / f"vocabulary{vocabulary}"
            write_checkpoint(lambda rows: wide(qwen.qwen25_vl(rows)), checkpoint, seed=0, vocabulary=vocabulary)
            numbers = (steps, args.own_steps, args.rounds, args.warm)
            compare(Plan(work, checkpoint, args.medvl, pythons, workers, *numbers, env), cases)


if __name__ == "__main__":
    main()
