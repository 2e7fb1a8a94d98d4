"""preflight, its sh twin, explain and doctor; and that the words they use are the project's."""
import json
import os
import re
import unittest

from common import BIN, Case, SOURCE, SPARKSHIM, needs_a_job

SCRIPT = os.path.join(SOURCE, "scripts", "preflight.sh")
IDLE = {"MemTotal": 127535084, "MemFree": 102000000, "MemAvailable": 120000000, "Buffers": 10000, "Cached": 17000000,
        "SwapTotal": 16777212, "SwapFree": 16777212}
HIDDEN = {**IDLE, "MemFree": 43537000, "MemAvailable": 121268000, "Buffers": 60000, "Cached": 76168000}
USED_UP = {**IDLE, "MemFree": 900000, "MemAvailable": 1100000, "Cached": 700000}
CMA = {**IDLE, "MemFree": 9437184, "MemAvailable": 9437184, "CmaTotal": 9043968, "CmaFree": 8912896, "Cached": 3000000}
PHANTOM = {**IDLE, "CmaTotal": 0, "CmaFree": 940604}


def words(name):
    with open(os.path.join(SOURCE, "facts", "causes.def"), encoding="utf-8") as table:
        rows = re.findall(r'^CAUSE\((\d+), (\w+), "(.*)"\)', table.read(), re.M)
    return rows if name == "causes" else None


class Preflight(Case):
    def machine(self, meminfo):
        root = os.path.join(self.state, "root")
        os.makedirs(os.path.join(root, "proc"), exist_ok=True)
        with open(os.path.join(root, "proc", "meminfo"), "w", encoding="ascii") as file:
            file.writelines(f"{k + ':':<16}{v:>8} kB\n" for k, v in meminfo.items())
        return {"SPARKSHIM_ROOT": root}

    def lines(self, result):
        return dict(re.match(r"(G\d+) (\w+): ", line).groups() for line in result.stdout.decode().splitlines()
                    if not line.startswith("memory "))

    def test_ten_lines(self):
        result = self.call(SPARKSHIM, "preflight")
        lines = result.stdout.decode().splitlines()
        self.assertEqual([line.split()[0] for line in lines[:10]], [f"G{n}" for n in range(1, 11)])
        self.assertEqual({line.split()[0] for line in lines[10:]}, {"memory"})
        for line in lines[:10]:
            self.assertRegex(line, r"^G\d+ (PASS|FAIL|WARN|SKIP|INFO): \S")

    def test_memory(self):
        for meminfo, verdict in ((IDLE, "PASS"), (HIDDEN, "INFO"), (USED_UP, "PASS")):
            result = self.call(SPARKSHIM, "preflight", env=self.machine(meminfo))
            self.assertEqual((self.lines(result)["G3"], result.returncode), (verdict, 0))
            self.assertTrue(all(line.endswith(" (simulated)") for line in result.stdout.decode().splitlines()[:11]))

    def test_json(self):
        result = self.call(SPARKSHIM, "preflight", "--json", env=self.machine(HIDDEN))
        report = json.loads(result.stdout)
        self.assertEqual((report["v"], report["verdict"], len(report["checks"])), (1, "ready", 10))
        self.assertEqual(report["checks"][2]["cause"], "page_cache_counted")
        self.assertAlmostEqual(report["headroom_gb"], 121268000 / 1048576, 2)

    def test_split_adds_up(self):
        """Line, table and JSON; what nobody accounts for, and what is counted twice."""
        for meminfo in (IDLE, {**IDLE, "AnonPages": 4000000, "SUnreclaim": 1400000}, {**IDLE, "AnonPages": 40000000}, CMA):
            env = self.machine(meminfo)
            memory = json.loads(self.call(SPARKSHIM, "preflight", "--json", env=env).stdout)["memory"]
            classes = ("free", "cma", "cache", "shmem", "anon_job", "anon_others", "huge", "pinned", "device_job",
                       "device_others", "kernel", "rest")
            self.assertEqual(sum(memory[c] for c in classes) + memory.get("device_nobody", 0), meminfo["MemTotal"] * 1024)
            text = self.call(SPARKSHIM, "preflight", env=env).stdout.decode()
            total, parts = re.search(r"^memory  ([\d.]+) GiB = (.*) \(simulated\)$", text, re.M).groups()
            figures = re.findall(r"(^|[+-] )([\d.]+) ", parts)
            self.assertAlmostEqual(sum(-float(n) if s == "- " else float(n) for s, n in figures), float(total), 5)
            self.assertIn(memory["line"], text)
            self.assertRegex(text, rf"(?m)^memory +{total} GiB  in all$")

    def test_memory_that_cannot_be_read(self):
        root = os.path.join(self.state, "root")
        os.makedirs(os.path.join(root, "proc"))
        with open(os.path.join(root, "proc", "meminfo"), "w", encoding="ascii") as file:
            file.write("nothing\n")
        result = self.call(SPARKSHIM, "preflight", env={"SPARKSHIM_ROOT": root})
        self.assertEqual((self.lines(result)["G3"], self.lines(result)["G6"], result.returncode), ("SKIP", "SKIP", 3))
        self.assertNotIn("memory ", result.stdout.decode().split("\n", 10)[10])

    def test_env_report(self):
        path = os.path.join(self.state, "env.json")
        self.call(SPARKSHIM, "preflight", "--env-report", path, env=self.machine(HIDDEN))
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual(set(report), {"platform", "checks", "headroom_gb", "verdict"})
        self.assertEqual(list(report["checks"]), [f"G{n}" for n in range(1, 11)])
        for word in report["checks"].values():
            self.assertRegex(word, r"^(pass|fail|warn: .+|skip: .+|info: .+)$")
        self.assertEqual(self.call(SPARKSHIM, "preflight", "--env-report", "/no/where/x").returncode, 3)

    @needs_a_job
    def test_script_agrees_with_the_program(self):
        for meminfo, status in ((IDLE, 0), (HIDDEN, 0), (USED_UP, 0), (CMA, 1), (PHANTOM, 1)):
            env = self.machine(meminfo)
            program = self.lines(self.call(SPARKSHIM, "preflight", env=env))
            with_program = self.call(SCRIPT, env={**env, "PATH": f"{BIN}:/usr/bin:/bin"})
            alone = self.call(SCRIPT, env={**env, "SPARKSHIM_PREFLIGHT": "sh"})
            for result in (with_program, alone):
                self.assertEqual(list(self.lines(result)), ["G1", "G3", "G4", "G7", "G9"])
                self.assertEqual(self.lines(result)["G3"], program["G3"], meminfo)
                self.assertEqual(result.returncode, status)
            self.assertEqual(set(self.lines(alone).values()), {"SKIP", program["G3"]})


