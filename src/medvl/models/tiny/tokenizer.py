"""The tiny model's own tokenizer: byte-level BPE trained on word lists, with the ChatML control tokens.

Byte level means that no text ever gives an unknown token; training on word lists means that common words of the
benchmarks are one token each after a space.
"""

from __future__ import annotations

from collections.abc import Iterator

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

from medvl.models.tiny.words import DOMAIN_WORDS, GENERAL_WORDS, INSTRUCTION_LINES, QUESTION_STARTS

LETTERS = "ABCDEFGHIJ"
"""Option letters; each is one token on its own."""

PAD, START, END, PICTURE = "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<image>"
"""Padding, start of a turn, end of a turn, picture placeholder."""

CONTROL_TOKENS = (PAD, START, END, PICTURE)

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] in ('image', 'image_url') %}<image>\n"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""ChatML without a default system turn. A picture is its placeholder and a line break."""

VOCABULARY_LIMIT = 3072
"""Upper bound of the vocabulary; the word lists need less."""

_SPLIT = r"\p{N}| ?\p{L}+| ?[^\s\p{L}\p{N}]|\s+(?!\S)|\s"


def _corpus() -> Iterator[str]:
    """Yield the word lists in the forms that occur: after a space, and for general words at the start of a line."""
    for word in sorted({part for words in (GENERAL_WORDS, DOMAIN_WORDS) for w in words for part in w.split("-")}):
        # Repeated because BPE skips pairs seen once, and a rare form should still end as one token.
        yield from (" " + word,) * 4
    for word in sorted(GENERAL_WORDS):
        yield from (word,) * 4
    for word in sorted({line.split()[0] for line in (*INSTRUCTION_LINES, *QUESTION_STARTS)}):
        yield from (word,) * 4
    for role in ("user", "assistant", "system"):
        yield from (role,) * 4


def train_tokenizer() -> PreTrainedTokenizerFast:
    """Train the tokenizer. Deterministic; takes well under a second.

    Returns:
        A fast tokenizer with pad `<|endoftext|>`, end of turn `<|im_end|>` and the chat template.
    """
    core = Tokenizer(BPE(unk_token=None, byte_fallback=False))
    core.pre_tokenizer = Sequence(
        [Split(Regex(_SPLIT), behavior="isolated"), ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    core.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(
        vocab_size=VOCABULARY_LIMIT,
        min_frequency=2,
        special_tokens=[AddedToken(token, normalized=False, special=True) for token in CONTROL_TOKENS],
        initial_alphabet=sorted(ByteLevel.alphabet()),
        show_progress=False,
    )
    core.train_from_iterator(_corpus(), trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=END,
        extra_special_tokens={"image_token": PICTURE},
        padding_side="left",
        model_max_length=2048,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
