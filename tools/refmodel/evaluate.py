"""Measures the reference model on held-out text.

Reports perplexity the way llama-perplexity does: the text is cut into chunks
of n tokens and the second half of each chunk is scored. The unigram model of
the training corpus is scored on the same tokens. With --prompt it also writes
a sample, with --ids the token ids of the text.

    python evaluate.py --model final.pt --text heldout.txt --data DIR
"""

import argparse
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from data import EOT, HERE
from model import load


def tokenizer():
    return Tokenizer.from_file(str(HERE / "tokenizer.json"))


def encode(text):
    """Return the token ids of a text."""
    return tokenizer().encode(text, add_special_tokens=False).ids


def chunks(ids, n):
    """Cut ids into whole chunks of n, as one tensor."""
    count = len(ids) // n
    return torch.tensor(ids[:count * n]).view(count, n)


def scored(rows):
    """Return the slice of positions whose next token is scored."""
    n = rows.shape[1]
    return slice(n // 2, n - 1)


@torch.no_grad()
def perplexity(model, rows, batch=8):
    part, total, count = scored(rows), 0.0, 0
    for x in rows.split(batch):
        logits = model.logits(model(x).hidden[:, part])
        want = x[:, part.start + 1:part.stop + 1]
        total += F.cross_entropy(logits.flatten(0, 1), want.flatten(), reduction="sum").item()
        count += want.numel()
    return math.exp(total / count)


def unigram(corpus, rows, vocab):
    """Return the perplexity of token frequencies, one added to each count."""
    count = np.bincount(np.fromfile(corpus, dtype=np.uint16), minlength=vocab) + 1
    cost = -np.log(count / count.sum())
    part = scored(rows)
    want = rows[:, part.start + 1:part.stop + 1].flatten().numpy()
    return math.exp(cost[want].mean())


@torch.no_grad()
def sample(model, prompt, tokens, temperature=0.7, top_k=40, seed=1):
    """Return a continuation of the prompt."""
    tok, gen = tokenizer(), torch.Generator().manual_seed(seed)
    ids = tok.encode(prompt, add_special_tokens=False).ids
    for _ in range(tokens):
        x = torch.tensor(ids[-model.c.context:])[None]
        logits = model.logits(model(x).hidden[0, -1]) / temperature
        value, index = logits.topk(top_k)
        pick = torch.multinomial(value.softmax(-1), 1, generator=gen)
        ids.append(index[pick].item())
        if ids[-1] == tok.token_to_id(EOT):
            break
    return tok.decode(ids)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--model", type=Path, required=True)
    ap.add_argument("--text", type=Path, required=True)
    ap.add_argument("--data", type=Path, help="working folder of data.py, for the unigram model")
    ap.add_argument("--context", type=int, default=512)
    ap.add_argument("--prompt", help="also write a sample that continues this")
    ap.add_argument("--tokens", type=int, default=200, help="length of the sample")
    ap.add_argument("--ids", type=Path, help="write the token ids of the text here, one a line")
    args = ap.parse_args()
    torch.manual_seed(1)
    model, info = load(args.model)
    ids = encode(args.text.read_text())
    rows = chunks(ids, args.context)
    print(f"steps {info.get('step', 0)}, tokens {info.get('tokens', 0)}")
    print(f"text {len(ids)} tokens, {len(rows)} chunks of {args.context}")
    print(f"perplexity {perplexity(model, rows):.4f}")
    if args.data:
        print(f"unigram {unigram(args.data / 'train.bin', rows, model.c.vocab):.4f}")
    if args.ids:
        args.ids.write_text("\n".join(map(str, ids)) + "\n")
    if args.prompt:
        print(sample(model, args.prompt, args.tokens))


if __name__ == "__main__":
    main()
