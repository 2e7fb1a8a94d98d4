#!/usr/bin/env python3
"""Runs cases end to end on the simulated Spark: job, library, log, report.

    run_case.py case BUILD ID      the case itself: variant "case" of expect.tsv
    run_case.py twin BUILD ID      its other variants: the deciding reading made harmless, a trap made real
    run_case.py route BUILD CALL   every way to CALL of routes.tsv: a refusal is told with this call and route

Each run is checked for: the lines on the job's stderr, the findings in the log, the log against its schema, the report's
findings and exit status, no difference between what was said live and what the report derives, the last line of
`sparkshim run`, and stdout, stderr and exit status of the same job without the library. Exit 0: all as expected.
"""
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
import check_log  # noqa: E402
REPORT_STATUS = {"FAIL": 2, "WARN": 1}
LINE = re.compile(r"^(?:\r\x1b\[K)?(G\d+) (PASS|SKIP|INFO|WARN|FAIL): .+ \(simulated\)$")


def table(path):
    with open(path, encoding="utf-8") as f:
        return list(csv.DictReader((line for line in f if not line.startswith("#")), delimiter="\t"))


class Run:
    """One job on one world, once with the library and once without. A program linked to the older runtime gets that.
    "raylet" in front of the job: a process of that name runs all of it."""

    above = []

    def __init__(self, build, world, words):
        self.bin = Path(build) / "bin"
        if words[0] == "raylet":
            self.above, words = [str(self.bin / "jobs" / words[0])], words[1:]
        self.worlds = [world] + [HERE / "routes" / "runtime12.scn"] * words[0].startswith("alloc_rt12")
        self.words = [str(self.bin / "jobs" / words[0]), *words[1:]]
        with tempfile.TemporaryDirectory(prefix="sparkshim-case-") as folder:
            self.folder = Path(folder)
            self.watched()
            self.bare = self.gb10sim(self.words)

    def environment(self):
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("SPARKSHIM", "GB10SIM", "LD_"))}
        return {**keep, "HOME": str(self.folder), "SPARKSHIM_DIR": str(self.folder / "state")}

    def gb10sim(self, command):
        return subprocess.run([self.bin / "gb10sim", *self.worlds, "--", *self.above, *command], env=self.environment(),
                              text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=60, errors="replace")

    def watched(self):
        """The job's own stderr goes to a file: on that of `sparkshim run` stands what it says at the end."""
        own = self.folder / "stderr"
        to_file = ["sh", "-c", 'exec "$@" 2>"$0"', str(own), *self.words]
        self.run = self.gb10sim([self.bin / "sparkshim", "run", "--run-id", "case", "--", *to_file])
        self.stderr = own.read_text(errors="replace").splitlines()
        self.schema, records = "", []
        for log in check_log.logs(self.folder / "state" / "runs" / "case"):
            try:
                records += check_log.records(log)
            except check_log.LogError as error:
                self.schema += f"{error}\n"
        self.logged = {(r["g"], r["cause"], r["object"]): r for r in records if r["k"] == "finding"}
        self.report = subprocess.run([self.bin / "sparkshim", "report", "case", "--format", "json"],
                                     env=self.environment(), text=True, capture_output=True)

    def lines(self):
        return [m for m in map(LINE.match, self.stderr) if m]

    def launcher_lines(self):
        return [m for m in map(LINE.match, self.run.stderr.splitlines()) if m]


def status(done):
    return 128 - done.returncode if done.returncode < 0 else done.returncode


def words_of(findings):
    return sorted(f"{f['verdict']}:{f['cause']}:{f['confidence']}" for f in findings)


class Check:
    def __init__(self, name):
        self.name, self.bad = name, []

    def equal(self, what, got, wanted):
        if got != wanted:
            self.bad.append(f"{what}: got {got!r}, expected {wanted!r}")

    def true(self, what, good):
        if not good:
            self.bad.append(what)

    def done(self, run=None):
        print(f"{'FAILED' if self.bad else 'ok':6} {self.name}")
        if not self.bad:
            return True
        for line in self.bad:
            print("  " + line)
        if not run:
            return False
        for title, text in (("stderr of the job", "\n".join(run.stderr)), ("stdout", run.run.stdout),
                            ("stderr of run", run.run.stderr), ("report", run.report.stdout + run.report.stderr)):
            print(f"  --- {title}\n{text}")
        return False


