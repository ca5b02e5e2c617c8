"""What `train_peers.py` runs in a trainer's own Python: the trainer as it is, which stops itself before each step.

`python in_turns.py trl|factory|swift SETTINGS.json`; medvl's `train.py` loads the callback `StopBeforeSteps`. A stop is
SIGSTOP to the whole process group, workers that load pictures included, so nothing goes on out of turn.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

NOTED = 3
"""Batches whose rows are written down, to be compared with those of the others."""
LANGUAGE_LAYERS = r".*language_model.*\.(q|k|v|o|gate|up|down)_proj"
_noted = 0


def note(**facts: Any) -> None:
    with Path(os.environ["TURNS_NOTES"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(facts) + "\n")


def stop(model: Any, inputs: Any, labels: Any) -> None:
    """Write down what is trained on what, then wait for one's turn."""
    global _noted
    if _noted < NOTED:
        _noted += 1
        own = inputs["attention_mask"].bool()
        rows = [row[mask].tolist() for row, mask in zip(inputs["input_ids"], own, strict=True)]
        answers = [row[row != -100].tolist() for row in labels]
        trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
        dtypes = sorted({str(p.dtype) for p in model.parameters()})
        note(rows=rows, answers=answers, trained=trained, dtypes=dtypes)
    os.killpg(0, signal.SIGSTOP)


if importlib.util.find_spec("pytorch_lightning"):
    from pytorch_lightning import Callback

    class StopBeforeSteps(Callback):
        """Stops when a batch is ready; notes how long the step on it takes, data left out."""

        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            """Wait for the turn."""
            stop(pl_module, batch.inputs, batch.labels)
            self._start = time.perf_counter()

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            """Note the time."""
            note(step=time.perf_counter() - self._start)


def stop_transformers() -> None:
    """Let each step of a transformers Trainer begin with a stop."""
    from transformers import Trainer

    original = Trainer.training_step

    def training_step(self: Any, model: Any, inputs: Any, *others: Any, **named: Any) -> Any:
        stop(model, inputs, inputs["labels"])
        return original(self, model, inputs, *others, **named)

    Trainer.training_step = training_step


def train_trl(settings: dict[str, Any]) -> None:
    """As TRL's documentation fine-tunes a vision-language model, on prompts and completions."""
    from datasets import Dataset, Image, Sequence
    from peft import LoraConfig
    from trl import SFTConfig, SFTTrainer

    rows = [json.loads(line) for line in Path(settings["data"]).read_text(encoding="utf-8").splitlines()]
    pairs = [
        {
            "images": row["images"],
            "prompt": [{"role": "user", "content": row["text"]}],
            "completion": row["messages"][1:],
        }
        for row in rows
    ]
    data = Dataset.from_list(pairs).cast_column("images", Sequence(Image()))
    lora = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, target_modules=LANGUAGE_LAYERS)
    loading = {"attn_implementation": "sdpa", "dtype": "float32"}
    config = SFTConfig(**settings["arguments"], model_init_kwargs=loading)
    SFTTrainer(settings["checkpoint"], args=config, train_dataset=data, peft_config=lora).train()


def train_factory(settings: dict[str, Any]) -> None:
    from llamafactory.train.tuner import run_exp

    run_exp(settings)


def train_swift(settings: list[str]) -> None:
    """ms-swift has the released checkpoints' id of the picture token in its code; the random one's differs."""
    from swift.pipelines import sft_main
    from swift.template.templates.qwen import Qwen2VLTemplate

    config = Path(settings[settings.index("--model") + 1]) / "config.json"
    Qwen2VLTemplate.image_token_id = json.loads(config.read_text(encoding="utf-8"))["image_token_id"]

    sft_main(settings)


if __name__ == "__main__":
    stop_transformers()
    with open(sys.argv[2], encoding="utf-8") as file:
        given = json.load(file)
    {"trl": train_trl, "factory": train_factory, "swift": train_swift}[sys.argv[1]](given)
