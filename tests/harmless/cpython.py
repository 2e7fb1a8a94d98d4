#!/usr/bin/env python3
"""CPython's own test suite gives the same results with the library preloaded.

cpython.py [--awake LIBCUDA] LIBSPARKSHIM MODULE... | --all
Runs the modules of the system Python's `test` package under LD_PRELOAD. Only modules with a failure are run
again, without the library: a test that fails there too is not ours. What fails only with the library is run once
more alone, against chance, and then counts. --awake: the interpreter loads LIBCUDA (an empty library of that
name) at its start, so that the library is awake, with log, ring and crash handler, in every process of the suite;
without it, the library must stay asleep. Either is checked by the log folder. Exit 77: no test suite installed.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

PYTHON = "/usr/bin/python3"
# Need a network, a display, or gigabytes; test_gdb runs a debugger on an interpreter without symbols.
RESOURCES = "all,-network,-urlfetch,-largefile,-gui,-audio,-cpu"
NOT_IN_ALL = ["test_gdb", "test_nntplib", "test_smtpnet", "test_ssl", "test_socket", "test_asyncio"]


def run(modules, env, folder, name, all_modules=False):
    """Names of the tests that failed, as module -> set, and the run's output."""
    report = os.path.join(folder, name + ".xml")
    command = [PYTHON, "-m", "test", "-j2", "--timeout", "300", "--junit-xml", report, "-u", RESOURCES]
    if all_modules:
        command += ["-x"] + NOT_IN_ALL
    else:
        command += modules
    done = subprocess.run(command, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    failed = set()
    ran = 0
    if os.path.exists(report):
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            ran += 1
            if case.find("failure") is not None or case.find("error") is not None:
                failed.add(case.get("name"))
    bad_modules = set()
    for line in done.stdout.splitlines():
        words = line.split()
        if "failed" in words or "crashed" in line or "timed" in words:
            bad_modules.update(w.rstrip(":") for w in words if w.startswith("test_") and "." not in w)
    if done.returncode and not bad_modules:
        bad_modules.add("(the run itself)")
    return ran, failed, bad_modules, done.stdout


def logs(folder):
    return glob.glob(os.path.join(folder, "logs", "**", "*.ndjson"), recursive=True)


def main():
    args = sys.argv[1:]
    awake = None
    if args[0] == "--awake":
        awake, args = os.path.abspath(args[1]), args[2:]
    library, modules = os.path.abspath(args[0]), args[1:]
    if subprocess.run([PYTHON, "-c", "import test.test_ctypes"], stderr=subprocess.DEVNULL).returncode:
        print("SKIP: no CPython test suite here (scripts/install-deps test)")
        return 77
    folder = tempfile.mkdtemp(prefix="harmless-cpython.")
    try:
        env = {"PATH": os.environ["PATH"], "HOME": folder, "LANG": "C.UTF-8", "SPARKSHIM_DIR": os.path.join(folder, "logs")}
        if awake:
            site = os.path.join(folder, "site")
            os.mkdir(site)
            with open(os.path.join(site, "sitecustomize.py"), "w") as f:
                f.write("import _ctypes\n_ctypes.dlopen(%r, 2)\n" % awake)
            env["PYTHONPATH"] = site
        shim_env = dict(env, LD_PRELOAD=library)
        all_modules = modules == ["--all"]
        ran, failed, bad, output = run(modules, shim_env, folder, "with", all_modules)
        print("with the library: %d tests, %d failed, modules with trouble: %s" % (ran, len(failed), sorted(bad)))
        if ran == 0:
            print(output[-3000:])
            return 1
        if bool(logs(folder)) != bool(awake):
            print("FAILED: %d logs in %s" % (len(logs(folder)), "an awake run" if awake else "a run that must stay asleep"))
            return 1
        if not bad:
            return 0
        again = sorted(bad - {"(the run itself)"}) or modules
        _, failed_plain, bad_plain, _ = run(again, env, folder, "without")
        ours, ours_bad = failed - failed_plain, bad - bad_plain
        print("without it: %d of these fail too, modules: %s" % (len(failed_plain & failed), sorted(bad_plain)))
        if ours or ours_bad:
            _, failed_again, bad_again, output_again = run(again, shim_env, folder, "again")
            ours, ours_bad = ours & failed_again, ours_bad & bad_again
            if ours or ours_bad:
                print(output[-6000:])
                print(output_again[-6000:])
        for name in sorted(ours) + sorted(ours_bad):
            print("FAILED only with the library:", name)
        return 1 if ours or ours_bad else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
