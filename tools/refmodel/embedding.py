"""Computes starting values of the embedding from the training corpus.

A short run sees rare tokens too seldom to place them well. So the embedding
starts from counts of neighbouring tokens over the whole training corpus: half
of its columns tell which tokens follow a token, half which precede it (singular
vectors of the positive pointwise mutual information).

    python embedding.py --data DIR
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.sparse.linalg import svds

SCALE = 0.1


def information(ids, vocab):
    """Return the positive pointwise mutual information of (token, next)."""
    pairs = ids[:-1].astype(np.int64) * vocab + ids[1:]
    count = np.bincount(pairs, minlength=vocab * vocab).reshape(vocab, vocab)
    count = count.astype(np.float32)
    rows = count.sum(1, keepdims=True) + 1
    cols = count.sum(0, keepdims=True) + 1
    with np.errstate(divide="ignore"):
        value = np.log(count) + np.log(count.sum()) - np.log(rows) - np.log(cols)
    return np.maximum(value, 0)


def embedding(ids, vocab, width):
    """Return an array [vocab, width] whose columns have equal power per half."""
    u, s, vt = svds(information(ids, vocab), k=width // 2, random_state=1)
    halves = [u * np.sqrt(s), vt.T * np.sqrt(s)]
    out = np.concatenate([h / np.sqrt(np.mean(h * h)) for h in halves], 1)
    norm = np.sqrt(np.mean(out * out, 1, keepdims=True))
    out = out / np.sqrt(norm + 1e-3)
    return (SCALE * out / np.sqrt(np.mean(out * out))).astype(np.float32)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--data", type=Path, required=True)
    ap.add_argument("--vocab", type=int, default=4096)
    ap.add_argument("--width", type=int, default=256)
    args = ap.parse_args()
    ids = np.fromfile(args.data / "train.bin", dtype=np.uint16)
    np.save(args.data / "embedding.npy", embedding(ids, args.vocab, args.width))


if __name__ == "__main__":
    main()
