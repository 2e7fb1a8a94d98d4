"""sparkrun beside the public tool of the same name."""
import os
import unittest

from common import BIN, Case, SPARKRUN

VERBS = ("run list search show stop logs status setup tune cluster adv recipe registry benchmark export proxy arena update "
         "build model-cache agent").split()


class Dispatch(Case):
    def setUp(self):
        super().setUp()
        self.other = os.path.join(self.state, "other")
        self.here = os.path.join(self.state, "here")
        os.mkdir(self.other)
        os.mkdir(self.here)
        self.program(os.path.join(self.other, "sparkrun"), 'echo "other: $*"; exit 42')
        self.both = {"PATH": f"{BIN}:{self.other}:/usr/bin:/bin"}
        self.alone = {"PATH": f"{BIN}:/usr/bin:/bin"}

    def program(self, path, text):
        with open(path, "w", encoding="ascii") as script:
            script.write("#!/bin/sh\n" + text + "\n")
        os.chmod(path, 0o755)

    def test_public_verbs_go_to_the_other_tool(self):
        for verb in VERBS:
            result = self.call("sparkrun", verb, "-x", "a b", env=self.both, executable=SPARKRUN)
            self.assertEqual((result.returncode, result.stdout), (42, f"other: {verb} -x a b\n".encode()))
        self.assertEqual(self.runs(), [])

    def test_public_verb_without_the_other_tool(self):
        for verb in VERBS:
            result = self.call("sparkrun", verb, env=self.alone, executable=SPARKRUN)
            self.assertEqual(result.returncode, 127)
            self.assertIn(f"sparkrun ./{verb}".encode(), result.stderr)
            self.assertIn(f"sparkshim run -- {verb}".encode(), result.stderr)

    def test_completion_goes_to_the_other_tool(self):
        env = {**self.both, "_SPARKRUN_COMPLETE": "bash_complete"}
        self.assertEqual(self.call("sparkrun", env=env, executable=SPARKRUN).returncode, 42)
        env = {**self.alone, "_SPARKRUN_COMPLETE": "bash_source"}
        result = self.call("sparkrun", env=env, executable=SPARKRUN)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (127, b"", b""))

    def test_word_with_a_slash_or_behind_dashes_is_a_program(self):
        self.program(os.path.join(self.here, "run"), 'echo "mine: $*"; exit 9')
        result = self.call("sparkrun", "./run", "x", env=self.both, executable=SPARKRUN, cwd=self.here)
        self.assertEqual((result.returncode, result.stdout), (9, b"mine: x\n"))
        env = {"PATH": f"{BIN}:{self.other}:{self.here}:/usr/bin:/bin"}
        result = self.call("sparkrun", "--", "run", "x", env=env, executable=SPARKRUN)
        self.assertEqual((result.returncode, result.stdout), (9, b"mine: x\n"))

    def test_any_other_word_is_a_program(self):
        result = self.call("sparkrun", "echo", "--help", "-x", env=self.both, executable=SPARKRUN)
        self.assertEqual((result.returncode, result.stdout), (0, b"--help -x\n"))

    def test_help_names_the_other_tool(self):
        for arguments in ([], ["--help"], ["-h"]):
            result = self.call("sparkrun", *arguments, env=self.both, executable=SPARKRUN)
            self.assertEqual(result.returncode, 0)
            self.assertIn(b"recipe launcher of the same name", result.stdout)
        result = self.call("sparkrun", "-v", "run", env=self.both, executable=SPARKRUN)
        self.assertEqual((result.returncode, result.stdout), (125, b""))
        self.assertIn(b"recipe launcher of the same name", result.stderr)

    def test_links_and_copies_of_ours_are_passed_over(self):
        link, copy = os.path.join(self.state, "link"), os.path.join(self.state, "copy")
        os.mkdir(link)
        os.mkdir(copy)
        os.symlink(SPARKRUN, os.path.join(link, "sparkrun"))
        with open(SPARKRUN, "rb") as source, open(os.path.join(copy, "sparkrun"), "wb") as target:
            target.write(source.read())
        os.chmod(os.path.join(copy, "sparkrun"), 0o755)
        env = {"PATH": f"{link}:{copy}:{BIN}:{self.other}:/usr/bin:/bin"}
        self.assertEqual(self.call("sparkrun", "list", env=env, executable=SPARKRUN).stdout, b"other: list\n")
        env = {"PATH": f"{link}:{copy}:{BIN}:/usr/bin:/bin"}
        self.assertEqual(self.call("sparkrun", "list", env=env, executable=SPARKRUN).returncode, 127)

    def test_wrapper_that_comes_back_is_noticed(self):
        self.program(os.path.join(self.other, "sparkrun"), f'exec {SPARKRUN} "$@"')
        result = self.call("sparkrun", "list", env=self.both, executable=SPARKRUN)
        self.assertEqual(result.returncode, 125)
        self.assertIn(b"again and again", result.stderr)

    def test_the_other_tool_may_call_sparkrun_again(self):
        self.program(os.path.join(self.other, "sparkrun"),
                     'case "$1" in update) exec sparkrun registry update;; *) echo "inner: $*";; esac')
        self.assertEqual(self.call("sparkrun", "update", env=self.both, executable=SPARKRUN).stdout, b"inner: registry update\n")


if __name__ == "__main__":
    unittest.main()
