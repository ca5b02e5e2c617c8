"""What is shown when: every step's batch follows from the plan, the seed and the step number alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.data import IterableDataset
from transformers import PreTrainedTokenizerFast

from medvl.models.tiny.asking import Asker
from medvl.models.tiny.batch import Batch, make_block, make_seen_blocks
from medvl.models.tiny.dialogue import make_scaffold
from medvl.models.tiny.facts import Fact, facts_of
from medvl.models.tiny.lookup import PHRASE_SHARE, LookupItems
from medvl.models.tiny.scenes import LAYOUTS, Scene
from medvl.models.tiny.tower import Sight, make_sight

PARTS = ("lookup", "tower", "joint")
"""Parts of pretraining in order. Each starts from what the parts before it have learnt."""

PHRASES_UNTIL_STEP, STRINGS_AT_STEP = 300, 800
"""Lookups are of phrases only until the first step; from the second on most are of random strings."""

EARLY_SHARE = 0.15
"""Share of the joint part over which naming gives way to letters and kept lookups become fewer."""

LAYOUT_SHARES = {"single": 0.32, "several": 0.28, "figure": 0.18, "nested": 0.22}
"""How often each layout is drawn."""

Lesson = Sight | Batch | tuple[Batch, Sight]
"""What a step is trained on, by part: sights, text-only items, or questions and sights."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Length and mixture of pretraining.

    Attributes:
        seed: Seed of weights and data.
        steps: Steps of each of `PARTS`.
        horizons: Steps over which the rate of each part falls. The first two parts stop earlier: the joint part goes
            on with them at a full rate.
        tower_pictures: Scenes a step while the tower learns to see.
        lookup_items: Text-only items a step while the decoder learns to look up.
        pictures: Scenes a step of the joint part.
        questions: Questions a scene.
        kept_lookup_items: Lookup items a step of the joint part at its start and later, beside pictures and without
            any, each.
        rate: Learning rate (AdamW; Muon is matched to it).
        warmup_steps: Steps of linear warm-up, in each part.
        final_share: The rate falls to this share by a cosine.
    """

    seed: int = 20
    steps: tuple[int, int, int] = (1000, 6000, 4500)
    horizons: tuple[int, int, int] = (4000, 6500, 4500)
    tower_pictures: int = 32
    lookup_items: int = 128
    pictures: int = 28
    questions: int = 3
    kept_lookup_items: tuple[int, int] = (12, 5)
    rate: float = 1.5e-3
    warmup_steps: int = 50
    final_share: float = 0.03

    def rate_at(self, part: str, step: int) -> float:
        """Learning rate of a step of a part."""
        warm = self.rate * min(1.0, (step + 1) / self.warmup_steps)
        done = min(1.0, step / max(1, self.horizons[PARTS.index(part)]))
        return warm * (self.final_share + (1 - self.final_share) * 0.5 * (1 + float(np.cos(np.pi * done))))


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
        """Text-only items: of phrases at first, then ever more of random strings."""
        rng = np.random.default_rng([self.plan.seed, step])
        grown = np.clip((step - PHRASES_UNTIL_STEP) / (STRINGS_AT_STEP - PHRASES_UNTIL_STEP), 0, 1)
        phrase_share = 1 - (1 - PHRASE_SHARE) * float(grown)
        items = [self.lookup.draw(rng, phrase_share=phrase_share) for _ in range(self.plan.lookup_items)]
        return Batch(None, (make_block(items, self.pad, self.scaffold.opening),))

    def joint(self, step: int) -> tuple[Batch, Sight]:
        """Questions on scenes, what the tower must still tell, and lookups with and without a picture to keep them."""
        rng = np.random.default_rng([self.plan.seed, step, 2])
        early = max(0.0, 1 - step / (EARLY_SHARE * max(1, self.plan.steps[2])))
        scenes, facts = draw_scenes(rng, self.plan.pictures)
        n_questions = self.plan.questions
        exchanges = [e for f in facts for e in self.asker.draw(rng, f, n_questions, early)]
        picture_of = np.repeat(np.arange(len(scenes)), n_questions).tolist()
        first, later = self.plan.kept_lookup_items
        kept = later + round((first - later) * early)
        exchanges += [self.lookup.draw(rng) for _ in range(kept)]
        picture_of += rng.integers(0, len(scenes), kept).tolist()
        text = make_block([self.lookup.draw(rng) for _ in range(kept)], self.pad, self.scaffold.opening)
        sight = make_sight(scenes, facts)
        return Batch(sight.pictures, (*make_seen_blocks(exchanges, picture_of, self.pad), text)), sight

    def draw(self, part: str) -> Callable[[int], Lesson]:
        """Function from a step to the batch of a part."""
        drawers: dict[str, Callable[[int], Lesson]] = {
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

    def __iter__(self) -> Iterator[Lesson]:
        draw = self.curriculum.draw(self.part)
        for step in self.steps:
            yield draw(step)


def only(batches: list[Any]) -> Any:
    """Collate function for batches that come ready-made."""
    return batches[0]
