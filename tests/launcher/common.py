"""What the launcher's tests share: a clean environment, and the program's paths."""
import os
import shutil
import subprocess
import tempfile
import unittest

BIN = os.environ["SPARKSHIM_BIN"]
EMPTY = os.environ["LAUNCHER_EMPTY"]
JOB = os.environ["LAUNCHER_JOB"]
SOURCE = os.environ["SPARKSHIM_SOURCE"]
EMULATOR = os.environ.get("LAUNCHER_EMULATOR", "").split()
SPARKSHIM = os.path.join(BIN, "sparkshim")
SPARKRUN = os.path.join(BIN, "sparkrun")


needs_a_job = unittest.skipIf(EMULATOR, "a job would be a program of another machine than the emulated one")


def clean_environment():
    return {k: v for k, v in os.environ.items() if not k.startswith("SPARKSHIM") and k not in
            ("LD_PRELOAD", "ASAN_OPTIONS", "_SPARKRUN_COMPLETE")}


class Case(unittest.TestCase):
    """Each test has a state folder of its own and the empty library as preload."""

    def setUp(self):
        self.state = tempfile.mkdtemp(prefix="sparkshim-test-")
        self.addCleanup(shutil.rmtree, self.state, True)
        self.env = clean_environment()
        self.env.update(SPARKSHIM_DIR=self.state, SPARKSHIM_LIB=EMPTY)

    def call(self, *argv, env=None, **options):
        options.setdefault("timeout", 60)
        options.setdefault("stdin", subprocess.DEVNULL)
        if argv[0] == SPARKSHIM:
            argv = (*EMULATOR, *argv)
        return subprocess.run(argv, env={**self.env, **(env or {})}, capture_output=True, **options)

    def runs(self):
        folder = os.path.join(self.state, "runs")
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
