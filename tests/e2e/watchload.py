# SPDX-License-Identifier: Apache-2.0
"""Watches by the thousand: the load program of tests/apisim/watchload, and what the daemon needs for them."""

import json
import os
import resource
import subprocess
import time

from fixture import Failure, Process, check, equal, go_binary

PATH = "/api/v1/namespaces/default/configmaps"
NAME = "sequence"
PATCH = {"Content-Type": "application/merge-patch+json"}
ANSWER_SECONDS = 900


def allow_descriptors(number):
    """For this process and those it starts; False if that is more than one may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, max(hard, number)))
    except (ValueError, OSError):
        return False
    return True


class Load(Process):
    """The load program, which is told what to do line by line."""

    def __init__(self, name, scratch, address, pair, ca, http2, target=PATH + "?watch=true&resourceVersion=0"):
        argv = [go_binary("watchload", "./watchload"), "--url", "https://%s:%d%s" % (*address, target),
                "--ca", ca, "--cert", pair[0], "--key", pair[1]]
        super().__init__(name, argv + (["--http2"] if http2 else []), scratch)

    def spawn(self, **more):
        with open(self.log_path, "ab") as log:
            self.child = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=self.env, **more)

    def tell(self, line):
        self.child.stdin.write(line.encode() + b"\n")
        self.child.stdin.flush()
        answer = self.child.stdout.readline()
        if not answer:
            raise Failure("watchload ended: " + self.tail())
        return json.loads(answer)

    def open(self, number):
        told = self.tell("open %d" % number)
        equal(told["failed"], 0, "watches that could not be opened\n" + self.tail(3))
        return told

    def wait(self, seq):
        """Everybody has seen the event; nothing was lost or doubled on the way."""
        told = self.tell("wait %d" % seq)
        equal({k: told[k] for k in ("behind", "lost", "repeated", "ended", "failed")},
              {"behind": 0, "lost": 0, "repeated": 0, "ended": 0, "failed": 0}, "what the watches saw")
        return told


class Writer:
    """Makes events with increasing numbers, one answered before the next."""

    def __init__(self, client):
        self.client, self.seq = client, 0

    def ask(self, method, path, body, fields=None):
        self.client.request(method, path, dict({"Content-Type": "application/json"}, **(fields or {})), json.dumps(body).encode())
        return self.client.answer(method)

    def create(self):
        self.seq = 1
        answer = self.ask("POST", PATH, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "annotations": {"n": "1"}}})
        check(answer.status in (201, 409), "create: %d" % answer.status)

    def event(self):
        self.seq += 1
        equal(self.ask("PATCH", PATH + "/" + NAME, {"metadata": {"annotations": {"n": str(self.seq)}}}, PATCH).status, 200, "event")
        return self.seq


def memory(pid):
    """Bytes that the process alone holds."""
    with open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as rollup:
        return sum(int(line.split()[1]) for line in rollup if line.startswith(("Private_Clean", "Private_Dirty"))) * 1024


def cpu(pid):
    """Seconds of processor time, user and system."""
    with open("/proc/%d/stat" % pid, encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def settle(pid, patience=60):
    """Waits until the process has nothing more to do."""
    end, before = time.monotonic() + patience, -1
    while cpu(pid) != before and time.monotonic() < end:
        before = cpu(pid)
        time.sleep(0.5)
