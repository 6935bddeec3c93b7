"""Trains the drafter on texts that the reference model wrote.

For each text the target's hidden states are computed once and kept. A step
takes blocks at random places of some texts; what is learnt is the target's own
distribution after each token of a block, given the real tokens before it. The
confidence head learns whether the drafter's first choice is the target's. The
learning rate follows the time as in train.py, here the processor's.

    python drafttrain.py --model ../../models/les-ref.gguf --data DIR --out DIR --minutes 25
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from draftdata import LENGTH, reference
from draftmodel import DraftConfig, Drafter
from train import keep_memory, rate

HELD = 24
BLOCKS = 48
SHARP = 0.5
FADE = 0.85


class Texts:
    """The rows of own*.bin, shuffled, with the target's states, computed when first asked for."""

    def __init__(self, target, c, data, seed):
        rows = [np.fromfile(p, dtype=np.uint16) for p in sorted(data.glob("own*.bin"))]
        rows = np.concatenate(rows).reshape(-1, LENGTH)
        self.rows = rows[np.random.default_rng(1).permutation(len(rows))]
        self.target, self.c = target, c
        self.cache, self.pool = {}, []
        self.rng = np.random.default_rng(seed)

    def states(self, i):
        """Return tokens, fused layers' inputs and last hidden states of a row."""
        ids = torch.from_numpy(self.rows[i].astype(np.int64))
        if i not in self.cache:
            with torch.no_grad():
                r = self.target(ids[None], trace=True)
            layers = torch.cat([r.layer_out[j - 1][0] for j in self.c.target_layers], -1)
            self.cache[i] = (layers.half(), r.hidden[0].half())
        return (ids, *(t.float() for t in self.cache[i]))

    def batch(self, indices):
        return [torch.stack(t) for t in zip(*(self.states(i) for i in indices))]

    def draw(self, count):
        """Return a batch of rows, all of an epoch before any twice."""
        if len(self.pool) < count:
            self.pool = list(range(HELD, len(self.rows)))
            self.rng.shuffle(self.pool)
        return self.batch([self.pool.pop() for _ in range(count)])


def spread(x, at):
    """Gather x [batch, positions, width] at places [batch, blocks, size]."""
    b, n, k = at.shape
    flat = at.reshape(b, n * k, 1).expand(-1, -1, x.shape[-1])
    return x.gather(1, flat).view(b, n, k, -1)


def blocks(drafter, target, batch, anchors):
    """Return the drafter's logits, its confidence and the target's logits for blocks."""
    ids, states, hidden = batch
    at = anchors[:, :, None] + torch.arange(drafter.c.block)
    h = drafter(states, anchors, target.embed.weight, ids)
    bias, vector = drafter.bias(ids.gather(1, at.flatten(1)).view(at.shape))
    with torch.no_grad():
        want = target.logits(spread(hidden, at))
    confide = drafter.confide(h.detach(), vector.detach())
    return target.logits(h) + bias, confide, want


def loss_of(logits, confide, want):
    """Return the loss, and for each position of a block the share of agreement."""
    weight = FADE ** torch.arange(logits.shape[2])
    weight = weight / weight.sum() / (logits.shape[0] * logits.shape[1])
    logp = logits.log_softmax(-1)
    first = want.argmax(-1)
    soft = -(want.softmax(-1) * logp).sum(-1)
    hard = -logp.gather(-1, first[..., None]).squeeze(-1)
    same = (logits.argmax(-1) == first).float()
    sure = F.binary_cross_entropy_with_logits(confide, same, reduction="none")
    loss = (((1 - SHARP) * soft + SHARP * hard + 0.3 * sure) * weight).sum()
    return loss, same.mean((0, 1))


@torch.no_grad()
def evaluate(drafter, target, texts):
    """Return the agreement at each position of blocks in texts not trained on."""
    batch = texts.batch(range(HELD))
    anchors = torch.arange(96, LENGTH - drafter.c.block, 16).expand(HELD, -1)
    return loss_of(*blocks(drafter, target, batch, anchors))


def save(path, drafter, info):
    tmp = path.with_suffix(".tmp")
    torch.save({"config": drafter.c.as_dict(), "drafter": drafter.state_dict(), "info": info}, tmp)
    os.replace(tmp, path)


def optimizer(drafter, lr):
    """AdamW, with weight decay on matrices alone."""
    wide = [p for p in drafter.parameters() if p.dim() >= 2]
    rest = [p for p in drafter.parameters() if p.dim() < 2]
    groups = [{"params": wide, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), fused=True)


def train(args):
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    target = reference(args.model)
    drafter = Drafter(DraftConfig(layers=args.layers))
    if args.start:
        drafter.load_state_dict(torch.load(args.start, weights_only=True)["drafter"])
    texts = Texts(target, drafter.c, args.data, args.seed)
    opt = optimizer(drafter, args.lr)
    args.out.mkdir(parents=True, exist_ok=True)
    log = open(args.out / "draftloss.csv", "a")
    log.write("step,seconds,loss,held,agreement\n")
    step, start, losses = 0, time.process_time(), []
    while (done := (time.process_time() - start) / (60 * args.minutes)) < 1:
        for group in opt.param_groups:
            group["lr"] = args.lr * rate(step, done)
        batch = texts.draw(args.rows)
        anchors = torch.stack([torch.randperm(LENGTH - drafter.c.block - 8)[:BLOCKS] + 8 for _ in range(args.rows)])
        loss, _ = loss_of(*blocks(drafter, target, batch, anchors))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
        opt.step()
        losses.append(loss.item())
        step += 1
        if step % 100 == 0:
            held, same = evaluate(drafter, target, texts)
            log.write(f"{step},{time.process_time() - start:.0f},{np.mean(losses):.4f},{held:.4f},"
                      + " ".join(f"{v:.3f}" for v in same.tolist()) + "\n")
            log.flush()
            losses = []
            save(args.out / "drafter.pt", drafter, {"step": step})
    save(args.out / "drafter.pt", drafter, {"step": step})


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--model", type=Path, required=True, help="GGUF file of the target")
    ap.add_argument("--data", type=Path, required=True, help="folder with own*.bin")
    ap.add_argument("--out", type=Path, required=True)
    ap.add_argument("--start", type=Path, help="checkpoint to go on from")
    ap.add_argument("--minutes", type=float, default=25, help="processor time")
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--rows", type=int, default=2, help="texts a step")
    ap.add_argument("--layers", type=int, default=2)
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--seed", type=int, default=1)
    args = ap.parse_args()
    keep_memory()
    train(args)


if __name__ == "__main__":
    main()