def check_harmless(check, run):
    """What the job itself shows is what it shows without the library."""
    check.equal("exit status against the bare run", status(run.run), status(run.bare))
    check.equal("stdout against the bare run", run.run.stdout, run.bare.stdout)
    own = [line for line in run.stderr if not LINE.match(line)]
    check.equal("stderr against the bare run", own, run.bare.stderr.splitlines())


def check_run(check, run, expected):
    """`expected` is a row of expect.tsv, or made to look like one."""
    listed = {k: [] if expected[k] == "-" else expected[k].split() for k in ("lines", "live", "report")}
    report = json.loads(run.report.stdout or "{}")
    findings = report.get("findings", [])
    worst = max((REPORT_STATUS.get(f["verdict"], 0) for f in findings), default=0)
    check.equal("exit status", status(run.run), int(expected["status"]))
    check.equal("lines", [m[2] for m in run.lines()], listed["lines"])
    check.equal("findings in the log", words_of(run.logged.values()), sorted(listed["live"]))
    check.equal("findings in the report", words_of(findings), sorted(listed["report"]))
    check.equal("exit status of the report", run.report.returncode, worst)
    for f in findings:
        check.true(f"G{f['g']} {f['cause']}: without where memory was", f["g"] not in (3, 6) or f.get("memory"))
    check.equal("differences", [d for p in report.get("processes", []) for d in p["differences"]], [])
    check.true("no process in the report", len(report.get("processes", [])) == 1)
    check.equal("the log against its schema", run.schema, "")
    check_ending(check, run, worst, findings)
    check_harmless(check, run)


def check_ending(check, run, worst, findings):
    """The job's own stderr is a file, so that all that is wrong stands on that of `sparkshim run`."""
    said = run.run.stderr.splitlines()
    if worst == 0:  # nothing, or a warning (it may have risen) and the line that takes it back
        words = [line.split(":")[0] for line in said]
        warned = [w.replace("WARN", "INFO") for w in words if w.endswith(" WARN")]
        risen = [w for i, w in enumerate(words) if w.endswith(" FAIL") and w.replace("FAIL", "WARN") in words[:i]]
        check.equal("what run says of a run without a problem", sorted(w for w in words if not w.endswith(" WARN")),
                    sorted(warned + risen))
    else:
        loud = [f"G{f['g']} {f['verdict']}" for f in findings if f["verdict"] in REPORT_STATUS]
        words = [line.split(":")[0] for line in said[:-1]]
        check.equal("the findings that run says at its end", words[max(len(words) - len(loud), 0):], loud)
        for line in said[:max(len(words) - len(loud), 0)]:  # what only the launcher saw, said while it happened
            check.true(f"a line of run that is no finding: {line}", LINE.match(line))
        check.true("run ends with the command that shows the report", said and "sparkshim report" in said[-1])


def check_row(check, run, row):
    """The row of cases.tsv, read by itself: expect.tsv must not promise less."""
    findings = {"live": run.logged.values(), "report": json.loads(run.report.stdout)["findings"]}
    spoken = {"live": {m[2] for m in run.lines() + run.launcher_lines()}, "report": {f["verdict"] for f in findings["report"]}}
    if row["verdict"] == "FAIL" and findings["report"]:
        check.equal("root cause, which the report names last", findings["report"][-1]["cause"], row["cause"])
    for phase in filter(None, row["phase"].split(",")):
        if row["g"] != "-":
            check.true(f"{phase}: no {row['verdict']} {row['cause']} {row['conf']}",
                       f"{row['verdict']}:{row['cause']}:{row['conf']}" in words_of(findings[phase]))
            check.true(f"{phase}: no line with {row['verdict']}", row["verdict"] in spoken[phase])
        for f in findings[phase]:
            loud = f["verdict"] in ("FAIL", "WARN")
            check.true(f"{phase}: {f['verdict']} {f['cause']} must not be",
                       not loud or not {f"G{f['g']}", f["cause"]} & set(filter(None, row["must_not"].split(","))))


