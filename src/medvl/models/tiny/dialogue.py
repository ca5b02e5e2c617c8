"""Questions as token ids, in the layout the framework uses for every multiple-choice item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerFast

from medvl.models.tiny.tokenizer import END, LETTERS, START

LETTER_ONLY = "Answer with the letter of the correct option only."
WORDS_THEN_LETTER = "Answer with the words, then the letter."
FEW_WORDS = "Answer in a few words."


@dataclass(frozen=True, slots=True)
class Exchange:
    """One question with its answer, tokenised, without the opening of the user turn.

    Attributes:
        kind: Name of the question kind, for the curve.
        prompt: Ids from the question up to and including the opening of the assistant turn.
        answer: Ids of the answer and the end of the turn; nothing else is supervised.
        form: `letter`, `both` or `open`.
        n_options: Number of options; 0 for open questions.
    """

    kind: str
    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    form: str
    n_options: int


@dataclass(frozen=True, slots=True)
class Scaffold:
    """The ids that are the same in every exchange.

    Attributes:
        opening: Opening of the user turn, before the picture.
        closing: End of the user turn and opening of the assistant turn.
        letters: One id a letter.
        end: End of turn.
        line: Line break.
        options: Ids of a line break and `A.`, `B.`, ... before the words of an option.
        instructions: Last line of the prompt -> ids, line break included.
    """

    opening: tuple[int, ...]
    closing: tuple[int, ...]
    letters: tuple[int, ...]
    end: int
    line: int
    options: tuple[tuple[int, ...], ...]
    instructions: dict[str, tuple[int, ...]]


def make_scaffold(tokenizer: PreTrainedTokenizerFast) -> Scaffold:
    """Tokenise the fixed parts of the layout once."""

    def ids(text: str) -> tuple[int, ...]:
        return tuple(tokenizer.encode(text, add_special_tokens=False))

    return Scaffold(
        opening=ids(f"{START}user\n"),
        closing=ids(f"{END}\n{START}assistant\n"),
        letters=tuple(ids(letter)[0] for letter in LETTERS),
        end=ids(END)[0],
        line=ids("\n")[0],
        options=tuple(ids(f"\n{letter}.") for letter in LETTERS),
        instructions={text: ids("\n" + text) for text in (LETTER_ONLY, WORDS_THEN_LETTER, FEW_WORDS)},
    )


def layout(question: str, options: Sequence[str], instruction: str = LETTER_ONLY) -> str:
    """Write a question the way every item is shown: question, lettered options, instruction, one a line."""
    lines = [question, *(f"{letter}. {text}" for letter, text in zip(LETTERS, options, strict=False)), instruction]
    return "\n".join(lines)


def choice(
    scaffold: Scaffold,
    kind: str,
    question: Sequence[int],
    options: Sequence[Sequence[int]],
    gold: int,
    *,
    with_words: bool = False,
    words: Sequence[int] = (),
) -> Exchange:
    """Make a multiple-choice exchange.

    Args:
        scaffold: Fixed ids.
        kind: Question kind.
        question: Ids of the question.
        options: Ids of each option, its leading space included.
        gold: Index of the right option.
        with_words: Answer with the words and then, on a new line, the letter.
        words: Ids of the words of the answer as they stand at the start of a line; needed when `with_words`.
    """
    prompt = [*question]
    for opener, option in zip(scaffold.options, options, strict=False):
        prompt += [*opener, *option]
    prompt += scaffold.instructions[WORDS_THEN_LETTER if with_words else LETTER_ONLY]
    prompt += scaffold.closing
    letter = scaffold.letters[gold]
    answer = (*words, scaffold.line, letter, scaffold.end) if with_words else (letter, scaffold.end)
    return Exchange(kind, tuple(prompt), answer, "both" if with_words else "letter", len(options))


def open_question(scaffold: Scaffold, kind: str, question: Sequence[int], words: Sequence[int]) -> Exchange:
    """Make an exchange without options that is answered in words."""
    prompt = (*question, *scaffold.instructions[FEW_WORDS], *scaffold.closing)
    return Exchange(kind, prompt, (*words, scaffold.end), "open", 0)
