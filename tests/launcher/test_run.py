"""sparkshim run: whoever waits for it must not be able to tell it from the command."""
import json
import os
import signal
import stat
import subprocess
import sys
import time
import unittest

from common import BIN, Case, EMPTY, SPARKRUN, SPARKSHIM


class Status(Case):
    def test_same_as_without(self):
        for script in ("exit 0", "exit 3", "exit 255", "kill -9 $$", "kill -TERM $$", "kill -SEGV $$", "kill -ABRT $$"):
            plain = self.call("sh", "-c", script)
            watched = self.call(SPARKRUN, "sh", "-c", script)
            self.assertEqual(watched.returncode, plain.returncode, script)
            self.assertEqual((watched.stdout, watched.stderr), (b"", b""), script)

    def test_what_a_shell_reports(self):
        for script in ("kill -9 $$", "kill -INT $$", "kill -QUIT $$", "exit 4"):
            plain = self.call("sh", "-c", f"sh -c '{script}'; echo $?")
            watched = self.call("sh", "-c", f"{SPARKRUN} sh -c '{script}'; echo $?")
            self.assertEqual(watched.stdout, plain.stdout, script)

    def test_one_core_file_at_most(self):
        folder = os.path.join(self.state, "core")
        os.mkdir(folder)
        self.call("sh", "-c", f"ulimit -c unlimited; exec {SPARKRUN} sh -c 'kill -SEGV $$'", cwd=folder)
        self.assertLessEqual(len(os.listdir(folder)), 1)

    def test_own_failures(self):
        self.assertEqual(self.call(SPARKRUN, "no-such-program-here").returncode, 127)
        self.assertEqual(self.call(SPARKRUN, "/etc/passwd").returncode, 126)
        self.assertEqual(self.call(SPARKRUN, "/").returncode, 126)
        self.assertEqual(self.runs(), [])
        self.assertEqual(self.call(SPARKSHIM, "run", "--no-such-option", "--", "true").returncode, 125)
        self.assertEqual(self.call(SPARKSHIM, "run").returncode, 125)
        self.assertEqual(self.call(SPARKSHIM, "run", "--run-id", "a/b", "--", "true").returncode, 125)
        self.assertEqual(self.call(SPARKSHIM, "nonsense").returncode, 125)
        self.assertEqual(self.call(SPARKSHIM, "run", "--help").returncode, 0)


class OwnWrites(Case):
    """The launcher's own writes fail: no signal of theirs reaches launcher or job."""

    def test_no_file_may_grow(self):
        for script in ("exit 3", "trap 'exit 9' XFSZ; sleep 0.2; exit 3", "kill -9 $$"):
            plain = self.call("sh", "-c", f"ulimit -f 0; exec sh -c \"{script}\"")
            watched = self.call("sh", "-c", f"ulimit -f 0; exec {SPARKRUN} sh -c \"{script}\"")
            self.assertEqual((watched.returncode, watched.stdout, watched.stderr), (plain.returncode, b"", b""), script)

    def test_nobody_reads_stderr(self):
        reader, writer = os.pipe()
        os.close(reader)
        nowhere = {"SPARKSHIM_DIR": "/dev/null", "TMPDIR": "/dev/null"}  # the launcher says that no log is kept
        result = subprocess.run([SPARKRUN, "sh", "-c", "exit 3"], env={**os.environ, **nowhere}, stderr=writer, timeout=60)
        self.assertEqual(result.returncode, 3)
        result = subprocess.run([SPARKRUN, "no-such-program-here"], env={**os.environ, **nowhere}, stderr=writer, timeout=60)
        self.assertEqual(result.returncode, 127)
        os.close(writer)


    def full_pipe(self):
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(writer, b"x" * 4096)
        os.set_blocking(writer, True)
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, writer)
        return reader, writer

    def test_stderr_is_full_and_nobody_reads(self):
        jobs = []
        for command, status in ((("no-such-program-here",), 127), (("sh", "-c", "sleep 20 & exit 3"), 3)):
            _, writer = self.full_pipe()
            jobs.append((subprocess.Popen([SPARKRUN, *command], env=self.env, stderr=writer, stdout=subprocess.DEVNULL), status))
        for job, status in jobs:
            self.addCleanup(job.kill)
            self.assertEqual(job.wait(15), status)

    def test_stderr_is_full_and_read_late(self):
        reader, writer = self.full_pipe()
        with subprocess.Popen([SPARKRUN, "no-such-program-here"], env=self.env, stderr=writer) as job:
            time.sleep(1)
            os.read(reader, 1 << 20)
            self.assertEqual(job.wait(15), 127)
        self.assertIn(b"cannot run", os.read(reader, 4096))


