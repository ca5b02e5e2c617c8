"""Questions a second of `evaluate.py` (letter scoring), lmms-eval and evalscope: same checkpoint, items and prompts.

`python benchmarks/peers.py --lmms DIR/lmms/bin/python --evalscope DIR/evalscope/bin/python` asks a tiny random
Qwen2.5-VL with 4,096 and with 152,064 rows of vocabulary four questions about each 448-pixel picture. All are tried at
several batch sizes (or requests in flight), then take turns at their fastest. A figure is the slope between two numbers
of items, so start-up counts on no side; medvl's larger number is five times as far away, or noise would hide its slope.
CPU time, the server's too, suffers less from what else the machine does. Peers write greedy replies of 1 token (their
fastest) and of 16. lmms-eval always loads bfloat16 and encodes pictures as JPEG; evalscope asks `transformers serve`,
as its scoring without generation takes no pictures. medvl leaves out its controls. OMP_NUM_THREADS holds for all.

The peers' environments lie over the one that runs this file (Linux; medvl, transformers[serving]), which has torch:

    PACKAGES=$(python -c "import sysconfig; print(sysconfig.get_path('purelib'))")
    for P in lmms evalscope; do python -m venv DIR/$P; echo $PACKAGES > `echo DIR/$P/lib/*/site-packages`/base.pth; done
    DIR/lmms/bin/pip install --no-deps lmms-eval==0.7.3 decord qwen-vl-utils filelock==3.20.0
    DIR/lmms/bin/pip install filelock==3.20.0 datasets==4.8.4 av einops evaluate ftfy jsonlines loguru nltk numexpr
        math-verify pytablewriter python-dotenv sacrebleu sentencepiece tiktoken tqdm-multiprocess zstandard tenacity
    DIR/evalscope/bin/pip install --no-deps evalscope==1.14.1 datasets==4.8.4 multiprocess pyarrow
    DIR/evalscope/bin/pip install colorlog docstring-parser dotenv editdistance filetype jieba jsonlines jsonschema dill
        markdown math-verify modelscope more-itertools nltk plotly rouge-chinese rouge-score sacrebleu tabulate zhconv
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import psutil
import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

from medvl.batching.prompt import STYLES, answer_tokens
from medvl.models.specimens import build_specimen

SIDE, START, LETTERS = 448, 40, "ABCD"  # pixels; items of the shorter run
QUESTIONS = (
    ("Which plane does this picture show?", ["Abdomen", "Femur", "Brain", "Heart"]),
    ("How does the fetus lie?", ["Head down", "Breech", "Across", "Not to be seen"]),
    ("Which finding is present?", ["Cyst", "Effusion", "Nodule", "None of these"]),
    ("Which side is the spine at?", ["Left", "Right", "Above", "Below"]),
)
BATCHES = ("medvl=8,32", "lmms-eval=1,4,16", "evalscope=1,2,8")
LMMS_TASK = """{task: peers, dataset_path: json, dataset_kwargs: {data_files: {test: "%s"}}, test_split: test,
output_type: generate_until, generation_kwargs: {max_new_tokens: 1}, doc_to_visual: !function looking.picture ,
doc_to_text: text, doc_to_target: answer, process_results: !function looking.score ,
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]}"""
LMMS_FUNCTIONS = """from PIL import Image
def picture(doc): return [Image.open(doc["image_1"]).convert("RGB")]
def score(doc, results): return {"acc": float(results[0].strip()[:1] == doc["answer"])}
"""


class Run(NamedTuple):
    """Wall and CPU seconds (of a run, or for a question), reply to each item by number, the model's own seconds."""

    wall: float
    cpu: float
    replies: dict[int, str]
    inner: float = 0.0


Server = tuple[str, psutil.Process]  # address, process
Ask = Callable[[int, int, int], Run]  # (items, batch size or requests in flight, new tokens)


class Bench(NamedTuple):
    """Where everything lies and how it is run."""

    work: Path
    checkpoint: Path
    tree: str
    numbers: dict[str, int]  # of the items, by id
    environment: dict[str, str]


