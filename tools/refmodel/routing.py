"""Measures the routing of the reference model on held-out text.

Per layer: how many of the next layer's chosen experts the next layer's router
finds when it is fed with this layer's MoE input (recall), how many chosen
experts the previous token had chosen too (overlap), and how evenly the experts
are used (entropy, as a share of the greatest possible).

    python routing.py --model final.pt --text heldout.txt
"""

import argparse
import math
from pathlib import Path

import torch
import torch.nn.functional as F

from evaluate import chunks, encode
from model import load


def chosen(logits, k, experts):
    """Return the chosen experts as a 0/1 tensor over all experts."""
    return F.one_hot(logits.topk(k, -1).indices, experts).sum(-2).float()


def overlap(a, b, k):
    """Return the mean share of the k experts in a that are in b as well."""
    return (a * b).sum(-1).mean().item() / k


@torch.no_grad()
def measure(model, rows, batch=8):
    """Return per layer a dict of recall, overlap and entropy."""
    c = model.c
    out = [{"recall": 0.0, "overlap": 0.0, "use": torch.zeros(c.experts)} for _ in range(c.layers)]
    for x in rows.split(batch):
        r = model(x, trace=True)
        sets = [chosen(logits, c.top_k, c.experts) for logits in r.router]
        share = len(x) / len(rows)
        for i, row in enumerate(out):
            row["use"] += sets[i].sum((0, 1))
            row["overlap"] += share * overlap(sets[i][:, 1:], sets[i][:, :-1], c.top_k)
            if i + 1 < c.layers:
                guess = F.linear(r.moe_in[i], model.blocks[i + 1].ffn.router)
                guess = chosen(guess, c.top_k, c.experts)
                row["recall"] += share * overlap(sets[i + 1], guess, c.top_k)
    for row in out:
        p = row["use"] / row["use"].sum()
        row["entropy"] = -(p * (p + 1e-12).log()).sum().item() / math.log(c.experts)
        row["least"], row["most"] = p.min().item() * c.experts, p.max().item() * c.experts
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--model", type=Path, required=True)
    ap.add_argument("--text", type=Path, required=True)
    ap.add_argument("--context", type=int, default=512)
    args = ap.parse_args()
    model, _ = load(args.model)
    rows = chunks(encode(args.text.read_text()), args.context)
    c = model.c
    print(f"by chance, recall and overlap would be {c.top_k / c.experts:.3f}\n")
    print(f"| layer | recall@{c.top_k} of next router | overlap with previous token "
          "| usage entropy | least used | most used |")
    print("| --- | --- | --- | --- | --- | --- |")
    for i, row in enumerate(measure(model, rows)):
        recall = f"{row['recall']:.3f}" if i + 1 < c.layers else "-"
        print(f"| {i} | {recall} | {row['overlap']:.3f} | {row['entropy']:.3f} "
              f"| {row['least']:.2f} x | {row['most']:.2f} x |")


if __name__ == "__main__":
    main()
