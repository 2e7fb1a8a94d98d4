"""Signals, job control and terminals through sparkrun: each arrives once, and stops and statuses are the job's."""
import os
import pty
import select
import signal
import subprocess
import time
import unittest

from common import Case, JOB, SPARKRUN

CAUGHT = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGWINCH]


class Sent(Case):
    def start(self, count, *signals, prefix=(SPARKRUN,), session=True):
        job = subprocess.Popen([*prefix, JOB, str(count), *(str(int(s)) for s in signals)], env=self.env, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=session)
        ready = job.stdout.readline().split()
        self.assertEqual(ready[0], b"ready")
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.stderr.close)
        return job, int(ready[1])

    def lines(self, job):
        out, err = job.communicate(timeout=30)
        self.assertEqual(err, b"")
        self.assertEqual(job.returncode, 7)
        return out.split(b"\n")[:-1]

    def test_to_the_launcher_alone(self):
        for number in CAUGHT:
            job, _ = self.start(1, number)
            job.send_signal(number)
            self.assertEqual(self.lines(job), [b"signal %d" % number], number)

    def test_to_the_group_arrives_once(self):
        for number in CAUGHT:
            job, _ = self.start(1, number)
            os.killpg(job.pid, number)
            self.assertEqual(self.lines(job), [b"signal %d" % number], number)

    def test_one_after_the_other(self):
        job, _ = self.start(4, *CAUGHT)
        for target, number in ((os.kill, signal.SIGTERM), (os.killpg, signal.SIGINT), (os.kill, signal.SIGUSR1), (os.killpg, signal.SIGTERM)):
            target(job.pid, number)
            time.sleep(0.2)
        expected = [b"signal %d" % n for n in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGTERM)]
        self.assertEqual(self.lines(job), expected)

    def test_default_actions_end_both(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, signal.SIGQUIT):
            for send in (os.kill, os.killpg):
                job = subprocess.Popen([SPARKRUN, "sh", "-c", "ulimit -c 0; echo $$; exec sleep 60"], env=self.env, start_new_session=True,
                                       stdout=subprocess.PIPE)
                pid = int(job.stdout.readline())
                time.sleep(0.05)
                send(job.pid, number)
                self.assertEqual(job.wait(20), -number)
                job.stdout.close()
                for _ in range(100):
                    if not os.path.exists(f"/proc/{pid}"):
                        break
                    time.sleep(0.02)
                self.assertFalse(os.path.exists(f"/proc/{pid}"), (number, send))

    def test_killed_while_stopped(self):
        def kill_job(job, pid):
            os.kill(pid, signal.SIGKILL)
            os.killpg(job.pid, signal.SIGCONT)
            return signal.SIGKILL

        def kill_group(job, _):  # `kill %1` of a shell
            os.killpg(job.pid, signal.SIGTERM)
            os.killpg(job.pid, signal.SIGCONT)
            return signal.SIGTERM

        for end in (kill_job, kill_group):
            job = subprocess.Popen([SPARKRUN, "sh", "-c", "echo $$; exec sleep 60"], env=self.env, stdout=subprocess.PIPE,
                                   preexec_fn=lambda: os.setpgid(0, 0))
            self.addCleanup(job.stdout.close)
            self.addCleanup(job.kill)
            pid = int(job.stdout.readline())
            os.killpg(job.pid, signal.SIGTSTP)
            _, status = os.waitpid(job.pid, os.WUNTRACED)
            self.assertTrue(os.WIFSTOPPED(status))
            number = end(job, pid)
            self.assertEqual(job.wait(20), -number)

    def test_from_the_job_to_its_parent(self):
        result = self.call(SPARKRUN, "sh", "-c", "trap 'exit 8' TERM; kill -TERM $PPID; sleep 0.3; exit 2")
        self.assertEqual(result.returncode, 2)


class Terminal(Case):
    """The launcher under a shell with job control on a terminal."""

    def setUp(self):
        super().setUp()
        self.child, self.tty = pty.fork()
        if self.child == 0:
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], {**self.env, "PS1": "PROMPT> ", "TERM": "dumb"})
        self.seen = b""
        self.expect(b"PROMPT> ")

    def tearDown(self):
        os.kill(self.child, signal.SIGKILL)
        os.close(self.tty)
        os.waitpid(self.child, 0)

    def send(self, text):
        os.write(self.tty, text)

    def expect(self, text, seconds=15):
        until = time.monotonic() + seconds
        while text not in self.seen:
            ready, _, _ = select.select([self.tty], [], [], max(0, until - time.monotonic()))
            self.assertTrue(ready, f"{text!r} did not come, only {self.seen!r}")
            self.seen += os.read(self.tty, 4096)
        before, self.seen = self.seen.split(text, 1)
        return before

    def test_interrupt_arrives_once(self):
        self.send(f"{SPARKRUN} {JOB} 1 2\n".encode())
        self.expect(b"ready")
        self.send(b"\x03")
        self.expect(b"signal 2")
        self.assertNotIn(b"signal", self.expect(b"PROMPT> "))
        self.send(b"echo status=$?\n")
        self.expect(b"status=7")

    def test_interrupt_ends_the_job(self):
        self.send(f"{SPARKRUN} sh -c 'echo up; exec sleep 60'\n".encode())
        self.expect(b"up\r\n")
        self.send(b"\x03")
        self.expect(b"PROMPT> ")
        self.send(b"echo status=$?\n")
        self.expect(b"status=130")

    def test_stop_and_foreground(self):
        self.send(f"{SPARKRUN} sh -c 'echo up; read line; echo got $line; exit 4'\n".encode())
        self.expect(b"up\r\n")
        self.send(b"\x1a")
        self.expect(b"Stopped")
        self.expect(b"PROMPT> ")
        self.send(b"jobs\n")
        self.expect(b"Stopped")
        self.expect(b"PROMPT> ")
        self.send(b"fg\n")
        time.sleep(0.5)
        self.send(b"hello\n")
        self.expect(b"got hello")
        self.expect(b"PROMPT> ")
        self.send(b"echo status=$?\n")
        self.expect(b"status=4")

    def test_background_read_stops(self):
        self.send(f"{SPARKRUN} cat &\n".encode())
        self.expect(b"PROMPT> ")
        time.sleep(0.7)
        self.send(b"jobs\n")
        self.expect(b"Stopped")
        self.send(b"fg\n")
        time.sleep(0.4)
        self.send(b"\x04")
        self.expect(b"PROMPT> ")

    def test_interactive_shell_inside(self):
        self.send(f"PS1='INNER> ' {SPARKRUN} bash --norc --noprofile -i\n".encode())
        self.expect(b"INNER> ")
        self.send(b"sleep 60\n")
        time.sleep(0.3)
        self.send(b"\x03")
        self.expect(b"INNER> ")
        self.send(b"exit 5\n")
        self.expect(b"PROMPT> ")
        self.send(b"echo status=$?\n")
        self.expect(b"status=5")

    def test_hangup_reaches_the_job(self):
        self.send(f"{SPARKRUN} {JOB} 1 1 > {self.state}/out\n".encode())
        time.sleep(0.7)
        os.kill(self.child, signal.SIGHUP)
        for _ in range(200):
            with open(os.path.join(self.state, "out"), "rb") as out:
                if b"signal 1" in out.read():
                    return
            time.sleep(0.02)
        self.fail("no SIGHUP")


if __name__ == "__main__":
    unittest.main()
