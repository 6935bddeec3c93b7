"""Writes the reference model as a GGUF file of the architecture qwen3moe.

Matrices are stored as F16, norms and routers as F32. The file is written under
a temporary name and then renamed.

    python convert.py --model final.pt --out les-ref.gguf
"""

import argparse
import json
import os
from pathlib import Path

import gguf
import numpy as np

from data import EOT, HERE
from model import load

NAME = "les-ref-go-moe"
LICENSE_NOTE = (
    "BSD-3-Clause. Trained on the source of the Go distribution, "
    "copyright The Go Authors, BSD-3-Clause."
)
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def write_header(w, c, step):
    """Write the general and the architecture keys."""
    w.add_name(NAME)
    w.add_description(f"Small Mixture-of-Experts model of Go source text, {step} steps")
    w.add_license("bsd-3-clause")
    w.add_license_name(LICENSE_NOTE)
    w.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    w.add_context_length(c.context)
    w.add_embedding_length(c.width)
    w.add_block_count(c.layers)
    w.add_feed_forward_length(c.ff * c.top_k)
    w.add_expert_feed_forward_length(c.ff)
    w.add_expert_count(c.experts)
    w.add_expert_used_count(c.top_k)
    w.add_head_count(c.heads)
    w.add_head_count_kv(c.kv_heads)
    w.add_key_length(c.head_dim)
    w.add_value_length(c.head_dim)
    w.add_rope_dimension_count(c.head_dim)
    w.add_rope_freq_base(c.rope_base)
    w.add_layer_norm_rms_eps(c.eps)
    w.add_vocab_size(c.vocab)


def write_tokenizer(w, path):
    """Write tokens, merges and special ids from a tokenizer.json file."""
    spec = json.loads(Path(path).read_text())
    vocab = spec["model"]["vocab"]
    tokens = sorted(vocab, key=vocab.get)
    special = {t["content"] for t in spec["added_tokens"]}
    kind = [gguf.TokenType.CONTROL if t in special else gguf.TokenType.NORMAL for t in tokens]
    merges = [m if isinstance(m, str) else " ".join(m) for m in spec["model"]["merges"]]
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list(tokens)
    w.add_token_types(kind)
    w.add_token_merges(merges)
    w.add_bos_token_id(vocab[EOT])
    w.add_eos_token_id(vocab[EOT])
    w.add_pad_token_id(vocab[EOT])
    w.add_add_bos_token(False)
    w.add_chat_template(CHAT_TEMPLATE)


def tensors(model):
    """Yield the name, values and whether F32 is kept, in file order."""
    ff = model.c.ff
    yield "token_embd.weight", model.embed.weight, False
    yield "output_norm.weight", model.norm.weight, True
    for i, b in enumerate(model.blocks):
        at = f"blk.{i}."
        yield at + "attn_norm.weight", b.attn_norm.weight, True
        yield at + "attn_q.weight", b.attn.q.weight, False
        yield at + "attn_k.weight", b.attn.k.weight, False
        yield at + "attn_v.weight", b.attn.v.weight, False
        yield at + "attn_output.weight", b.attn.o.weight, False
        yield at + "attn_q_norm.weight", b.attn.q_norm.weight, True
        yield at + "attn_k_norm.weight", b.attn.k_norm.weight, True
        yield at + "ffn_norm.weight", b.ffn_norm.weight, True
        yield at + "ffn_gate_inp.weight", b.ffn.router, True
        yield at + "ffn_gate_exps.weight", b.ffn.gate_up[:, :ff], False
        yield at + "ffn_up_exps.weight", b.ffn.gate_up[:, ff:], False
        yield at + "ffn_down_exps.weight", b.ffn.down, False


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--model", type=Path, required=True, help="checkpoint")
    ap.add_argument("--tokenizer", type=Path, default=HERE / "tokenizer.json")
    ap.add_argument("--out", type=Path, required=True)
    args = ap.parse_args()
    model, info = load(args.model)
    tmp = args.out.with_suffix(".tmp")
    w = gguf.GGUFWriter(tmp, "qwen3moe")
    write_header(w, model.c, info.get("step", 0))
    write_tokenizer(w, args.tokenizer)
    for name, value, wide in tensors(model):
        data = value.detach().contiguous().numpy()
        w.add_tensor(name, data.astype(np.float32 if wide else np.float16))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    os.replace(tmp, args.out)
    print(f"{args.out}: {args.out.stat().st_size} bytes, step {info.get('step', 0)}")


if __name__ == "__main__":
    main()
