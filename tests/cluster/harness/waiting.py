# SPDX-License-Identifier: Apache-2.0
"""Waiting for what must come true, by asking."""

import time


class Timeout(Exception):
    """It did not come true in time; says what, and what was last seen."""


def until(question, what, timeout=60.0, pause=0.1):
    """Ask question() until it gives something true, and return that.

    An exception counts as "not yet". The timeout is a limit for broken things, not a measurement: generous.
    """
    deadline = time.monotonic() + timeout
    last = None
    while True:
        try:
            answer = question()
            if answer:
                return answer
            last = answer
        except (OSError, ValueError, AssertionError) as error:
            last = error
        if time.monotonic() > deadline:
            raise Timeout("%s: not within %d s; last seen: %r" % (what, timeout, last))
        time.sleep(pause)
