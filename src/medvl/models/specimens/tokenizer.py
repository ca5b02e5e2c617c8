"""The specimens' shared text tokenizer, and the control tokens that each family adds to it.

Byte-level BPE over a few words: no text gives an unknown token, and digits and the option letters are single tokens,
alone and after a space (some families write an answer after a space).
"""

from __future__ import annotations

import functools
import json
import string
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

TEXT_TOKENS = 640
"""Upper bound of bytes and merges together."""

_SPLIT = r"\p{N}| ?\p{L}+| ?[^\s\p{L}\p{N}]|\s+(?!\S)|\s"

_WORDS = """
a abdomen abnormal above an and answer are arm assistant axial below benign bounding box brain breech bright chest
clinical correct cyst dark does effusion femur fetal fetus finding foot four frame group head heart image in is kidney
left leg letter lesion lung malignant measurement mass meet model nodule none normal of on one only option orientation
part picture plane pneumothorax position present question rectangle red represent right sagittal scan show side spine
standard stomach system text the this to transverse ultrasound user view what where which with word x-ray yes no
"""


@dataclass(frozen=True, slots=True)
class Control:
    """Control tokens of a family.

    Attributes:
        after: Tokens whose ids follow those of the text.
        before: Tokens whose ids come first.
        roles: Role of transformers (`bos_token`, `eos_token`, `pad_token`, `unk_token`) -> token.
        named: Further attributes of the tokenizer, e.g. `image_token` -> token.
        writes_bos: The tokenizer opens every text with `bos_token`, unless it is told to add no special tokens.
    """

    after: tuple[str, ...]
    before: tuple[str, ...] = ()
    roles: dict[str, str] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    writes_bos: bool = False


def make_tokenizer(control: Control) -> PreTrainedTokenizerFast:
    """The text tokenizer with a family's control tokens.

    Returns:
        A fast tokenizer. Ids: `before`, text, `after`.
    """
    text, merges = _text_model()
    vocabulary = {token: i for i, token in enumerate((*control.before, *text, *control.after))}
    core = Tokenizer(BPE(vocab=vocabulary, merges=list(merges)))
    core.pre_tokenizer = _pre_tokenizer()
    core.decoder = ByteLevelDecoder()
    core.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in (*control.before, *control.after)])
    if control.writes_bos:
        bos = control.roles["bos_token"]
        core.post_processor = TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, vocabulary[bos])]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        **control.roles,
        extra_special_tokens=control.named,
        model_max_length=131072,
        clean_up_tokenization_spaces=False,
    )


def template(name: str) -> str:
    """Chat template of this package: gives the text that the family's public template gives."""
    return (Path(__file__).parent / "templates" / f"{name}.jinja").read_text(encoding="utf-8")


def _pre_tokenizer() -> Sequence:
    split = Split(Regex(_SPLIT), behavior="isolated")
    return Sequence([split, ByteLevel(add_prefix_space=False, use_regex=False)])


@functools.cache
def _text_model() -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Tokens in the order of their ids, and merges; trained in well under a second."""
    core = Tokenizer(BPE())
    core.pre_tokenizer = _pre_tokenizer()
    trainer = BpeTrainer(
        vocab_size=TEXT_TOKENS, min_frequency=2, initial_alphabet=sorted(ByteLevel.alphabet()), show_progress=False
    )
    listed = _WORDS.split()
    words = sorted({*listed, *string.ascii_letters, *(word.capitalize() for word in listed)})
    # Twice, because pairs seen once are skipped; letters more often than words, so that none of them is left out.
    corpus = [f" {word}" for word in words for _ in range(1000 if len(word) == 1 else 2)]
    core.train_from_iterator(corpus, trainer)
    vocabulary = core.get_vocab(with_added_tokens=False)
    merges = json.loads(core.to_str())["model"]["merges"]
    return tuple(sorted(vocabulary, key=lambda token: vocabulary[token])), tuple((a, b) for a, b in merges)