class PassThrough(Case):
    def test_files_and_process_group(self):
        result = self.call(SPARKRUN, "sh", "-c", "cat; echo err >&2; ls /proc/self/fd | wc -l", stdin=None, input=b"a\0b\n")
        plain = self.call("sh", "-c", "cat; echo err >&2; ls /proc/self/fd | wc -l", stdin=None, input=b"a\0b\n")
        self.assertEqual((result.stdout, result.stderr), (plain.stdout, plain.stderr))
        group = self.call(SPARKRUN, "sh", "-c", "ps -o pgid= -p $$")
        self.assertEqual(int(group.stdout), os.getpgrp())

    def test_closed_standard_files(self):
        script = "for f in 0 1 2; do [ -e /proc/self/fd/$f ] && echo $f; done > {0}/out; exit 6"
        for closed in ("0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"):
            inner = script.format(self.state)
            result = self.call("sh", "-c", f"{SPARKRUN} sh -c '{inner}' {closed}")
            self.assertEqual(result.returncode, 6, closed)
            with open(os.path.join(self.state, "out"), encoding="ascii") as out:
                seen = out.read().split()
            self.assertEqual(set("012") - set(seen) - {"1"}, {c for c in "012" if f"{c}>&-" in closed or f"{c}<&-" in closed} - {"1"})

    def test_inherited_pipe_ends_with_the_job(self):
        """A reader waits for the job to close its copy: the launcher must not hold another."""
        read, write = os.pipe()
        job = subprocess.Popen([SPARKRUN, "sh", "-c", f"exec {write}>&-; sleep 30"], env=self.env, pass_fds=[write])
        os.close(write)
        began = time.monotonic()
        self.assertEqual(os.read(read, 1), b"")
        self.assertLess(time.monotonic() - began, 10)
        job.terminate()
        self.assertEqual(job.wait(10), -signal.SIGTERM)
        os.close(read)

    def test_ignored_signals_stay_ignored(self):
        result = self.call("sh", "-c", f"trap '' HUP CHLD; {SPARKRUN} grep -E 'Sig(Ign|Blk)' /proc/self/status; echo $?")
        plain = self.call("sh", "-c", "trap '' HUP CHLD; grep -E 'Sig(Ign|Blk)' /proc/self/status; echo $?")
        self.assertEqual(result.stdout, plain.stdout)

    def test_environment(self):
        result = self.call(SPARKRUN, "env", env={"LD_PRELOAD": ""})
        ours = dict(line.split("=", 1) for line in result.stdout.decode().splitlines())
        theirs = dict(line.split("=", 1) for line in self.call("env", env={"LD_PRELOAD": ""}).stdout.decode().splitlines())
        changed = {k for k in ours | theirs if ours.get(k) != theirs.get(k)} - {"_"}
        self.assertEqual({k for k in changed if not k.startswith("SPARKSHIM_")}, {"LD_PRELOAD"})

    def test_off_switch(self):
        result = self.call(SPARKRUN, "env", env={"SPARKSHIM": "0"})
        self.assertNotIn(b"LD_PRELOAD", result.stdout)
        self.assertEqual(self.runs(), [])


