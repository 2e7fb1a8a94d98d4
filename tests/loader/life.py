#!/usr/bin/env python3
"""Scenes of life.c and names.c under the library, judged by the records they leave.

life.py EMULATOR LIBSPARKSHIM LIFE LIBCUDA NEEDS_SYMBOL NEEDS_CUDA NAMES LIBEVERYTHING
"""
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile

EMULATOR = sys.argv[1].split()
SHIM, LIFE, LIBCUDA, NEEDS_SYMBOL, NEEDS_CUDA, NAMES, EVERYTHING = sys.argv[2:]
failures = []


def check(holds, text):
    if not holds:
        failures.append(text)


def play(program, *arguments, preload=True, status=0, says="", **settings):
    """Runs a scene; records of all its processes, the first to write first. Nothing may be printed but `says`."""
    with tempfile.TemporaryDirectory(prefix="loader.") as home:
        env = {"PATH": os.environ["PATH"], "HOME": home, "SPARKSHIM_DIR": os.path.join(home, "logs"),
               "SPARKSHIM_STDERR": "0"}
        env.update(settings)
        command = [program, *arguments]
        if preload and EMULATOR:
            command = EMULATOR + ["-E", "LD_PRELOAD=" + SHIM] + command
        elif EMULATOR:
            command = EMULATOR + command
        elif preload:
            env["LD_PRELOAD"] = SHIM
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        logs = []
        for folder, _, files in os.walk(env["SPARKSHIM_DIR"]):
            for name in files:
                if name.endswith(".ndjson"):
                    with open(os.path.join(folder, name)) as f:
                        logs.append([json.loads(line) for line in f])
        logs.sort(key=lambda records: records[0]["t"])
        scene = " ".join(os.path.basename(a) for a in arguments[:1])
        check(done.returncode == status, "%s: status %d, not %d" % (scene, done.returncode, status))
        if program == LIFE:
            check(not done.stdout and re.fullmatch(says, done.stderr), "%s: printed %s%s" % (scene, done.stdout, done.stderr))
        return logs, done.stdout


def kinds(records, kind, **fields):
    return [r for r in records if r["k"] == kind and all(r.get(n) == v for n, v in fields.items())]


def loads():
    (log,), _ = play(LIFE, "unmapped", status=7)
    check(len(kinds(log, "load_failed", name="libcudart.so.99", how="unmapped", family="cudart")) == 1, "unmapped: %s" % log)
    check(len(kinds(log, "exit", status=7)) == 1, "unmapped: no exit record")
    (log,), _ = play(LIFE, "fetched")
    failed = kinds(log, "load_failed")
    check(len(failed) == 1 and failed[0]["how"] == "dlerror", "fetched: %s" % failed)
    check(failed and failed[0]["error"].startswith("libcudart.so.99: cannot open"), "fetched: %s" % failed)
    (log,), _ = play(LIFE, "undefined", NEEDS_SYMBOL)
    check(len(kinds(log, "load_failed", how="dlerror")) == 1, "undefined: %s" % log)
    check(not play(LIFE, "unrelated")[0], "unrelated: it woke up")
    for scene, path, how in (("loaded", LIBCUDA, "dlopen"), ("brought_along", NEEDS_CUDA, "start")):
        (log,), _ = play(LIFE, scene, path)
        found = kinds(log, "load", family="cuda")
        check(len(found) == 1 and found[0]["how"] == how, "%s: %s" % (scene, found))
        check(found and found[0]["path"] == LIBCUDA and len(found[0].get("build_id", "")) >= 32, "%s: %s" % (scene, found))
        check(not kinds(log, "load_failed"), "%s: failures" % scene)
    (log,), _ = play(LIFE, "again", LIBCUDA)
    check(len(kinds(log, "load", family="cuda")) == 3, "again: %s" % kinds(log, "load"))
    with tempfile.TemporaryDirectory(prefix="loader.") as folder:
        for name, file in (("libcuda.so.1.2", LIBCUDA), ("libcudart.so.13", LIBCUDA)):
            shutil.copy(file, os.path.join(folder, name))
        for name, file in (("libcuda.so.1", "libcuda.so.1.2"), ("libcuda.so", "libcuda.so.1"), ("libcudart.so", "libcudart.so.13")):
            os.symlink(file, os.path.join(folder, name))
        (log,), _ = play(LIFE, "other_names", LD_LIBRARY_PATH=folder)
    failed = [r["name"] for r in kinds(log, "load_failed")]
    check(failed == ["libcudart.so.12"], "other_names: %s" % failed)
    check([os.path.basename(r["path"]) for r in kinds(log, "load")] == ["libcuda.so.1", "libcudart.so"], "other_names: %s" % log)
    (log,), _ = play(LIFE, "notes", LIBCUDA)
    check(len(kinds(log, "note")) == 2, "notes: %s" % kinds(log, "note"))


