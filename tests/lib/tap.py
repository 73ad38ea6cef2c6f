# SPDX-License-Identifier: Apache-2.0
"""Writes the Test Anything Protocol for test scripts in Python: ok() per check, then sys.exit(done())."""

import sys

_count = 0
_failed = 0


def _line(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def diag(text):
    """A line (or several) for people reading the log."""
    for line in str(text).splitlines() or [""]:
        _line("# " + line)


def ok(held, name, *diagnostics):
    """One check; the diagnostics are shown if it does not hold. Returns whether it held."""
    global _count, _failed
    _count += 1
    _line("%s %d - %s" % ("ok" if held else "not ok", _count, str(name).replace("#", "\\#").replace("\n", " ")))
    if not held:
        _failed += 1
        for text in diagnostics:
            diag(text)
    return bool(held)


def equal(got, want, name):
    return ok(got == want, name, " got: %r" % (got,), "want: %r" % (want,))


def skip(name, reason):
    """A check that cannot be made here; the reason is shown in the summary."""
    global _count
    _count += 1
    _line("ok %d - %s # SKIP %s" % (_count, name, reason))


def skip_all(reason):
    """Leaves the script: nothing of it can run here."""
    _line("1..0 # SKIP " + reason)
    sys.exit(0)


def bail(reason):
    """Leaves the script as failed: what the checks need is broken."""
    _line("Bail out! " + reason)
    sys.exit(1)


def done():
    """The plan; returns the exit code. A script without a single check has failed."""
    _line("1..%d" % _count)
    return 0 if _failed == 0 and _count > 0 else 1
