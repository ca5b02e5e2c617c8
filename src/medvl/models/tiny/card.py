"""Text of the model card that lies beside the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medvl.models.tiny.architecture import TinySize
from medvl.models.tiny.curriculum import PARTS, Plan
from medvl.models.tiny.shapes import SHAPES


def write_card(
    plan: Plan,
    size: TinySize,
    *,
    parameters: int,
    sha256: str,
    finished: Mapping[str, int],
    lookup: float | None = None,
    fresh: Mapping[str, float] | None = None,
    held_out: Mapping[str, float] | None = None,
    questions: Sequence[int] = (),
) -> str:
    """Write the card.

    Args:
        plan: Plan of pretraining.
        size: Sizes of the model.
        parameters: Number of parameters (tied embeddings once).
        sha256: Hash of `model.safetensors`.
        finished: Part -> steps done.
        lookup: Accuracy of text-only lookups, in [0, 1].
        fresh: Accuracy per kind on fresh scenes; `all` over all of them.
        held_out: The same on combinations of shape, surface and tone that were never trained.
        questions: Number of questions behind `fresh` and `held_out`.
    """
    done = ", ".join(f"{part} {finished.get(part, 0)} steps" for part in PARTS)
    lines = [
        "# medvl tiny",
        "",
        f"A vision-language model of {parameters:,} parameters that ships with medvl, so that the demo and the tests "
        "run without a download. It has learnt the multiple-choice format and generic drawn shapes. **It has seen no "
        "medical picture and no medical question**: what it can do on them comes from fine-tuning.",
        "",
        "Not for clinical use, nor for anything but demonstrations and tests.",
        "",
        "| | |",
        "|---|---|",
        "| class | `LlavaForConditionalGeneration`: SigLIP tower, two-layer projector, Qwen2 decoder |",
        f"| sizes | tower and decoder each {size.layers} layers of width {size.hidden}, {size.heads} heads |",
        f"| pictures | {size.picture_px} x {size.picture_px} pixels, {size.picture_tokens} tokens |",
        "| tokenizer | byte-level BPE trained on the word lists of `medvl.models.tiny.words` |",
        "| prompt | ChatML, no system turn; the answer is a letter and the end of the turn |",
        f"| weights | float32, SHA-256 `{sha256}` |",
        "| licence | Apache-2.0; drawn and trained from nothing |",
        "",
        "## How it was made",
        "",
        f"`python -m medvl.models.tiny --out DIR`, seed {plan.seed}: {done}; every step draws fresh data.",
        "",
        "- lookup: the decoder learns to find the option that says something, on phrases of the questions first, "
        "then on strings of random tokens of the whole vocabulary. This is how every embedding is trained, those of "
        "medical words included, as strings without a meaning.",
        "- tower: the vision tower learns the facts of the scene, and to make each picture token resemble the words "
        "for what it covers.",
        "- joint: lettered questions, words then letter, open answers and captions about drawn scenes, lookups "
        "kept in.",
        "",
        "Muon for the matrices, AdamW for the rest. The curve is in `curve.csv` (accuracy on the fresh questions of "
        "training since the row before); `python benchmarks/tiny_curve.py` reruns its beginning and compares.",
        "",
        "## What it reaches",
        "",
    ]
    if lookup is not None:
        lines += [f"Text-only lookups by the letter: {lookup:.3f}.", ""]
    if fresh and held_out:
        lines += [
            f"Lettered questions with two to four options: {fresh['all']:.3f} on {questions[0]:,} questions about "
            f"fresh scenes, {held_out['all']:.3f} on {questions[1]:,} about the one in {len(SHAPES)} combinations "
            "of shape, surface and tone that were never trained.",
            "",
            "| kind | fresh | held-out combinations |",
            "|---|---|---|",
        ]
        lines += [f"| {k} | {fresh[k]:.3f} | {held_out.get(k, float('nan')):.3f} |" for k in fresh if k != "all"]
    else:
        lines += ["Pictures have not been connected to the decoder yet: a provisional checkpoint."]
    return "\n".join(lines) + "\n"
