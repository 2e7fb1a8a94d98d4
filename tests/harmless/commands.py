#!/usr/bin/env python3
"""Everyday programs behave the same with the library preloaded, and it leaves nothing behind (DESIGN rule 7).

commands.py LIBSPARKSHIM: runs each command twice, in like folders, without and with LD_PRELOAD, and compares
output, exit status and every file that was made; afterwards the log folder and HOME must be empty.
"""
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

C_PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) { fprintf(stderr, "%d %s\n", argc, argv[1]); return atoi(argv[1]); }
"""
CXX_PROGRAM = r"""
#include <iostream>
#include <stdexcept>
int main() { try { throw std::runtime_error("thrown"); } catch (const std::exception &e) { std::cout << e.what() << '\n'; } }
"""
GIT = "git -c user.name=a -c user.email=a@b -c init.defaultBranch=m -c commit.gpgsign=false "

COMMANDS = [
    ["ls", "-la", "/usr"],
    ["sh", "-c", "exit 3"],
    ["sh", "-c", "kill -TERM $$"],
    ["bash", "-c", "for i in 1 2 3; do echo $i | sort -r; done; (exit 4); echo $?; cd /nonexistent"],
    ["bash", "-c", "set -o pipefail; yes | head -n 3 | wc -l; false | true; echo $? >&2"],
    ["gcc", "-O2", "-g", "-c", "program.c"],
    ["gcc", "-o", "program", "program.c"],
    ["./program", "5"],
    ["g++", "-o", "thrower", "thrower.cc"],
    ["./thrower"],
    ["gcc", "-c", "missing.c"],
    ["bash", "-c", GIT + "init -q repo && cd repo && cp ../program.c . && git add . && "
     "GIT_AUTHOR_DATE=2000-01-01T00:00Z GIT_COMMITTER_DATE=2000-01-01T00:00Z " + GIT + "commit -qm one && git log --oneline"],
    ["tar", "-cf", "all.tar", "--mtime=2000-01-01", "--sort=name", "program.c", "thrower.cc"],
    ["/usr/bin/python3", "-c", "import subprocess, ctypes, threading, os; print(subprocess.run(['false']).returncode);"
     "print(ctypes.CDLL(None).getppid() == os.getppid()); t = threading.Thread(target=print); t.start(); t.join()"],
    ["/usr/bin/python3", "-c", "import ctypes; ctypes.CDLL('libnowhere.so.1')"],
    ["/usr/bin/python3", "-c", "import os; os.abort()"],
    ["awk", "BEGIN { while ((\"echo a b\" | getline line) > 0) print line; exit 7 }"],
    ["find", "/usr/share/doc", "-maxdepth", "1", "-name", "lib*z*"],
    ["env", "-u", "LD_PRELOAD", "sh", "-c", "echo plain"],
    ["cmake", "--version"],
]


def tree(folder):
    """Path and content of every file below folder; git's index holds times and is left out."""
    out = {}
    for where, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(where, name)
            if name != "index":
                with open(path, "rb") as f:
                    out[os.path.relpath(path, folder)] = hashlib.sha256(f.read()).hexdigest()
    return out


def run(command, folder, home, preload):
    env = {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C", "TMPDIR": os.path.join(home, "tmp"),
           "XDG_RUNTIME_DIR": home, "SPARKSHIM_DIR": os.path.join(home, "logs"), "PYTHONDONTWRITEBYTECODE": "1"}
    if preload:
        env["LD_PRELOAD"] = preload
    done = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def main():
    library = os.path.abspath(sys.argv[1])
    root = tempfile.mkdtemp(prefix="harmless.")
    failures = []
    try:
        # Both run in a folder of the same path, one after the other: compilers write it into their output.
        work, home = os.path.join(root, "work"), os.path.join(root, "home")
        results = []
        for preload in (None, library):
            os.makedirs(work)
            os.makedirs(os.path.join(home, "tmp"))
            for name, text in (("program.c", C_PROGRAM), ("thrower.cc", CXX_PROGRAM)):
                with open(os.path.join(work, name), "w") as f:
                    f.write(text)
            outcome = []
            for command in COMMANDS:
                if shutil.which(command[0]) or command[0].startswith("./"):
                    outcome.append((command, run(command, work, home, preload)))
            results.append((outcome, tree(work)))
            left = tree(home)
            if left:
                failures.append("left behind with preload=%s: %s" % (preload, sorted(left)))
            if preload:
                status, maps, _ = run(["grep", "-c", "libsparkshim", "/proc/self/maps"], work, home, preload)
                if status != 0:
                    failures.append("the library was not mapped: nothing was tested")
            shutil.rmtree(work)
            shutil.rmtree(home)
        (plain, plain_tree), (shim, shim_tree) = results
        for (command, a), (_, b) in zip(plain, shim):
            same = "same" if a == b else "DIFFERENT"
            print("%-9s %s" % (same, " ".join(command)[:90].replace("\n", " ")))
            if a != b:
                failures.append("%s\n  without: %s\n  with:    %s" % (command, a, b))
        for path in sorted(set(plain_tree) | set(shim_tree)):
            if plain_tree.get(path) != shim_tree.get(path):
                failures.append("file differs: " + path)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    for failure in failures:
        print("FAILED:", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
