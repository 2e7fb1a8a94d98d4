#!/usr/bin/env python3
"""Runs one job of the PyTorch suite on the simulated Spark, without the shim and under it, and judges both.

    suite.py --build BUILD --python PYTHON CASE      one case; 0 = passed
    suite.py --list                                  the names of the cases

The two runs must have the same stdout, exit status and stderr (sparkshim's own lines taken out; process ids and
addresses made equal). Then what the shim said is compared with the case: its lines on stderr, the findings in its
log, the findings and the exit status of `sparkshim report`. PyTorch is NVIDIA's and Meta's own wheel, unmodified.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
WEIGHT = {"PASS": 0, "SKIP": 0, "INFO": 1, "WARN": 2, "FAIL": 3}
LINE = re.compile(r"G(\d+) (PASS|FAIL|WARN|SKIP|INFO): \S")
EXPANDABLE = {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}
DRIVER_POOL = {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}


@dataclasses.dataclass
class Case:
    world: str
    job: list
    env: dict = dataclasses.field(default_factory=dict)
    status: int = 0
    says: str = ""        # must stand in the job's stderr, in both runs
    live: str = "nothing"     # heaviest verdict on stderr: nothing, INFO, WARN, FAIL
    warns_first: bool = False  # a line of G3 comes before `says` on stderr
    finding: tuple = ()   # (G, verdict, cause) of the report's heaviest finding
    report: str = "INFO"  # heaviest verdict that the report may have


OOM = "torch.OutOfMemoryError: CUDA out of memory"
EXHAUSTED = (3, "FAIL", "alloc_refused_exhausted")
RECLAIMABLE = (3, "FAIL", "alloc_refused_reclaimable")


def dies(world, finding, env=None, kind="device", says=OOM):
    return Case(world, ["run_out.py", kind, "die"], env or {}, 1, says, "FAIL", True, finding, "FAIL")


def goes_on(job, env=None):
    return Case("exhausted", job, env or {}, live="WARN", finding=(3, "INFO", "alloc_refused_exhausted"))


CASES = {
    "training": Case("idle", ["training.py"]),
    "training_expandable": Case("idle", ["training.py"], EXPANDABLE),
    "large": Case("idle", ["large.py"]),
    "ranks": Case("idle", ["ranks.py"]),
    "triton": Case("idle", ["triton_driver.py"]),
    "oom_exhausted": dies("exhausted", EXHAUSTED),
    "oom_exhausted_expandable": dies("exhausted", EXHAUSTED, EXPANDABLE),
    "oom_exhausted_driver_pool": dies("exhausted", EXHAUSTED, DRIVER_POOL),
    "oom_reclaimable": dies("reclaimable", RECLAIMABLE),
    "oom_reclaimable_expandable": dies("reclaimable", RECLAIMABLE, EXPANDABLE),
    "oom_reclaimable_driver_pool": dies("reclaimable", RECLAIMABLE, DRIVER_POOL),
    "oom_pinned": dies("exhausted", EXHAUSTED, kind="pinned", says="out of memory"),
    "oom_caught": goes_on(["run_out.py", "device", "catch"]),
    "oom_caught_pinned": goes_on(["run_out.py", "pinned", "catch"]),
    "oom_handled": goes_on(["handled.py", "4"]),
    "oom_handled_expandable": goes_on(["handled.py", "4"], EXPANDABLE),
    "oom_handled_driver_pool": goes_on(["handled.py", "4"], DRIVER_POOL),
    "free_figure": Case("cached", ["free_figure.py", "20"], live="INFO", finding=(3, "INFO", "page_cache_counted")),
    "free_figure_gives_up": Case("cached", ["free_figure.py", "60"], status=1, says="exceeds available",
                                 live="FAIL", finding=(3, "FAIL", "page_cache_counted"), report="FAIL"),
}


class Failure(Exception):
    pass


def require(condition, what, detail=""):
    if not condition:
        raise Failure(what + ("\n" + str(detail) if detail != "" else ""))


class Runner:
    def __init__(self, build, python, case, folder):
        self.build, self.python, self.case, self.folder = build, python, case, folder
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("SPARKSHIM", "GB10SIM", "PYTORCH", "CUDA"))}
        self.env.pop("LD_PRELOAD", None)
        self.env.update(case.env, HOME=str(folder), SPARKSHIM_DIR=str(folder / "sparkshim"), PYTHONUNBUFFERED="1",
                        TRITON_CACHE_DIR=str(folder / "triton"), MASTER_ADDR="127.0.0.1", NCCL_SOCKET_IFNAME="lo")

    def run(self, prefix):
        command = [self.build / "bin/gb10sim", HERE / "worlds" / (self.case.world + ".scn"), "--", *prefix,
                   self.python, HERE / "jobs" / self.case.job[0], *self.case.job[1:]]
        return subprocess.run([str(word) for word in command], env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=400)

    def bare(self):
        return self.run([])

    def watched(self):
        return self.run([self.build / "bin/sparkshim", "run", "--"])

    def report(self):
        done = subprocess.run([str(self.build / "bin/sparkshim"), "report", "--format", "json"], env=self.env,
                              capture_output=True, text=True, timeout=60)
        require(done.stdout, "the report is empty", done.stderr)
        return done.returncode, json.loads(done.stdout)

    def records(self):
        for path in sorted((self.folder / "sparkshim").glob("runs/*/*.ndjson")):
            for line in path.read_text().splitlines():
                yield json.loads(line)


def own_lines(stderr):
    return [line for line in stderr.splitlines() if LINE.match(line) or line.startswith("sparkshim: ")]


def normal(text):
    text = re.sub(r"0x[0-9a-f]{6,}", "ADDRESS", text)
    text = re.sub(r"\b([Pp]rocess|pid:?) \d+\b", r"\1 PID", text)
    return [line for line in text.splitlines() if not LINE.match(line) and not line.startswith("sparkshim: ")]


def heaviest(verdicts):
    return max(verdicts, key=WEIGHT.get, default="nothing")


def check_same(bare, watched, case):
    require(bare.returncode == case.status, f"without the shim: exit status {bare.returncode}", bare.stdout + bare.stderr)
    require(watched.returncode == bare.returncode, f"under the shim: exit status {watched.returncode}",
            watched.stdout + watched.stderr)
    require(watched.stdout == bare.stdout, "stdout differs", f"--- bare\n{bare.stdout}--- watched\n{watched.stdout}")
    require(normal(watched.stderr) == normal(bare.stderr), "stderr differs",
            f"--- bare\n{bare.stderr}--- watched\n{watched.stderr}")
    require(case.says in bare.stderr, f"'{case.says}' is not on stderr", bare.stderr)


def check_lines(watched, case):
    said = [LINE.match(line) for line in own_lines(watched.stderr)]
    verdicts = [m.group(2) for m in said if m]
    require(heaviest(verdicts) == case.live, f"heaviest line on stderr: {heaviest(verdicts)}, not {case.live}",
            watched.stderr)
    if case.live == "nothing":
        require(not own_lines(watched.stderr), "not silent", watched.stderr)
        return
    require(all(int(m.group(1)) == case.finding[0] for m in said if m and WEIGHT[m.group(2)] > 1),
            "a line of another G", watched.stderr)
    if case.warns_first:
        first = next(m.start() for m in re.finditer(r"(?m)^G3 ", watched.stderr))
        require(first < watched.stderr.index(case.says), "the line comes after the exception", watched.stderr)


def check_findings(runner, case, watched):
    status, report = runner.report()
    text = json.dumps(report, indent=1)
    found = [(f["g"], f["verdict"], f["cause"]) for f in report["findings"]]
    top = heaviest([v for _, v, _ in found])
    require(WEIGHT.get(top, 0) <= WEIGHT[case.report], f"the report says {top}", text)
    require(not case.finding or case.finding in found, f"the report lacks {case.finding}", text)
    require(status == {"WARN": 1, "FAIL": 2}.get(top, 0), f"the report's exit status is {status}, verdict {top}", text)
    if case.finding:
        causes = {r["cause"] for r in runner.records() if r["k"] == "finding"}
        require(case.finding[2] in causes, f"the log has no finding {case.finding[2]}", causes)
    else:
        require(WEIGHT.get(top, 0) == 0, f"a healthy run has findings: {found}", text + watched.stderr)


def run_case(name, build, python):
    case = CASES[name]
    with tempfile.TemporaryDirectory(prefix="sparkshim-torch-") as folder:
        runner = Runner(build, python, case, pathlib.Path(folder))
        bare = runner.bare()
        watched = runner.watched()
        check_same(bare, watched, case)
        check_lines(watched, case)
        check_findings(runner, case, watched)
    print(bare.stdout, end="")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--python")
    parser.add_argument("case", nargs="?", choices=sorted(CASES))
    options = parser.parse_args()
    if options.list:
        print("\n".join(CASES))
        return 0
    try:
        run_case(options.case, options.build.resolve(), options.python)
    except Failure as failure:
        print(f"{options.case}: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