class Return(Case):
    def test_returns_with_the_command(self):
        began = time.monotonic()
        result = subprocess.run([SPARKRUN, "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!; exit 3"], env=self.env, capture_output=True,
                                timeout=60, check=False)
        took = time.monotonic() - began
        pid = int(result.stdout)
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(result.returncode, 3)
        self.assertLess(took, 1.5)
        self.assertEqual(result.stderr.decode(), f"sparkshim: left running: {pid}, sleep\n")

    def test_open_logs_get_a_moment(self):
        """A descendant that closes its log in time is waited for and not named; one that does not costs 2 s."""
        holder, held = os.path.join(self.state, "holder.py"), os.path.join(self.state, "held")
        with open(holder, "w", encoding="ascii") as f:
            f.write("import mmap, sys, time\nlog = open(sys.argv[2], 'w+b')\nlog.truncate(1)\nheld = mmap.mmap(log.fileno(), 1)\n"
                    "log.close()\nopen(sys.argv[3], 'w').close()\ntime.sleep(float(sys.argv[1]))\n")
        script = (f'{sys.executable} {holder} {{0}} "$SPARKSHIM_DIR/runs/$SPARKSHIM_RUN/h-1-1.ndjson" {held} >/dev/null 2>&1 &'
                  f"while [ ! -e {held} ]; do sleep 0.01; done; rm {held}; exit 3")
        for seconds, least, most, lines in ((0.5, 0.4, 1.9, 0), (30, 1.9, 6, 1)):
            began = time.monotonic()
            result = self.call(SPARKRUN, "bash", "-c", script.format(seconds))
            took = time.monotonic() - began
            self.assertEqual((result.returncode, result.stderr.count(b"left running")), (3, lines))
            self.assertTrue(least < took < most, took)

    def test_is_no_subreaper(self):
        script = "(sleep 0.3; ps -o ppid= -p $BASHPID > {0}/ppid) >/dev/null 2>&1 & exit 0".format(self.state)
        self.call(SPARKRUN, "bash", "-c", script)
        time.sleep(1)
        with open(os.path.join(self.state, "ppid"), encoding="ascii") as parent:
            self.assertTrue(parent.read().strip())

    def test_quiet(self):
        result = self.call(SPARKSHIM, "run", "--quiet", "--", "sh", "-c", "sleep 5 >/dev/null 2>&1 & exit 0")
        self.assertEqual(result.stderr, b"")
        result = self.call(SPARKRUN, "sh", "-c", "sleep 5 >/dev/null 2>&1 & exit 0", env={"SPARKSHIM_STDERR": "0"})
        self.assertEqual(result.stderr, b"")
        self.assertIn(b"cannot run", self.call(SPARKSHIM, "run", "--quiet", "--", "no-such-program-here").stderr)


