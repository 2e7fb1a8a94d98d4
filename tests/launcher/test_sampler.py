"""What the launcher sees of the machine while a job runs: when it looks, what of it stands in its log, and what it costs."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

from common import BIN, Case, SOURCE, SPARKRUN, SPARKSHIM

sys.path.insert(0, os.path.join(SOURCE, "tests", "lib"))
import check_log  # noqa: E402

GIB = 1 << 30


class Sampled(Case):
    def logs(self):
        """Records of the launchers' logs, checked against the schema; the oldest first."""
        folder = os.path.join(self.state, "runs")
        paths = [p for p in check_log.logs(folder) if p.name.startswith("launcher-")]
        return [check_log.records(p) for p in sorted(paths, key=os.path.getmtime)]

    def log(self):
        (records,) = self.logs()
        return records

    @staticmethod
    def samples(records):
        return [r for r in records if r["k"] == "sample"]


class Real(Sampled):
    def test_start_and_end_always(self):
        for script, end in (("exit 3", {"exit": 3}), ("kill -9 $$", {"signal": 9}), ("kill -SEGV $$", {"signal": 11})):
            self.call(SPARKRUN, "sh", "-c", script)
            records = [r for r in self.logs()[-1] if r["k"] != "finding"]
            self.assertEqual([r["k"] for r in records if r["k"] in ("header", "job_start", "job_end")], ["header", "job_start", "job_end"])
            samples = self.samples(records)
            self.assertEqual((samples[0]["why"], samples[-1]["why"]), ("start", "end"), script)
            kinds = [r["k"] for r in records]
            self.assertLess(kinds.index("sample"), kinds.index("job_start"))
            self.assertEqual(kinds[-1], "job_end")  # after the look that tells of the moment of death
            self.assertLessEqual(end.items(), records[-1].items())
            for key in ("mem_total", "mem_available", "page_size"):
                self.assertGreater(samples[-1][key], 0)

    def test_nothing_of_a_job_that_could_not_be_started(self):
        self.assertEqual(self.call(SPARKRUN, "no-such-program-here").returncode, 127)
        self.assertEqual(self.runs(), [])

    def test_a_look_a_second_and_the_processes_of_the_job(self):
        script = "python3 -c 'x = bytearray(64 << 20); import time; time.sleep(30)' & sleep 6.5; kill %1"
        self.call(SPARKRUN, "sh", "-c", script)
        samples = self.samples(self.log())
        ticks = [r for r in samples if r["why"] in ("tick", "fast", "pressure")]
        self.assertGreaterEqual(len(ticks), 4)
        times = [r["t"] for r in samples]
        self.assertEqual(times, sorted(times))
        self.assertGreaterEqual(max(r.get("job_processes", 0) for r in ticks), 3)
        self.assertGreaterEqual(max(r.get("job_anon", 0) for r in ticks), 64 << 20)

    def test_one_launcher_looks(self):
        self.call(SPARKRUN, SPARKRUN, "true")
        self.assertEqual(sorted(len(self.samples(r)) > 0 for r in self.logs()), [False, True])

    def test_no_thread_is_left_in_the_way(self):
        """The job's end is the launcher's, however early it comes."""
        began = time.monotonic()
        for _ in range(20):
            self.assertEqual(self.call(SPARKRUN, "true").returncode, 0)
        self.assertLess(time.monotonic() - began, 20)

    def test_a_job_that_may_start_nothing(self):
        """RLIMIT_NPROC: no thread can be had, or the job's own are counted: it runs, and both ends are written."""
        limit = "ulimit -u 1; exec setpriv --reuid 65534 --regid 65534 --clear-groups -- " if os.getuid() == 0 else "ulimit -u 1; exec "
        os.chmod(self.state, 0o777)
        done = self.call("sh", "-c", limit + f"{SPARKRUN} sh -c 'exit 4'")
        self.assertEqual(done.returncode, 4, done.stderr)

    def test_stopped_and_continued(self):
        job = subprocess.Popen([SPARKRUN, "sleep", "4"], env=self.env, start_new_session=True)
        time.sleep(0.5)
        os.killpg(job.pid, signal.SIGTSTP)
        time.sleep(1)
        os.killpg(job.pid, signal.SIGCONT)
        self.assertEqual(job.wait(20), 0)
        self.assertEqual(self.samples(self.log())[-1]["why"], "end")

    def test_killed(self):
        """What was seen until then is in the log."""
        job = subprocess.Popen([SPARKRUN, "sleep", "60"], env=self.env)
        time.sleep(2.5)
        job.kill()
        job.wait()
        records = self.log()
        self.assertGreaterEqual(len(self.samples(records)), 2)
        self.assertNotIn("job_end", [r["k"] for r in records])

    def test_the_log_cannot_be_written(self):
        done = self.call("sh", "-c", f"ulimit -f 1; exec {SPARKRUN} sh -c 'sleep 2.5; exit 5'")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (5, b"", b""))


