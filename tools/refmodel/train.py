"""Trains the reference model on the encoded corpus.

The learning rate follows the wall clock: a short warm-up, a plateau, then a
linear fall to zero at the deadline, where the run ends. SIGTERM ends it early,
with a checkpoint; started again with the same command it goes on from there.

    python train.py --data DIR --out DIR --minutes 75
"""

import argparse
import copy
import math
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from model import Config, Model

WARMUP = 40
PLATEAU = 0.35
AUX, ZLOSS = 0.01, 1e-4
CLIP = 1.0
LONG_EVERY = 4


# glibc gives large blocks back to the system at once and the page faults then
# cost more than the arithmetic; these settings make it keep them.
MALLOC = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "20000000000",
    "MALLOC_TOP_PAD_": "67108864",
}


def keep_memory():
    """Start this program again, in the same process, with the settings above."""
    if any(os.environ.get(k) != v for k, v in MALLOC.items()):
        os.environ.update(MALLOC)
        os.execv(sys.executable, [sys.executable] + sys.argv)


class Batches:
    """Draws windows of the corpus, all of one epoch before any twice."""

    def __init__(self, path, seed=7):
        self.ids = np.memmap(path, dtype=np.uint16, mode="r")
        self.rng = np.random.default_rng(seed)
        self.pool = []

    def refill(self, length):
        shift = int(self.rng.integers(length))
        self.pool = list(range(shift, len(self.ids) - length - 1, length))
        self.rng.shuffle(self.pool)

    def draw(self, tokens, length):
        """Return inputs and targets; long windows take any place."""
        rows = []
        for _ in range(tokens // length):
            if length > 512:
                at = int(self.rng.integers(len(self.ids) - length - 1))
            else:
                if not self.pool:
                    self.refill(length)
                at = self.pool.pop()
            rows.append(self.ids[at:at + length + 1].astype(np.int64))
        t = torch.from_numpy(np.stack(rows))
        return t[:, :-1], t[:, 1:]


def rate(step, done):
    """Return the learning-rate factor at a step and a share of the time."""
    warm = min(1.0, (step + 1) / WARMUP)
    fall = 1.0 if done < PLATEAU else max(0.0, (1 - done) / (1 - PLATEAU))
    return warm * fall


class Team:
    """One model replica and one thread per core; all share the weights.

    Each thread does a part of the batch with single-threaded operations, so
    the cores wait for each other only twice a step.
    """

    def __init__(self, model, size, lr):
        self.model, self.lr = model, lr
        self.replicas = [model] + [copy.deepcopy(model) for _ in range(size - 1)]
        self.params = [list(r.parameters()) for r in self.replicas]
        for mine in self.params[1:]:
            for p, q in zip(mine, self.params[0]):
                p.data = q.data
        parts = [[] for _ in range(size)]
        for p in sorted(self.params[0], key=lambda p: -p.numel()):
            min(parts, key=lambda part: sum(q.numel() for q in part)).append(p)
        self.parts = parts
        self.opts = [self.adamw(part) for part in parts]
        self.index = {id(p): i for i, p in enumerate(self.params[0])}
        self.pool = ThreadPoolExecutor(size)

    def adamw(self, params):
        """AdamW, with weight decay on matrices alone."""
        groups = [
            {"params": [p for p in params if p.dim() >= 2], "weight_decay": 0.1},
            {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=self.lr, betas=(0.9, 0.95), eps=1e-9, fused=True)

    def work(self, rank, x, y):
        """Leave the gradients of a part of the batch in a replica."""
        model = self.replicas[rank]
        for p in self.params[rank]:
            p.grad = None
        r = model(x)
        loss = F.cross_entropy(model.logits(r.hidden).flatten(0, 1), y.flatten())
        total = loss + AUX * r.aux + ZLOSS * r.zloss
        (total / len(self.replicas)).backward()
        return loss.item(), r.aux.item() / model.c.layers

    def gather(self, rank):
        """Add up the gradients of a share of the weights; return their norm squared."""
        square = 0.0
        for p in self.parts[rank]:
            for other in self.params[1:]:
                p.grad.add_(other[self.index[id(p)]].grad)
            flat = p.grad.view(-1)
            square += flat.dot(flat).item()
        return square

    def update(self, rank, scale, lr):
        if scale < 1:
            for p in self.parts[rank]:
                p.grad.mul_(scale)
        for group in self.opts[rank].param_groups:
            group["lr"] = lr
        self.opts[rank].step()

    def step(self, x, y, lr):
        """Do one optimizer step; return the loss and the balance term."""
        n = len(self.replicas)
        xs, ys = x.chunk(n), y.chunk(n)
        seen = list(self.pool.map(self.work, range(n), xs, ys))
        norm = sum(self.pool.map(self.gather, range(n))) ** 0.5
        scale = min(1.0, CLIP / (norm + 1e-6))
        if math.isfinite(norm):
            list(self.pool.map(self.update, range(n), [scale] * n, [lr] * n))
        return [sum(v) / n for v in zip(*seen)]


def save(path, team, batches, info):
    model = team.model
    state = {
        "config": model.c.as_dict(), "model": model.state_dict(),
        "opts": [opt.state_dict() for opt in team.opts],
        "rng": batches.rng.bit_generator.state, "pool": batches.pool, "info": info,
    }
    tmp = path.with_suffix(".tmp")
    torch.save(state, tmp)
    os.replace(tmp, path)


def resume(path, team, batches):
    """Load a checkpoint if there is one; return its run information."""
    if not path.exists():
        return {"step": 0, "tokens": 0, "start": time.time()}
    state = torch.load(path, weights_only=True)
    team.model.load_state_dict(state["model"])
    for opt, saved in zip(team.opts, state["opts"]):
        opt.load_state_dict(saved)
    batches.rng.bit_generator.state = state["rng"]
    batches.pool = state["pool"]
    return state["info"]


def train(args):
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    model, batches = Model(Config()), Batches(args.data / "core.bin")
    start = torch.from_numpy(np.load(args.data / "embedding.npy"))
    team = Team(model, args.threads, args.lr)
    args.out.mkdir(parents=True, exist_ok=True)
    ckpt = args.out / "last.pt"
    if not ckpt.exists():
        torch.save({"config": model.c.as_dict(), "model": model.state_dict()}, args.out / "untrained.pt")
        model.embed.weight.data.copy_(start)
    info = resume(ckpt, team, batches)
    log = open(args.out / "loss.csv", "a")
    if info["step"] == 0:
        log.write("step,tokens,seconds,lr,loss,balance\n")
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    saved, losses, seconds = time.time(), [], args.minutes * 60
    while True:
        now = time.time()
        done = (now - info["start"]) / seconds
        if done >= 1:
            break
        lr = args.lr * rate(info["step"], done)
        length = 1024 if info["step"] % LONG_EVERY == LONG_EVERY - 1 else 512
        x, y = batches.draw(max(args.batch, length * args.threads), length)
        loss, balance = team.step(x, y, lr)
        losses.append(loss)
        info["step"] += 1
        info["tokens"] += x.numel()
        if info["step"] % 10 == 0:
            log.write(f"{info['step']},{info['tokens']},{time.time() - info['start']:.0f},"
                      f"{lr:.6f},{np.mean(losses):.4f},{balance:.3f}\n")
            log.flush()
            losses = []
        if stop or time.time() - saved > args.save_every:
            save(ckpt, team, batches, info)
            saved = time.time()
        if stop:
            return
    save(ckpt, team, batches, info)
    torch.save({"config": model.c.as_dict(), "model": model.state_dict(), "info": info}, args.out / "final.pt")


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--data", type=Path, required=True)
    ap.add_argument("--out", type=Path, required=True)
    ap.add_argument("--minutes", type=float, default=75)
    ap.add_argument("--batch", type=int, default=4096, help="tokens a step")
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--save-every", type=float, default=240, help="seconds between checkpoints")
    args = ap.parse_args()
    keep_memory()
    train(args)


if __name__ == "__main__":
    main()
