"""Trains the tokenizer of the reference model: byte-level BPE, 4096 tokens.

The pre-tokenizer is the one llama.cpp calls "qwen2"; the expression below is
spelled as there, so that both split text alike.

    python tokenizer.py --data DIR
"""

import argparse
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from data import EOT, HERE, texts

VOCAB = 4096
SPECIAL = [EOT, "<|im_start|>", "<|im_end|>"]
QWEN2 = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
    r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def train(corpus):
    """Return a tokenizer trained on an iterable of texts."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN2), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tok.train_from_iterator(corpus, trainer)
    return tok


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--data", type=Path, required=True)
    args = ap.parse_args()
    tok = train(texts(args.data))
    assert tok.get_vocab_size() == VOCAB
    tok.save(str(HERE / "tokenizer.json"))


if __name__ == "__main__":
    main()
