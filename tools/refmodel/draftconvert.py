"""Writes the drafter as a GGUF file of the architecture dflash.

Matrices are stored as F16, norms and the confidence head as F32. Embedding and
output matrix are the target's and left out. The file is written under a
temporary name and then renamed.

    python draftconvert.py --model drafter.pt --out les-ref-dspark.gguf
"""

import argparse
import os
from pathlib import Path

import gguf
import numpy as np

from convert import LICENSE_NOTE, write_tokenizer
from data import HERE
from draftmodel import load_drafter

NAME = "les-ref-go-moe-dspark"


def write_header(w, c, step):
    """Write the general and the architecture keys."""
    w.add_name(NAME)
    w.add_description(f"DSpark drafter of les-ref-go-moe, {step} steps")
    w.add_license("bsd-3-clause")
    w.add_license_name(LICENSE_NOTE)
    w.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    w.add_context_length(c.context)
    w.add_embedding_length(c.width)
    w.add_block_count(c.layers)
    w.add_feed_forward_length(c.ff)
    w.add_head_count(c.heads)
    w.add_head_count_kv(c.kv_heads)
    w.add_key_length(c.head_dim)
    w.add_value_length(c.head_dim)
    w.add_rope_dimension_count(c.head_dim)
    w.add_rope_freq_base(c.rope_base)
    w.add_layer_norm_rms_eps(c.eps)
    w.add_vocab_size(c.vocab)
    w.add_uint32("dflash.block_size", c.block)
    w.add_array("dflash.target_layers", list(c.target_layers))
    w.add_bool("dflash.sample_from_anchor", True)
    w.add_bool("dflash.has_confidence_head", True)


def tensors(d):
    """Yield the name, values and whether F32 is kept, in file order."""
    yield "fc.weight", d.fuse.weight, False
    yield "enc.output_norm.weight", d.fused_norm.weight, True
    yield "output_norm.weight", d.norm.weight, True
    yield "markov_w1.weight", d.before.weight, False
    yield "markov_w2.weight", d.after.weight, False
    yield "conf_proj.weight", d.confidence.weight, True
    yield "conf_proj.bias", d.confidence.bias, True
    for i, b in enumerate(d.blocks):
        at = f"blk.{i}."
        yield at + "attn_norm.weight", b.attn_norm.weight, True
        yield at + "attn_q.weight", b.q.weight, False
        yield at + "attn_k.weight", b.k.weight, False
        yield at + "attn_v.weight", b.v.weight, False
        yield at + "attn_output.weight", b.o.weight, False
        yield at + "attn_q_norm.weight", b.q_norm.weight, True
        yield at + "attn_k_norm.weight", b.k_norm.weight, True
        yield at + "ffn_norm.weight", b.ffn_norm.weight, True
        yield at + "ffn_gate.weight", b.gate.weight, False
        yield at + "ffn_up.weight", b.up.weight, False
        yield at + "ffn_down.weight", b.down.weight, False


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--model", type=Path, required=True, help="checkpoint")
    ap.add_argument("--tokenizer", type=Path, default=HERE / "tokenizer.json")
    ap.add_argument("--out", type=Path, required=True)
    args = ap.parse_args()
    drafter, info = load_drafter(args.model)
    tmp = args.out.with_suffix(".tmp")
    w = gguf.GGUFWriter(tmp, "dflash")
    write_header(w, drafter.c, info.get("step", 0))
    write_tokenizer(w, args.tokenizer)
    w.add_mask_token_id(drafter.c.mask)
    for name, value, wide in tensors(drafter):
        w.add_tensor(name, value.detach().contiguous().numpy().astype(np.float32 if wide else np.float16))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    os.replace(tmp, args.out)
    print(f"{args.out}: {args.out.stat().st_size} bytes, step {info.get('step', 0)}")


if __name__ == "__main__":
    main()
