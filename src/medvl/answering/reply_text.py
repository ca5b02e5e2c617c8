"""The text of a generated reply, freed of all that is not its wording: turns, thoughts, LaTeX, Markdown, odd Unicode.

Every step takes time that grows with the length of the reply only: all repetitions in the patterns are bounded or
stop at a character that the next match must start with.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a reply commits to.

    Attributes:
        answer: Option letter (`yes` or `no` for a yes/no question), or None where the reply commits to nothing.
        rule: Name of the rule that found the answer, or of the reason why there is none.
    """

    answer: str | None
    rule: str


_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SAME = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′´`", "'"),
        **dict.fromkeys("“”„‟″«»「」『』", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("【〔〖〘⟨⟦❨❪❲", "("),
        **dict.fromkeys("】〕〗〙⟩⟧❩❫❳", ")"),
        **dict.fromkeys("✔☑✅🗹", "✓"),
        "。": ". ",
        "、": ", ",
        "\u2044": "/",  # the fraction slash that NFKC makes of ½
        "\t": " ",
        "\x85": "\n",
        "\u2028": "\n",
        "\u2029": "\n",
    }
)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[\w+-]{0,20}[ \t]*$", re.MULTILINE)


def fold(text: str) -> str:
    """Give look-alike characters one form: full-width letters, quotes, dashes, brackets, line ends, spaces."""
    text = _FENCE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).translate(_SAME)
    return _CONTROL.sub(" ", text)


_ROLE = re.compile(
    r"(?P<user><\|im_start\|>user|<\|user\|>|<start_of_turn>user|<\|start_header_id\|>user<\|end_header_id\|>|\[INST\]"
    r"|(?<![^\s>])(?:USER|HUMAN)\s?:|^[ *#>]{0,6}(?:User|Human|### ?Instruction)\b\**\s?:)"
    r"|(?P<assistant><\|im_start\|>assistant|<\|assistant\|>|<start_of_turn>model"
    r"|<\|start_header_id\|>assistant<\|end_header_id\|>|\[/INST\]"
    r"|(?<![^\s>])(?:ASSISTANT|GPT)\s?:|^[ *#>]{0,6}(?:Assistant|### ?Response)\b\**\s?:)",
    re.MULTILINE,
)


def assistant_turns(text: str) -> list[str]:
    """What the assistant says in a reply that may hold a whole dialogue.

    Text after a new turn of the user answers another question, so one turn is given: the first. Where the text begins
    with the user's turn it is a transcript, and all turns of the assistant are given, for the caller to compare.
    """
    marks = list(_ROLE.finditer(text))
    if not marks:
        return [text]
    turns = [("assistant" if marks[0].lastgroup == "user" else "user", text[: marks[0].start()])]
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    turns += [(str(mark.lastgroup), text[mark.end() : end]) for mark, end in zip(marks, ends, strict=True)]
    said = [(role, words) for role, words in turns if words.strip()]
    answers = [words for role, words in said if role == "assistant"]
    is_transcript = bool(said) and said[0][0] == "user"
    return (answers if is_transcript else answers[:1]) or [""]


_THOUGHT = re.compile(
    r"[<◁]\s?(?P<close>/?)\s?(?:think(?:ing)?|thoughts?|reasoning|scratchpad|reflection)\s?[>▷]", re.I
)


def without_thoughts(text: str) -> tuple[str, bool]:
    """Leave out `<think>` blocks, and whatever stands before a closing tag that has no opening one.

    Returns:
        (text, whether a block was opened and never closed).
    """
    kept: list[str] = []
    depth, start = 0, 0
    for tag in _THOUGHT.finditer(text):
        if depth == 0 and tag["close"]:
            kept = []
        elif depth == 0:
            kept.append(text[start : tag.start()])
        depth = max(0, depth - 1) if tag["close"] else depth + 1
        start = tag.end()
    if depth == 0:
        kept.append(text[start:])
    return " ".join(kept), depth > 0


_COMMAND = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mathsf|boldsymbol|mbox|emph)\s?\{([^{}]*)\}"
)
_FRACTION = re.compile(r"\\[dt]?frac\s?\{([^{}]*)\}\s?\{([^{}]*)\}")
_DOLLARS = re.compile(r"\$\$?\s?([(\[]?[A-Za-z][)\]]?)\s?\$\$?")
_LATEX = {"pm": "±", "times": "×", "cdot": "*", "ne": "≠", "neq": "≠", "mu": "μ", "to": "→", "rightarrow": "→"}
_LATEX_NAME = re.compile(r"\\([A-Za-z]{1,20})")
_LATEX_MARK = re.compile(r"\\([()\[\],;!:])")


def _without_latex(text: str) -> str:
    for _ in range(3):  # commands within commands
        text = _COMMAND.sub(r" \1 ", text)
    text = _FRACTION.sub(r"\1/\2", text)
    text = _DOLLARS.sub(r" \1 ", _unboxed(text))
    text = _LATEX_MARK.sub(" ", text.replace("\\%", "%").replace("\\$", "$").replace("\\_", "_"))
    return _LATEX_NAME.sub(lambda name: _LATEX.get(name[1], f" {name[1]} "), text)


def _unboxed(text: str) -> str:
    r"""Write `\boxed{X}` as a line that declares X."""
    pieces = re.split(r"\\f?boxed\s?\{", text)
    kept = [pieces[0]]
    for piece in pieces[1:]:
        depth, end = 1, len(piece)
        for brace in re.finditer(r"[{}\n]", piece):
            depth += {"{": 1, "}": -1, "\n": -depth}[brace[0]]  # a box that is cut off ends with its line
            if depth == 0:
                end = brace.start()
                break
        kept += ["\nFinal answer: ", piece[:end], "\n", piece[end + 1 :]]
    return "".join(kept)


_MARKUP = [
    (re.compile(r"<\|[^|<>\s]{1,40}\|>|</?s>|<(?:eos|bos|pad|end_of_turn|end_of_utterance)>"), " "),  # special tokens
    (re.compile(r"</?(?:b|i|u|em|strong|p|br|span|div|code|mark|sub|sup|ul|ol|li)\b[^<>]{0,100}>"), " "),
    (re.compile(r"!\[[^\]\n]{0,200}\](?:\([^)\n]{0,500}\))?"), " "),  # pictures
    (re.compile(r"~~[^~\n]{1,300}~~"), " "),  # struck out: withdrawn
    (re.compile(r"\*\*|__"), ""),
    (re.compile(r"(?<![\w*])\*(?=\S)([^*\n]{1,200})(?<=\S)\*(?![\w*])"), r"\1"),
    (re.compile(r"(?<!\w)_(?=\S)([^_\n]{1,200})(?<=\S)_(?!\w)"), r"\1"),
    (re.compile(r"^[ ]*(?:#{1,6}(?=[ \w(])|(?:[>*•●▪◦-] )|\|)[ ]*", re.MULTILINE), ""),  # headings, bullets, tables
    (re.compile(r"\|[ ]*$", re.MULTILINE), ""),
    (re.compile(r" {2,}"), " "),
    (re.compile(r"^ | $", re.MULTILINE), ""),
    (re.compile(r"\n{2,}"), "\n"),
]


def wording(text: str) -> str:
    """Plain words of a folded text: no LaTeX, Markdown, HTML or special tokens, one line a paragraph or list entry."""
    text = _without_latex(text)
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return text.strip()


_TAG = re.compile(r"<\s?(?:final_?)?(?:answer|choice|option|ans)\s?>", re.I)
_TAG_END = re.compile(r"<\s?/", re.I)
_KEY = re.compile(
    r"""["'](?:(?:final|correct|selected|chosen|predicted|best)[_ ]?)?(?:answer|choice|option|letter|prediction|label"""
    r"""|diagnosis|selection|result|response|conclusion|output)["']\s?:\s?"""
    r"""(?:"(?P<double>[^"\n]{0,2000})|'(?P<single>[^'\n]{0,2000})|\[(?P<list>[^\]\[{]{0,500})|(?P<bare>[^\s,}\]"'{\[]{1,40}))""",
    re.I,
)


def tagged(text: str) -> str | None:
    """Content of the last `<answer>` tag; None without one."""
    tags = list(_TAG.finditer(text))
    if not tags:
        return None
    rest = text[tags[-1].end() :]
    closing = _TAG_END.search(rest)
    return rest[: closing.start()] if closing else rest


def keyed(text: str) -> list[str]:
    """Values of the keys of a JSON object that hold an answer. It may be broken, cut off or in Python's quotes."""
    return [next(value for value in match.groups() if value is not None) for match in _KEY.finditer(text)]
