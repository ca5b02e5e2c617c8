"""How an item becomes a conversation, and which tokens of it are the answer.

One layout for training, scoring and serving; its version is part of every fingerprint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal, NamedTuple, TypeVar

from medvl.benchmark.item import LETTERS, Item
from medvl.errors import ModelError

PROMPT_VERSION = "letter-1"
OPEN_PROMPT_VERSION = "open-1"
OPEN_INSTRUCTION = "Answer the question using a single word or phrase."
"""For short answers in words: the wording that LLaVA 1.5 was trained with (arXiv:2310.03744)."""
TEMPLATE_DATE = "26 Jul 2024"
"""For templates that write a date (Llama 3.2 does where there is no picture): the same every day, or figures drift."""


PromptStyle = Literal["letter", "reasoning"]


@dataclass(frozen=True, slots=True)
class Style:
    """How an answer is asked for.

    Attributes:
        instruction: Last line of the user's text.
        opening: What the model is made to begin its turn with.
        closing: What it writes after the letter.
    """

    instruction: str
    opening: str = ""
    closing: str = ""


STYLES: dict[PromptStyle, Style] = {
    "letter": Style("Answer with the letter of the correct option only."),
    # For models that learnt by reinforcement to think in tags first (DeepSeek-R1, arXiv:2501.12948; MedVLM-R1,
    # arXiv:2502.19634). The thought is left empty, so that one position gives the answer.
    "reasoning": Style(
        "Think step by step inside <think> </think> tags, then give the letter of the correct option only inside "
        "<answer> </answer> tags.",
        opening="<think>\n\n</think>\n<answer>",
        closing="</answer>",
    ),
}

_T = TypeVar("_T")
_STYLE = "_medvl_prompt_style"


def use_style(processor: Any, style: PromptStyle) -> None:
    """Ask questions made with this processor in a style; without it, for the letter alone."""
    setattr(processor, _STYLE, style)


def style_of(processor: Any) -> Style:
    """The style of `use_style`."""
    return STYLES[getattr(processor, _STYLE, "letter")]


def question_text(item: Item, style: Style = STYLES["letter"]) -> str:
    """The user's text: question, one option a line, instruction."""
    options = [f"{letter}. {text}" for letter, text in zip(item.letters, item.options, strict=True)]
    return "\n".join([item.question, *options, style.instruction])


def open_question_text(item: Item) -> str:
    """The user's text where the options are not shown: question, instruction."""
    return f"{item.question}\n{OPEN_INSTRUCTION}"


def conversation(text: str, answer: str | None = None, *, picture: bool = True) -> list[dict[str, Any]]:
    """Messages in the form that chat templates take: one picture and the text, then the answer when given."""
    shown = [{"type": "image"}] if picture else []
    user = {"role": "user", "content": [*shown, {"type": "text", "text": text}]}
    if answer is None:
        return [user]
    return [user, {"role": "assistant", "content": [{"type": "text", "text": answer}]}]


class Ending(NamedTuple):
    """What follows the generation prompt when an answer is given.

    Attributes:
        text: The answer and the end of the turn.
        ids: Its token ids.
    """

    text: str
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AnswerTokens:
    """What a processor's chat template makes of an answer.

    Attributes:
        opening: Text that is written for the model after the generation prompt; empty in the style `letter`. It ends
            where the tokens of different answers part, which is before the letter where a tokenizer has `>A` as one.
        letter_ids: Letter -> token id at the answer position, right after generation prompt and opening.
        endings: Letter -> text that follows them when the letter is the answer: letter and end-of-turn marker.
        ending_ids: Letter -> its token ids. These, and only these, are supervised.
        adds_special_tokens: Whether the tokenizer must add its begin token (the template does not write one).
    """

    opening: str
    letter_ids: dict[str, int]
    endings: dict[str, str]
    ending_ids: dict[str, tuple[int, ...]]
    adds_special_tokens: bool


def render(processor: Any, text: str, answer: str | None = None, *, picture: bool = True) -> str:
    """Conversation as the chat template writes it, with the generation prompt when there is no answer.

    Raises:
        ModelError: The template cannot be rendered.
    """
    messages = conversation(text, answer, picture=picture)
    dated = {"date_string": TEMPLATE_DATE} if "date_string" in str(processor.chat_template) else {}
    try:
        return str(
            processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=answer is None, **dated)
        )
    except Exception as error:  # a template can raise anything
        raise ModelError(
            f"the chat template of {type(processor).__name__} cannot write a picture and a question "
            f"({type(error).__name__}: {error}); use the model's own template"
        ) from error


def control_tokens(tokenizer: Any) -> dict[int, str]:
    """Id -> text of the tokens that a tokenizer does not read as words (begin, end of turn, picture, padding)."""
    added = {i: str(token) for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    return {**added, **dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True))}


