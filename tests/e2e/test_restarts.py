#!/usr/bin/env python3
"""A server that restarts while clients write: whoever is told 201 has written, whoever is told to try again has not, and
nobody is left in doubt."""

import threading

import fixture
from fixture import check, equal, until
from rawhttp import Broken

MAPS = "/api/v1/namespaces/default/configmaps"
WRITERS = (("admin", 40), ("admin", 2000), ("token-root", 40), ("token-root", 2000))  # user, bytes of data
RESTARTS = 8
WRITES_BETWEEN = 60


def setup():
    return fixture.World().start()


class Writer(threading.Thread):
    """Makes objects, each of another name, one after the other, and keeps what it is told."""

    def __init__(self, world, number, user, size):
        super().__init__(daemon=True)
        self._world = world
        self._prefix = "w%d-" % number
        self._user = user
        self._data = {"text": "x" * size}
        self._ended = threading.Event()
        self.answers = {}  # name: (status, Retry-After there) or None: no answer

    def _headers(self):
        return {"Authorization": "Bearer " + self._user} if self._user.startswith("token") else {}

    def run(self):
        client = None
        while not self._ended.is_set():
            if client is None:
                client = self._world.client(user=None if self._headers() else self._user)
            name = self._prefix + str(len(self.answers))
            try:
                client.request("POST", MAPS, self._headers(), {"metadata": {"name": name}, "data": self._data})
                answer = client.answer("POST")
            except (Broken, OSError):
                self.answers[name] = None
                client = None
                continue
            self.answers[name] = answer.status, bool(answer.all("Retry-After"))
            if "close" in answer.all("Connection"):
                client = None

    def end(self):
        self._ended.set()
        self.join(fixture.PATIENCE)

    def told(self, what):
        return {n for n, a in list(self.answers.items()) if a == what}


def test_nobody_in_doubt(world):
    """the server stops and starts gracefully, again and again, under writes of users and of tokens"""
    writers = [Writer(world, i, user, size) for i, (user, size) in enumerate(WRITERS)]
    for writer in writers:
        writer.start()
    for _ in range(RESTARTS):
        before = [len(w.told((201, False))) for w in writers]
        until(lambda b=before: all(len(w.told((201, False))) >= b[i] + WRITES_BETWEEN for i, w in enumerate(writers)),
              "writes to succeed")
        world.sim.stop_server("a")
        world.sim.start_server("a")
    for writer in writers:
        writer.end()
    stored = {o["metadata"]["name"] for o in world.sim.stored("configmaps", "default")}
    for writer in writers:
        made, again = writer.told((201, False)), writer.told((503, True))
        other = {n: a for n, a in writer.answers.items() if n not in made | again}
        equal(other, {}, "neither made nor to be tried again")
        check(made <= stored, "made, but not there:", sorted(made - stored)[:5])
        check(not again & stored, "to be tried again, but there:", sorted(again & stored)[:5])


if __name__ == "__main__":
    fixture.main(globals())
