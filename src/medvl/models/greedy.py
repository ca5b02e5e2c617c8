"""Greedy decoding: a model writes replies, the likeliest token each time, within limits for thought and answer."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from medvl.batching.prompt import AnswerTokens
from medvl.models.families import FAMILIES


@dataclass(frozen=True, slots=True)
class Decoding:
    """How replies are written. Always greedy: whatever sampling a checkpoint publishes is left out.

    Attributes:
        max_new_tokens: Most tokens of an answer, its end of turn included.
        reasoning_tokens: Most tokens of the thought before the answer; 0 for a model that is not to think.
        opening: Text that opens a thought.
        closing: Text that closes it. What stands before is not read as the answer.
        answer_prefix: Written after `closing` where the tokens of the thought are used up and it is closed for the
            model (budget forcing, arXiv:2501.19393).
    """

    max_new_tokens: int = 16
    reasoning_tokens: int = 0
    opening: str = "<think>"
    closing: str = "</think>"
    answer_prefix: str = "<answer>"

    def __post_init__(self) -> None:
        if self.max_new_tokens < 2:
            raise ValueError(f"max_new_tokens={self.max_new_tokens}: a letter and the end of the turn are 2 tokens")
        if self.reasoning_tokens < 0 or not self.opening or not self.closing:
            raise ValueError(f"reasoning_tokens must not be negative and its tags not be empty, got {self}")

    def describe(self) -> str:
        """Everything that can change a reply, as text for a fingerprint."""
        return json.dumps({"strategy": "greedy", **asdict(self)}, sort_keys=True)


@dataclass(frozen=True, slots=True)
class Written:
    """What a model wrote to one question.

    Attributes:
        ids: Token ids after the prompt, without the end of the turn.
        is_cut: Whether it was stopped at its longest, and did not end its turn itself.
        is_lost: Whether logits behind it were not finite: it means nothing.
    """

    ids: list[int]
    is_cut: bool
    is_lost: bool


def end_of_turn_ids(model: Any, tokens: AnswerTokens) -> tuple[int, ...]:
    """Token ids that end a reply: what the chat template writes after an answer, and what the checkpoint publishes.

    Args:
        model: A transformers image-text model, with or without an adapter.
        tokens: See `answer_tokens`.
    """
    published = _bare(model).generation_config.eos_token_id
    own = [published] if isinstance(published, int) else published or []
    return tuple(sorted({ids[-1] for ids in tokens.ending_ids.values()} | set(own)))


@torch.inference_mode()
def write_replies(
    model: Any, inputs: dict[str, Tensor], tokenizer: Any, end_ids: Collection[int], decoding: Decoding
) -> list[Written]:
    """Let a model reply to a batch of prompts.

    Args:
        model: A transformers image-text model in evaluation mode, with or without a PEFT adapter.
        inputs: What its processor made, padded on the left, with `input_ids` and `attention_mask` int64 [B, T].
        tokenizer: The tokenizer of its processor.
        end_ids: See `end_of_turn_ids`.
        decoding: How long the replies may be.

    Returns:
        What was written to each prompt, in order. It does not depend on the other rows, but for rounding.

    Raises:
        ModelError: An input that the architecture needs is absent.
        ValueError: The rows are padded on the right.
    """
    bare = _bare(model)
    _check(bare, inputs)
    prompt, ends = inputs["input_ids"], sorted(end_ids)
    watch = _Watch(prompt, torch.tensor(ends, device=prompt.device))
    budget = _Budget(decoding, tokenizer, prompt, ends[0])
    published = bare.generation_config
    greedy = GenerationConfig(
        max_new_tokens=budget.longest,
        do_sample=False,
        num_beams=1,
        use_cache=True,
        eos_token_id=ends,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=published.bos_token_id,
        decoder_start_token_id=published.decoder_start_token_id,
        cache_implementation=published.cache_implementation,
        disable_compile=True,
    )
    bare.generation_config = greedy  # generate() would take from the published one whatever is not set here
    try:
        processors = LogitsProcessorList([watch, budget] if decoding.reasoning_tokens else [watch])
        rows = bare.generate(**inputs, generation_config=greedy, logits_processor=processors)
    finally:
        bare.generation_config = published
    written = []
    for row, (ids, is_lost) in enumerate(zip(rows[:, prompt.shape[1] :].tolist(), watch.lost.tolist(), strict=True)):
        end = next((i for i, token in enumerate(ids) if token in ends), None)
        written.append(Written(ids[:end], end is None or budget.stopped(row, end), is_lost))
    return written


class _Watch(LogitsProcessor):  # type: ignore[misc]  # transformers has no types
    """Notes the rows whose logits are not finite while they are being written: generation itself goes on with them."""

    def __init__(self, prompt: Tensor, end_ids: Tensor) -> None:
        self._width = prompt.shape[1]
        self._end_ids = end_ids
        self.lost = torch.zeros(len(prompt), dtype=torch.bool, device=prompt.device)
        self._ended = torch.zeros_like(self.lost)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Look at the logits [B, V] of the next token; they stay as they are."""
        if input_ids.shape[1] > self._width:
            self._ended |= torch.isin(input_ids[:, -1], self._end_ids)
        self.lost |= ~self._ended & ~scores.amax(dim=-1).isfinite()
        return scores


