#!/usr/bin/env python3
"""What the preloaded library must look like on disk: artefact.py CPU READELF NM LIBSPARKSHIM HOOKS.DEF.

Exports are held against hooks.def, read here by a reader of its own; the rest are the rules of DESIGN section 4.
"""
import re
import subprocess
import sys

BASE = {"InitializeInjection"}  # looked up by the driver by this very name
IMPORTS = {"environ", "__environ", "_r_debug"}
NODES = {"N12": ["libcudart.so.12"], "N13": ["libcudart.so.13"], "N12_13": ["libcudart.so.12", "libcudart.so.13"]}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def expected_exports(path):
    with open(path) as f:
        rows = re.findall(r"^HOOK\((\w+), (\w+), (\w+)", f.read(), re.M)
    names = set(BASE)
    for lib, name, nodes in rows:
        if lib == "LIBC":
            names.add(name)
        elif lib == "CUDART":
            names.update("%s@%s" % (name, node) for node in NODES[nodes])
        else:
            names.add(name + "@SPARKSHIM_1")
    return names, len(rows)


def main():
    cpu, readelf, nm, library, table = sys.argv[1:]
    failures = []

    def check(holds, text):
        if not holds:
            failures.append(text)

    defined, undefined = set(), set()
    for line in output(nm, "-D", "--with-symbol-versions", library).splitlines():
        kind, name = line.split()[-2:]
        if kind in "vwU":
            undefined.add(name.split("@")[0])
        elif kind != "A":
            defined.add(name)
    wanted, rows = expected_exports(table)
    check(rows > 200, "only %d rows were read from %s" % (rows, table))
    check(defined == wanted, "exports: missing %s; not in the table %s" % (sorted(wanted - defined), sorted(defined - wanted)))
    check(undefined <= IMPORTS, "undefined symbols: %s" % sorted(undefined - IMPORTS))

    dynamic = output(readelf, "-dW", library)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    check(needed == ["libc.so.6"], "NEEDED: %s" % needed)
    check("NODELETE" in dynamic, "can be unloaded")
    check("TEXTREL" not in dynamic, "has text relocations")
    check("(INIT)" not in dynamic and "INIT_ARRAY" not in dynamic, "has a constructor")
    check("(FINI)" not in dynamic and "FINI_ARRAY" not in dynamic, "has a destructor")

    versions = output(readelf, "-VW", library)
    for name in re.findall(r"Name: (GLIBC_[\d.]+)", versions):
        number = tuple(int(part) for part in name.split("_")[1].split("."))
        check(number <= (2, 17), "needs %s" % name)
    first = re.search(r"Rev: 1\s+Flags: none\s+Index: 2\s+Cnt: \d+\s+Name: (\S+)", versions)
    check(first and first.group(1) == "SPARKSHIM_1", "the first version node is not SPARKSHIM_1")

    notes = output(readelf, "-nW", library)
    marks = {"x86_64": ["IBT", "SHSTK"], "aarch64": ["BTI", "PAC"]}[cpu]
    check(all(mark in notes for mark in marks), "notes: %s wanted in\n%s" % (marks, notes))
    check("Build ID" in notes, "no build id")

    headers = output(readelf, "-lW", library)
    stack = re.search(r"GNU_STACK.*", headers)
    check(stack and re.search(r"\bRW\b", stack.group(0)), "stack: %s" % (stack and stack.group(0)))
    tls = re.search(r"^\s+TLS(?:\s+0x[0-9a-f]+){4}\s+(0x[0-9a-f]+)", headers, re.M)
    check(tls and int(tls.group(1), 16) <= 64, "TLS: %s" % (tls and tls.group(0)))
    check(not re.search(r"LOAD.* RWE", headers), "a segment is writable and executable")

    for failure in failures:
        print("FAILED:", failure)
    print("%d exports, %d imports" % (len(defined), len(undefined)))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
