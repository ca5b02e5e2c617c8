"""What is shown when: every step's batch follows from the plan, the seed and the step number alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.data import IterableDataset
from transformers import PreTrainedTokenizerFast

from medvl.models.tiny.asking import Asker
from medvl.models.tiny.batch import Batch, make_block
from medvl.models.tiny.dialogue import make_scaffold
from medvl.models.tiny.facts import Fact, facts_of
from medvl.models.tiny.lookup import LookupItems
from medvl.models.tiny.scenes import LAYOUTS, Scene
from medvl.models.tiny.tower import Sight, make_sight

PARTS = ("tower", "lookup", "joint")
"""Parts of pretraining in order. The first two do not depend on each other."""

COPYING_STEPS, EVERY_FROM_STEP, READ_FROM_STEP, HARD_FROM_STEP = 440, 495, 715, 1000
"""Turns of the lookup part: copy the words; ask for every option; read options by letter; longer, alike strings."""

LAYOUT_SHARES = {"single": 0.3, "several": 0.35, "figure": 0.12, "nested": 0.23}
"""How often each layout is drawn."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Length and mixture of pretraining.

    Attributes:
        seed: Seed of weights and data.
        steps: Steps of each of `PARTS`.
        tower_pictures: Scenes a step while the tower learns to see.
        lookup_items: Text-only items a step while the decoder learns to look up.
        pictures: Scenes a step of the joint part.
        questions: Questions a scene.
        kept_lookup_items: Text-only items a step of the joint part.
        rate: Learning rate (AdamW; Muon is matched to it).
        warmup_steps: Steps of linear warm-up, in each part.
        final_share: The rate falls to this share by a cosine; in the lookup part it stays constant.
    """

    seed: int = 20
    steps: tuple[int, int, int] = (4000, 1700, 4000)
    tower_pictures: int = 32
    lookup_items: int = 64
    pictures: int = 20
    questions: int = 5
    kept_lookup_items: int = 10
    rate: float = 1.5e-3
    warmup_steps: int = 50
    final_share: float = 0.03

    def rate_at(self, part: str, step: int) -> float:
        """Learning rate of a step of a part."""
        rate = self.rate * min(1.0, (step + 1) / self.warmup_steps)
        if part == "lookup":
            return rate
        done = min(1.0, step / max(1, self.steps[PARTS.index(part)]))
        return rate * (self.final_share + (1 - self.final_share) * 0.5 * (1 + float(np.cos(np.pi * done))))


class Curriculum:
    """Draws the batch of any step of any part."""

    def __init__(self, plan: Plan, tokenizer: PreTrainedTokenizerFast) -> None:
        self.plan = plan
        self.pad = int(tokenizer.pad_token_id)
        self.scaffold = make_scaffold(tokenizer)
        self.lookup = LookupItems(tokenizer, self.scaffold)
        self.asker = Asker(tokenizer, self.scaffold)

    def tower(self, step: int) -> Sight:
        """Scenes and their facts."""
        rng = np.random.default_rng([self.plan.seed, step, 1])
        scenes, facts = draw_scenes(rng, self.plan.tower_pictures)
        return make_sight(scenes, facts)

    def lookup_batch(self, step: int) -> Batch:
        """Text-only items; naming the words first is learnt first, letters alone follow from it."""
        rng = np.random.default_rng([self.plan.seed, step])
        n = self.plan.lookup_items
        letters = 0.25 if step < COPYING_STEPS else 0.6
        every = n // 2 if step >= EVERY_FROM_STEP else 0
        read = n // 4 if step >= READ_FROM_STEP else 0
        easy = EVERY_FROM_STEP <= step < HARD_FROM_STEP
        items = [self.lookup.draw(rng, letters, easy=easy) for _ in range(n - every - read)]
        items += [self.lookup.draw_all(rng, easy=easy) for _ in range(every)]
        items += [self.lookup.draw_read(rng, easy=easy) for _ in range(read)]
        return Batch(None, None, make_block(items, self.pad, self.scaffold.opening))

    def joint(self, step: int) -> Batch:
        """Questions on scenes, and some text-only items so that looking up is not forgotten."""
        rng = np.random.default_rng([self.plan.seed, step, 2])
        progress = step / max(1, self.plan.steps[2])
        scenes, facts = draw_scenes(rng, self.plan.pictures)
        exchanges = [e for f in facts for e in self.asker.draw(rng, f, self.plan.questions, progress)]
        items = [self.lookup.draw(rng, 0.8) for _ in range(self.plan.kept_lookup_items)]
        pictures = np.stack([scene.picture for scene in scenes])
        return Batch(pictures, make_block(exchanges, self.pad), make_block(items, self.pad, self.scaffold.opening))

    def draw(self, part: str) -> Callable[[int], Sight | Batch]:
        """Function from a step to the batch of a part."""
        drawers: dict[str, Callable[[int], Sight | Batch]] = {
            "tower": self.tower,
            "lookup": self.lookup_batch,
            "joint": self.joint,
        }
        return drawers[part]


def draw_scenes(
    rng: np.random.Generator, count: int, *, held_out: bool = False
) -> tuple[list[Scene], list[list[Fact]]]:
    """Draw scenes of all layouts with their facts."""
    names = list(LAYOUT_SHARES)
    chosen = rng.choice(len(names), count, p=list(LAYOUT_SHARES.values()))
    scenes = [LAYOUTS[names[i]](rng, held_out) for i in chosen]
    return scenes, [facts_of(scene) for scene in scenes]


class Lessons(IterableDataset[Any]):
    """Batches of a part from one step on; drawn by one worker process beside the trainer."""

    def __init__(self, curriculum: Curriculum, part: str, first_step: int, last_step: int) -> None:
        self.curriculum = curriculum
        self.part = part
        self.steps = range(first_step, last_step)

    def __iter__(self) -> Iterator[Sight | Batch]:
        draw = self.curriculum.draw(self.part)
        for step in self.steps:
            yield draw(step)


def only(batches: list[Any]) -> Any:
    """Collate function for batches that come ready-made."""
    return batches[0]