class Explain(Case):
    def test_every_word_has_a_text(self):
        for name in [f"G{n}" for n in range(1, 11)] + [word for _, word, _ in words("causes")]:
            result = self.call(SPARKSHIM, "explain", name)
            self.assertEqual(result.returncode, 0, name)
            for part in ("What it is", "How it is told from its look-alikes", "What to do"):
                self.assertIn(part, result.stdout.decode())
        self.assertEqual(self.call(SPARKSHIM, "explain", "g3").returncode, 0)
        self.assertEqual(self.call(SPARKSHIM, "explain", "nonsense").returncode, 1)

    def test_no_text_without_a_word(self):
        known = {f"G{n}" for n in range(1, 11)} | {word for _, word, _ in words("causes")}
        listed = re.findall(r"^  (\w+) ", self.call(SPARKSHIM, "explain", "--help").stdout.decode(), re.M)
        self.assertEqual(set(listed), known)

    def test_glossary_has_the_same_causes(self):
        with open(os.path.join(SOURCE, "docs", "glossary.md"), encoding="utf-8") as glossary:
            section = glossary.read().split("## Causes")[1].split("##")[0]
        rows = re.findall(r"^\| (\w+) \| G(\d+) \| (.*) \|$", section, re.M)
        self.assertEqual([(g, word, title) for word, g, title in rows], words("causes"))


@needs_a_job
class Doctor(Case):
    def test_library_that_is_not_ours(self):
        """The empty library is mapped under another name: the doctor must not be satisfied."""
        result = self.call(SPARKSHIM, "doctor")
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertRegex(result.stdout.decode(), r"G1 FAIL: the library is not mapped")
        self.assertEqual(self.runs(), [])

    def test_library_that_keeps_no_log(self):
        library = os.path.join(self.state, "libsparkshim.so")
        with open(os.environ["LAUNCHER_EMPTY"], "rb") as source, open(library, "wb") as copy:
            copy.write(source.read())
        result = self.call(SPARKSHIM, "doctor", env={"SPARKSHIM_LIB": library})
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stdout.decode(), r"G1 FAIL: it is mapped, and no log was kept")

    def test_missing_and_broken_library(self):
        self.assertEqual(self.call(SPARKSHIM, "doctor", env={"SPARKSHIM_LIB": "/no/where.so"}).returncode, 2)
        text = os.path.join(self.state, "libsparkshim.so")
        with open(text, "w", encoding="ascii") as file:
            file.write("no library " * 20)
        self.assertEqual(self.call(SPARKSHIM, "doctor", env={"SPARKSHIM_LIB": text}).returncode, 2)

    @unittest.skipUnless(os.path.exists(os.path.join(BIN, "..", "lib", "libsparkshim.so")), "the library is not in this build")
    def test_it_works(self):
        env = {"SPARKSHIM_LIB": ""}
        result = self.call(SPARKSHIM, "doctor", "--", "sh", env=env)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(self.runs(), [])
        result = self.call(SPARKSHIM, "doctor", env={**env, "LD_PRELOAD": "/no/such.so"})
        self.assertEqual(result.returncode, 1)
        result = self.call(SPARKSHIM, "doctor", env={**env, "SPARKSHIM": "0"})
        self.assertEqual(result.returncode, 2)


if __name__ == "__main__":
    unittest.main()
