# SPDX-License-Identifier: Apache-2.0
"""For how long nobody has a port: connections are tried all the time, from another machine than the one that is switched over."""

import socket
import threading
import time

PAUSE = 0.02
PATIENCE = 5  # seconds: a connection that is neither made nor refused has met a machine that is busy, and is no refusal


class Refusals:
    """with Refusals(host, port) as refused: ...; seconds() from the first refusal to the first connection after the last one."""

    def __init__(self, host, port):
        self._place = (host, port)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.first = self.last = None
        self.tried = self.refused = 0

    def _run(self):
        open_again = True
        while not self._over.is_set():
            self.tried += 1
            try:
                socket.create_connection(self._place, timeout=PATIENCE).close()
            except ConnectionRefusedError:
                self.refused += 1
                self.first = self.first or time.monotonic()
                open_again = False
            except OSError:
                pass
            else:
                if not open_again:
                    self.last = time.monotonic()
                open_again = True
            time.sleep(PAUSE)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def seconds(self):
        return 0.0 if self.first is None else (self.last or time.monotonic()) - self.first

    def __str__(self):
        return "refused for %.1f s (%d of %d connections)" % (self.seconds(), self.refused, self.tried)
