#!/usr/bin/env python3
"""Compares the signature of every row of hooks.def with NVIDIA's headers, by the compiler.

prototypes.py CC INCLUDE HOOKS_DEF [NCCL_INCLUDE]
DRIVER rows against PFN_<base>_v<since>[_ptds] of cudaTypedefs.h, so that base, version and stream are checked as
well; CUDART rows against cuda_runtime_api.h 13, once with the legacy default stream and once with the thread's own;
NCCL rows against nccl.h where there is one. Rows with parameters called wordN stand for two signatures: not compared.
"""
import os
import re
import subprocess
import sys


def columns(text):
    """The row's columns: commas outside of parentheses separate."""
    out, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            out.append(text[start:i].strip())
            start = i + 1
    return out + [text[start:].strip()]


def rows(path):
    with open(path) as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    for match in re.finditer(r"^HOOK\((.*?)\)$(?=\n(?!     ))", text, flags=re.S | re.M):
        yield columns(" ".join(match.group(1).split()))


def compiler(cc, args, source, run):
    return subprocess.run([cc, "-std=gnu11", "-x", "c", "-w"] + args + run, input=source, text=True,
                          capture_output=True)


def declared(cc, args, head):
    """Names of the functions that the headers declare."""
    out = compiler(cc, args, head, ["-E", "-P", "-"])
    out.check_returncode()
    return set(re.findall(r"\b((?:__)?(?:cu|nccl)\w+)\s*\(", out.stdout))


def check(cc, args, head, rows_and_types):
    source = head
    for row, other in rows_and_types:
        source += '_Static_assert(__builtin_types_compatible_p(%s (*) %s, %s), "%s");\n' % (row[4], row[5], other, row[1])
    result = compiler(cc, args, source, ["-fsyntax-only", "-"])
    if result.returncode:
        sys.exit("a row of hooks.def differs from the headers:\n" + result.stderr)
    return len(rows_and_types)


def main():
    cc, include, table = sys.argv[1:4]
    args = ["-I" + include]
    all_rows = [r for r in rows(table) if len(r) > 3]
    single = [r for r in all_rows if not re.search(r"\bword\d\b", r[5])]
    head = "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n#include <cudaTypedefs.h>\n"
    suffix = {"LEGACY": "", "PTDS": "_ptds", "PTSZ": "_ptsz"}
    driver = [(r, "PFN_%s_v%s%s" % (r[7], r[8], suffix[r[9]])) for r in single if r[0] == "DRIVER"]
    for row, _ in driver:
        want = suffix[row[9]]
        if not re.fullmatch(row[7] + r"(_v\d)?" + want, row[1]):
            sys.exit("hooks.def: %s is not a name of %s" % (row[1], row[7]))
    n_driver = check(cc, args, head, driver)

    n_runtime, missing = 0, {r[1] for r in single if r[0] == "CUDART"}
    for mode in ("", "#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1\n"):
        head = mode + "#include <cuda_runtime_api.h>\n"
        names = declared(cc, args, head)
        found = [(r, "__typeof__(&%s)" % r[1]) for r in single if r[0] == "CUDART" and r[1] in names & missing]
        # In the second mode the plain names are macros for the others.
        found = [f for f in found if not mode or re.search(r"_pt[ds][sz]$", f[0][1])]
        n_runtime += check(cc, args, head, found)
        missing -= {r[1] for r, _ in found}
    print("%d driver, %d runtime rows compared; not declared in CUDA 13's headers: %s" %
          (n_driver, n_runtime, " ".join(sorted(missing))))
    n_nccl = 0
    if len(sys.argv) > 4 and os.path.exists(os.path.join(sys.argv[4], "nccl.h")):
        nccl = [(r, "__typeof__(&%s)" % r[1]) for r in single if r[0] == "NCCL"]
        n_nccl = check(cc, args + ["-I" + sys.argv[4]], "#include <nccl.h>\n", nccl)
        print("%d NCCL rows compared" % n_nccl)
    if n_driver < 100 or n_runtime < 80:
        sys.exit("too few rows were compared: the test does not read hooks.def rightly")


main()
