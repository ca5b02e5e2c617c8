"""The words the tiny model's tokenizer is trained on.

General words are used in pretraining. Domain words are not: they only make the tokenizer write the words of the
benchmarks compactly, so that their embeddings exist (and are trained as meaningless strings by the lookup items).
"""

from __future__ import annotations

from pathlib import Path

import yaml

_LISTS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))

GENERAL_WORDS: list[str] = _LISTS["general"].split()
DOMAIN_WORDS: list[str] = _LISTS["domain"].split()
QUESTION_STARTS: list[str] = _LISTS["question_starts"].split()

INSTRUCTION_LINES = (
    "Answer with the letter of the correct option only.",
    "Answer with the words, then the letter.",
    "Answer in a few words.",
)
"""Last lines of prompts, kept whole so that the common ones stay short."""
