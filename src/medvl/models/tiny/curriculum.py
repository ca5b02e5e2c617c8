"""What is shown when: every step's batch follows from the plan, the seed and the step number alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.data import IterableDataset
from transformers import PreTrainedTokenizerFast

from medvl.models.tiny.asking import Asker
from medvl.models.tiny.batch import Batch, Block, make_block, make_partial_block, make_seen_blocks, with_gaps
from medvl.models.tiny.dialogue import Exchange, make_scaffold
from medvl.models.tiny.facts import Fact, facts_of
from medvl.models.tiny.lookup import LookupItems
from medvl.models.tiny.scenes import LAYOUTS, Scene
from medvl.models.tiny.tower import Sight, make_sight

PARTS = ("tower", "lookup", "joint")
"""Parts of pretraining in order. The first two do not depend on each other."""

COPYING_STEPS, EVERY_FROM_STEP, READ_FROM_STEP, HARD_FROM_STEP = 440, 495, 715, 1000
"""Turns of the lookup part: copy the words; ask for every option; read options by letter; longer, alike strings.

Letters stayed at chance until options were read by letter, and were solved within 400 steps after that."""

LOOKUP_COOLING_STEPS = 300
"""Steps before its horizon over which the rate of the lookup part falls."""

SAID_FROM_STEP = 208
"""From this step of the joint part on, lookups are also asked beside pictures, and with the words in the answer."""

GAPS_FROM_STEP, GAP_STEPS, WIDEST_GAP = 565, 250, 40
"""From this step on, text-only lookups stand at growing distances from the opening of the turn."""

PARTIAL_FROM_STEP, PARTIAL_STEPS, PICTURE_TOKENS = 843, 160, 36
"""From this step on, they stand behind a growing number of picture tokens instead.