class Preload(Case):
    def preload_of(self, **env):
        return self.call(SPARKRUN, "sh", "-c", "echo $LD_PRELOAD", env=env).stdout.decode().strip()

    def test_order(self):
        self.assertEqual(self.preload_of(), EMPTY)
        other = os.path.join(self.state, "other.so")
        os.symlink(EMPTY, other)
        self.assertEqual(self.preload_of(LD_PRELOAD=other), f"{EMPTY}:{other}")
        self.assertEqual(self.preload_of(LD_PRELOAD=f"libm.so.6 {other}"), f"{EMPTY}:libm.so.6:{other}")
        asan = os.path.join(self.state, "libasan.so.8")
        os.symlink(EMPTY, asan)
        self.assertEqual(self.preload_of(LD_PRELOAD=f"{asan}:{other}"), f"{asan}:{EMPTY}:{other}")

    def test_path_that_cannot_stand_in_the_variable(self):
        folder = os.path.join(self.state, "my $HOME: folder")
        os.mkdir(folder)
        library = os.path.join(folder, "libsparkshim.so")
        with open(EMPTY, "rb") as source, open(library, "wb") as copy:
            copy.write(source.read())
        shown = self.preload_of(SPARKSHIM_LIB=library)
        self.assertEqual(os.path.realpath(shown), library)
        self.assertNotRegex(shown, r"[ :$]")

    def test_missing_library_costs_one_line(self):
        result = self.call(SPARKRUN, "sh", "-c", "echo $LD_PRELOAD; exit 5", env={"SPARKSHIM_LIB": "/no/where.so"})
        self.assertEqual((result.returncode, result.stdout), (5, b"\n"))
        self.assertEqual(result.stderr.count(b"\n"), 1)
        self.assertIn(b"unwatched", result.stderr)

    def test_missing_entry_of_the_user(self):
        result = self.call(SPARKRUN, "true", env={"LD_PRELOAD": "/no/such.so"})
        self.assertIn(b"sparkshim: LD_PRELOAD names /no/such.so, which is not there", result.stderr)

    def make(self, name, interpreter=None, mode=0o755, flags=()):
        path = os.path.join(self.state, name)
        source = path + ".c"
        with open(source, "w", encoding="ascii") as text:
            text.write('#include <stdlib.h>\n#include <stdio.h>\n'
                       'int main(void) { const char *p = getenv("LD_PRELOAD"); puts(p && *p ? "set" : "unset"); return 9; }\n')
        subprocess.run(["cc", source, "-o", path, *flags], check=True)
        if interpreter:
            with open(path, "r+b") as program:
                data = program.read()
                at = data.index(b"/lib64/ld-linux-x86-64.so.2\0")
                program.seek(at)
                program.write(interpreter.ljust(27, b"\0"))
        os.chmod(path, mode)
        return path

    def test_static_program_runs(self):
        result = self.call(SPARKRUN, self.make("static", flags=["-static"]))
        self.assertEqual((result.returncode, result.stdout), (9, b"set\n"))
        self.assertEqual(result.stderr.count(b"\n"), 1)
        self.assertIn(b"statically", result.stderr)

    @unittest.skipUnless(os.path.exists("/lib64/ld-linux-x86-64.so.2"), "x86_64 only")
    def test_musl_program_is_left_alone(self):
        """A stand-in for a program of musl: its loader is glibc's under musl's name."""
        loader = "/tmp/ld-musl-t.so.1"
        if os.path.lexists(loader):
            os.unlink(loader)
        os.symlink("/lib64/ld-linux-x86-64.so.2", loader)
        self.addCleanup(os.unlink, loader)
        result = self.call(SPARKRUN, self.make("musl", interpreter=loader.encode()))
        self.assertEqual((result.returncode, result.stdout), (9, b"unset\n"))
        self.assertIn(b"musl", result.stderr)

    @unittest.skipUnless(os.getuid() == 0, "needs root to make a program of another user's")
    def test_setuid_program_is_left_alone(self):
        program = self.make("setuid")
        os.chown(program, 1, 1)
        os.chmod(program, 0o755 | stat.S_ISUID)
        result = self.call(SPARKRUN, program)
        self.assertEqual((result.returncode, result.stdout), (9, b"unset\n"))
        self.assertIn(b"set-user-id", result.stderr)

    def test_script_is_judged_by_its_interpreter(self):
        script = os.path.join(self.state, "script")
        with open(script, "w", encoding="ascii") as text:
            text.write("#!" + self.make("static", flags=["-static"]) + "\n")
        os.chmod(script, 0o755)
        self.assertIn(b"statically", self.call(SPARKRUN, script).stderr)

    def test_address_sanitizer(self):
        for compiler, flags in (("gcc", []), ("clang", []), ("clang", ["-shared-libasan"])):
            if subprocess.run(["which", compiler], capture_output=True, check=False).returncode:
                continue
            source, program = os.path.join(self.state, "asan.c"), os.path.join(self.state, "asan")
            with open(source, "w", encoding="ascii") as text:
                text.write('#include <stdlib.h>\n#include <string.h>\n'
                           'int main(int c, char **v) { char *p = malloc(8); memset(p, 1, 8); free(p);'
                           ' return c > 1 ? p[c] : 11; (void)v; }\n')
            built = subprocess.run([compiler, "-fsanitize=address", *flags, source, "-o", program], capture_output=True,
                                   check=False)
            if built.returncode or self.call(program).returncode != 11:
                continue
            result = self.call(SPARKRUN, program)
            self.assertEqual((result.returncode, result.stderr), (11, b""), compiler)
            found = self.call(SPARKRUN, program, "x")
            self.assertIn(b"heap-use-after-free", found.stderr)
            self.assertEqual(found.returncode, self.call(program, "x").returncode)


