"""Writes what the drafter learns from: texts that the reference model wrote.

Prompts are cut from the corpus, the reference model continues them, a part of
them greedily and the rest with a temperature. The weights come from the GGUF
file, so that no checkpoint is needed.

    python draftdata.py --model ../../models/les-ref.gguf --data DIR --minutes 10
"""

import argparse
import time
from pathlib import Path

import gguf
import numpy as np
import torch

from model import Config, Model, rope_table, rotate
from train import keep_memory

LENGTH = 512
ROWS = 256
PROMPTS = (16, 128)
TEMPERATURES = (0.0, 0.0, 0.6, 0.8, 1.0)
TOP_K = 40


def names(blocks):
    """Yield the GGUF and the PyTorch name of each weight stored alike."""
    yield "token_embd.weight", "embed.weight"
    yield "output_norm.weight", "norm.weight"
    inner = {
        "attn_norm.weight": "attn_norm.weight", "attn_q.weight": "attn.q.weight",
        "attn_k.weight": "attn.k.weight", "attn_v.weight": "attn.v.weight",
        "attn_output.weight": "attn.o.weight", "attn_q_norm.weight": "attn.q_norm.weight",
        "attn_k_norm.weight": "attn.k_norm.weight", "ffn_norm.weight": "ffn_norm.weight",
        "ffn_gate_inp.weight": "ffn.router", "ffn_down_exps.weight": "ffn.down",
    }
    for i in range(blocks):
        for ours, theirs in inner.items():
            yield f"blk.{i}.{ours}", f"blocks.{i}.{theirs}"


def reference(path):
    """Load the reference model from its GGUF file."""
    data = {t.name: torch.from_numpy(np.array(t.data, dtype=np.float32)) for t in gguf.GGUFReader(path).tensors}
    model = Model(Config())
    state = {theirs: data[ours] for ours, theirs in names(model.c.layers)}
    for i in range(model.c.layers):
        at = f"blk.{i}."
        state[f"blocks.{i}.ffn.gate_up"] = torch.cat((data[at + "ffn_gate_exps.weight"], data[at + "ffn_up_exps.weight"]), 1)
    model.load_state_dict(state)
    return model.eval().requires_grad_(False)


class Writer:
    """Continues many rows of text at once, with a cache of keys and values."""

    def __init__(self, model, rows):
        c = self.c = model.c
        self.model = model
        self.keys = torch.zeros(c.layers, rows, c.kv_heads, LENGTH, c.head_dim)
        self.values = torch.zeros_like(self.keys)
        self.cos, self.sin = rope_table(LENGTH, c.head_dim, c.rope_base)

    def attend(self, i, x, at):
        """Attention of layer i for tokens at positions `at` and after."""
        a, c, (b, t, _) = self.model.blocks[i].attn, self.c, x.shape
        q = a.q_norm(a.q(x).view(b, t, c.heads, c.head_dim)).transpose(1, 2)
        k = a.k_norm(a.k(x).view(b, t, c.kv_heads, c.head_dim)).transpose(1, 2)
        cos, sin = self.cos[at:at + t], self.sin[at:at + t]
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        self.keys[i, :, :, at:at + t] = k
        self.values[i, :, :, at:at + t] = a.v(x).view(b, t, c.kv_heads, c.head_dim).transpose(1, 2)
        q = q.reshape(b, c.kv_heads, -1, c.head_dim)  # heads of a group lie beside each other
        scores = q @ self.keys[i, :, :, :at + t].transpose(-1, -2) / c.head_dim ** 0.5
        if t > 1:
            later = torch.arange(at + t) > at + torch.arange(t)[:, None]
            scores.masked_fill_(later.repeat(c.heads // c.kv_heads, 1), float("-inf"))
        y = (scores.softmax(-1) @ self.values[i, :, :, :at + t]).view(b, c.heads, t, c.head_dim)
        return a.o(y.transpose(1, 2).reshape(b, t, -1))

    def step(self, ids, at):
        """Return the logits after the last of the given tokens."""
        x = self.model.embed(ids)
        for i, block in enumerate(self.model.blocks):
            x = x + self.attend(i, block.attn_norm(x), at)
            h = block.ffn_norm(x)
            x = x + block.ffn(h.reshape(-1, h.shape[-1]))[0].view_as(x)
        return self.model.logits(self.model.norm(x[:, -1]))


def draw(logits, temperature, generator):
    """Draw a token for each row at the row's own temperature."""
    top, ids = logits.topk(TOP_K, -1)
    p = (top / temperature.clamp(min=1e-3)[:, None]).softmax(-1)
    return ids.gather(1, torch.multinomial(p, 1, generator=generator)).squeeze(1)


@torch.no_grad()
def write(model, corpus, generator):
    """Return rows of LENGTH tokens: prompts of the corpus and their continuations."""
    prompt = int(torch.randint(*PROMPTS, (1,), generator=generator))
    starts = torch.randint(len(corpus) - LENGTH, (ROWS,), generator=generator)
    ids = torch.stack([torch.from_numpy(corpus[s:s + prompt].astype(np.int64)) for s in starts.tolist()])
    choice = torch.randint(len(TEMPERATURES), (ROWS,), generator=generator)
    temperature = torch.tensor(TEMPERATURES)[choice]
    writer = Writer(model, ROWS)
    logits, at = writer.step(ids, 0), prompt
    while at < LENGTH:
        token = draw(logits, temperature, generator)
        ids = torch.cat((ids, token[:, None]), 1)
        logits = writer.step(token[:, None], at)
        at += 1
    return ids


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--model", type=Path, required=True, help="GGUF file")
    ap.add_argument("--data", type=Path, required=True, help="folder with core.bin")
    ap.add_argument("--minutes", type=float, default=10, help="processor time")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--threads", type=int, default=1)
    args = ap.parse_args()
    keep_memory()
    torch.set_num_threads(args.threads)
    generator = torch.Generator().manual_seed(args.seed)
    model = reference(args.model)
    corpus = np.memmap(args.data / "core.bin", dtype=np.uint16, mode="r")
    deadline, count = time.process_time() + 60 * args.minutes, 0
    with open(args.data / f"own{args.seed}.bin", "wb") as out:
        while time.process_time() < deadline:
            ids = write(model, corpus, generator)
            out.write(ids.numpy().astype(np.uint16).tobytes())
            count += ids.numel()
            print(f"{count} tokens", flush=True)


if __name__ == "__main__":
    main()