Lookups learnt at one distance fail behind a whole picture (.26) and did not recover in 350 steps beside pictures;
grown step by step they were back at .96."""

NAMING_UNTIL_STEP = 1083
"""From `GAPS_FROM_STEP` to this step, pictures are mostly named: letters could not be learnt yet."""

SAID_ALL_FROM_STEP, EASY_SAID_UNTIL_STEP = 1048, 1350
"""From the first step on, items with the words in the answer mostly go through all options; until the second, with
short strings."""

REWARM_STEP, REWARM_SHARE = 1239, 0.8
"""From this step on, the rate falls anew from this share of its peak: by now lookups work beside pictures."""

LAYOUT_SHARES = {"single": 0.3, "several": 0.35, "figure": 0.12, "nested": 0.23}
"""How often each layout is drawn."""
LATE_FROM_STEP = 1591
LATE_LAYOUT_SHARES = {"single": 0.28, "several": 0.24, "figure": 0.22, "nested": 0.26}
"""From this step of the joint part on, layouts that lag behind are drawn more often."""

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
        kept_lookup_items: Lookup items a step of the joint part, of each form.
        rate: Learning rate (AdamW; Muon is matched to it).
        warmup_steps: Steps of linear warm-up, in each part.
        final_share: The rate falls to this share by a cosine; in the lookup part it stays constant until the last
            `LOOKUP_COOLING_STEPS` steps.
    """

    seed: int = 20
    steps: tuple[int, int, int] = (1799, 1488, 2450)
    horizons: tuple[int, int, int] = (4000, 1700, 2450)
    tower_pictures: int = 32
    lookup_items: int = 64
    pictures: int = 28
    questions: int = 3
    kept_lookup_items: int = 5
    rate: float = 1.5e-3
    warmup_steps: int = 50
    final_share: float = 0.03

    def rate_at(self, part: str, step: int) -> float:
        """Learning rate of a step of a part."""
        warm = self.rate * min(1.0, (step + 1) / self.warmup_steps)
        horizon = self.horizons[PARTS.index(part)]
        if part == "lookup":
            return warm * min(1.0, max(self.final_share, (horizon - step) / LOOKUP_COOLING_STEPS))
        if part == "joint" and step >= REWARM_STEP:
            return self.rate * REWARM_SHARE * self._fallen((step - REWARM_STEP) / (horizon - REWARM_STEP))
        return warm * self._fallen(step / max(1, horizon))

    def _fallen(self, done: float) -> float:
        """Share of the rate that is left of a cosine when a share of the way is done."""
        return self.final_share + (1 - self.final_share) * 0.5 * (1 + float(np.cos(np.pi * min(1.0, done))))


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
        return Batch(None, (make_block(items, self.pad, self.scaffold.opening),))

    def joint(self, step: int) -> tuple[Batch, Sight]:
        """Questions on scenes, what the tower must still tell, and some text-only items so that they are kept up."""
        rng = np.random.default_rng([self.plan.seed, step, 2])
        progress = step / max(1, self.plan.steps[2])
        shares = LATE_LAYOUT_SHARES if step >= LATE_FROM_STEP else LAYOUT_SHARES
        scenes, facts = draw_scenes(rng, self.plan.pictures, shares=shares)
        naming = GAPS_FROM_STEP <= step < NAMING_UNTIL_STEP
        draw, n_questions, kept = self.asker.draw, self.plan.questions, self.plan.kept_lookup_items
        exchanges = [e for f in facts for e in draw(rng, f, n_questions, progress, naming=naming)]
        picture_of = np.repeat(np.arange(len(scenes)), n_questions).tolist()
        items = [self.lookup.draw(rng, 0.8) for _ in range(kept * (5 if naming else 1))]
        if step >= SAID_FROM_STEP:
            exchanges += [self._said(rng, step) for _ in range(kept)] + [self.lookup.draw(rng) for _ in range(kept)]
            picture_of += rng.integers(0, len(scenes), 2 * kept).tolist()
        text = self._text_block(rng, step, items, len(scenes))
        sight = make_sight(scenes, facts)
        return Batch(sight.pictures, (*make_seen_blocks(exchanges, picture_of, self.pad), text)), sight

    def _said(self, rng: np.random.Generator, step: int) -> Exchange:
        """An item whose words stand in the answer only."""
        if step >= SAID_ALL_FROM_STEP and rng.random() < 0.75:
            return self.lookup.draw_said_all(rng, easy=step < EASY_SAID_UNTIL_STEP)
        return self.lookup.draw_said(rng)

    def _text_block(self, rng: np.random.Generator, step: int, items: list[Exchange], pictures: int) -> Block:
        """Text-only items, moved away from the opening of the turn as far as the step asks for."""
        if step >= PARTIAL_FROM_STEP:
            half = len(items) // 2
            items = items[:half] + [self._said(rng, step) for _ in items[half:]]
            widest = min(PICTURE_TOKENS, 6 + PICTURE_TOKENS * (step - PARTIAL_FROM_STEP) // PARTIAL_STEPS)
            return make_partial_block(rng, items, self.pad, self.scaffold, pictures, PICTURE_TOKENS, widest)
        block = make_block(items, self.pad, self.scaffold.opening)
        if step < GAPS_FROM_STEP:
            return block
        widest = min(WIDEST_GAP, 6 + WIDEST_GAP * (step - GAPS_FROM_STEP) // GAP_STEPS)
        return with_gaps(block, rng.integers(0, widest + 1, len(items)).tolist(), len(self.scaffold.opening))

    def draw(self, part: str) -> Callable[[int], Lesson]:
        """Function from a step to the batch of a part."""
        drawers: dict[str, Callable[[int], Lesson]] = {
            "tower": self.tower,
            "lookup": self.lookup_batch,
            "joint": self.joint,
        }
        return drawers[part]


def draw_scenes(
    rng: np.random.Generator, count: int, *, held_out: bool = False, shares: Mapping[str, float] = LAYOUT_SHARES
) -> tuple[list[Scene], list[list[Fact]]]:
    """Draw scenes of all layouts with their facts."""
    names = list(shares)
    chosen = rng.choice(len(names), count, p=list(shares.values()))
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
