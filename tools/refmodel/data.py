"""Corpus of the reference model: the Go source tree.

Splits the .go files below a source root into a training part and a held-out
part (whole packages), drops generated tables and duplicates, and encodes the
training part into flat arrays of token ids.

    python data.py split  --src "$(go env GOROOT)/src" --out DIR
    python data.py encode --out DIR
"""

import argparse
import hashlib
import json
import random
import re
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
EOT = "<|endoftext|>"
MAX_FILE = 300_000
MAX_GENERATED = 20_000
MAX_TABLES = 100_000
MAX_DIGIT_SHARE = 0.15
GENERATED = re.compile(r"^// Code generated .* DO NOT EDIT", re.M)
SKIP_DIRS = {"testdata", "simd", "tzdata"}
NOT_CORE = {"cmd", "crypto", "debug", "internal", "runtime", "syscall", "vendor"}


def read_list(name):
    """Return the package paths of a list file, comments and blanks dropped."""
    lines = (HERE / name).read_text().splitlines()
    return [s.strip() for s in lines if s.strip() and not s.startswith("#")]


def in_packages(rel, packages):
    """Tell whether a file lies in one of the packages, or below one."""
    path = rel.as_posix()
    return any(path.startswith(p + "/") for p in packages)


def wanted(rel, text):
    """Tell whether a file reads like source a person wrote."""
    size = len(text)
    if size < 64 or size > MAX_FILE or "\ufffd" in text:
        return False
    if size > MAX_GENERATED and GENERATED.search(text[:4000]):
        return False
    if size > MAX_TABLES and "tables" in rel.name:
        return False
    digits = sum(c.isdigit() for c in text)
    return digits / size <= MAX_DIGIT_SHARE


def split(src, out):
    """Write train.jsonl and heldout.txt into out."""
    root = Path(src)
    heldout, aside = read_list("heldout.list"), read_list("aside.list")
    seen, train, held = set(), [], []
    for path in sorted(root.rglob("*.go")):
        rel = path.relative_to(root)
        if SKIP_DIRS & set(rel.parts):
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        if not wanted(rel, text):
            continue
        digest = hashlib.sha256(text.encode()).digest()
        if digest in seen:
            continue
        seen.add(digest)
        if in_packages(rel, heldout):
            held.append(text)
        elif not in_packages(rel, aside):
            train.append((rel.as_posix(), text))
    random.Random(1).shuffle(train)
    out.mkdir(parents=True, exist_ok=True)
    with open(out / "train.jsonl", "w") as f:
        for name, text in train:
            f.write(json.dumps({"name": name, "text": text}) + "\n")
    (out / "heldout.txt").write_text("\n".join(held))
    print(f"train {len(train)} files, {sum(len(t) for _, t in train)} characters")
    print(f"held out {len(held)} files, {sum(map(len, held))} characters")


def files(out):
    """Yield the name and the text of each training file."""
    with open(out / "train.jsonl") as f:
        for line in f:
            item = json.loads(line)
            yield item["name"], item["text"]


def texts(out):
    """Yield the text of each training file."""
    return (text for _, text in files(out))


def encode(out):
    """Write train.bin and core.bin: uint16 ids, each file ended by end-of-text.

    core.bin has the public standard library alone. A short run does not get
    through more than that.
    """
    from tokenizers import Tokenizer

    tok = Tokenizer.from_file(str(HERE / "tokenizer.json"))
    eot = tok.token_to_id(EOT)
    train, core, batch = [], [], []

    def flush():
        for (name, _), enc in zip(batch, tok.encode_batch([text for _, text in batch])):
            ids = np.array(enc.ids + [eot], dtype=np.uint16)
            train.append(ids)
            if name.split("/")[0] not in NOT_CORE:
                core.append(ids)
        batch.clear()

    for item in files(out):
        batch.append(item)
        if len(batch) == 256:
            flush()
    flush()
    for name, parts in ("train.bin", train), ("core.bin", core):
        ids = np.concatenate(parts)
        ids.tofile(out / name)
        print(f"{name} {len(ids)} tokens")


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("command", choices=["split", "encode"])
    ap.add_argument("--src", help="root of the Go source tree")
    ap.add_argument("--out", type=Path, required=True, help="working folder")
    args = ap.parse_args()
    if args.command == "split":
        split(args.src, args.out)
    else:
        encode(args.out)


if __name__ == "__main__":
    main()
