#!/usr/bin/env python3
"""What the library costs, measured side by side with the bare program and with an empty preload in one run.

bench.py BUILD table               the table of README.md (scripts/bench)
bench.py BUILD calls               exits 1 when a hooked call costs several times its budget over bare
bench.py BUILD exec                exits 1 when an exec of /bin/true takes more than 10,000 instructions over the
                                   empty preload (callgrind: exact, whatever else the machine does); 77 without valgrind
bench.py BUILD sampler              exits 1 when the launcher takes 0.5 % of a core or more while a job runs
bench.py BUILD import-torch PYTHON exits 1 when `import torch` takes more than 1.005 x the instructions (minutes)

Times are the tenth percentile of many samples, the lowest of several rounds in which the three take turns: a neighbour
on the core's other thread makes whole rounds half as slow again, for each of the three alike. A shared machine's clock
cannot resolve the budgets themselves (20 and 40 ns) well enough for a test, so `calls` allows four times as much; the
table gives what was measured, and what one reading of the processor's counter costs, which each hooked call needs.
"""
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

FEW, MANY = 1024, 1000 * 1000
# (name, order, live): ns over bare. Scattered ones have none: there the table's cache misses are what is measured.
BUDGETS = {("cudaMalloc", "neighbours", FEW): 20, ("cudaFree", "neighbours", FEW): 20,
           ("cudaMalloc", "neighbours", MANY): 40, ("cudaFree", "neighbours", MANY): 40, ("dlsym_miss", "-", FEW): 20}
SHOWN = [*BUDGETS, ("cudaMalloc", "scattered", MANY), ("cudaFree", "scattered", MANY), ("counter", "-", FEW)]
NAMED = {"dlsym_miss": "dlsym that finds nothing", "counter": "for scale: reading the processor's counter once"}
EXEC_BUDGET = 10000
IMPORT_BUDGET = 1.005
SAMPLER_BUDGET = 0.005


class Bench:
    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.folder = tempfile.mkdtemp(prefix="bench.")
        # Names of one length: the size of the environment moves instruction counts.
        self.preloads = {"bare": None, "empty": os.path.join(self.folder, "preload_empty.so"),
                         "shim": os.path.join(self.folder, "preload_shim0.so")}
        shutil.copy(os.path.join(self.build, "tests", "bench", "libbench_empty.so"), self.preloads["empty"])
        shutil.copy(os.path.realpath(os.path.join(self.build, "lib", "libsparkshim.so")), self.preloads["shim"])

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def env(self, mode):
        env = {"PATH": "/usr/bin:/bin", "HOME": self.folder, "LANG": "C", "PYTHONHASHSEED": "0",
               "SPARKSHIM_DIR": self.folder + "/logs"}
        if self.preloads[mode]:
            env["LD_PRELOAD"] = self.preloads[mode]
        return env

    def calls(self, rounds, samples):
        """(name, order, live) -> mode -> p10 in ns, the lowest of the rounds."""
        raw = {}
        program = os.path.join(self.build, "bin", "bench_calls")
        for live in (FEW, MANY):
            for _ in range(rounds):
                for mode in self.preloads:
                    out = subprocess.run([program, str(live), str(samples)], env=self.env(mode), check=True,
                                         capture_output=True, text=True).stdout
                    for line in out.splitlines():
                        name, order, ns = line.split()
                        raw.setdefault((name, order, live), {}).setdefault(mode, []).append(float(ns))
        return {key: {mode: min(v) for mode, v in modes.items()} for key, modes in raw.items()}

    def instructions(self, mode, command):
        """Instructions of `command` and its children under callgrind; of them, those in the library itself."""
        out = os.path.join(self.folder, "callgrind.out")
        subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=" + out, "--quiet"] + command,
                       env=self.env(mode), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        total = own = 0
        in_library = False
        names = {}
        with open(out) as f:
            called = False
            for line in f:
                if line.startswith("summary:") or line.startswith("totals:"):
                    total = int(line.split()[1])
                elif line.startswith(("ob=", "cob=")): # a name stands only where its number comes first
                    number, _, name = line.partition("=")[2].strip().partition(" ")
                    names.setdefault(number, name)
                    if line.startswith("ob="):
                        in_library = "preload_shim0" in names[number]
                elif line.startswith("calls="):
                    called = True
                elif re.match(r"[+\-*\d]", line):
                    if in_library and not called:
                        own += int(line.split()[1])
                    called = False
        return total, own


def machine():
    model = platform.processor() or platform.machine()
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return "%s, %d cores, %s %s" % (model, os.cpu_count(), platform.system(), platform.release())


