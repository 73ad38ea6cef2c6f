#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server, or mvproxy itself, restarts while clients write: whoever is told 201 has written, whoever is told to try again
has not, and nobody is left in doubt."""

import select
import threading
import time

import fixture
from fixture import check, equal, until
from rawhttp import Broken

MAPS = "/api/v1/namespaces/default/configmaps"
WRITERS = (("admin", 40), ("admin", 2000), ("token-root", 40), ("token-root", 2000))  # user, bytes of data
WRITES_BETWEEN = 60


def setup():
    return fixture.World().start()


class Writer(threading.Thread):
    """Makes objects, each of another name, one after the other, and keeps what it is told."""

    def __init__(self, world, prefix, user, size):
        super().__init__(daemon=True)
        self._world = world
        self._prefix = prefix + "-"
        self._user = user
        self._data = {"text": "x" * size}
        self._ended = threading.Event()
        self.answers = {}  # name: (status, Retry-After there) or None: no answer

    def _headers(self):
        return {"Authorization": "Bearer " + self._user} if self._user.startswith("token") else {}

    def _connect(self):
        """None: nobody is there."""
        try:
            return self._world.client(user=None if self._headers() else self._user)
        except (Broken, OSError):
            time.sleep(0.02)
            return None

    def run(self):
        client = used = None
        while not self._ended.is_set():
            client = client or self._connect()
            if client is None:
                continue
            if client is used and select.select([client.sock], [], [], 0)[0]:  # its end has come: any client notices that
                client = None
                continue
            name = self._prefix + str(len(self.answers))
            try:
                client.request("POST", MAPS, self._headers(), {"metadata": {"name": name}, "data": self._data})
                answer = client.answer("POST")
            except (Broken, OSError):
                self.answers[name] = None
                client = None
                continue
            self.answers[name] = answer.status, bool(answer.all("Retry-After"))
            used = client
            if "close" in answer.all("Connection"):
                client = None

    def end(self):
        self._ended.set()
        self.join(fixture.PATIENCE)

    def told(self, what):
        return {n for n, a in list(self.answers.items()) if a == what}


def write_through(world, prefix, restarts, restart):
    """Writes without a pause while restart() is called again and again; then everybody's answers are judged."""
    writers = [Writer(world, prefix + str(i), user, size) for i, (user, size) in enumerate(WRITERS)]
    for writer in writers:
        writer.start()
    for _ in range(restarts):
        before = [len(w.told((201, False))) for w in writers]
        until(lambda b=before: all(len(w.told((201, False))) >= b[i] + WRITES_BETWEEN for i, w in enumerate(writers)),
              "writes to succeed")
        restart()
    for writer in writers:
        writer.end()
    stored = {o["metadata"]["name"] for o in world.sim.stored("configmaps", "default")}
    for writer in writers:
        made, again = writer.told((201, False)), writer.told((503, True))
        other = {n: a for n, a in writer.answers.items() if n not in made | again}
        equal(other, {}, "neither made nor to be tried again")
        check(made <= stored, "made, but not there:", sorted(made - stored)[:5])
        check(not again & stored, "to be tried again, but there:", sorted(again & stored)[:5])


def test_server(world):
    """the server stops and starts gracefully, again and again, under writes of users and of tokens"""
    def restart():
        world.sim.stop_server("a")
        world.sim.start_server("a")
    write_through(world, "server-", 8, restart)


def test_mvproxy(world):
    """so does mvproxy: clients of HTTP/1.1 are told which answer is their connection's last"""
    def restart():
        world.proxies["a"].stop()
        world.proxies["a"].start()
    write_through(world, "proxy-", 5, restart)


if __name__ == "__main__":
    fixture.main(globals())
