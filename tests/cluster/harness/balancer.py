# SPDX-License-Identifier: Apache-2.0
"""A TCP load balancer, as one stands before the API servers of a cluster: round robin, connection by connection."""

import socket
import threading


class Balancer:
    """Listens on (host, port); each connection goes to the next of the backends, [(host, port)], that takes it."""

    def __init__(self, host, port, backends):
        self.address = (host, port)
        self._backends = list(backends)
        self._turn = 0
        self._lock = threading.Lock()
        self._listener = None
        self._open = set()

    def start(self):
        self._listener = socket.create_server(self.address, backlog=128)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def stop(self):
        """Nobody is served any more, and all connections end."""
        if self._listener is not None:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        self.cut()

    def cut(self):
        """All connections end; clients that come again are distributed anew."""
        with self._lock:
            ending = list(self._open)
        for one in ending:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def only(self, backends):
        """From now on these serve, for old clients as well."""
        with self._lock:
            self._backends = list(backends)
        self.cut()

    def _accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _next(self):
        """The backends in the order in which they are to be tried for one connection."""
        with self._lock:
            first = self._turn % len(self._backends)
            self._turn += 1
            return self._backends[first:] + self._backends[:first]

    def _serve(self, client):
        server = None
        for backend in self._next():
            try:
                server = socket.create_connection(backend, timeout=5)
                server.settimeout(None)
                break
            except OSError:
                pass
        if server is None:
            client.close()
            return
        pair = {client, server}
        with self._lock:
            self._open |= pair
        back = threading.Thread(target=_pump, args=(server, client), daemon=True)
        back.start()
        _pump(client, server)
        back.join()
        with self._lock:
            self._open -= pair
        client.close()
        server.close()


def _pump(source, sink):
    """Bytes from one to the other until one of them ends; then both are told."""
    try:
        while True:
            data = source.recv(65536)
            if not data:
                break
            sink.sendall(data)
    except OSError:
        pass
    for one in (source, sink):
        try:
            one.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
