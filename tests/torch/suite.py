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
sys.path.insert(0, str(HERE.parent / "lib"))
import check_log  # noqa: E402

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
    finding: tuple = ()   # (G, verdict, cause): the report's weightiest finding, its last
    beside: list = dataclasses.field(default_factory=list)  # the others


OOM = "torch.OutOfMemoryError: CUDA out of memory"
POOL_OOM = "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)"
EXHAUSTED = (3, "FAIL", "alloc_refused_exhausted")
RECLAIMABLE = (3, "FAIL", "alloc_refused_reclaimable")


def dies(world, finding, env=None, kind="device", says=OOM):
    # PyTorch asks for the free figure while it words its exception: with the memory full of page cache that is a note.
    beside = [(3, "INFO", "page_cache_counted")] if finding == RECLAIMABLE else []
    return Case(world, ["run_out.py", kind, "die"], env or {}, 1, says, "FAIL", True, finding, beside)


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
    "oom_exhausted_driver_pool": dies("exhausted", EXHAUSTED, DRIVER_POOL, says=POOL_OOM),
    "oom_reclaimable": dies("reclaimable", RECLAIMABLE),
    "oom_reclaimable_expandable": dies("reclaimable", RECLAIMABLE, EXPANDABLE),
    "oom_reclaimable_driver_pool": dies("reclaimable", RECLAIMABLE, DRIVER_POOL, says=POOL_OOM),
    "oom_pinned": dies("exhausted", EXHAUSTED, kind="pinned", says="out of memory"),
    "oom_caught": goes_on(["run_out.py", "device", "catch"]),
    "oom_caught_pinned": goes_on(["run_out.py", "pinned", "catch"]),
    "oom_handled": goes_on(["handled.py", "4"]),
    "oom_handled_expandable": goes_on(["handled.py", "4"], EXPANDABLE),
    "oom_handled_driver_pool": goes_on(["handled.py", "4"], DRIVER_POOL),
    "free_figure": Case("cached", ["free_figure.py", "20"], live="INFO", finding=(3, "INFO", "page_cache_counted")),
    "free_figure_gives_up": Case("cached", ["free_figure.py", "60"], status=1, says="exceeds available",
                                 live="FAIL", finding=(3, "FAIL", "page_cache_counted")),
}


class Failure(Exception):
    pass


def require(condition, what, detail=""):
    if not condition:
        raise Failure(what + ("\n" + str(detail) if detail != "" else ""))


class Runner:
    def __init__(self, build, python, case, folder):
        self.build, self.python, self.case, self.folder = build, python, case, folder
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith(("SPARKSHIM", "GB10SIM", "PYTORCH", "CUDA", "LD_", "NCCL", "TRITON"))}
        self.env.update(case.env, HOME=str(folder), SPARKSHIM_DIR=str(folder / "state"), PYTHONUNBUFFERED="1",
                        TRITON_CACHE_DIR=str(folder / "triton"), TRITON_LIBCUDA_PATH=str(build / "lib/gb10sim"),
                        TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING="0", NCCL_SOCKET_IFNAME="lo")

    def run(self, name, prefix):
        """The job's own stderr goes to a file: on that of `sparkshim run` stands what it says at the end."""
        own = self.folder / name
        to_file = ["sh", "-c", 'exec "$@" 2>"$0"', own]
        command = [self.build / "bin/gb10sim", HERE / "worlds" / (self.case.world + ".scn"), "--", *prefix, *to_file,
                   self.python, HERE / "jobs" / self.case.job[0], *self.case.job[1:]]
        done = subprocess.run([str(word) for word in command], env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", timeout=500)
        return done, own.read_text(errors="replace")

    def bare(self):
        return self.run("bare", [])

    def watched(self):
        return self.run("watched", [self.build / "bin/sparkshim", "run", "--run-id", "torch", "--"])

    def report(self):
        done = subprocess.run([str(self.build / "bin/sparkshim"), "report", "torch", "--format", "json"], env=self.env,
                              capture_output=True, text=True, timeout=60)
        require(done.stdout, "the report is empty", done.stderr)
        return done.returncode, json.loads(done.stdout)

    def records(self):
        try:
            return [r for path in sorted((self.folder / "state/runs/torch").glob("*.ndjson"))
                    for r in check_log.records(path)]
        except check_log.LogError as error:
            raise Failure(f"log: {error}") from None


def normal(text):
    text = re.sub(r"0x[0-9a-f]{6,}", "ADDRESS", text)
    text = re.sub(r"\b([Pp]rocess|pid:?) \d+\b", r"\1 PID", text)
    text = re.sub(r"\[([IWE])\d{4} \d\d:\d\d:\d\d\.\d+ ", r"[\1 TIME ", text)
    return [line for line in text.splitlines() if not LINE.match(line)]


def heaviest(verdicts):
    return max(verdicts, key=WEIGHT.get, default="nothing")


def both(bare, watched):
    return f"--- bare\n{bare}\n--- watched\n{watched}"


def check_same(bare, watched, case):
    (one, one_err), (two, two_err) = bare, watched
    require(one.returncode == case.status, f"without the shim: exit status {one.returncode}",
            one.stdout + one_err + one.stderr)
    require(two.returncode == one.returncode, f"under the shim: exit status {two.returncode}",
            two.stdout + two_err + two.stderr)
    require(two.stdout == one.stdout, "stdout differs", both(one.stdout, two.stdout))
    require(normal(two_err) == normal(one_err), "stderr differs", both(one_err, two_err))
    require(case.says in one_err, f"'{case.says}' is not on stderr", one_err)


def check_lines(watched, case):
    done, own = watched
    said = [m for m in map(LINE.match, own.splitlines()) if m]
    verdicts = [m.group(2) for m in said]
    require(heaviest(verdicts) == case.live, f"heaviest line on stderr: {heaviest(verdicts)}, not {case.live}", own)
    for m in said:
        require(int(m.group(1)) == case.finding[0], "a line of another G", own)
    if case.warns_first:
        require(own.index("G3 WARN") < own.index(case.says), "the line comes after the exception", own)
    if WEIGHT.get(case.finding[1], 0) > 1 if case.finding else False:
        require("sparkshim report" in done.stderr.splitlines()[-1], "run does not end with the next command", done.stderr)
    else:
        require(not done.stderr, "run is not silent", done.stderr)


def check_findings(runner, case):
    status, report = runner.report()
    text = json.dumps(report, indent=1)
    found = [(f["g"], f["verdict"], f["cause"]) for f in report["findings"]]
    wanted = case.beside + [case.finding] if case.finding else []
    require(found == wanted, f"the report has {found}, not {wanted}", text)
    require(status == {"WARN": 1, "FAIL": 2}.get(heaviest([v for _, v, _ in found]), 0),
            f"the report's exit status is {status}", text)
    differences = [d for p in report["processes"] for d in p["differences"]]
    require(not differences, f"the report differs from what was said live: {differences}", text)
    causes = {(r["g"], r["cause"]) for r in runner.records() if r["k"] == "finding"}
    require(causes == {(g, cause) for g, _, cause in wanted}, f"the log has findings {causes}")


def run_case(name, build, python):
    case = CASES[name]
    with tempfile.TemporaryDirectory(prefix="sparkshim-torch-") as folder:
        runner = Runner(build, python, case, pathlib.Path(folder))
        bare = runner.bare()
        watched = runner.watched()
        check_same(bare, watched, case)
        check_lines(watched, case)
        check_findings(runner, case)
    print(bare[0].stdout, end="")


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