class _Budget(LogitsProcessor):  # type: ignore[misc]  # transformers has no types
    """Closes the thoughts that have used up their tokens, and then ends the answers that have used up theirs.

    The tag is looked for in the text: its characters can be merged with what follows it.
    """

    def __init__(self, decoding: Decoding, tokenizer: Any, prompt: Tensor, end_id: int) -> None:
        bridge = decoding.closing + decoding.answer_prefix
        self._bridge: list[int] = tokenizer(bridge, add_special_tokens=False)["input_ids"]
        self._decoding, self._tokenizer, self._end_id = decoding, tokenizer, end_id
        self._width = prompt.shape[1]
        thinks = decoding.reasoning_tokens > 0
        self._starts: list[int | None] = [None if thinks else 0] * len(prompt)
        self.longest = decoding.max_new_tokens + (decoding.reasoning_tokens + len(self._bridge) if thinks else 0)

    def stopped(self, row: int, end: int) -> bool:
        """Whether the end of a row, at a position of its reply, was forced upon it."""
        start = self._starts[row]
        return start is not None and end - start >= self._decoding.max_new_tokens

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Leave one token of the logits [B, V] where it is forced."""
        written = input_ids[:, self._width :]
        tails = written[:, -len(self._decoding.closing) :].tolist()  # a token is a character at least
        for row, tail in enumerate(tails):
            token = self._forced(row, written.shape[1], tail)
            if token is not None:
                scores[row] = -torch.inf
                scores[row, token] = 0.0
        return scores

    def _forced(self, row: int, written: int, tail: list[int]) -> int | None:
        start = self._starts[row]
        if start is None:
            if self._decoding.closing in self._tokenizer.decode(tail, skip_special_tokens=False):
                self._starts[row] = written
                return None
            if written < self._decoding.reasoning_tokens:
                return None
            start = self._starts[row] = written + len(self._bridge)
        if written < start:
            return self._bridge[written - start]
        return self._end_id if written - start >= self._decoding.max_new_tokens else None


def _check(bare: Any, inputs: dict[str, Tensor]) -> None:
    if (family := FAMILIES.get(bare.config.model_type)) is not None:
        family.companions.check(inputs, pictures="pixel_values" in inputs)
    if not inputs["attention_mask"][:, -1].all():
        raise ValueError(
            "the batch is padded on the right, so that short questions would be continued after their padding; make "
            "it with Collator(..., padding_side='left')"
        )


def _bare(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "get_base_model") else model
