"""sparkshim report on logs of every condition: whole, torn, foreign, hostile, empty."""
import json
import mmap
import os
import random
import re
import shlex
import shutil
import time
import unittest

from common import Case, EMULATOR, SOURCE, SPARKRUN, SPARKSHIM, needs_a_job

T0 = 1796009407000000
GIB = 1 << 30
USED_UP = {"mem_total": 122 * GIB, "mem_free": GIB // 2, "mem_available": GIB, "mem_cached": GIB // 2, "mem_buffers": 0,
           "mem_swap_total": 16 * GIB, "mem_swap_free": 0, "mem_anon": 4 * GIB}
PLENTY = {**USED_UP, "mem_free": GIB, "mem_available": 100 * GIB, "mem_cached": 99 * GIB}


def record(kind, at, **fields):
    return {"v": 1, "t": T0 + int(at * 1e6), "k": kind, **fields}


def header(pid=100, **fields):
    return {**record("header", 0, writer="shim", version="0.1.0", run="r", host="spark-1", boot_id="b", pid=pid, ppid=1,
                     start=T0, exe="/usr/bin/python3", argv="python train.py"), **fields}


def refusal(at, size=2 * GIB, mem=USED_UP, **fields):
    return record("alloc_failed", at, call="cudaMalloc", route="device", size=size, result=2, repeat=1, live_device=100 * GIB,
                  live_pinned=0, **mem, **fields)


def leave(at, status):
    return record("exit", at, status=status, last_activity=T0)


def launcher(pid=100, **end):
    return [record("header", 0, writer="launcher", version="0.1.0", host="spark-1", pid=99),
            record("job_start", 0, pid=pid, argv="python train.py"), record("job_end", 9, pid=pid, **end)]


class Logs(Case):
    def write(self, name, records, run="r", raw=b""):
        folder = os.path.join(self.state, "runs", run)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, name + ".ndjson")
        with open(path, "wb") as log:
            for r in records:
                log.write((json.dumps(r) + "\n").encode())
            log.write(raw)
        return path

    def report(self, *arguments, status=None):
        result = self.call(SPARKSHIM, "report", *arguments, "--format", "json")
        if status is not None:
            self.assertEqual(result.returncode, status, result.stderr)
        return json.loads(result.stdout)

    def text(self, *arguments):
        return self.call(SPARKSHIM, "report", *arguments).stdout.decode()