def answer_tokens(processor: Any) -> AnswerTokens:
    """Find the tokens of each answer letter as the template really produces them.

    Args:
        processor: A transformers processor with a chat template.

    Raises:
        ModelError: The template writes an answer so that it cannot be told from the prompt, or two letters share an id.
    """
    tokenizer = processor.tokenizer
    prompt = render(processor, "?")
    bos = getattr(tokenizer, "bos_token", None)
    adds_special_tokens = not (bos and prompt.startswith(bos))
    special = control_tokens(tokenizer)
    turns = {letter: _answered(processor, prompt, letter) for letter in LETTERS}
    opening = _opening(tokenizer, prompt, turns) if style_of(processor).opening else ""
    asked = prompt + opening
    letter_ids, endings, ending_ids = {}, {}, {}
    asked_ids = _ids(tokenizer, asked)
    for letter, full in turns.items():
        ids = _ids(tokenizer, full)
        if not full.startswith(asked) or ids[: len(asked_ids)] != asked_ids or len(ids) == len(asked_ids):
            raise ModelError(
                f"the chat template of {type(processor).__name__} does not write the answer after its generation "
                f"prompt (prompt ends {prompt[-40:]!r}, with an answer {full[-40:]!r}); use the model's own template"
            )
        rest = ids[len(asked_ids) :]
        end = next((i for i, token in enumerate(rest) if token in special), None)
        kept = rest[: end + 1] if end is not None else [*rest, tokenizer.eos_token_id]
        letter_ids[letter] = rest[0]
        ending_ids[letter] = tuple(kept)
        endings[letter] = _text_of(tokenizer, full[len(asked) :], kept)
    if len(set(letter_ids.values())) != len(letter_ids):
        raise ModelError(f"two option letters share a token id ({letter_ids}); letters cannot be told apart")
    return AnswerTokens(opening, letter_ids, endings, ending_ids, adds_special_tokens)


def _opening(tokenizer: Any, prompt: str, turns: Mapping[str, str]) -> str:
    """What all turns begin with after the prompt, in tokens."""
    shared = _shared([_ids(tokenizer, turn) for turn in turns.values()])
    text = "".join(_shared([turn[len(prompt) :] for turn in turns.values()]))
    for end in range(len(text), 0, -1):
        if _ids(tokenizer, prompt + text[:end]) == shared:
            return text[:end]
    raise ModelError(f"the tokenizer has no border between {text!r} and an answer letter; use model.prompt=letter")


def _shared(sequences: Sequence[Sequence[_T]]) -> list[_T]:
    """What all sequences begin with."""
    alike = takewhile(lambda column: len(set(column)) == 1, zip(*sequences, strict=False))
    return [column[0] for column in alike]


def worded_ending(processor: Any, tokens: AnswerTokens, answer: str) -> Ending:
    """What follows prompt and opening when an answer in words is given: written as a letter is, words in its place.

    Args:
        processor: A transformers processor with a chat template.
        tokens: `answer_tokens` of it.
        answer: The answer's text.

    Raises:
        ModelError: The first letters of the answer melt into one token with the end of the prompt, or the tokenizer
            does not see where the turn ends.
    """
    one, other = tokens.endings["A"], tokens.endings["B"]
    at = next(i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)  # where the letter stands
    before, after = one[:at], one[at + 1 :]
    prompt, text = render(processor, "?") + tokens.opening, f"{before}{answer}{after}"
    prompt_ids, ids = _ids(processor.tokenizer, prompt), _ids(processor.tokenizer, prompt + text)
    found, end = tuple(ids[len(prompt_ids) :]), tokens.ending_ids["A"][-1]
    if ids[: len(prompt_ids)] != prompt_ids or found.count(end) != 1 or found[-1] != end:
        raise ModelError(
            f"the tokenizer of {type(processor).__name__} does not keep the answer {answer!r} apart from the prompt "
            f"before it (ends {prompt[-20:]!r}) and the end of the turn ({after!r}) behind it: its tokens are {found}"
        )
    return Ending(text, found)


def _answered(processor: Any, prompt: str, letter: str) -> str:
    """Prompt, answer and end of turn.

    LLaVA-OneVision's template writes its own answers after another text than its generation prompt ends with. What a
    server will send is the generation prompt, so that is what is learnt: prompt, letter, and the template's end.
    """
    style = style_of(processor)
    answer = f"{style.opening}{letter}{style.closing}"
    full = render(processor, "?", letter).rstrip()
    if full.startswith(prompt):
        before, mark, after = full[len(prompt) :].partition(letter)
        return f"{prompt}{before}{answer}{after}" if mark else full
    before, mark, after = full.rpartition(letter)
    if mark and before.rstrip().endswith(prompt.rstrip().rsplit("\n", 1)[-1].strip()):
        return f"{prompt}{answer}{after}"
    return full


def prompt_fingerprint(processor: Any) -> str:
    """Hash of the prompt layout, its style and the chat template (16 hex digits)."""
    style = style_of(processor)
    rendered = render(processor, f"{PROMPT_VERSION}\n{style.instruction}", f"{style.opening}A{style.closing}")
    return hashlib.sha256(rendered.encode()).hexdigest()[:16]


def open_prompt_fingerprint(processor: Any) -> str:
    """The same of questions whose options are not shown."""
    style = style_of(processor)
    answer = f"{style.opening}A{style.closing}"
    rendered = render(processor, f"{OPEN_PROMPT_VERSION}\n{OPEN_INSTRUCTION}", answer)
    return hashlib.sha256(rendered.encode()).hexdigest()[:16]


def _ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _text_of(tokenizer: Any, rest: str, kept: list[int]) -> str:
    """The shortest beginning of `rest` (or `rest` and the end token) whose tokens are `kept`."""
    candidates = [rest[:end] for end in range(1, len(rest) + 1)] + [rest + str(tokenizer.eos_token)]
    for candidate in candidates:
        if _ids(tokenizer, candidate) == kept:
            return candidate
    raise ModelError(
        f"cannot find the text of the answer tokens {kept} in {rest!r}; the tokenizer merges across its end"
    )
