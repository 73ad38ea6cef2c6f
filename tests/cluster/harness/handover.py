# SPDX-License-Identifier: Apache-2.0
"""A service manager's part in mvproxy's hand-over: it holds the listening socket and gives it to one process after the other."""

import socket
import sys

from . import rolling, waiting
from .daemon import Daemon
from .node import PORT

# What a service manager does between fork and exec (sd_listen_fds(3)).
LAUNCH = """
import os, sys
os.dup2(int(sys.argv[1]), 3, inheritable=True)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""
ACCEPTS = "Accepting connections from the inherited socket"


class Sockets:
    """Takes the place of each node's mvproxy, with a listening socket that outlives it. To be used in a `with`."""

    def __init__(self, cluster):
        self._cluster = cluster
        self._plain = {n.name: n.mvproxy for n in cluster.nodes}
        self._listeners = {}

    def _launch(self, node):
        plain, fd = self._plain[node.name], self._listeners[node.name].fileno()
        return Daemon(plain.name, [sys.executable, "-c", LAUNCH, str(fd), *plain.argv], self._cluster.logs, hostname=node.name, pass_fds=(fd,))

    def __enter__(self):
        for node in self._cluster.nodes:
            node.mvproxy.stop(rolling.STOP_LIMIT)
            listener = self._listeners[node.name] = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((node.address, PORT))
            listener.listen(4096)
            node.mvproxy = self._launch(node)
            node.mvproxy.start()
        for node in self._cluster.nodes:
            node.await_mvproxy()
        return self

    def begin(self, node):
        """Starts another process. Returns what is to be called when it is to take over: it waits until that accepts, tells the one
        before to stop, and waits until it has, in order."""
        new = self._launch(node)
        before = node.mvproxy.log_text().count(ACCEPTS)
        new.start()
        return lambda: self._finish(node, new, before)

    def hand_over(self, node):
        self.begin(node)()

    @staticmethod
    def _finish(node, new, before):
        def accepts():
            new.check()
            return new.log_text().count(ACCEPTS) > before
        old = node.mvproxy
        waiting.until(accepts, "the next mvproxy of %s accepts connections" % node.name, 90)
        status = old.stop(rolling.STOP_LIMIT)
        assert status == 0, "%s ended with %s" % (old.name, status)
        node.mvproxy = new

    def __exit__(self, *_):
        for node in self._cluster.nodes:
            node.mvproxy.kill()
            self._listeners[node.name].close()
            node.mvproxy = self._plain[node.name]
            node.start_mvproxy()