def preflight(build, world):
    """What preflight says on that world before any job: {G: (verdict, cause)}, the split's sum, its exit status. Ten seconds
    of patience pass in one of real time."""
    run = Run.__new__(Run)
    with tempfile.TemporaryDirectory(prefix="sparkshim-case-") as folder:
        run.bin, run.folder, run.worlds = Path(build) / "bin", Path(folder), [world, HERE / "routes" / "hasty.scn"]
        done = run.gb10sim([run.bin / "sparkshim", "preflight", "--json"])
    said = json.loads(done.stdout or "{}")
    return {f"G{c['g']}": (c["verdict"], c.get("cause", "")) for c in said.get("checks", [])}, said, done


def check_preflight(check, said, done):
    """Its status is the gravest verdict's; memory adds up."""
    worst = max((REPORT_STATUS.get(c["verdict"], 0) for c in said["checks"]), default=3)
    check.equal("exit status of preflight", status(done), worst)
    check.equal("preflight: stderr", done.stderr, "")
    memory = said["memory"]
    parts = [v for k, v in memory.items() if k not in ("line", "total", "driver", "holders")]
    check.equal("preflight: the sum of all classes of memory", sum(parts), memory["total"])


def check_pre(check, build, world, row):
    """Column `pre` of cases.tsv: the verdict that preflight gives in the same situation, "-" for none above INFO. Nothing
    stands there where the world is one in which the job is at work already."""
    verdicts, said, done = preflight(build, world)
    check_preflight(check, said, done)
    if row["pre"] == "-":
        check.equal("preflight", [v for v in verdicts.items() if v[1][0] in ("FAIL", "WARN")], [])
    elif row["pre"]:
        check.equal("preflight", verdicts[row["g"]], (row["pre"], row["cause"]))


def check_twin_pre(check, build, world, wanted):
    """A row of preflight.tsv: the same for another variant's world."""
    verdicts, said, done = preflight(build, world)
    check_preflight(check, said, done)
    got = [f"{g}:{v}:{c}" for g, (v, c) in verdicts.items() if v not in ("PASS", "SKIP")]
    check.equal("preflight", got, wanted)


def run_case(build, case, twin):
    rows = [r for r in table(HERE / "expect.tsv") if r["case"] == case and (r["variant"] != "case") == twin]
    known = {r["id"]: r for r in table(HERE.parent / "data" / "cases.tsv")}
    if not rows:
        sys.exit(f"expect.tsv has no such case: {case}")
    good = True
    for row in rows:
        run = Run(build, HERE / case / f"{row['world']}.scn", row["job"].split())
        check = Check(f"{case} {row['variant']}")
        check_run(check, run, row)
        if not twin and not check.bad:
            check_row(check, run, known[case])
        if not twin:
            check_pre(check, build, HERE / case / f"{row['world']}.scn", known[case])
        good &= check.done(run)
    for row in [r for r in table(HERE / "preflight.tsv") if r["case"] == case] * twin:
        check = Check(f"{case} {row['world']} before a job")
        check_twin_pre(check, build, HERE / case / f"{row['world']}.scn", [w for w in row["findings"].split() if w != "-"])
        good &= check.done()
    return good


def run_route(build, call):
    rows = [r for r in table(HERE / "routes.tsv") if r["call"] == call]
    if not rows:
        sys.exit(f"routes.tsv has no such call: {call}")
    good = True
    for row in rows:
        run = Run(build, HERE / "routes" / "cached.scn", [row["program"], f"{row['word']}:4GiB!"])
        check = Check(f"{call} by {row['program']}")
        told = "FAIL:alloc_refused_reclaimable:high"
        check_run(check, run, {"status": "1", "lines": "WARN FAIL", "live": told, "report": told})
        for m in run.lines():
            check.true(f"a line that does not name the call: {m[0]}", f": {call} of 4.0 GiB was refused" in m[0])
        check.equal("object", [f["object"] for f in run.logged.values()], [row["route"]])
        good &= check.done(run)
    return good


def main():
    verb, build, name = sys.argv[1:]
    verbs = {"case": lambda: run_case(build, name, False), "twin": lambda: run_case(build, name, True),
             "route": lambda: run_route(build, name)}
    sys.exit(not verbs[verb]())


if __name__ == "__main__":
    main()
