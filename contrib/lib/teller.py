# SPDX-License-Identifier: Apache-2.0
"""How the demo speaks: headings, paragraphs, commands with what they printed, and what was seen as expected or not."""

import sys
import textwrap
import time

WIDTH = 88


class Teller:
    """Writes to a terminal (with some colour) or to a file (without)."""

    def __init__(self, out=sys.stdout):
        self._out = out
        self._colour = out.isatty()
        self._started = time.monotonic()
        self.seen = []  # (whether, text)

    def _paint(self, code, text):
        return "\033[%sm%s\033[0m" % (code, text) if self._colour else text

    def _line(self, text=""):
        self._out.write(text + "\n")
        self._out.flush()

    def seconds(self):
        return time.monotonic() - self._started

    def heading(self, text):
        self._line()
        self._line(self._paint("1", "== %s" % text) + self._paint("2", "  (%d s)" % self.seconds()))

    def tell(self, text):
        self._line()
        self._line(textwrap.fill(" ".join(text.split()), WIDTH, break_on_hyphens=False))

    def picture(self, text):
        self._line()
        for line in text.strip("\n").split("\n"):
            self._line(self._paint("36", line))

    def command(self, text):
        self._line()
        self._line(self._paint("1;32", "$ ") + self._paint("1", text))

    def output(self, text, limit=14):
        lines = text.rstrip("\n").split("\n")
        for line in lines[:limit]:
            self._line("  " + (line if len(line) <= 110 else line[:107] + "..."))
        if len(lines) > limit:
            self._line(self._paint("2", "  ... (%d more lines)" % (len(lines) - limit)))

    def expect(self, right, text):
        """Note whether what was promised was seen; the story goes on in any case."""
        self.seen.append((bool(right), text))
        self._line(self._paint("1;32", "  -> as expected: ") + text if right
                   else self._paint("1;31", "  -> NOT AS EXPECTED: ") + text)
        return right

    def progress(self, text):
        """A context in which something takes its time."""
        return _Progress(self, text)

    def summary(self):
        """Prints what was seen; returns how many things were not as expected."""
        wrong = [text for right, text in self.seen if not right]
        self.heading("Summary")
        self._line()
        for right, text in self.seen:
            self._line("  %s %s" % (self._paint("32", "yes") if right else self._paint("31", "NO "), text))
        self._line()
        if wrong:
            self._line(self._paint("1;31", "%d of %d things were not as expected." % (len(wrong), len(self.seen))))
        else:
            self._line(self._paint("1;32", "All %d things were seen as told, in %d s." % (len(self.seen), self.seconds())))
        return len(wrong)


class _Progress:
    def __init__(self, teller, text):
        self._teller = teller
        self._text = text

    def __enter__(self):
        self._start = time.monotonic()
        self._teller._out.write("   %s ..." % self._text)
        self._teller._out.flush()
        return self

    def __exit__(self, kind, *_):
        self._teller._line(" %s, %.1f s" % ("failed" if kind else "done", time.monotonic() - self._start))
