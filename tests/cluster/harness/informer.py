# SPDX-License-Identifier: Apache-2.0
"""The client-go client of tests/kube/workload: writes, follows what it writes with an informer, and judges."""

import json
import os
import subprocess
import threading
from datetime import datetime

from . import waiting


class Informer:
    """One run of it. end() gives its verdict; see tests/kube/workload/judge.go for what is in there."""

    def __init__(self, program, name, config, resource, thing, log_dir, namespace=None, http1=False, pause=None):
        """thing: what it is to make, without a name; config: a kubeconfig; pause: between writes, as Go has durations."""
        self.name = name
        self.progress = {"writes": 0, "events": 0}
        self._verdict = None
        self._synced = False
        self._log = os.path.join(log_dir, "informer-%s.log" % name)
        argv = [program, "--kubeconfig", config, "--resource", resource, "--object", json.dumps(thing)]
        argv += ["--namespace", namespace] if namespace else []
        argv += ["--http1"] if http1 else []
        argv += ["--pause", pause] if pause else []
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            said = json.loads(line)
            self._synced = self._synced or "synced" in said
            self.progress = said.get("progress", self.progress)
            self._verdict = said.get("verdict", self._verdict)

    def _check(self):
        if self._process.poll() is not None:
            with open(self._log, encoding="utf-8", errors="replace") as log:
                raise AssertionError("the informer %s ended:\n%s" % (self.name, log.read()[-2000:]))

    def await_synced(self):
        def synced():
            self._check()
            return self._synced
        waiting.until(synced, "the informer %s has its first list" % self.name)

    def await_progress(self, writes=10):
        """Until it has written that much more, and seen something of it."""
        before = self.progress

        def moved():
            self._check()
            return self.progress["writes"] >= before["writes"] + writes and self.progress["events"] > before["events"]
        waiting.until(moved, "the informer %s goes on" % self.name, 120)

    def end(self):
        """Its verdict; the times of failures are like time.time()."""
        self._process.stdin.close()
        self._process.wait(200)
        self._reader.join(10)
        assert self._verdict is not None, "the informer %s gave no verdict, status %d" % (self.name, self._process.returncode)
        for failure in self._verdict["failures"] + self._verdict["ridden"]:
            for key in ("begun", "ended"):
                failure[key] = _seconds(failure[key])
        return self._verdict

    def kill(self):
        self._process.kill()
        self._process.wait()


def _seconds(text):
    """RFC 3339 with nanoseconds, which Python 3.9 does not read, as seconds."""
    head, _, tail = text.partition(".")
    digits = len(tail) - len(tail.lstrip("0123456789"))
    zone = tail[digits:] or head[19:]
    return datetime.fromisoformat(head[:19] + zone.replace("Z", "+00:00")).timestamp() + float("0." + (tail[:digits] or "0"))
