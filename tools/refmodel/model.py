"""The reference model: a small Mixture-of-Experts transformer.

Same mathematics as the `qwen3moe` architecture of llama.cpp: pre-norm blocks,
grouped-query attention with normed queries and keys, rotary positions (NEOX
order), a softmax router whose top-k weights are renormalised, SwiGLU experts,
output tied to the embedding.

`Model.forward(ids)` returns a `Result`: the logits' input `hidden`, and, when
asked for with `trace=True`, each layer's output, MoE input and router logits.
"""

from dataclasses import asdict, dataclass, field

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    vocab: int = 4096
    layers: int = 6
    width: int = 256
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    experts: int = 24
    top_k: int = 4
    ff: int = 256
    rope_base: float = 10000.0
    eps: float = 1e-6
    context: int = 1024

    def as_dict(self):
        return asdict(self)


@dataclass
class Result:
    hidden: torch.Tensor
    aux: torch.Tensor
    zloss: torch.Tensor
    layer_out: list = field(default_factory=list)
    moe_in: list = field(default_factory=list)
    router: list = field(default_factory=list)


class Spread(torch.autograd.Function):
    """Copies each row k times, in expert order: out[i] = x[order[i] // k]."""

    @staticmethod
    def forward(ctx, x, order, inverse, k):
        ctx.save_for_backward(inverse)
        ctx.k = k
        return x.index_select(0, order // k)

    @staticmethod
    def backward(ctx, g):
        (inverse,) = ctx.saved_tensors
        g = g.index_select(0, inverse).view(-1, ctx.k, g.shape[-1])
        return g.sum(1), None, None, None


class Restore(torch.autograd.Function):
    """Puts rows in expert order back into token order."""

    @staticmethod
    def forward(ctx, y, order, inverse):
        ctx.save_for_backward(order)
        return y.index_select(0, inverse)

    @staticmethod
    def backward(ctx, g):
        (order,) = ctx.saved_tensors
        return g.index_select(0, order), None, None


class Grouped(torch.autograd.Function):
    """Row group e of x times the transposed matrix e of w."""

    @staticmethod
    def forward(ctx, x, w, bounds):
        ctx.save_for_backward(x, w)
        ctx.bounds = bounds
        out = x.new_empty(x.shape[0], w.shape[1])
        for e, (a, b) in enumerate(bounds):
            if b > a:
                torch.mm(x[a:b], w[e].t(), out=out[a:b])
        return out

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        gx, gw = torch.empty_like(x), torch.empty_like(w)
        for e, (a, b) in enumerate(ctx.bounds):
            if b > a:
                torch.mm(g[a:b], w[e], out=gx[a:b])
                torch.mm(g[a:b].t(), x[a:b], out=gw[e])
            else:
                gw[e].zero_()
        return gx, gw, None


class SwiGLU(torch.autograd.Function):
    """silu(gate) * up of rows that hold gate and up side by side."""

    @staticmethod
    def forward(ctx, h):
        ctx.save_for_backward(h)
        gate, up = h.chunk(2, -1)
        return F.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx, g):
        (h,) = ctx.saved_tensors
        gate, up = h.chunk(2, -1)
        out = torch.empty_like(h)
        d_gate, d_up = out.chunk(2, -1)
        torch.mul(g, F.silu(gate), out=d_up)
        torch.ops.aten.silu_backward.grad_input(g * up, gate, grad_input=d_gate)
        return out


class Norm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


def rope_table(n, dim, base, device=None):
    """Return cos and sin of shape [n, dim/2]."""
    freq = base ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    angle = torch.arange(n, dtype=torch.float32)[:, None] * freq[None]
    return angle.cos().to(device), angle.sin().to(device)


