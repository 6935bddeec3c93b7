"""Compares two runs of llama.cpp's server tests: upstream_report.py OFF.xml ON.xml prints a table in Markdown.

Most of the tests that fail in both ask for the text, or the number of tokens, of the model that they would download. What
they saw instead is in the message of the failure, so that the same message in both runs tells that the answers were equal.
"""

import collections
import sys
import xml.etree.ElementTree as tree


def outcomes(path):
    """The outcome of each test and why, by its file and name."""
    found = {}
    for case in tree.parse(path).getroot().iter("testcase"):
        kind, why = "passed", ""
        for child in case:
            if child.tag in ("failure", "error", "skipped"):
                kind, why = ("skipped" if child.tag == "skipped" else "failed"), (child.get("message") or "").splitlines()[:1]
        found[case.get("classname").split(".")[-1], case.get("name")] = kind, "".join(why)
    return found


def main():
    off, on = outcomes(sys.argv[1]), outcomes(sys.argv[2])
    files = collections.defaultdict(collections.Counter)
    rest = []
    for key in sorted(off.keys() | on.keys()):
        a, b = off.get(key, ("missing", "")), on.get(key, ("missing", ""))
        files[key[0]][a[0], b[0]] += 1
        if a[0] == b[0] == "failed" and a[1] == b[1]:
            files[key[0]]["same"] += 1
        if a[0] != b[0]:
            rest.append((key, a, b))
    print("| file | passed in both | failed in both | by the same message | skipped | only LES off | only LES on |\n|---|---|---|---|---|---|---|")
    for name, n in sorted(files.items()):
        only_off, only_on = n["passed", "failed"], n["failed", "passed"]
        print(f"| `{name}` | {n['passed', 'passed']} | {n['failed', 'failed']} | {n['same']} | {n['skipped', 'skipped']} | {only_off} | {only_on} |")
    for key, a, b in rest:
        print(f"\n- `{key[0]}::{key[1]}`: off {a[0]} {a[1]}; on {b[0]} {b[1]}")
    print("\nFailed in both, by what they said first:\n")
    why = collections.Counter(text for kind, text in off.values() if kind == "failed")
    for text, n in why.most_common():
        print(f"- {n}: {text[:120]}")
    return 1 if any(a[0] == "passed" and b[0] == "failed" for _, a, b in rest) else 0


if __name__ == "__main__":
    sys.exit(main())