class Report(Logs):
    def test_nothing_found(self):
        self.write("a", [header(), leave(5, 0)])
        report = self.report(status=0)
        self.assertEqual((report["verdict"], report["findings"]), ("PASS", []))
        self.assertIn("Nothing was found.", self.text())

    def test_where_memory_was(self):
        """Beside a finding and over time; the classes add up, and what came with the end is not what came before it."""
        classes = ("free", "cma", "cache", "shmem", "anon_job", "anon_others", "huge", "pinned", "device_job",
                   "device_others", "kernel", "rest")
        sample = [record("sample", at, why=why, **mem) for at, why, mem in
                  ((0.5, "start", {**PLENTY, "mem_free": 50 * GIB}), (2, "tick", PLENTY), (9, "end", PLENTY))]
        holder = {**record("holder", 1, pid=7, name="ollama", bytes=3 * GIB), "kind": "compute"}
        log = launcher(exit=1)
        log[2:2] = [sample[0], holder, record("nvml", 1, call="processes", answered=True), *sample[1:]]
        self.write("launcher-a", log)
        self.write("a", [header(), refusal(4), leave(5, 1)])
        report = self.report(status=2)
        (finding,) = [f for f in report["findings"] if f["g"] == 3]
        (memory,) = report["memory"]
        self.assertEqual(finding["memory"]["t"], T0 + 4000000)
        self.assertEqual((finding["memory"]["device_job"], finding["memory"]["device_others"]), (100 * GIB, 3 * GIB))
        self.assertEqual([memory[k]["t"] - T0 for k in ("first", "lowest", "last")], [500000, 4000000, 9000000])
        for split in (finding["memory"], *(memory[k] for k in ("first", "lowest", "last"))):
            self.assertEqual(sum(split[c] for c in classes) + split.get("device_nobody", 0), split["total"])
        for style in ("text", "md", "html"):
            page = self.call(SPARKSHIM, "report", "--format", style).stdout.decode()
            page = page.replace("\\", "")
            self.assertIn(finding["memory"]["line"].split(" = ")[0] + " = ", page)
            for word in ("1.0 s before: ", "at first, ", "least available, ", "just after the end, "):
                self.assertIn(word, page, style)

    def test_fail_warn_info(self):
        self.write("a", [header(), refusal(4), leave(5, 1)])
        report = self.report(status=2)
        self.assertEqual(report["verdict"], "FAIL")
        (finding,) = report["findings"]
        self.assertEqual((finding["g"], finding["cause"], finding["pid"]), (3, "alloc_refused_exhausted", 100))
        for key in ("verdict", "confidence", "text", "evidence", "fixes", "ruled_out", "retry", "host", "t"):
            self.assertIn(key, finding)
        self.write("a", [header(), refusal(4)])
        self.report(status=1)
        self.write("a", [header(), refusal(4), leave(5, 0)])
        self.assertEqual(self.report(status=0)["verdict"], "INFO")

    def test_job_end_ends_a_process_without_exit_record(self):
        self.write("a", [header(), refusal(4)])
        self.write("l", launcher(signal=6))
        report = self.report(status=2)
        process = report["processes"][0]
        self.assertEqual((process["end"], process["status"], process["signal"]), ("job", 134, 6))
        self.write("l", launcher(exit=0))
        self.report(status=0)

    def test_status_of_a_shell_tells_of_its_child(self):
        self.write("a", [header(pid=200), refusal(8)])
        self.write("l", launcher(exit=134))
        self.assertEqual(self.report(status=2)["processes"][0]["signal"], 6)
        self.write("b", [header(pid=201)])
        self.report(status=1)

    def test_other_process_is_not_ended_by_the_job(self):
        self.write("a", [header(pid=200), refusal(4)])
        self.write("l", launcher(exit=1))
        self.assertEqual(self.report(status=1)["processes"][0]["end"], "unknown")

    def unexplained(self, *words, text=""):
        """A run without a finding that must not read as healthy."""
        report = self.report(status=0)
        self.assertEqual((report["verdict"], report["findings"]), ("SKIP", []), report)
        self.assertEqual(len(report["unexplained"]), 1, report)
        for word in words:
            self.assertIn(word, report["unexplained"][0])
            self.assertIn(report["unexplained"][0] + ".", self.text().splitlines())
        self.assertNotIn("Nothing was found", self.text())

    def test_failed_job_without_a_finding_is_not_healthy(self):
        self.write("a", [header(), leave(5, 3)])
        self.write("l", launcher(exit=3))
        self.unexplained("The job (pid 100 on spark-1) ended with status 3; nothing that sparkshim knows explains it")
        self.write("l", launcher(exit=0))  # the job handled it
        self.assertEqual(self.report(status=0)["verdict"], "PASS")
        self.write("l", launcher(signal=11))
        self.unexplained("was killed by signal 11 (Segmentation fault); nothing that sparkshim knows explains it")
        self.write("l", launcher(signal=9))  # said as INFO, which explains nothing
        report = self.report(status=0)
        self.assertEqual([(f["cause"], f["verdict"]) for f in report["findings"]], [("killed_unknown", "INFO")])
        self.assertIn("was killed by signal 9 (Killed)", report["unexplained"][0])
        self.write("l", launcher()[:-1])
        self.unexplained("left no record of its end")
        self.write("a", [header(), refusal(4), leave(5, 3)])
        self.assertEqual(self.report(status=2)["unexplained"], [])

    def test_nor_is_a_process_without_a_launcher(self):
        self.write("a", [header(), leave(5, 3)])
        self.unexplained("pid 100 on spark-1 ended with status 3; nothing that sparkshim knows explains it")
        self.write("a", [header()])
        self.unexplained("pid 100 on spark-1 wrote no record of its end: a signal ended it, or _exit")
        self.write("a", [header(), leave(5, 0)])
        self.write("b", [header(pid=101, ppid=100)])  # its parent saw it, and ended well
        self.assertEqual(self.report(status=0)["verdict"], "PASS")
        self.write("b", [header(pid=101, ppid=50)])
        self.unexplained("pid 101 on spark-1")

    def test_a_process_that_lives_has_no_bad_end(self):
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
            boot = f.read().strip()
        path = self.write("a", [header(pid=os.getpid(), host=os.uname().nodename, boot_id=boot)])
        with open(path, "rb") as log, mmap.mmap(log.fileno(), 0, access=mmap.ACCESS_READ):
            report = self.report(status=0)
        self.assertEqual((report["processes"][0]["end"], report["verdict"], report["unexplained"]), ("running", "PASS", []))
        self.assertIn("Still running", report["remarks"][0])

    def test_what_was_not_judged_is_not_healthy(self):
        self.write("a", [header(detectors_off=",".join(f"-G{g}" for g in range(1, 11))), leave(5, 0)])
        report = self.report(status=0)
        self.assertEqual((report["verdict"], report["unexplained"]), ("SKIP", []))
        self.assertIn("not judged, switched off by SPARKSHIM_DETECTORS", report["remarks"][0])
        self.write("a", [header(detectors_off="-G3"), refusal(4), leave(5, 1)])
        self.unexplained("ended with status 1")
        self.assertIn("G3: not judged", self.text())
        self.write("a", [header(writer="inject"), leave(5, 0)])
        self.assertEqual(self.report(status=0)["verdict"], "SKIP")
        self.assertIn("1 of 1 processes: the driver loaded the library", self.text())

    def test_nvml_that_was_not_asked_or_did_not_answer(self):
        def nvml(**fields):
            return record("nvml", 1, call="processes", **fields)
        ends = [("ended before NVML was asked who else", []), ("no answer (libnvidia-ml.so.1: no such file)", [nvml(error="libnvidia-ml.so.1: no such file")]),
                ("it did not come back", [nvml(waited=60 * 10**6)]), (None, [nvml(answered=True, compute=0, graphics=0)])]
        for said, asked in ends:
            head, start, end = launcher(exit=0)
            self.write("job", [header(), leave(8, 0)])
            self.write("launcher", [head, start, *asked, end])
            remarks = [line for line in self.report("r", status=0)["remarks"] if line.startswith("G6 SKIP")]
            self.assertEqual([said in line for line in remarks], [True] if said else [], remarks)
            if said:
                self.assertIn(said, self.text("r"))
        os.remove(self.write("launcher", []))
        self.assertIn("G6 SKIP: NVML was not asked who else", self.text("r"))  # nobody was there who could
        self.write("job", [header(detectors_off="-G6"), leave(8, 0)])
        self.assertNotIn("G6 SKIP", self.text("r"))

    def test_many_bad_ends(self):
        for n in range(20):
            self.write(f"p{n:02}", [header(pid=1000 + n), leave(5, 1)])
        self.assertEqual(len(self.report(status=0)["unexplained"]), 16)
        self.assertIn("And so for 4 more.", self.text())

    def test_first_failing_rank(self):
        self.write("a", [header(pid=100, rank=0), refusal(8, size=4 * GIB), leave(9, 1)])
        self.write("b", [header(pid=101, rank=1), refusal(4), leave(5, 1)])
        report = self.report(status=2)
        self.assertEqual(report["first_failing"]["rank"], 1)
        self.assertEqual(report["findings"][-1]["rank"], 1)
        text = self.text()
        self.assertIn("First to fail: rank 1, pid 101 on spark-1", text.splitlines()[-1])
        self.assertGreater(text.index("2.0 GiB"), text.index("4.0 GiB"))

    def test_differs_from_live(self):
        live = record("finding", 4, g=3, verdict="WARN", cause="alloc_refused_exhausted", object="device")
        self.write("a", [header(), refusal(4), live])
        self.assertEqual(self.report(status=1)["processes"][0]["differences"], [])
        self.write("a", [header(), refusal(4), {**live, "verdict": "FAIL"}])
        (difference,) = self.report(status=1)["processes"][0]["differences"]
        self.assertEqual((difference["logged"], difference["derived"]), ("FAIL", "WARN"))
        self.assertIn("differs: G3 alloc_refused_exhausted", self.text())
        self.write("a", [header(), live])
        (difference,) = self.report()["processes"][0]["differences"]
        self.assertEqual((difference["logged"], "derived" in difference), ("WARN", False))

    def test_detectors_that_were_off_stay_off(self):
        self.write("a", [header(detectors_off="-G3"), refusal(4), leave(5, 1)])
        self.report(status=0)

    def test_exec_starts_a_new_process(self):
        self.write("a", [header(), refusal(4), header(argv="next"), leave(5, 1)])
        first, second = self.report(status=1)["processes"]
        self.assertEqual((first["end"], second["end"], second["argv"]), ("exec", "exit", "next"))

    def test_torn_and_foreign_lines(self):
        whole = [header(), refusal(4), leave(5, 1)]
        torn = json.dumps(refusal(6)).encode()[:70]
        noise = (b"\n\nnot json\n{\"v\":1}\n[1,2]\n{\"v\":1,\"t\":1,\"k\":\"mem\",\"x\":}\n\xff\xfe\x00\n" + b"x" * 300000 + b"\n" +
                 b"{" * 5000 + b"\n{\"v\":2,\"t\":1,\"k\":\"new\"}\n{\"v\":1,\"t\":1,\"k\":\"newer\",\"deep\":[[{\"a\":[]}]]}\n")
        self.write("a", whole, raw=noise + torn)
        report = self.report(status=2)
        self.assertEqual(report["records"], 3)
        self.assertEqual(report["records_foreign"], 2)
        self.assertEqual(report["lines_unreadable"], 8)

    def test_last_line_without_newline_counts_when_whole(self):
        self.write("a", [header(), refusal(4)], raw=json.dumps(leave(5, 1)).encode())
        self.report(status=2)

    def test_hostile_values(self):
        odd = [{**refusal(4), "size": v} for v in (-1, 1.5, "x", None, True, [1], {"a": 1}, 2**64, 10**40, 2**63)]
        odd += [{**refusal(4), "call": v} for v in ("\x01" * 3000, "\ud83d\ude00", "", 7)] + [{**header(), "pid": -5, "argv": ["x"]}]
        self.write("a", [header(), *odd, {k: refusal(4)[k] for k in ("v", "t", "k")}])
        self.assertIn(self.call(SPARKSHIM, "report").returncode, (0, 1, 2))
        self.report()

    def test_mutated_logs_never_crash(self):
        chance = random.Random(3)
        good = b"".join((json.dumps(r) + "\n").encode() for r in [header(), refusal(4), refusal(5, mem=PLENTY), leave(6, 1)])
        for _ in range(150):
            bad = bytearray(good)
            for _ in range(chance.randint(1, 30)):
                bad[chance.randrange(len(bad))] = chance.choice(b"\"\\{}[]:,\n\0u0\xff" + bytes([chance.randrange(256)]))
            self.write("a", [], raw=bytes(bad[:chance.randrange(1, len(bad))]))
            self.assertIn(self.call(SPARKSHIM, "report").returncode, (0, 1, 2, 3))
            result = self.call(SPARKSHIM, "report", "--format", "json")
            self.assertIn(result.returncode, (0, 1, 2, 3))
            json.loads(result.stdout)

    def test_bytes_that_are_not_utf8(self):
        self.write("a", [header(cwd="/data/\uf7ff\uf741")])
        self.assertEqual(self.report(status=0)["processes"][0]["cwd"], "/data/\uf7ffA")

    def test_unreadable(self):
        self.assertEqual(self.call(SPARKSHIM, "report").returncode, 3)
        self.assertEqual(self.call(SPARKSHIM, "report", "nothing").returncode, 3)
        self.assertEqual(self.call(SPARKSHIM, "report", "/no/such/folder").returncode, 3)
        self.write("a", [])
        self.assertEqual(self.call(SPARKSHIM, "report").returncode, 3)
        self.write("a", [], raw=b"garbage\n" * 100)
        self.assertEqual(self.call(SPARKSHIM, "report").returncode, 3)
        self.assertEqual(self.call(SPARKSHIM, "report", "--format", "pdf").returncode, 125)

    def test_choice_of_the_run(self):
        self.write("a", [header()], run="20260101-aaa")
        self.write("a", [header()], run="20260102-bbb")
        self.write("a", [header()], run="20260102-bbb2")
        folder = os.path.join(self.state, "runs", "20260101-aaa")
        os.utime(folder, (time.time() + 10, time.time() + 10))
        self.assertEqual(self.report()["run"], "20260101-aaa")
        self.assertEqual(self.report("20260102-bbb")["run"], "20260102-bbb")
        self.assertEqual(self.report("20260101")["run"], "20260101-aaa")
        self.assertEqual(self.report(folder)["run"], "20260101-aaa")
        self.assertEqual(self.report(os.path.join(folder, "a.ndjson"))["run"], "a.ndjson")
        self.assertEqual(self.call(SPARKSHIM, "report", "20260102").returncode, 3)
        self.assertEqual(len(self.report("20260101", "20260102-bbb")["processes"]), 2)

    def place(self, name, run, uid=None):
        """A run in a folder for logs of its own."""
        base = os.path.join(self.state, name)
        folder = os.path.join(base, "runs", run)
        os.makedirs(folder)
        with open(os.path.join(folder, "a.ndjson"), "w", encoding="ascii") as log:
            log.writelines(json.dumps(r) + "\n" for r in [header(), leave(5, 0)])
        if uid is not None:
            os.chown(base, uid, uid)
        return base

    def test_where_runs_are_looked_for(self):
        """The temporary folder only where SPARKSHIM_DIR is not set, or cannot be written."""
        self.place(f"tmp/sparkshim-{os.geteuid()}", "fallback")
        home = self.place("home/.local/state/sparkshim", "mine")
        self.env.update(TMPDIR=os.path.join(self.state, "tmp"), SPARKSHIM_DIR=os.path.join(self.state, "empty"),
                        HOME=os.path.join(self.state, "home"))
        for run in ((), ("fallback",), ("mine",)):
            self.assertEqual(self.call(SPARKSHIM, "report", *run).returncode, 3)
        self.assertIn(os.path.join(self.state, "empty", "runs"), self.call(SPARKSHIM, "report").stderr.decode())
        in_the_way = os.path.join(self.state, "file")
        with open(in_the_way, "w", encoding="ascii"):
            self.assertEqual(self.call(SPARKSHIM, "report", "fallback", env={"SPARKSHIM_DIR": in_the_way}).returncode, 0)
        del self.env["SPARKSHIM_DIR"]
        self.env.pop("XDG_STATE_HOME", None)
        for run in ("fallback", "mine"):
            self.assertEqual(self.report(run, status=0)["run"], run)
        if os.geteuid() == 0:  # a folder that somebody else has put there
            os.chown(os.path.join(self.env["TMPDIR"], "sparkshim-0"), 1234, 1234)
            self.assertEqual(self.call(SPARKSHIM, "report", "fallback").returncode, 3)
        self.assertIn(home, self.report(status=0)["path"])

    def age(self, run, seconds):
        then = time.time() - seconds
        os.utime(os.path.join(self.state, "runs", run), (then, then))

    def test_newest_run_with_a_watched_process(self):
        self.write("l", launcher(exit=0), run="old")
        self.write("launcher-spark-1-99", launcher(exit=0), run="plain")
        self.age("old", 30)
        self.assertEqual(self.report()["run"], "old")  # its log is called as a process's
        self.write("launcher-spark-1-99", launcher(exit=0), run="older")
        self.write("spark-1-100-7", [header(), leave(5, 0)], run="older")
        self.age("older", 60)
        self.age("old", 90)
        result = self.call(SPARKSHIM, "report")
        self.assertIn(b"Run older: PASS", result.stdout)
        self.assertIn(b"run plain is newer, but no process of it was watched", result.stderr)
        self.assertEqual(self.report("plain")["run"], "plain")
        self.age("older", -60)
        self.assertEqual(self.call(SPARKSHIM, "report").stderr, b"")

    def test_only_runs_without_a_watched_process(self):
        for n, run in enumerate(("a", "b")):
            self.write("launcher-spark-1-99", launcher(exit=0), run=run)
            self.age(run, n)
        self.assertEqual(self.report(status=0)["run"], "a")

    def listed(self, *arguments):
        result = self.call(SPARKSHIM, "report", "--list", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        return result.stdout.decode()

    def test_list(self):
        self.write("a", [header(), refusal(4), leave(5, 1)], run="failed")
        self.write("launcher-spark-1-99", launcher(exit=1), run="failed")
        self.write("launcher-spark-1-99", launcher(signal=9), run="killed")
        self.write("a", [header(argv="plain\x1b[31m job")], run="plain")
        self.write("a", [header(), leave(5, 0)], run="well")
        self.write("b", [header(pid=101), leave(5, 0)], run="well")
        for n, run in enumerate(("failed", "killed", "plain", "well")):
            self.age(run, n)
        rows = [re.split("  +", line) for line in self.listed().splitlines()]
        when = "2026-11-30 03:30:07 UTC"
        self.assertEqual(rows, [["RUN", "STARTED", "VERDICT", "ENDED", "COMMAND"],
                                ["failed", when, "FAIL", "status 1", "python train.py"],
                                ["killed", when, "INFO", "signal 9 (Killed)", "python train.py"],
                                ["plain", when, "SKIP", "no record", "plain?[31m job"],
                                ["well", when, "PASS", "status 0", "python train.py"]])
        told = json.loads(self.listed("--format", "json"))["runs"]
        self.assertEqual([(r["run"], r["start"], r["verdict"], r["ended"], r["watched"]) for r in told],
                         [("failed", T0, "FAIL", "status 1", 1), ("killed", T0, "INFO", "signal 9 (Killed)", 0),
                          ("plain", T0, "SKIP", "no record", 1), ("well", T0, "PASS", "status 0", 2)])
        self.assertEqual(self.report(told[0]["run"])["path"], told[0]["path"])
        for wrong in (("failed",), ("--format", "html")):
            self.assertEqual(self.call(SPARKSHIM, "report", "--list", *wrong).returncode, 125)

    def test_list_of_nothing(self):
        result = self.call(SPARKSHIM, "report", "--list")
        self.assertEqual((result.returncode, result.stdout), (0, b""))
        self.assertIn(b"there is no run below", result.stderr)

    def test_allocation_table(self):
        stats = record("alloc_stats", 4, route="device", count=10, frees=4, failed=1, bytes=9 * GIB, live=5 * GIB, peak=8 * GIB, untracked=0)
        self.write("a", [header(), stats, leave(5, 0)])
        self.assertEqual(self.report(status=0)["processes"][0]["allocations"][0]["peak"], 8 * GIB)
        self.assertIn("at most 8.0 GiB", self.text())

    def test_time_does_not_grow_with_the_square(self):
        makers = {"header": lambda i: header(pid=i), "finding": lambda i: record("finding", 1, g=3, verdict="WARN", cause=f"c{i}", object="o"),
                  "job_start": lambda i: record("job_start", 1, pid=i, argv="x"), "job_end": lambda i: record("job_end", 1, pid=i, exit=1)}
        for kind, make in makers.items():
            self.write("a", [header(), *(make(i) for i in range(80000))])
            began = os.times().children_user
            self.report()
            self.assertLess(os.times().children_user - began, 10, kind)

    def test_job_end_out_of_range(self):
        for end in ({"exit": 2**63 - 1}, {"signal": 2**63 - 1}, {"signal": -1}, {"exit": -1}, {}):
            self.write("a", [header(), refusal(4)])
            self.write("l", launcher(**end))
            job = self.report()["jobs"][0]
            self.assertEqual(("exit" in job, "signal" in job), (False, False), end)

    def test_a_million_records(self):
        if EMULATOR:
            self.skipTest("says nothing about speed")
        line = json.dumps(record("mem_query", 1, call="cudaMemGetInfo", result=0, free=GIB, total=122 * GIB)).encode() + b"\n"
        self.write("a", [header()], raw=line * 1000000)
        began = time.process_time(), os.times().children_user
        report = self.report(status=0)
        self.assertEqual(report["records"], 1000001)
        self.assertLess(os.times().children_user - began[1], 6)

ESCAPES = "\x1b]0;title\x07\x1b[31m\x9b31m\x7f\u202e\uf79b\u2028\nG3 FAIL: forged"


def hostile(kind, at=1):
    """A record of that kind with such a text in every field that takes one, from the schema of the log."""
    with open(os.path.join(SOURCE, "tests", "data", "log.schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    fields = schema["$defs"][kind]["properties"]
    values = {"string": ESCAPES, "integer": 1, "boolean": True, "array": [ESCAPES]}
    made = {name: "0x1" if "pattern" in field else values[field["type"]] for name, field in fields.items() if "type" in field}
    return {**record(kind, at), **{k: v for k, v in made.items() if k not in ("v", "t", "k")}}


class Terminal(Logs):
    """Nothing that a log, a name or a path holds reaches the terminal but as text on its own line."""

    def check(self, output):
        text = output.decode()
        for c in text:
            self.assertTrue(c == "\n" or (c >= " " and c not in "\u2028\u202e\uf79b" and not "\x80" <= c <= "\x9f"), (c, text))
        self.assertNotIn("\nG3 FAIL: forged", text)

    def kinds(self):
        with open(os.path.join(SOURCE, "tests", "data", "log.schema.json"), encoding="utf-8") as file:
            return json.load(file)["properties"]["k"]["enum"]

    def test_records(self):
        for writer in ("shim", "launcher"):
            head = {**hostile("header"), "writer": writer, "pid": 100}
            for kind in self.kinds():
                odd = hostile(kind)
                if kind == "finding":
                    odd.update(g=3, verdict="WARN")
                self.write("a", [head, {**refusal(1), "call": ESCAPES}, odd, leave(2, 1)] if kind != "header" else [head, odd])
                self.write("l", launcher(exit=1))
                self.check(self.call(SPARKSHIM, "report").stdout)
                result = self.call(SPARKSHIM, "report", "--format", "json").stdout
                self.check(result)
                json.loads(result)

    def test_names(self):
        odd = "r\x1b[31m\nG3 FAIL: forged"
        self.write("a\x1b[31m", [header(), refusal(1), leave(2, 1)], run=odd)
        for arguments in ((), ("nothing" + odd,), (os.path.join(self.state, odd),), (os.path.join(self.state, "runs", odd),)):
            result = self.call(SPARKSHIM, "report", *arguments)
            self.check(result.stdout + result.stderr)


@needs_a_job
class EndOfRun(Logs):
    """What `run` says when the job has ended."""

    def job(self, *records, status=0, run=(SPARKRUN,)):
        """A job that writes the log that a watched process would."""
        path = os.path.join(self.state, "log")
        with open(path, "w", encoding="ascii") as log:
            log.writelines(json.dumps(r) + "\n" for r in records)
        script = (f'sed "s/STDERR/$(stat -Lc %d:%i /dev/stderr)/" {shlex.quote(path)} '
                  f'>"$SPARKSHIM_DIR/runs/$SPARKSHIM_RUN/spark-1-100-0.ndjson"; exit {status}')
        return self.call(*run, "sh", "-c", script)

    def test_findings_then_the_next_command(self):
        result = self.job(header(), refusal(4), leave(5, 1), status=1)
        self.assertEqual((result.returncode, result.stdout), (1, b""))
        *findings, command = result.stderr.decode().splitlines()
        self.assertEqual(len(findings), 1)
        self.assertRegex(findings[0], r"^G3 FAIL: .*; fix: ")
        self.assertRegex(command, r"sparkshim report \S+$")
        again = self.call("sh", "-c", command)
        self.assertEqual(again.returncode, 2)

    def said_at_exit(self, at=5, verdict="FAIL", **fields):
        return record("finding", at, g=3, verdict=verdict, cause="alloc_refused_exhausted", object="device", **fields)

    def test_what_stands_there_is_not_said_again(self):
        late = time.time() - T0 / 1e6
        facts = [header(), refusal(late - 1)]
        end = leave(late, 1)
        for records, lines in (([*facts, end, self.said_at_exit(shown="STDERR")], 0),
                               ([*facts, end, self.said_at_exit(shown="1:1")], 1),  # on another file
                               ([*facts, end, self.said_at_exit()], 1),  # on none
                               ([*facts, self.said_at_exit(shown="STDERR"), end], 1),  # before it knew its end
                               ([*facts, end, self.said_at_exit(verdict="WARN", shown="STDERR")], 1),
                               ([*facts, end, self.said_at_exit(shown="STDERR"), self.said_at_exit(verdict="WARN")], 1),
                               ([header(), refusal(4), leave(5, 1), self.said_at_exit(shown="STDERR")], 1)):  # long ago
            *said, command = self.job(*records, status=1).stderr.decode().splitlines()
            self.assertEqual([line.split(":")[0] for line in said], ["G3 FAIL"] * lines, records)
            self.assertIn("sparkshim report ", command)

    def test_the_command_is_one_for_a_shell(self):
        for name in ("with space", "it's", "$(touch pwned)", "line\nbreak", "\x1b[31m", "caf\u00e9", "\udce4", "-d", "a;b", "\\"):
            folder = os.path.join(self.state, "sparkshim " + name)
            run = (SPARKSHIM, "run", "--dir", folder, "--")
            result = self.job(header(), refusal(4), leave(5, 1), status=1, run=run)
            command = result.stderr.splitlines()[-1]
            self.assertNotIn(b"\x1b", command)
            again = self.call("bash", "-c", b"cd / && " + command)
            self.assertEqual(again.returncode, 2, (command, again.stderr))
            self.assertFalse(os.path.exists("/pwned"))

    def test_the_root_cause_is_said_last(self):
        late = time.time() - T0 / 1e6
        asked = record("alloc_large", late - 3, call="cudaMalloc", route="managed", size=1 << 50, **USED_UP)
        warned = record("finding", late - 3, g=3, verdict="WARN", cause="oversize_request", object="managed")
        facts = [header(), asked, {**warned, "shown": "STDERR"}, refusal(late - 1), leave(late, 1), self.said_at_exit(shown="STDERR")]
        for records, words in ((facts, []),  # both stand there
                               ([*facts[:2], warned, *facts[3:]], ["WARN", "FAIL"]),  # of the warning nobody knows
                               ([*facts[:-1], self.said_at_exit()], ["WARN", "FAIL"])):
            *said, command = self.job(*records, status=1).stderr.decode().splitlines()
            self.assertEqual([line.split(":")[0][3:] for line in said], words, records)
            self.assertIn("sparkshim report ", command)

    def test_nothing_when_nothing_was_found(self):
        for records in ([header(), leave(5, 0)], [header(), refusal(4), leave(5, 0)]):
            self.assertEqual(self.job(*records).stderr, b"")


if __name__ == "__main__":
    unittest.main()
