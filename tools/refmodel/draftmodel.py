"""The drafter of the reference model: DFlash with the two heads of DSpark.

The same mathematics as the architecture `dflash` of llama.cpp. Hidden states
that the target has before some of its layers are fused to one vector a
position, and each layer of the drafter makes keys and values of it. A block is
the last token followed by masks; its positions see all fused positions before
it and, without order, each other. Position i of the block proposes the i-th
token after the last one: the target's own output matrix gives its logits, a
low-rank Markov head adds what the token before it says, and a confidence head
tells how likely it is that the target agrees.

Embedding and output matrix are the target's and are not in the drafter's file.
"""

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn

from model import Norm, rope_table, rotate


@dataclass
class DraftConfig:
    width: int = 256
    vocab: int = 4096
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    ff: int = 768
    block: int = 7
    rank: int = 64
    mask: int = 1
    target_layers: tuple = (1, 3, 5)
    rope_base: float = 10000.0
    eps: float = 1e-6
    context: int = 1024

    def as_dict(self):
        return asdict(self)


class DraftBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.attn_norm, self.ffn_norm = Norm(c.width, c.eps), Norm(c.width, c.eps)
        self.q = nn.Linear(c.width, c.heads * c.head_dim, bias=False)
        self.k = nn.Linear(c.width, c.kv_heads * c.head_dim, bias=False)
        self.v = nn.Linear(c.width, c.kv_heads * c.head_dim, bias=False)
        self.o = nn.Linear(c.heads * c.head_dim, c.width, bias=False)
        self.q_norm, self.k_norm = Norm(c.head_dim, c.eps), Norm(c.head_dim, c.eps)
        self.gate = nn.Linear(c.width, c.ff, bias=False)
        self.up = nn.Linear(c.width, c.ff, bias=False)
        self.down = nn.Linear(c.ff, c.width, bias=False)

    def pairs(self, x, cos, sin):
        """Return keys and values [batch, KV heads, positions, head] of x."""
        c, lead = self.c, x.shape[:2]
        k = self.k_norm(self.k(x).view(*lead, c.kv_heads, c.head_dim)).transpose(1, 2)
        v = self.v(x).view(*lead, c.kv_heads, c.head_dim).transpose(1, 2)
        return rotate(k, cos, sin), v

    def forward(self, x, fused, places, seen):
        """Blocks x [batch, blocks * size, width] on fused positions.

        places are (cos, sin) of the fused positions and of the blocks', seen is
        the mask [batch, blocks * size, positions + blocks * size] of what each
        position of a block may look at.
        """
        c, (b, t, _) = self.c, x.shape
        h = self.attn_norm(x)
        q = self.q_norm(self.q(h).view(b, t, c.heads, c.head_dim)).transpose(1, 2)
        q = rotate(q, *places[1])
        k0, v0 = self.pairs(fused, *places[0])
        k1, v1 = self.pairs(h, *places[1])
        group = c.heads // c.kv_heads
        k = torch.cat((k0, k1), 2).repeat_interleave(group, 1)
        v = torch.cat((v0, v1), 2).repeat_interleave(group, 1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None])
        x = x + self.o(y.transpose(1, 2).reshape(b, t, -1))
        h = self.ffn_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Drafter(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.fuse = nn.Linear(c.width * len(c.target_layers), c.width, bias=False)
        self.fused_norm, self.norm = Norm(c.width, c.eps), Norm(c.width, c.eps)
        self.blocks = nn.ModuleList(DraftBlock(c) for _ in range(c.layers))
        self.before = nn.Embedding(c.vocab, c.rank)
        self.after = nn.Linear(c.rank, c.vocab, bias=False)
        self.confidence = nn.Linear(c.width + c.rank, 1)
        for p in self.parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=p.shape[-1] ** -0.5)
        nn.init.normal_(self.before.weight, std=0.05)
        nn.init.zeros_(self.after.weight)

    def forward(self, states, anchors, embed, tokens):
        """Return the hidden states [batch, blocks, size, width] of blocks.

        states [batch, positions, layers * width] are the target's, anchors
        [batch, blocks] the positions of the last tokens; what the target knows
        of these and later positions is not seen.
        """
        c, (b, t, _) = self.c, states.shape
        n = anchors.shape[1]
        fused = self.fused_norm(self.fuse(states))
        ids = torch.full((b, n, c.block), c.mask)
        ids[:, :, 0] = tokens.gather(1, anchors)
        x = embed[ids].view(b, n * c.block, -1)
        at = (anchors[:, :, None] + torch.arange(c.block)).view(b, -1)
        cos, sin = rope_table(t + c.block, c.head_dim, c.rope_base)
        places = ((cos[:t], sin[:t]), (cos[at][:, None], sin[at][:, None]))
        behind = torch.arange(t) < anchors.repeat_interleave(c.block, 1)[:, :, None]
        group = torch.arange(n).repeat_interleave(c.block)
        together = (group[:, None] == group[None]).expand(b, -1, -1)
        seen = torch.cat((behind, together), 2)
        for block in self.blocks:
            x = block(x, fused, places, seen)
        return self.norm(x).view(b, n, c.block, -1)

    def bias(self, before):
        """Return what the tokens before say: logits to add, and their vectors."""
        vector = self.before(before)
        return self.after(vector), vector

    def confide(self, hidden, vector):
        """Return the logit of the target's agreement."""
        return self.confidence(torch.cat((hidden, vector), -1)).squeeze(-1)


def load_drafter(path):
    """Load a checkpoint of drafttrain.py: the drafter and its run information."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    drafter = Drafter(DraftConfig(**state["config"]))
    drafter.load_state_dict(state["drafter"])
    return drafter.eval(), state.get("info", {})