def timed(bench: Bench, command: Sequence[object], server: psutil.Process | None = None) -> Run:
    def used() -> float:
        own, served = resource.getrusage(resource.RUSAGE_CHILDREN), server.cpu_times() if server else None
        return own.ru_utime + own.ru_stime + (served.user + served.system if served else 0.0)

    cpu, start, words = used(), time.perf_counter(), [str(word) for word in command]
    done = subprocess.run(words, env=bench.environment, cwd=bench.work, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return Run(time.perf_counter() - start, used() - cpu, {})


def draw_picture(rng: np.random.Generator) -> Image.Image:
    """A ring in speckle."""
    y, x = np.mgrid[-1 : 1 : SIDE * 1j, -1 : 1 : SIDE * 1j]
    a, b, c, d = rng.uniform([0.3, 0.3, -0.3, -0.3], [0.7, 0.7, 0.3, 0.3])
    ring = np.exp(-(((((x - c) / a) ** 2 + ((y - d) / b) ** 2) - 1) ** 2) * 20)
    grey = (40 + 160 * ring) * np.kron(rng.rayleigh(1.0, (SIDE // 4, SIDE // 4)), np.ones((4, 4)))
    return Image.fromarray(grey.clip(0, 255).astype(np.uint8)).convert("RGB")


def draw(work: Path, items: int) -> None:
    """Pictures, and medvl's file of questions, four a picture."""
    rng = np.random.default_rng(0)
    for name in ("pictures", "tasks"):
        (work / name).mkdir(parents=True)
    rows = []
    for number in range(items):
        picture = work / "pictures" / f"{number // len(QUESTIONS):04}.png"
        if number % len(QUESTIONS) == 0:
            draw_picture(rng).save(picture)
        question, options = QUESTIONS[number % len(QUESTIONS)]
        row = {"picture": f"pictures/{picture.name}", "question": question, "options": options}
        rows.append(json.dumps(row | {"answer": options[rng.integers(len(options))]}) + "\n")
    (work / "ours.jsonl").write_text("".join(rows), encoding="utf-8")


def own_data(work: Path, items: int) -> list[str]:
    """Overrides for a benchmark of the first items."""
    lines = (work / "ours.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (work / f"first{items}.jsonl").write_text("".join(lines[:items]), encoding="utf-8")
    own = f"{{name: peers, format: questions, path: first{items}.jsonl, group: picture, task: CD, is_test_only: true}}"
    return ["data=own", f"data.name=first{items}", f"data.root={work}", f"data.own=[{own}]", f"paths.data={work}/built"]


def tell_peers(work: Path, built: pl.DataFrame) -> list[dict[str, Any]]:
    """The questions as medvl asks them (it draws the order of the options), in the form that both peers read."""
    rows = []
    for item in built.iter_rows(named=True):
        options = [f"{letter}. {text}" for letter, text in zip(LETTERS, item["options"], strict=True)]
        text = "\n".join([item["question"], *options, STYLES["letter"].instruction])
        row = {"question": f"<image 1>{text}", "text": text, "image_1": str(work / item["picture"])}
        rows.append(row | {"options": item["options"], "answer": LETTERS[item["answer_index"]]})
    (work / "all_val.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (work / "tasks" / "peers.yaml").write_text(LMMS_TASK % (work / "all_val.jsonl"), encoding="utf-8")
    (work / "tasks" / "looking.py").write_text(LMMS_FUNCTIONS, encoding="utf-8")
    return rows


@torch.no_grad()
def write_checkpoint(folder: Path, vocabulary: int, rows: Sequence[dict[str, Any]]) -> Path:
    """The specimen, seeing whole pictures, decoding greedily, and replying to `rows` with all letters."""
    with tempfile.TemporaryDirectory() as raw:
        specimen = build_specimen("tiny_qwen25vl", Path(raw) / "specimen", vocabulary=vocabulary)
        model = AutoModelForImageTextToText.from_pretrained(specimen)
        processor = AutoProcessor.from_pretrained(specimen)
    processor.image_processor.size = {"shortest_edge": 56 * 56, "longest_edge": SIDE * SIDE}
    hidden = []
    for row in rows:
        parts = [{"type": "image"}, {"type": "text", "text": row["text"]}]
        text = processor.apply_chat_template([{"role": "user", "content": parts}], add_generation_prompt=True)
        inputs = processor(text=[text], images=[Image.open(row["image_1"])], return_tensors="pt")
        hidden.append(model.model(**inputs).last_hidden_state[0, -1])
    mean, weight = torch.stack(hidden).mean(0), model.get_output_embeddings().weight
    ids = [answer_tokens(processor).letter_ids[letter] for letter in LETTERS]
    apart = weight[ids] - torch.outer(weight[ids] @ mean, mean) / mean.square().sum()
    weight[ids] = 20 * apart + 24 * mean / mean.square().sum()  # the logits of all other tokens stay below 12
    model.generation_config.update(do_sample=False, temperature=None, repetition_penalty=None)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def ask_medvl(bench: Bench, items: int, batch: int, tokens: int) -> Run:
    """`evaluate.py` of the tree."""
    outputs = Path(tempfile.mkdtemp(dir=bench.work))
    command = [sys.executable, f"{bench.tree}/evaluate.py", *own_data(bench.work, items), f"paths.outputs={outputs}"]
    command += [f"hydra.run.dir={outputs}/run", "eval.reuse_answers=false", "eval.controls=[]"]
    command += [f"eval.batch_size={batch}", "model=tiny_qwen25vl", f"model.path={bench.checkpoint}"]
    run = timed(bench, command)
    table = pl.read_parquet(outputs / "run" / "predictions.parquet")
    replies = {bench.numbers[item]: str(answer) for item, answer in table.select("item_id", "answer").iter_rows()}
    return Run(run.wall, run.cpu, replies, float(table["latency_s"].sum()) / len(table))


def ask_lmms(bench: Bench, python: str, items: int, batch: int, tokens: int) -> Run:
    """The model `qwen2_5_vl` of lmms-eval, with a local task."""
    about = f"pretrained={bench.checkpoint},device=cpu,device_map=cpu,attn_implementation=sdpa,max_pixels={SIDE**2}"
    command = [python, "-m", "lmms_eval", "--model", "qwen2_5_vl", "--model_args", about]
    command += ["--include_path", str(bench.work / "tasks"), "--tasks", "peers", "--batch_size", str(batch)]
    command += ["--gen_kwargs", f"max_new_tokens={tokens}", "--limit", str(items), "--log_samples"]
    run = timed(bench, [*command, "--output_path", output := Path(tempfile.mkdtemp(dir=bench.work))])
    samples = next(output.rglob("*samples_peers.jsonl")).read_text(encoding="utf-8").splitlines()
    return Run(run.wall, run.cpu, {row["doc_id"]: str(row["filtered_resps"][0]) for row in map(json.loads, samples)})


def ask_evalscope(bench: Bench, python: str, server: Server, items: int, batch: int, tokens: int) -> Run:
    """The benchmark `general_vmcq` of evalscope, against a server that is up already."""
    (address, process), output = server, Path(tempfile.mkdtemp(dir=bench.work))
    data = {"local_path": str(bench.work), "subset_list": ["all"], "prompt_template": "{question}"}
    command = [python, "-m", "evalscope.cli.cli", "eval", "--model", bench.checkpoint]
    command += ["--api-url", address, "--api-key", "EMPTY", "--eval-type", "openai_api", "--datasets", "general_vmcq"]
    command += ["--dataset-args", json.dumps({"general_vmcq": data})]
    command += ["--generation-config", json.dumps({"max_tokens": tokens, "temperature": 0.0})]
    command += ["--eval-batch-size", str(batch), "--limit", str(items), "--work-dir", output, "--no-timestamp"]
    run = timed(bench, command, process)
    rows = [json.loads(line) for path in output.glob("predictions/**/*.jsonl") for line in path.open(encoding="utf-8")]
    choices = {row["index"]: row["model_output"]["choices"][0] for row in rows}
    return Run(run.wall, run.cpu, {number: str(choice["message"]["content"]) for number, choice in choices.items()})


@contextmanager
def served(bench: Bench) -> Iterator[Server]:
    """`transformers serve` with the checkpoint loaded."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address, log = f"http://localhost:{port}", bench.work / "serve.log"
    words = [f"{sys.prefix}/bin/transformers", "serve", f"{bench.checkpoint}", "--device", "cpu", "--port", f"{port}"]
    with log.open("w") as file, subprocess.Popen(words, env=bench.environment, stdout=file, stderr=file) as process:
        try:
            while process.poll() is None:
                with suppress(OSError):
                    urllib.request.urlopen(f"{address}/health").close()
                    break
                time.sleep(0.5)
            else:
                raise SystemExit(f"transformers serve ended: {log.read_text()[-2000:]}")
            yield f"{address}/v1", psutil.Process(process.pid)
        finally:
            process.terminate()


def slope(ask: Ask, sizes: tuple[int, int], batch: int, tokens: int) -> Run:
    """Seconds for a question, and the replies of the larger run."""
    small, large = (ask(size, batch, tokens) for size in sizes)
    if set(large.replies) != set(range(sizes[1])):
        raise SystemExit(f"{len(large.replies)} of {sizes[1]} items were answered")
    wall, cpu, more = large.wall - small.wall, large.cpu - small.cpu, sizes[1] - sizes[0]
    return Run(wall / more, cpu / more, large.replies, large.inner)


def compare(asks: dict[str, Ask], args: argparse.Namespace) -> None:
    """Find the fastest setting of each, then take turns; print a table."""
    fastest, sizes = {}, {name: (START, START + args.items * (5 if name == "medvl" else 1)) for name in asks}
    for name, tried in (one.split("=") for one in args.batches):
        batches = [int(batch) for batch in tried.split(",")]
        slope(asks[name], sizes[name], batches[0], 1)  # what first runs build and cache
        found = {batch: slope(asks[name], sizes[name], batch, 1).wall for batch in batches if len(batches) > 1}
        fastest[name] = min(found, key=found.__getitem__) if found else batches[0]
        print(f"{name} at {fastest[name]}; tried", *(f"{b}: {1 / s:.1f}/s" for b, s in found.items()), flush=True)
    lines = [ours := ("medvl", 1), *((name, tokens) for tokens in args.tokens for name in fastest if name != "medvl")]
    rounds = [{(n, t): slope(asks[n], sizes[n], fastest[n], t) for n, t in lines} for _ in range(args.repeats)]
    print("| program, new tokens | questions/s | medvl faster by | CPU ms a question | by CPU time | same letter |")
    print("|---|---|---|---|---|---|")
    for line in lines:
        rates = [1 / one[line].wall for one in rounds]
        by = [one[line].wall / one[ours].wall for one in rounds]
        spans = " | ".join(f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f})" for values in (rates, by))
        cpu = median(1000 * one[line].cpu for one in rounds)
        by_cpu = median(one[line].cpu / one[ours].cpu for one in rounds)
        theirs, letters = rounds[-1][line].replies, rounds[-1][ours].replies
        same = f"{sum(reply.strip()[:1] == letters[item] for item, reply in theirs.items())} of {len(theirs)}"
        print(f"| {line[0]}, {line[1]} | {spans} | {cpu:.1f} | {by_cpu:.1f} | {same} |", flush=True)
    print(f"medvl's model alone, pictures loaded: {median(1 / one[ours].inner for one in rounds):.1f} questions/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lmms", required=True, help="python with lmms-eval")
    parser.add_argument("--evalscope", required=True, help="python with evalscope")
    here = Path(__file__).resolve().parents[1]
    parser.add_argument("--medvl", type=os.path.abspath, default=here, help="tree to measure")
    parser.add_argument("--batches", nargs=3, default=BATCHES, help=f"to try; default {' '.join(BATCHES)}")
    parser.add_argument("--items", type=int, default=200, help="in the slope of the peers")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--vocabularies", type=int, nargs="+", default=[4096, 152064])
    args = parser.parse_args()
    find = "import sys, importlib.metadata as m; print(*(f'{n} {m.version(n)}' for n in sys.argv[1:]), sep=', ')"
    print(f"Python {sys.version.split()[0]}, {torch.get_num_threads()} threads, {os.cpu_count()} cores, {time.ctime()}")
    for name, python in {"medvl": sys.executable, "lmms-eval": args.lmms, "evalscope": args.evalscope}.items():
        print(subprocess.check_output([python, "-c", find, name, "torch", "transformers"], text=True).strip())
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        env = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": f"{work}/hf", "PYTHONPATH": f"{args.medvl}/src"}
        draw(work, most := START + 5 * args.items)
        command = [f"{sys.prefix}/bin/medvl", "build", *own_data(work, most)]
        subprocess.run(command, env=env, cwd=work, check=True, stdout=subprocess.DEVNULL)
        built = pl.read_parquet(next((work / "built").rglob("items.parquet")))
        rows, numbers = tell_peers(work, built), {item: number for number, item in enumerate(built["item_id"])}
        for vocabulary in args.vocabularies:
            print(f"\nvocabulary {vocabulary}", flush=True)
            checkpoint = write_checkpoint(work / f"vocabulary{vocabulary}", vocabulary, rows[:32])
            bench = Bench(work, checkpoint, args.medvl, numbers, env)
            with served(bench) as server:
                asks: dict[str, Ask] = {"medvl": partial(ask_medvl, bench)}
                asks["lmms-eval"] = partial(ask_lmms, bench, args.lmms)
                asks["evalscope"] = partial(ask_evalscope, bench, args.evalscope, server)
                compare(asks, args)


if __name__ == "__main__":
    main()