def switches():
    check(not play(LIFE, "fetched", SPARKSHIM="0")[0], "SPARKSHIM=0: it woke up")
    check(len(play(LIFE, "fetched", SPARKSHIM="1")[0]) == 1, "SPARKSHIM=1: it slept")
    if not EMULATOR:  # there /proc/self/exe is the emulator's matter
        for text, logs in (("loader_life", 0), ("other,loader_life", 0), ("loader_lif", 1), ("loader_life2:x", 1)):
            check(len(play(LIFE, "fetched", SPARKSHIM_SKIP=text)[0]) == logs, "SPARKSHIM_SKIP=" + text)


def processes():
    logs, _ = play(LIFE, "threads")
    check(len(logs) == 1, "threads: %d logs" % len(logs))
    check(len(kinds(logs[0], "load_failed", how="dlerror")) >= 1, "threads: %s" % logs[0])
    logs, _ = play(LIFE, "forks")
    # The parent, the first child, and the third, whose event is a dlopen while it is awake.
    check(len(logs) == 3, "forks: %d logs" % len(logs))
    pids = [log[0]["pid"] for log in logs]
    check(len(set(pids)) == 3, "forks: pids %s" % pids)
    check(all(len(kinds(log, "header")) == 1 and len(kinds(log, "exit")) == 1 for log in logs), "forks: not one header and exit each")
    for log in logs[1:]:
        check(not [r for r in log if r.get("tid") not in (None, log[0]["pid"])], "forks: another's records: %s" % log)
    check(len(kinds(logs[1], "load_failed", name="libnccl.so.99")) == 1, "forks: %s" % logs[1])
    check(not kinds(logs[2], "load_failed", name="libcudart.so.99"), "forks: the child judged its parent's request")
    check(len(kinds(logs[0], "load_failed", name="libcudart.so.99")) == 1, "forks: %s" % logs[0])


def ptxas():
    with tempfile.TemporaryDirectory(prefix="loader.") as folder:
        for name in ("ptxas", "other"):
            path = os.path.join(folder, name)
            with open(path, "w") as f:
                f.write("#!/bin/sh\nexit 1\n")
            os.chmod(path, stat.S_IRWXU)
        logs, _ = play(LIFE, "children", os.path.join(folder, "ptxas"))
    found = kinds(logs[0], "child")
    check(len(logs) == 1 and len(found) == 3, "children: %d logs, %s" % (len(logs), found))
    for record in found:
        check(record["program"].endswith("/ptxas") and record["argv"] == "ptxas --gpu-name=sm_121a" and
              record["status"] == 256, "children: %s" % record)


def injection():
    (log,), _ = play(LIFE, "injected", SHIM, preload=False)
    check(log[0]["writer"] == "inject" and len(kinds(log, "note")) == 1, "injected: %s" % log)
    check(not play(LIFE, "injected", SHIM, SPARKSHIM_STDERR="1")[0], "injected and preloaded: it woke up")
    line = r"G1 INFO: the driver loaded sparkshim \(CUDA_INJECTION64_PATH\), .* not seen, .*; fix: .*\n"
    play(LIFE, "injected", SHIM, preload=False, says=line, SPARKSHIM_STDERR="1")
    play(LIFE, "injected", SHIM, preload=False, SPARKSHIM_STDERR="1", SPARKSHIM_DETECTORS="-G1")
    play(LIFE, "injected", SHIM, preload=False, SPARKSHIM_STDERR="1", SPARKSHIM="0")


def table():
    with tempfile.TemporaryDirectory(prefix="loader.") as folder:
        copies = []
        for i in range(10):
            copies.append(os.path.join(folder, "libeverything%d.so" % i))
            shutil.copy(EVERYTHING, copies[-1])
        logs, text = play(NAMES, *copies)
    check(text == "enough rows: 1, bound at first: 1, pool used up: 1\n", "names: " + text)
    check(len(kinds(logs[0], "note")) == 1, "names: %s" % kinds(logs[0], "note"))


for scenes in (loads, switches, processes, ptxas, injection, table):
    try:
        scenes()
    except (ValueError, IndexError, KeyError, subprocess.SubprocessError) as error:
        failures.append("%s: %r" % (scenes.__name__, error))
for failure in failures:
    print("FAILED:", failure)
sys.exit(1 if failures else 0)
