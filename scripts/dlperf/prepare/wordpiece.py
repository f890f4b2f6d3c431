"""WordPiece of BERT-Base uncased: its tokenizer, and a vocabulary read from a file.

The file has one entry in each line, numbered from 0. BERT's own vocab.txt is such a file, and so is
the one that prose.py learns.
"""

from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from dlperf.loaders import DataError
from dlperf.loaders.text import PADDING, SPECIAL, UNKNOWN, VOCABULARY

FIX = "take the vocab.txt of BERT-Base uncased, or that of results/data/prose"


def tokenizer(model: models.Model) -> Tokenizer:
    made = Tokenizer(model)
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return made


def load(path: Path) -> Tokenizer:
    """The tokenizer of a file. Raises DataError if its vocabulary does not fit BERT-Base."""
    try:
        entries = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not text in UTF-8 ({error}); {FIX}") from None
    numbered = {entry.removesuffix("\r"): number for number, entry in enumerate(entries)}
    if len(entries) != VOCABULARY:
        raise DataError(
            f"{path}: {len(entries)} entries; the model's embedding has {VOCABULARY}; {FIX}"
        )
    if len(numbered) != len(entries):
        raise DataError(f"{path}: {len(entries) - len(numbered)} entries occur twice; {FIX}")
    missing = [entry for entry in SPECIAL if entry not in numbered]
    if missing:
        raise DataError(f"{path}: no entry {', '.join(missing)}; {FIX}")
    if numbered[SPECIAL[PADDING]] != PADDING:
        raise DataError(
            f"{path}: {SPECIAL[PADDING]} is entry {numbered[SPECIAL[PADDING]]}, but examples are "
            f"padded with {PADDING}; {FIX}"
        )
    return tokenizer(models.WordPiece(numbered, unk_token=SPECIAL[UNKNOWN]))