class Log(Case):
    def records(self):
        (run,) = self.runs()
        folder = os.path.join(self.state, "runs", run)
        (name,) = [n for n in os.listdir(folder) if n.startswith("launcher-")]
        path = os.path.join(folder, name)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertEqual(os.stat(folder).st_mode & 0o777, 0o700)
        with open(path, encoding="utf-8") as log:
            return [json.loads(line) for line in log]

    def test_start_and_end(self):
        self.call(SPARKRUN, "sh", "-c", "exit 3")
        frame = ["header", "job_start", "job_end"]  # between them stands what was seen of the machine
        header, start, end = [r for r in self.records() if r["k"] in frame]
        self.assertEqual([r["k"] for r in (header, start, end)], frame)
        self.assertEqual(header["writer"], "launcher")
        self.assertEqual(start["argv"], "sh -c exit 3")
        self.assertEqual((end["pid"], end["exit"]), (start["pid"], 3))
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot_id:
            self.assertEqual(header["boot_id"], boot_id.read().strip())

    def test_secrets_are_not_written(self):
        secrets = ["hf_" + "a" * 30, "hunter2", "s3cret", "sk-" + "b" * 24]
        self.call(SPARKRUN, "true", "--hf-token", secrets[0], "--password=" + secrets[1],
                  f"http://me:{secrets[2]}@host/", f"login('{secrets[3]}')", "--tokenizer", "gpt2")
        text = json.dumps(self.records())
        for secret in secrets:
            self.assertNotIn(secret, text)
        self.assertIn("--tokenizer gpt2", text)

    def test_killed(self):
        self.call(SPARKRUN, "sh", "-c", "kill -9 $$")
        self.assertEqual([r["signal"] for r in self.records() if r["k"] == "job_end"], [9])

    def test_no_place_for_a_log(self):
        result = self.call(SPARKRUN, "sh", "-c", "exit 4", env={"SPARKSHIM_DIR": "/proc/nowhere", "TMPDIR": "/proc/nowhere"})
        self.assertEqual(result.returncode, 4)
        self.assertEqual(result.stderr.count(b"\n"), 1)

    def test_run_id(self):
        self.call(SPARKSHIM, "run", "--run-id", "mine", "--", "true")
        self.assertEqual(self.runs(), ["mine"])
        self.call(SPARKRUN, SPARKRUN, "true", env={"SPARKSHIM_RUN": "outer"})
        self.assertEqual(self.runs(), ["mine", "outer"])
        self.assertEqual(len(os.listdir(os.path.join(self.state, "runs", "outer"))), 2)

    def test_pruning(self):
        for i in range(6):
            self.call(SPARKSHIM, "run", "--run-id", f"r{i}", "--", "true")
        sleeper = subprocess.Popen([SPARKSHIM, "run", "--run-id", "live", "--", "sleep", "60"], env=self.env)
        while "live" not in self.runs():
            time.sleep(0.01)
        os.utime(os.path.join(self.state, "runs", "live"), (1, 1))
        self.call(SPARKSHIM, "run", "--run-id", "new", "--", "true", env={"SPARKSHIM_KEEP": "3"})
        self.assertEqual(self.runs(), ["live", "new", "r5"])
        self.call(SPARKSHIM, "run", "--run-id", "newer", "--", "true", env={"SPARKSHIM_KEEP": "all"})
        self.assertEqual(self.runs(), ["live", "new", "newer", "r5"])
        sleeper.terminate()
        sleeper.wait()


if __name__ == "__main__":
    unittest.main()
