# SPDX-License-Identifier: Apache-2.0
"""Nodes that change their version one after the other, and when each of them was being worked on."""

import signal
import threading
import time
from contextlib import contextmanager

from . import waiting

STOP_LIMIT = 90  # seconds; what needs longer is killed, and then it was no graceful stop


class Windows:
    """[begin, end] of every time in which a node was being worked on; the clock is time.time()."""

    def __init__(self):
        self._lock = threading.Lock()
        self._windows = []  # [node name, begin, end or None]

    @contextmanager
    def open(self, node):
        window = [node.name, time.time(), None]
        with self._lock:
            self._windows.append(window)
        yield
        window[2] = time.time()

    def overlap(self, begun, ended, name=None):
        """Whether a node (any, if none is named) was being worked on in between."""
        with self._lock:
            return any(begin <= ended and (end is None or end >= begun)
                       for one, begin, end in self._windows if name in (None, one))


def _stop(daemon):
    status = daemon.stop(STOP_LIMIT)
    assert status != -signal.SIGKILL, "%s did not stop in %d s" % (daemon.name, STOP_LIMIT)


def _stop_together(node):
    for daemon in (node.apiserver, node.mvproxy):
        daemon.signal(signal.SIGTERM)
    _stop(node.mvproxy)
    _stop(node.apiserver)


def server_first(node, version):
    """kube-apiserver stops, then mvproxy; kube-apiserver starts, then mvproxy."""
    _stop(node.apiserver)
    _stop(node.mvproxy)
    node.start_apiserver(version)
    node.await_apiserver()
    node.start_mvproxy()


def proxy_first(node, version):
    """mvproxy stops, then kube-apiserver; mvproxy starts, then kube-apiserver."""
    _stop(node.mvproxy)
    _stop(node.apiserver)
    node.start_mvproxy()
    node.start_apiserver(version)


def server_alone(node, version):
    """mvproxy stays as it is."""
    _stop(node.apiserver)
    node.start_apiserver(version)


def together(node, version):
    """Both are told to stop at once, and both start at once, as when a node is restarted."""
    _stop_together(node)
    node.start_apiserver(version)
    node.start_mvproxy()


ORDERS = (server_first, proxy_first, server_alone, together)


def await_node(node):
    node.await_apiserver()
    node.await_mvproxy()
    waiting.until(lambda: node.proxied().get("/api/v1/namespaces/default").status == 200, "an answer at " + node.name)


def restart_proxy(node):
    _stop(node.mvproxy)
    node.start_mvproxy()
    await_node(node)