def check_calls(bench):
    failed = False
    measured = bench.calls(3, 4000)
    for (name, order, live), budget in BUDGETS.items():
        ns = measured[(name, order, live)]
        over = ns["shim"] - ns["bare"]
        bad = over > 4 * budget
        failed = failed or bad
        print("%s with %d live: %.1f ns over bare (%.1f), allowed here %d%s" %
              (name, live, over, ns["bare"], 4 * budget, ": TOO SLOW" if bad else ""))
    return 1 if failed else 0


def check_exec(bench):
    if not shutil.which("valgrind"):
        return 77
    empty, _ = bench.instructions("empty", ["/bin/true"])
    shim, own = bench.instructions("shim", ["/bin/true"])
    print("exec of /bin/true: empty preload %d, with the library %d: %+d instructions (%d in the library itself)" %
          (empty, shim, shim - empty, own))
    return 1 if shim - empty > EXEC_BUDGET or shim == empty else 0


def processor_time(pid):
    """Seconds that the threads of a process have run, to the nanosecond."""
    total = 0
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/schedstat" % (pid, task)) as f:
            total += int(f.read().split()[0])
    return total / 1e9


def sampler(bench, seconds):
    """Part of one core that `sparkrun` takes beside a job that only waits. Looks at the processes of the whole machine
    are part of it: the job starts one each second."""
    job = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24; do sleep 1; done"
    run = subprocess.Popen([os.path.join(bench.build, "bin", "sparkrun"), "sh", "-c", job], env=bench.env("bare"),
                           stderr=subprocess.DEVNULL)
    time.sleep(2)
    before, began = processor_time(run.pid), time.monotonic()
    time.sleep(seconds)
    used, passed = processor_time(run.pid) - before, time.monotonic() - began
    run.terminate()
    run.wait()
    return used / passed


def check_sampler(bench):
    part = sampler(bench, 20)
    print("sparkrun beside a job: %.3f %% of a core, allowed %.1f %%" % (100 * part, 100 * SAMPLER_BUDGET))
    return 1 if part >= SAMPLER_BUDGET or not part else 0


def import_torch(bench, python):
    command = [python, "-c", "import torch"]
    empty, _ = bench.instructions("empty", command)
    shim, own = bench.instructions("shim", command)
    print("import torch: empty preload %d, with the library %d instructions: %.5f x (%d in the library itself)" %
          (empty, shim, shim / empty, own))
    return empty, shim, own


def table(bench, python):
    rows = []
    measured = bench.calls(5, 20000)
    for key in SHOWN:
        name, order, live = key
        ns = measured[key]
        what = NAMED.get(name) or "%s, %s live, %s" % (name, "a million" if live == MANY else live, order)
        rows.append([what, "%.1f ns" % ns["bare"], "%.1f ns" % ns["empty"], "%.1f ns" % ns["shim"],
                     "%+.1f ns" % (ns["shim"] - ns["bare"]), "<= %d ns" % BUDGETS[key] if key in BUDGETS else ""])
    rows.append(["the launcher beside a job, part of a core", "", "", "%.3f %%" % (100 * sampler(bench, 20)), "",
                 "< %.1f %%" % (100 * SAMPLER_BUDGET)])
    if shutil.which("valgrind"):
        counts = [bench.instructions(mode, ["/bin/true"])[0] for mode in ("bare", "empty", "shim")]
        rows.append(["exec of /bin/true"] + ["%d instr." % c for c in counts] +
                    ["%+d over empty" % (counts[2] - counts[1]), "<= %d" % EXEC_BUDGET])
        if python:
            empty, shim, _ = import_torch(bench, python)
            rows.append(["import torch", "", "%d instr." % empty, "%d instr." % shim, "%.5f x" % (shim / empty),
                         "<= %.3f x" % IMPORT_BUDGET])
    print("| what | bare | empty preload | with sparkshim | over bare | budget |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print("\nTenth percentile of TSC or cntvct ticks per call, callgrind for instructions, one run. Machine: %s." % machine())
    return 0


def main():
    bench = Bench(sys.argv[1])
    python = sys.argv[3] if len(sys.argv) > 3 else None
    try:
        if sys.argv[2] == "calls":
            return check_calls(bench)
        if sys.argv[2] == "exec":
            return check_exec(bench)
        if sys.argv[2] == "sampler":
            return check_sampler(bench)
        if sys.argv[2] == "import-torch":
            if not shutil.which("valgrind"):
                return 77
            empty, shim, _ = import_torch(bench, python)
            return 1 if shim / empty > IMPORT_BUDGET else 0
        return table(bench, python)
    finally:
        bench.close()


if __name__ == "__main__":
    sys.exit(main())