@unittest.skipUnless(os.path.exists(os.path.join(BIN, "gb10sim")), "no simulator in this build")
class Simulated(Sampled):
    def setUp(self):
        super().setUp()
        del self.env["SPARKSHIM_LIB"]
        self.world = os.path.join(self.state, "world.scn")

    def run_in(self, world, *words):
        with open(self.world, "w", encoding="ascii") as f:
            f.write("include gb10-idle.scn\n" + world)
        job = os.path.join(BIN, "jobs", "alloc_rt13")
        return self.call(os.path.join(BIN, "gb10sim"), self.world, "--", SPARKSHIM, "run", "--", job, *words)

    def test_a_fall_within_a_second_and_a_half(self):
        for attempt in range(5):  # as in test_hours_pass
            done = self.run_in("over 1.5s mark resume MemAvailable 34.0GiB -> 12.7GiB\n", "sleep:20s", "mark:resume", "sleep:3s", "work")
            self.assertEqual(done.returncode, 0, done.stderr)
            samples = self.samples(self.logs()[-1])
            on_slope = {r["mem_available"] for r in samples if 12.8 * GIB < r["mem_available"] < 33.9 * GIB}
            if len(on_slope) >= 3 and "fast" in {r["why"] for r in samples}:
                return
        self.fail(f"{sorted(on_slope)} on the slope")

    def test_hours_pass(self):
        """A jump of the clock waits 0.3 s for a look: on a machine that is busy for longer, looks are left out."""
        for attempt in range(5):
            done = self.run_in("at 30m vmstat oom_kill +1\n", "sleep:3h", "work")
            self.assertEqual(done.returncode, 0, done.stderr)
            samples = self.samples(self.logs()[-1])
            self.assertGreaterEqual(samples[-1]["t"] - samples[0]["t"], 3 * 3600 * 1000000)
            before, after = next((a, b) for a, b in zip(samples, samples[1:]) if a["oom_kill"] != b["oom_kill"])
            gap = after["t"] - before["t"]  # the look before it is there, too
            if len(samples) > 500 and gap < 5 * 1000000:
                return
        self.fail(f"{len(samples)} samples, {gap} us between the two that show the victim")

    BESIDE = ("process 4242 name /usr/bin/ollama parent 1 type compute memory 19456MiB service\n"
              'process 900 name /usr/bin/earlyoom parent 1 type none command "earlyoom -m 5"\nat 30s process 4242 gone\n')

    def test_who_else_is_there(self):
        self.assertEqual(self.run_in(self.BESIDE, "cudaMalloc:1GiB", "sleep:10m", "work").returncode, 0)
        records = self.log()
        looks = [[]]
        for r in records:
            if r["k"] == "holder":
                looks[-1].append(r)
            if r["k"] == "nvml":
                self.assertTrue(r["answered"], r)
                looks.append([])
        self.assertIn(4242, {h["pid"] for h in looks[0]})
        self.assertEqual([h["bytes"] for h in looks[0] if h.get("ours")], [GIB])
        self.assertNotIn(4242, {h["pid"] for h in looks[-2]})
        self.assertLess(len(looks), 30)  # ten minutes: each look of the first quarter of one, then what is new, and one a minute
        self.assertEqual([r["name"] for r in records if r["k"] == "killer"], ["earlyoom"])
        self.assertEqual({r["name"] for r in records if r["k"] == "limit"} - {"cgroup"}, {"memlock", "as"})

    def test_a_job_that_fails_at_once(self):
        """Who held what is asked afterwards, before the exit is judged."""
        self.assertEqual(self.run_in(self.BESIDE, "cudaMalloc:1GiB", "exit:1").returncode, 1)
        kinds = [r["k"] for r in self.log()]
        for kind in ("holder", "nvml", "killer", "limit"):
            self.assertIn(kind, kinds)
        self.assertLess(kinds.index("nvml"), kinds.index("job_end"))

    def test_a_killer_that_comes_after_the_start(self):
        """It is looked for again when the job has failed; each is told once, with what it acts upon."""
        later = self.BESIDE + 'at 1m process 901 name /usr/bin/earlyoom parent 1 type none command "earlyoom -m 20"\n'
        self.assertEqual(self.run_in(later, "cudaMalloc:1GiB", "sleep:10m", "exit:1").returncode, 1)
        records = self.log()
        self.assertEqual([(r["pid"], r["mem_min"]) for r in records if r["k"] == "killer"], [(900, 500), (901, 2000)])
        kinds = [r["k"] for r in records]
        self.assertLess(max(i for i, kind in enumerate(kinds) if kind == "killer"), kinds.index("job_end"))

    def test_no_gpu_is_asked_for_a_job_without(self):
        with open(self.world, "w", encoding="ascii") as f:
            f.write("include gb10-idle.scn\n")
        self.call(os.path.join(BIN, "gb10sim"), self.world, "--", SPARKSHIM, "run", "--", "sh", "-c", "sleep 1.3; exit 1")
        self.assertFalse({"nvml", "holder"} & {r["k"] for r in self.log()})

    def test_a_call_that_does_not_return(self):
        done = self.run_in("pace 400\nblock cudaMalloc nth 2 for 200s\n", "cudaMalloc:1GiB", "sleep:10s", "cudaMalloc:2GiB", "work", "sleep:10s")
        self.assertEqual(done.returncode, 0, done.stderr)
        records = self.log()
        *lasts, over = [r for r in records if r["k"] == "stall"]
        self.assertTrue(over["over"])
        self.assertGreaterEqual(len(lasts), 5)
        for r in lasts:
            self.assertEqual((r["call"], r["arg"], r["thread"], "over" in r), ("cudaMalloc", 2 * GIB, r["pid"], False))
            self.assertGreaterEqual(r["age"], 30 * 1000000)
            self.assertGreaterEqual(r["age"], r["idle"])
            self.assertIn(r["state"], ("R", "S", "D"))
        self.assertIn("thread_cpu", lasts[-1])
        device = [r["job_device"] for r in self.samples(records) if "job_device" in r]
        self.assertIn(GIB, device)
        self.assertEqual(device[-1], 3 * GIB)

    def test_nobody_watches_calls(self):
        self.env["SPARKSHIM_STALL"] = "0"
        done = self.run_in("pace 400\nblock cudaMalloc for 200s\n", "cudaMalloc:1GiB", "work")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("stall", [r["k"] for r in self.log()])


if __name__ == "__main__":
    unittest.main()
