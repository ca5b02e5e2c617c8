"""Rules between values that no single field can state. Checked before torch is imported."""

from __future__ import annotations

import os

from medvl.config.nearest import or_what
from medvl.config.schema import BuildConfig, EvaluateConfig, TrainConfig

HIGHER_IS_BETTER = {"accuracy": True, "macro_accuracy": True, "invalid_rate": False, "loss": False}
"""Last part of a logged name -> whether more is better."""

TASKS = ("PI", "VC", "FO", "CD", "VG", "FD")
TIERS = ("small", "medium", "large")
DOMAINS = ("clinical", "phantom")


def logged_names(stage: str) -> list[str]:
    """Names under which a validation (`val`) or a test (`test`) is logged."""
    return [
        f"{stage}/macro_accuracy",
        f"{stage}/accuracy",
        f"{stage}/invalid_rate",
        f"{stage}/loss",
        *(f"{stage}/task/{task}/accuracy" for task in TASKS),
        *(f"{stage}/tier/{tier}/accuracy" for tier in TIERS),
        *(f"{stage}/domain/{domain}/accuracy" for domain in DOMAINS),
    ]


def rule_problems(config: BuildConfig) -> list[str]:
    """Sentences about values that contradict each other; empty when all is well."""
    problems = []
    if isinstance(config, EvaluateConfig):
        problems += _endpoint_problems(config)
        asked = config.eval
        if config.compare and asked.asks_variants:
            problems.append(
                "eval.rotations and eval.paraphrases: compare asks every question once. Compare without them, then say "
                "python evaluate.py adapter=RUN/adapter eval=robustness for one of the runs"
            )
        if asked.scoring == "likelihood" and asked.likelihood == "relative" and "text_only" in asked.controls:
            problems.append(
                "eval.controls: with eval.likelihood=relative every option scores 0 without the picture, for that is "
                "what is subtracted; say eval.controls=[blank]"
            )
        problems += [
            f"predictions and {name} are both set: earlier answers are scored again, or a model is asked; keep one"
            for name in ("adapter", "compare", "endpoint")
            if config.predictions is not None and getattr(config, name)
        ]
        problems += _team_problems(config)
        if asked.scoring == "likelihood" and asked.rotations:
            problems.append(
                "eval.rotations: with eval.scoring=likelihood the options are not shown, so their order decides "
                "nothing; say eval.rotations=false"
            )
    if isinstance(config, TrainConfig):
        problems += _monitor_problems(config)
        problems += _part_problems(config)
        if config.eval.scoring != "letter":
            problems.append(
                f"eval.scoring={config.eval.scoring}: train.py validates and compares by letter scoring. Train with "
                "that, then say python evaluate.py adapter=outputs/latest/adapter "
                f"eval.scoring={config.eval.scoring}"
            )
        if config.eval.asks_variants:
            problems.append(
                "eval.rotations and eval.paraphrases: train.py asks every question once. Train without them, then say "
                "python evaluate.py adapter=outputs/latest/adapter eval=robustness"
            )
        weights = config.task_mix.weights
        if len(weights) == len(TASKS) and not any(weights.values()):
            problems.append("task_mix.weights: every task has weight 0, so nothing would be trained")
        if config.trainer.max_steps == 0:
            problems.append("trainer.max_steps=0 trains nothing; say 1 or more, or -1 to let trainer.max_epochs decide")
        if config.trainer.devices > 1:
            problems.append(
                f"trainer.devices={config.trainer.devices}: validation over several processes is not there yet, and "
                "each process would score only its share; use trainer.devices=1"
            )
        if config.trainer.precision.startswith("16") and config.trainer.accelerator == "cpu":
            problems.append("trainer.precision=16-mixed needs a GPU; use 32-true or bf16-mixed with accelerator=cpu")
    return problems


def _endpoint_problems(config: EvaluateConfig) -> list[str]:
    """A server is asked in its own way, and pictures stay here unless they are allowed to leave."""
    server, problems = config.endpoint, []
    if server is None:
        return []
    if config.adapter is not None:
        problems.append(
            "adapter and endpoint are both set: an adapter is loaded on this machine. Leave one out; to ask a server "
            "that holds the adapter, name it with endpoint.model"
        )
    if config.compare:
        problems.append("compare and endpoint are both set: compare loads adapters on this machine. Leave one out")
    if config.eval.scoring != "letter":
        problems.append(f"eval.scoring={config.eval.scoring} is for models on this machine; leave it out with endpoint")
    if not server.is_local and not config.privacy.images:
        problems.append(
            f"endpoint {server.name} is on another machine ({server.base_url}), and pictures stay on this one: say "
            "privacy.images=true to send those of sources that may be passed on"
        )
    return problems


def _team_problems(config: EvaluateConfig) -> list[str]:
    """Processes share the questions to a model on this machine; elsewhere each of them would do the whole work."""
    alone = next((name for name in ("predictions", "endpoint") if getattr(config, name)), None)
    if alone is None or os.environ.get("WORLD_SIZE", "1") == "1":
        return []
    return [
        f"{alone} takes one process, but WORLD_SIZE={os.environ['WORLD_SIZE']} is set: start python evaluate.py "
        "without torchrun"
    ]


def _part_problems(config: TrainConfig) -> list[str]:
    """Something must be trained, each part in one way, and the weights must be to be had."""
    model, parts, whole = config.model, config.lora.parts, config.model.train_parts
    problems = []
    if model.path is None and model.hub_id is None:
        problems.append(
            f"model {model.name} can only be asked, at an endpoint; its weights are not to be had, so it cannot be "
            "fine-tuned: choose another model=..., see docs/models.md"
        )
    if not parts and not whole:
        problems.append("lora.parts and model.train_parts are both empty: nothing would be trained")
    if both := sorted(set(parts) & set(whole)):
        problems.append(f"{', '.join(both)} is in lora.parts and in model.train_parts; train it in one way")
    if idle := sorted(set(config.optim.part_lr) - {*parts, *whole}):
        problems.append(f"optim.part_lr names {', '.join(idle)}, where nothing is trained")
    return problems


def _monitor_problems(config: TrainConfig) -> list[str]:
    """A callback must watch a name that is logged, in the direction in which that name gets better."""
    problems = []
    known = logged_names("val")
    for name, node in config.callbacks.items():
        monitor = (node or {}).get("monitor")
        if node is None or monitor is None:
            continue
        if monitor not in known:
            problems.append(f"callbacks.{name}.monitor={monitor!r} is never logged{or_what(str(monitor), known)}")
            continue
        mode = "max" if HIGHER_IS_BETTER[str(monitor).rsplit("/", 1)[-1]] else "min"
        if node.get("mode", "min") != mode:
            problems.append(
                f"callbacks.{name}.mode={node.get('mode', 'min')!r} is the wrong direction for {monitor}: use {mode}"
            )
    return problems