def rotate(x, cos, sin):
    """Rotate the halves of the last axis (NEOX order)."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.q = nn.Linear(c.width, c.heads * c.head_dim, bias=False)
        self.k = nn.Linear(c.width, c.kv_heads * c.head_dim, bias=False)
        self.v = nn.Linear(c.width, c.kv_heads * c.head_dim, bias=False)
        self.o = nn.Linear(c.heads * c.head_dim, c.width, bias=False)
        self.q_norm = Norm(c.head_dim, c.eps)
        self.k_norm = Norm(c.head_dim, c.eps)

    def forward(self, x, cos, sin):
        c, (b, t, _) = self.c, x.shape
        q = self.q_norm(self.q(x).view(b, t, c.heads, c.head_dim)).transpose(1, 2)
        k = self.k_norm(self.k(x).view(b, t, c.kv_heads, c.head_dim)).transpose(1, 2)
        v = self.v(x).view(b, t, c.kv_heads, c.head_dim).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        group = c.heads // c.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(b, t, -1))


class Experts(nn.Module):
    """Router and experts of one layer; gate and up share one tensor."""

    def __init__(self, c):
        super().__init__()
        self.c = c
        self.router = nn.Parameter(torch.empty(c.experts, c.width))
        self.gate_up = nn.Parameter(torch.empty(c.experts, 2 * c.ff, c.width))
        self.down = nn.Parameter(torch.empty(c.experts, c.width, c.ff))

    def forward(self, x):
        """Return output, router logits and the chosen experts of rows x."""
        c = self.c
        logits = F.linear(x, self.router)
        probs = logits.softmax(-1)
        weight, chosen = probs.topk(c.top_k, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        order = chosen.view(-1).argsort(stable=True)
        inverse = torch.empty_like(order)
        inverse[order] = torch.arange(len(order))
        ends = torch.bincount(chosen.view(-1), minlength=c.experts).cumsum(0).tolist()
        bounds = list(zip([0] + ends[:-1], ends))
        h = Grouped.apply(Spread.apply(x, order, inverse, c.top_k), self.gate_up, bounds)
        y = Grouped.apply(SwiGLU.apply(h), self.down, bounds)
        y = Restore.apply(y, order, inverse).view(-1, c.top_k, c.width)
        return torch.bmm(weight.unsqueeze(1), y).squeeze(1), logits, probs, chosen


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attn_norm = Norm(c.width, c.eps)
        self.attn = Attention(c)
        self.ffn_norm = Norm(c.width, c.eps)
        self.ffn = Experts(c)

    def forward(self, x, cos, sin):
        x = x + self.attn(self.attn_norm(x), cos, sin)
        h = self.ffn_norm(x)
        y, logits, probs, chosen = self.ffn(h.reshape(-1, h.shape[-1]))
        return x + y.view_as(x), h, logits, probs, chosen


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.embed = nn.Embedding(c.vocab, c.width)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm = Norm(c.width, c.eps)
        self.init()

    def init(self):
        """Normal weights; matrices that write to the residual are smaller."""
        for name, p in self.named_parameters():
            if p.dim() < 2:
                continue
            std = 0.02 if "embed" in name else p.shape[-1] ** -0.5
            if name.endswith("o.weight") or name.endswith("down"):
                std /= 2 * (2 * self.c.layers) ** 0.5
            if name.endswith("router"):
                std = 0.02
            nn.init.normal_(p, std=std)

    def forward(self, ids, trace=False):
        c = self.c
        cos, sin = rope_table(ids.shape[1], c.head_dim, c.rope_base)
        x = self.embed(ids)
        r = Result(None, x.new_zeros(()), x.new_zeros(()))
        for block in self.blocks:
            x, h, logits, probs, chosen = block(x, cos, sin)
            share = torch.bincount(chosen.view(-1), minlength=c.experts) / chosen.numel()
            r.aux = r.aux + c.experts * (share * probs.mean(0)).sum()
            r.zloss = r.zloss + logits.logsumexp(-1).square().mean()
            if trace:
                r.layer_out.append(x)
                r.moe_in.append(h)
                r.router.append(logits.view(*ids.shape, -1))
        r.hidden = self.norm(x)
        return r

    def logits(self, hidden):
        """Return next-token logits of normed hidden states."""
        return F.linear(hidden, self.embed.weight)


def load(path):
    """Load a checkpoint of train.py: the model and its run information."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    model = Model(Config(**state["config"]))
    model.load_state_dict(state["model"])
    return model.eval(), state.get("info", {})
