"""The tokenizer: WordPiece over the catalogues and the general texts, lower-cased, identifiers cut at camelCase."""

from collections.abc import Iterable, Iterator

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

UNKNOWN, PADDING = "[UNK]", "[PAD]"
_CAMEL = r"(?<=[a-z0-9])(?=[A-Z])"


def build(texts: Iterable[str], size: int) -> Tokenizer:
    """Return a trained tokenizer of `size` tokens. [PAD] is 0 and [UNK] is 1. Neither has a vector."""
    tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN, max_input_chars_per_word=60))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex(_CAMEL), " "),
            normalizers.BertNormalizer(
                clean_text=True, handle_chinese_chars=True, strip_accents=True, lowercase=True
            ),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, min_frequency=2, show_progress=False, special_tokens=[PADDING, UNKNOWN]
    )
    tokenizer.train_from_iterator(_chunks(texts), trainer)
    return tokenizer


def _chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    for text in texts:
        chunk.append(text)
        if len(chunk) == 1000:
            yield chunk
            chunk = []
    yield chunk
