# SPDX-License-Identifier: Apache-2.0
"""Requests without a pause in the background, every answer counted."""

import http.client
import threading
from collections import Counter


class Load:
    """Threads that ask for a path again and again while the body of `with` runs.

    statuses counts HTTP statuses; broken counts requests that got no complete answer. Each thread keeps its connection
    for so many requests, so both new and old connections are under test.
    """

    def __init__(self, make_client, path, threads=2, per_connection=20):
        self.statuses = Counter()
        self.broken = Counter()
        self.example = {}  # status: an answer
        self._make_client = make_client
        self._path = path
        self._per_connection = per_connection
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]

    def _work(self):
        client = self._make_client()
        while not self._end.is_set():
            try:
                connection = client.connect()
            except OSError as error:
                self._count_broken(error)
                self._end.wait(0.02)
                continue
            try:
                for _ in range(self._per_connection):
                    if self._end.is_set():
                        break
                    self._count(client.request("GET", self._path, connection=connection))
            except (OSError, http.client.HTTPException) as error:
                self._count_broken(error)
            finally:
                connection.close()

    def _count(self, answer):
        with self._lock:
            self.statuses[answer.status] += 1
            self.example.setdefault(answer.status, answer)

    def _count_broken(self, error):
        with self._lock:
            self.broken[type(error).__name__] += 1

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        for thread in self._threads:
            thread.join()

    def total(self):
        with self._lock:
            return sum(self.statuses.values())

    def __repr__(self):
        return "%s, broken %s" % (dict(self.statuses), dict(self.broken))
