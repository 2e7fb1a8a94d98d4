#!/usr/bin/env python3
"""Runs a program bare and under the library and compares standard output, standard error and status byte for byte.

differential.py [options] --shim LIBSPARKSHIM -- PROGRAM ARG...
  --emulator WORDS   put before PROGRAM (qemu-aarch64 -L DIR)
  --wake LIBCUDA     run a second round in which the program first loads this empty libcuda.so.1, so that the library
                     is awake; without it the library must have stayed asleep unless --awake is given
  --awake            the program itself touches an object of a family
  --env NAME=VALUE   for both runs
  --behind LIB, --before LIB   another preload, in both runs; with the library behind or in front of it
  --expect TEXT      the bare run must say this, or nothing was tested
  --needs FILE       77 (skipped) when this file is not there
Each round also runs with SPARKSHIM=0. A log must be there when the library was awake, and must not be otherwise.
"""
import argparse
import os
import subprocess
import sys
import tempfile


def environment(options, home, preload, wake, off):
    env = {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C", "SPARKSHIM_DIR": os.path.join(home, "logs"),
           "SPARKSHIM_STDERR": "0"}
    env.update(pair.split("=", 1) for pair in options.env)
    if preload:
        env["LD_PRELOAD"] = ":".join(preload)
    if wake:
        env["LOADER_WAKE"] = options.wake
    if off:
        env["SPARKSHIM"] = "0"
    return env


def run(options, preload, wake, off=False):
    with tempfile.TemporaryDirectory(prefix="loader.") as home:
        env = environment(options, home, preload, wake, off)
        command = options.command
        if options.emulator:
            words = options.emulator.split()
            for name, value in env.items():
                if name.startswith("LD_"):
                    words += ["-E", name + "=" + value]
            command = words + command
            env = {name: value for name, value in env.items() if not name.startswith("LD_")}
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
        logs = [name for _, _, files in os.walk(os.path.join(home, "logs")) for name in files if name.endswith(".ndjson")]
        return (done.returncode, done.stdout, done.stderr), logs


def round_of(options, wake):
    others = [options.before] if options.before else []
    others += [options.behind] if options.behind else []
    ours = ([options.before] if options.before else []) + [options.shim] + ([options.behind] if options.behind else [])
    bare, _ = run(options, others, wake)
    failures = []
    for off in (False, True):
        shim, logs = run(options, ours, wake, off)
        name = "%s%s" % ("awake" if wake or options.awake else "asleep", ", SPARKSHIM=0" if off else "")
        print("%s: %s" % (name, "same" if shim == bare else "DIFFERENT"))
        if shim != bare:
            failures.append("%s: differs\n--- bare: %d\n%s%s\n--- under the library: %d\n%s%s" % (
                (name, bare[0], bare[1].decode(), bare[2].decode(), shim[0], shim[1].decode(), shim[2].decode())))
        if bool(logs) != (not off and bool(wake or options.awake)):
            failures.append("%s: logs are %s" % (name, logs))
    if bare[0] != options.status or not all(text.encode() in bare[1] for text in options.expect):
        failures.append("the bare run ended with %d: not what is to be tested\n%s%s" % (
            bare[0], bare[1].decode(), bare[2].decode()))
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shim", required=True)
    parser.add_argument("--emulator", default="")
    parser.add_argument("--wake")
    parser.add_argument("--awake", action="store_true")
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--behind")
    parser.add_argument("--before")
    parser.add_argument("--needs", action="append", default=[])
    parser.add_argument("--expect", action="append", default=[])
    parser.add_argument("--status", type=int, default=0)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    options.command = options.command[1:] if options.command[:1] == ["--"] else options.command
    for path in options.needs:
        if not os.path.exists(path):
            print("skipped: there is no " + path)
            return 77
    failures = round_of(options, False)
    if options.wake:
        failures += round_of(options, True)
    for failure in failures:
        print("FAILED: " + failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
