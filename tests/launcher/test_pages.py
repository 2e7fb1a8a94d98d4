"""The report's pages: the same content in text, Markdown and HTML, and names that try to be more than names."""
import html.parser
import re
import shutil
import subprocess
import unittest

from common import SPARKSHIM
from test_report import GIB, Logs, header, launcher, leave, record, refusal

# What a command line or a path may hold. None of it may be more than text on any page.
HOSTILE = ["<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "</section></body>", "<!-- x", "-->", "&amp;&lt;",
           "**bold** _it_ ~~gone~~", "`code` ``", "```", "[link](javascript:alert(1))", "![i](http://x/y)", "<http://x.example>",
           "http://x.example/a", "www.x.example", "me@x.example", "@everyone", "#12", ":smile: :100:", "$x$ $$y$$",
           "| a | b |", "|---|---|", "\\*not\\*", "a\\", "'quoted' \"twice\"", "08:15:30", "Zürich ✓"]
BLOCKS = ["# heading", "- item", "+ item", "1. item", "23) item", "> quoted", "=====", "-----", "    code", "~~~", "***", "\\# x"]


class Page(html.parser.HTMLParser):
    """Tags, attributes and text of a page; what stands in <style> is no text."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts, self.inside = set(), set(), [""], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update(f"{name}={value}" if name == "class" else name for name, value in attrs)
        self.inside.append(tag)
        self.texts.append("")

    def handle_endtag(self, tag):
        self.inside.pop()
        self.texts.append("")

    def handle_data(self, data):
        if "style" not in self.inside:
            self.texts[-1] += data


CLASSES = {f"class={c}" for c in ("badge FAIL", "badge WARN", "badge INFO", "badge PASS", "badge SKIP", "item", "item text", "below",
                                  "sentence", "line", "details", "text")}


def whole_page(text):
    page = Page(text)
    assert page.tags <= {"html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "span", "section", "p", "ul", "ol", "li"}, page.tags
    assert page.attributes <= CLASSES | {"lang", "charset", "name", "content", "http-equiv"}, page.attributes
    return page


def rendered(text):
    """As GitHub renders Markdown, but for its own filters: raw HTML is let through, so that it would be seen."""
    done = subprocess.run(["cmark-gfm", "--unsafe", "-e", "autolink", "-e", "table", "-e", "strikethrough"], input=text.encode(),
                          check=True, capture_output=True)
    page = Page(done.stdout.decode())
    assert page.tags <= {"h3", "h4", "p", "ul", "ol", "li", "strong"} and not page.attributes, (page.tags, page.attributes)
    return page


class Pages(Logs):
    def page(self, form):
        return self.call(SPARKSHIM, "report", "--format", form).stdout.decode()

    def hostile(self, name):
        """A run in which everything that the job can choose is `name`."""
        odd = {**refusal(4), "call": name}
        self.write("a", [header(argv=name, exe=name, host="h"), record("alloc_stats", 4, route=name[:15], count=1), odd, leave(5, 1)])
        self.write("l", [header(writer="launcher", host="h"), record("job_start", 0, pid=100, argv=name), record("job_end", 9, pid=100, exit=1)])

    def test_names_are_text_in_html(self):
        for name in HOSTILE + BLOCKS:
            self.hostile(name)
            page = whole_page(self.page("html"))
            self.assertIn(name, page.texts)  # the command line, in an element of its own
            self.assertTrue(any(t.endswith(f"; {name}") for t in page.texts), name)

    @unittest.skipUnless(shutil.which("cmark-gfm"), "no cmark-gfm here")
    def test_names_are_text_in_markdown(self):
        for name in HOSTILE + BLOCKS:
            self.hostile(name)
            page = rendered(self.page("md"))
            shown = re.sub(r"\s+", " ", name.strip())
            self.assertTrue(any(re.sub(r"\s+", " ", t.replace("\xa0", " ")).strip() == shown for t in page.texts), (name, page.texts))

    def test_markdown_notifies_nobody(self):
        for name, wanted in (("@everyone", "@<!-- -->everyone"), ("a#12", "a#<!-- -->12"), (":smile:", ":<!-- -->smile:"),
                             ("http://x", "http:<!-- -->//x"), ("www.x", "w<!-- -->ww.x"), ("08:15:30", "08:15:30"),
                             ("G#x", "G#x"), ("$x$", "\\$x\\$")):
            self.hostile(name)
            self.assertIn(f"**Job:** {wanted}\n", self.page("md"))

    def test_what_no_page_may_hold(self):
        """Terminal sequences, characters that turn or hide others, bytes that are no UTF-8 (U+F7FF stands for 0xFF)."""
        self.hostile("a\x1b[31mb\x07\r\n\tc\x7fd\u009be\u202ef\u2028g\uf7ffh\uf7c3\uf728i")
        for form in ("text", "md", "html"):
            page = self.page(form)
            self.assertIn("a?[31mb????c?d??e???f???g?h?(i".replace("[", "\\[" if form == "md" else "["), page)
            self.assertNotRegex(page, "[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]")

    def test_all_pages_say_the_same(self):
        stats = record("alloc_stats", 4, route="device", count=10, frees=4, failed=1, bytes=9 * GIB, live=5 * GIB, peak=8 * GIB, untracked=0)
        self.write("a", [header(), stats, refusal(4), leave(5, 1)])
        self.write("b", [header(pid=101, detectors_off="-G3"), leave(6, 1)], raw=b"torn")
        self.write("l", launcher(exit=1))
        lines = [re.sub(r"^( *)(seen|not|do): +", r"\1", line).strip() for line in self.page("text").splitlines()[1:]]
        for form, text_of in (("html", lambda p: whole_page(p).texts), ("md", lambda p: rendered(p).texts)):
            if form == "md" and not shutil.which("cmark-gfm"):
                continue
            page = " ".join(" ".join(text_of(self.page(form))).split())
            for line in filter(None, lines):
                for part in line.split(": ", 1) if line.startswith(("Job", "Log", "First")) else [line.removesuffix(":")]:
                    self.assertIn(" ".join(part.split()), page)

    def test_root_cause_first(self):
        self.write("a", [header(), refusal(4), leave(5, 1)])
        for form in ("md", "html"):
            page = self.page(form)
            self.assertLess(page.index("G3 FAIL: "), page.index("Log"))
        self.assertGreater(self.page("text").index("G3 FAIL: "), self.page("text").index("Log"))

    def test_status_is_that_of_the_findings(self):
        self.write("a", [header(), refusal(4), leave(5, 1)])
        for form in ("text", "json", "md", "html"):
            self.assertEqual(self.call(SPARKSHIM, "report", "-f", form).returncode, 2)


if __name__ == "__main__":
    unittest.main()
