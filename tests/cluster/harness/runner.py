# SPDX-License-Identifier: Apache-2.0
"""Runs test functions against one cluster and writes TAP."""

import importlib.util
import os
import signal
import sys
import time
import traceback

from . import waiting

TEST_LIMIT = 600  # seconds; for tests that hang (unless they have a limit() of their own), not for a machine that is busy


class Skip(Exception):
    """This test cannot be done here; the text says why."""


def core(function):
    """Marks a test that is run on every cluster, not on one alone."""
    function.core = True
    return function


def needs(*traits):
    """Marks a test that is about clusters with all these traits (see Setup) and no others."""
    def mark(function):
        function.needs = set(traits)
        return function
    return mark


def limit(seconds):
    """Marks a test that needs longer than TEST_LIMIT before it counts as hanging."""
    def mark(function):
        function.limit = seconds
        return function
    return mark


def fits(function, setup):
    """Whether a test is to be run on a cluster of that setup."""
    return getattr(function, "needs", set()) <= setup.traits and (getattr(function, "core", False) or not setup.core)


class TooLong(Exception):
    """A test reached its limit."""


def _too_long(_signal, _frame):
    raise TooLong("not done in time")


def load(path):
    """The test functions of a file, in the order in which they stand there: [(name, function)]."""
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = [f for n, f in vars(module).items() if n.startswith("test_") and f.__module__ == name]
    return [("%s: %s" % (name[len("test_"):], (f.__doc__ or f.__name__).split("\n")[0].rstrip(".")), f) for f in found]


def _diagnose(cluster, out, text):
    for line in text.rstrip("\n").split("\n"):
        out.write("# %s\n" % line)
    for node in cluster.proxies:
        out.write("# end of %s's log:\n" % node.mvproxy.name)
        out.write("".join("# %s\n" % line for line in node.mvproxy.tail(12).splitlines()))


def _heal(cluster):
    """What a test stopped or killed is running again before the next one."""
    if not cluster.etcd.running():
        cluster.etcd.start()
    down = [n for n in cluster.nodes if not n.apiserver.running()]
    for node in down:
        node.start_apiserver()
    for node in down:
        node.await_apiserver()
    for node in cluster.proxies:
        if not node.mvproxy.running():
            node.start_mvproxy()
    for node in cluster.proxies:
        node.await_mvproxy()


def memory_errors(cluster):
    """What AddressSanitizer and its like wrote into mvproxy's logs (of a build with them)."""
    found = []
    for node in cluster.nodes:
        if os.path.exists(node.mvproxy.log):
            found += [line for line in node.mvproxy.log_text().splitlines()
                      if "Sanitizer" in line or "runtime error:" in line]
    return found


def _judge_logs(cluster, number, out):
    found = memory_errors(cluster)
    out.write("%s %d - logs: no mvproxy has reported a memory error\n" % ("not ok" if found else "ok", number))
    out.write("".join("# %s\n" % line for line in found[:20]))
    return 1 if found else 0


def run(cluster, tests, out=sys.stdout):
    """Returns the number of tests that failed."""
    failed = 0
    signal.signal(signal.SIGALRM, _too_long)
    out.write("1..%d\n" % (len(tests) + 1))
    for number, (name, function) in enumerate(tests, 1):
        started = time.monotonic()
        trouble = skipped = None
        signal.alarm(getattr(function, "limit", TEST_LIMIT))
        try:
            function(cluster)
        except Skip as reason:
            skipped = str(reason)
        except (AssertionError, TooLong, waiting.Timeout) as error:
            trouble = "%s\n%s" % (error, "".join(traceback.format_tb(error.__traceback__)[1:]))
        except Exception:  # pylint: disable=broad-except # a test may fail in any way
            trouble = traceback.format_exc()
        signal.alarm(0)
        out.write("%s %d - %s%s (%.1f s)\n" % (
            "not ok" if trouble else "ok", number, name,
            " # SKIP " + skipped if skipped is not None else "", time.monotonic() - started))
        if trouble:
            failed += 1
            _diagnose(cluster, out, trouble)
        out.flush()
        try:
            _heal(cluster)
        except Exception:  # pylint: disable=broad-except
            _diagnose(cluster, out, traceback.format_exc())
            out.write("Bail out! the cluster does not come back after: %s\n" % name)
            return failed + len(tests) - number
    return failed + _judge_logs(cluster, len(tests) + 1, out)
