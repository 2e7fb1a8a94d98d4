#!/usr/bin/env python3
"""Bound thunks seen from inside a process: bound.py EMULATOR LIBSPARKSHIM PROGRAM FOREIGN RUNTIME13."""
import os
import subprocess
import sys
import tempfile

EXPECTED = """\
foreign: by libsparkshim.so, again 1, result 0, count 77
runtime: by libsparkshim.so, again 1, count 13, other thunk 1
not hooked: by libcudart.so.13, version 13000
with its version, anywhere: by libsparkshim.so
"""
# Off, only what a linked reference is bound to anyway is handed out: the two must stay equal.
PLAIN = EXPECTED.replace("foreign: by libsparkshim.so", "foreign: by libforeign_runtime.so")


def main():
    emulator, library, program = sys.argv[1].split(), sys.argv[2], sys.argv[3:]
    failures = 0
    for off, expected in (("1", EXPECTED), ("0", PLAIN)):
        with tempfile.TemporaryDirectory(prefix="loader.") as home:
            env = {"PATH": os.environ["PATH"], "HOME": home, "SPARKSHIM_DIR": home, "SPARKSHIM": off}
            if emulator:
                command = emulator + ["-E", "LD_PRELOAD=" + library] + program
            else:
                command, env["LD_PRELOAD"] = program, library
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
        if done.returncode or done.stdout != expected:
            print("SPARKSHIM=%s: status %d\n%s%s--- expected\n%s" % (off, done.returncode, done.stdout, done.stderr, expected))
            failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
