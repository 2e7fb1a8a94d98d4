"""evict: what it takes out of the page cache is counted by the test itself, with cachestat(2)."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import unittest

from common import Case, EMULATOR, SOURCE, SPARKSHIM

sys.path.insert(0, os.path.join(SOURCE, "tests", "lib"))
from page_cache import cached, file_system, most, reason_not_to_test  # noqa: E402

NOBODY = 65534
MIB = 1 << 20


@unittest.skipIf(EMULATOR, "the emulator does not know cachestat(2)")
class Evict(Case):
    def setUp(self):
        super().setUp()
        reason = reason_not_to_test(self.state)
        if reason:
            self.skipTest(reason)

    def file(self, name, size=32 * MIB, sync=True):
        path = os.path.join(self.state, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(os.urandom(MIB) * (size // MIB))
            file.flush()
            if sync:
                os.fsync(file.fileno())
        return path

    def evict(self, *argv, **options):
        result = self.call(SPARKSHIM, "evict", *argv, **options)
        self.assertEqual(result.stderr, b"")
        return result

    def as_json(self, *argv, status=0, **options):
        result = self.evict("--json", *argv, **options)
        self.assertEqual(result.returncode, status, result.stdout)
        answer = json.loads(result.stdout)
        return answer, {os.path.basename(f["path"]): f for f in answer["files"]}

    def test_names_are_shown_as_text(self):
        self.file("model\x1b[31m\nin all")
        text = self.evict(self.state).stdout
        self.assertNotIn(b"\x1b", text)
        self.assertRegex(text, rb"^[^\n]*model\?\[31m\?in all: [^\n]*\nin all: [^\n]*\n$")

    def test_a_file_goes_and_nothing_of_it_is_lost(self):
        path = self.file("weights")
        with open(path, "rb") as file:
            before = hash(file.read())
        self.assertTrue(most(cached(path), 32 * MIB), cached(path))
        answer, files = self.as_json(path)
        self.assertEqual(cached(path), 0)
        self.assertEqual((files["weights"]["left"], answer["looked_at"], answer["dropped"]), (0, 1, files["weights"]["dropped"]))
        self.assertTrue(most(answer["dropped"], 32 * MIB), answer)
        with open(path, "rb") as file:
            self.assertEqual(hash(file.read()), before)

    def test_words(self):
        path = self.file("weights")
        result = self.evict(path)
        lines = result.stdout.decode().splitlines()
        self.assertRegex(lines[0], f"^{re.escape(path)}: (32\\.0|2\\d\\.\\d|3[01]\\.\\d) MiB dropped$")
        self.assertRegex(lines[1], r"^in all: (32\.0|2\d\.\d|3[01]\.\d) MiB dropped; 1 file; MemFree \S+ GiB -> \S+ GiB$")
        self.assertEqual(self.evict(path).stdout.decode().splitlines()[0], f"{path}: nothing was cached")

    def test_dry_run_leaves_all(self):
        path = self.file("weights")
        answer, files = self.as_json("--dry-run", path)
        self.assertEqual((answer["dry_run"], files["weights"]["dropped"]), (True, 0))
        self.assertTrue(most(files["weights"]["cached"], 32 * MIB), files)
        self.assertTrue(most(cached(path), 32 * MIB), cached(path))

    def test_who_maps_it_is_named(self):
        path = self.file("weights")
        job = subprocess.Popen([sys.executable, "-c", (
            "import mmap, sys\n"
            "with open(sys.argv[1], 'rb') as file:\n"
            "    held = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n"
            "sum(held[::4096])\n"
            "print('mapped', flush=True)\n"
            "sys.stdin.read()"), path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(job.communicate)
        job.stdout.readline()
        _, files = self.as_json(path, status=2)
        self.assertEqual(files["weights"]["why"], "mapped")
        self.assertEqual([p["pid"] for p in files["weights"]["mapped_by"]], [job.pid])
        self.assertTrue(most(cached(path), 32 * MIB), cached(path))
        self.assertIn(f"mapped by process {job.pid} (python3", self.evict(path).stdout.decode())
        job.communicate()
        self.as_json(path)
        self.assertEqual(cached(path), 0)

    def test_what_is_not_written_yet_is_written_when_asked(self):
        path = self.file("results", sync=False)
        _, files = self.as_json("--sync", path)
        self.assertEqual((cached(path), files["results"]["left"]), (0, 0))

    def test_folders(self):
        first, second = self.file("models/a/first"), self.file("models/b/second")
        other = self.file("elsewhere/linked")
        os.symlink(other, os.path.join(self.state, "models", "link"))
        os.link(first, os.path.join(self.state, "models", "b", "first again"))
        os.symlink("..", os.path.join(self.state, "models", "b", "loop"))
        os.symlink("round", os.path.join(self.state, "models", "round"))
        os.symlink("nowhere", os.path.join(self.state, "models", "dangling"))
        os.mkfifo(os.path.join(self.state, "models", "fifo"))
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(os.path.join(self.state, "models", "socket"))
        answer, files = self.as_json(os.path.join(self.state, "models"), status=1)
        self.assertEqual(answer["looked_at"], 3)
        self.assertTrue(most(answer["dropped"], 96 * MIB), answer)
        self.assertEqual([cached(p) for p in (first, second, other)], [0, 0, 0])
        self.assertEqual(files["round"]["error"], os.strerror(40))  # ELOOP

    def test_small_files_are_counted(self):
        paths = [self.file(f"many/{i}", MIB) for i in range(300)]
        result = self.evict(os.path.join(self.state, "many"))
        self.assertEqual((result.returncode, len(result.stdout.splitlines())), (0, 1))
        # Under pressure the kernel may have taken one or the other by itself.
        self.assertRegex(result.stdout.decode(), r"^in all: 0\.[23] GiB dropped; 300 files, (\d+ of them had nothing cached, )?"
                         r"\d+ small ones are not listed; MemFree ")
        self.assertEqual(sum(map(cached, paths)), 0)

    def test_what_is_no_file_is_not_opened(self):
        fifo = os.path.join(self.state, "fifo")
        os.mkfifo(fifo)
        answer, files = self.as_json(fifo, "/dev/null", status=3)
        self.assertEqual([f["why"] for f in files.values()], ["not_file", "not_file"])
        self.assertEqual(answer["looked_at"], 0)

    def test_sparse_file(self):
        path = os.path.join(self.state, "sparse")
        with open(path, "wb") as file:
            file.truncate(1 << 40)
            file.write(b"x" * MIB)
            os.fsync(file.fileno())
        _, files = self.as_json(path)
        self.assertEqual((files["sparse"]["size"], cached(path)), (1 << 40, 0))

    def test_names_of_any_bytes(self):
        path = os.fsencode(self.state) + b"/\xe4\x01\n"
        with open(path, "wb") as file:
            file.write(b"x" * MIB)
            os.fsync(file.fileno())
        answer, _ = self.as_json(path)
        self.assertEqual(answer["dropped"], MIB)

    def test_memory_file_system(self):
        if not os.path.isdir("/dev/shm") or file_system("/dev/shm") != "tmpfs":
            self.skipTest("no tmpfs at /dev/shm")
        path = f"/dev/shm/sparkshim-evict-{os.getpid()}"
        with open(path, "wb") as file:
            self.addCleanup(os.unlink, path)
            file.write(b"x" * MIB)
        _, files = self.as_json(path, status=3)
        self.assertEqual(files[os.path.basename(path)]["why"], "in_memory")

    def test_files_of_the_kernel(self):
        _, files = self.as_json("/proc/self/maps", "/sys/kernel/mm", status=3)
        self.assertEqual(files["maps"]["why"], "in_memory")

    def test_path_that_is_too_long(self):
        here = os.getcwd()
        folder = os.path.join(self.state, "deep")
        os.mkdir(folder)
        try:
            os.chdir(folder)
            for _ in range(30):  # of 200 characters each: more than a path may have
                os.mkdir("d" * 200)
                os.chdir("d" * 200)
        finally:
            os.chdir(here)
        answer, files = self.as_json(folder, status=3)
        self.assertEqual([f["error"] for f in files.values()], [os.strerror(36)])  # ENAMETOOLONG
        self.assertEqual(answer["unreadable"], 1)

    def test_nobody_reads_what_is_said(self):
        path = self.file("weights", MIB)
        with open("/dev/full", "wb") as full:
            result = subprocess.run([SPARKSHIM, "evict", path], env=self.env, stdout=full, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(result.returncode, 3)
        self.assertIn(b"cannot write what was done", result.stderr)
        self.assertEqual(cached(path), 0)

    def test_terminal_sequences_do_not_act(self):
        path = os.path.join(self.state, "\x1b[2J")
        os.mkdir(path)
        self.assertNotIn(b"\x1b", self.evict(os.path.join(path, "missing")).stdout)

    def test_nothing_there(self):
        _, files = self.as_json(os.path.join(self.state, "missing"), status=3)
        self.assertEqual(files["missing"]["error"], os.strerror(2))
        self.assertEqual(self.call(SPARKSHIM, "evict").returncode, 125)
        self.assertEqual(self.call(SPARKSHIM, "evict", "--loud").returncode, 125)

    def as_nobody(self):
        if os.geteuid():
            self.skipTest("needs root, to become another user")
        os.chmod(self.state, 0o755)
        folder = self.state
        while folder != "/":  # a folder above may be root's alone
            if os.stat(folder).st_mode & 0o005 != 0o005:
                self.skipTest(f"{folder} is closed to other users")
            folder = os.path.dirname(folder)
        return {"user": NOBODY, "group": NOBODY, "extra_groups": []}

    def test_a_file_of_somebody_else(self):
        path = self.file("weights")
        os.chmod(path, 0o644)
        result = self.evict("--json", path, **self.as_nobody())
        self.assertIn(result.returncode, (0, 1))  # the estimate may be 0: others fill the cache meanwhile
        file = json.loads(result.stdout)["files"][0]
        self.assertTrue(file["estimated"])
        self.assertNotIn("cached", file)
        self.assertEqual(cached(path), 0)

    def test_no_permission(self):
        path = self.file("secret")
        os.chmod(path, 0o600)
        _, files = self.as_json(path, status=3, **self.as_nobody())
        self.assertEqual(files["secret"]["error"], os.strerror(13))
        self.assertTrue(most(cached(path), 32 * MIB), cached(path))

    def test_files_that_vanish(self):
        folder = os.path.join(self.state, "restless")
        os.mkdir(folder)
        restless = subprocess.Popen([sys.executable, "-c", (
            "import os, sys\n"
            "while True:\n"
            "    for i in range(200):\n"
            "        open(os.path.join(sys.argv[1], str(i)), 'w').close()\n"
            "    for i in range(200):\n"
            "        os.unlink(os.path.join(sys.argv[1], str(i)))\n"), folder])
        try:
            for _ in range(20):
                result = self.evict(folder)
                self.assertIn(result.returncode, (0, 3))
        finally:
            restless.send_signal(signal.SIGKILL)
            restless.wait()


if __name__ == "__main__":
    unittest.main()
