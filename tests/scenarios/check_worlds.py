#!/usr/bin/env python3
"""Scenario files describe the world only: no word of ours may stand in them.

    check_worlds.py SOURCE

Looks for G numbers, verdicts, causes, kinds of records and our own name in every .scn file of the tree.
"""
import re
import sys
from pathlib import Path


def words(source):
    causes = re.findall(r"^CAUSE\(\d+, (\w+)", (source / "facts" / "causes.def").read_text(), re.M)
    kinds = re.findall(r"^FACT\((\w+)", (source / "facts" / "facts.def").read_text(), re.M)
    if len(causes) < 4 or len(kinds) < 20:
        sys.exit("causes.def or facts.def cannot be read")
    # A kind of one word (load, kernel, image) is an everyday word as well.
    return causes + [k for k in kinds if "_" in k] + ["finding", "verdict", "sparkshim", "FAIL", "WARN", "INFO", "SKIP"]


def main():
    source = Path(sys.argv[1])
    ours = re.compile(r"\bG\d+\b|\b(" + "|".join(words(source)) + r")\b")
    files = sorted((source / "tests").rglob("*.scn"))
    bad = [(f, n, m[0]) for f in files for n, line in enumerate(f.read_text().splitlines(), 1)
           if (m := ours.search(line))]
    for file, n, word in bad:
        print(f"{file}:{n}: '{word}' is an answer or a word of ours")
    if len(files) < 10:
        sys.exit("hardly any scenario found: wrong folder?")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
