#!/usr/bin/env python3
"""Looks at the undefined symbols of object files that must be freestanding.

    freestanding.py NM OBJECT...

Together they may need nothing but the four functions that a compiler may call on its own account, and what the
linker itself provides.
"""
import subprocess
import sys

ALLOWED = {"memcpy", "memmove", "memset", "memcmp", "_GLOBAL_OFFSET_TABLE_"}


def symbols(nm, option, objects):
    text = subprocess.run([nm, "-A", "-P", option, *objects], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        place, name = line.split()[:2]
        yield name, place.rstrip(":")


def main():
    nm, *objects = sys.argv[1:]
    defined = {name for name, _ in symbols(nm, "--defined-only", objects)}
    if not defined:
        sys.exit("no symbols at all: wrong files?")
    foreign = [(name, place) for name, place in symbols(nm, "--undefined-only", objects)
               if name not in defined and name not in ALLOWED]
    for name, place in foreign:
        print(f"{place} needs {name}")
    sys.exit(bool(foreign))


if __name__ == "__main__":
    main()
