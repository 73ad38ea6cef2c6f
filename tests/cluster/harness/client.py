# SPDX-License-Identifier: Apache-2.0
"""An HTTP client for tests: one that shows the exact answer, and streams."""

import http.client
import json
import socket
import ssl


class Response:
    """Status, headers (last one wins; all() has every one) and the whole body."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def header(self, name, default=None):
        return self.headers.get(name, default)

    def all(self, name):
        return self.headers.get_all(name) or []

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return "HTTP %d %s %r" % (self.status, self.header("Content-Type"), self.body[:300])


class Watch:
    """A watch that is open: one event after the other."""

    def __init__(self, connection, response):
        self.status = response.status
        self.headers = response.headers
        self._connection = connection
        self._response = response

    def event(self, timeout=30.0):
        """The next event as an object; None when the stream has ended cleanly."""
        self._connection.sock and self._connection.sock.settimeout(timeout)
        line = self._response.readline()
        return json.loads(line) if line else None

    def close(self):
        self._response.close()
        self._connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Client:
    """Talks to one address as one user. certificate is (crt, key) or None, token is a bearer token or None, source an address of ours."""

    def __init__(self, address, port, ca, certificate=None, token=None, timeout=30.0, source=None):
        self.address = address
        self.port = port
        self._timeout = timeout
        self._source = None if source is None else (source, 0)
        self._headers = {} if token is None else {"Authorization": "Bearer " + token}
        self._tls = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            self._tls.set_ciphers("DEFAULT:@SECLEVEL=0")  # or it would not show each certificate
            self._tls.load_cert_chain(*certificate)

    def connect(self):
        """A keep-alive connection, to be used with request(connection=...)."""
        connection = http.client.HTTPSConnection(self.address, self.port, timeout=self._timeout, context=self._tls,
                                                 source_address=self._source)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def request(self, method, path, body=None, headers=None, connection=None):
        """One request and its whole answer, on a new connection unless one is given."""
        own = connection is None
        used = self.connect() if own else connection
        try:
            used.request(method, path, *self._content(body, headers))
            answer = used.getresponse()
            return Response(answer.status, answer.headers, answer.read())
        finally:
            if own:
                used.close()

    def _content(self, body, headers):
        sent = dict(self._headers)
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            sent["Content-Type"] = "application/json"
        sent.update(headers or {})
        return body, sent

    def get(self, path, **headers):
        return self.request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})

    def watch(self, path):
        """Opens a watch; path has its query already."""
        return self._open_watch(path)

    def watch_from_now(self, collection, query=""):
        """Opens a watch of a collection that begins after what a list shows now, as informers do."""
        separator = "&" if query else ""
        listed = self.get(collection + ("?" + query if query else ""))
        if listed.status != 200:
            raise AssertionError("listing %s: %r" % (collection, listed))
        version = listed.json()["metadata"]["resourceVersion"]
        return self._open_watch("%s?watch=true&resourceVersion=%s%s%s" % (collection, version, separator, query))

    def _open_watch(self, path):
        connection = self.connect()
        connection.request("GET", path, headers=self._headers)
        return Watch(connection, connection.getresponse())
