# SPDX-License-Identifier: Apache-2.0
"""Streams of pods through real kube-apiservers: kubectl over SPDY and over WebSocket, and a stand-in for the kubelet (tests/kube)."""

import base64
import contextlib
import hashlib
import http.server
import json
import os
import re
import socket
import subprocess
import tempfile
import threading

from harness import cluster as _harness  # noqa: F401 # finds tests/lib
from harness import waiting
from harness.node import PORT as SERVER_PORT
from harness.parts import part
from rawh2 import RawH2
from rawhttp import Raw, pattern

VARIABLES = ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS")
PROTOCOLS = (("SPDY", {v: "false" for v in VARIABLES}), ("WebSocket", {v: "true" for v in VARIABLES}))
MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_HEADER_LIST_SIZE = 3, 4, 6  # RFC 9113, section 6.5.2
PORT = 10250
BEHIND = 8080  # what listens in the pod
PODS = "/api/v1/namespaces/default/pods"
SERVICES, ENDPOINTS = PODS.replace("pods", "services"), PODS.replace("pods", "endpoints")


def _create(client, path, thing):
    answer = client.request("POST", path, thing)
    assert answer.status in (201, 409), answer


@contextlib.contextmanager
def _pod(cluster):
    """A pod "streams" on a node whose kubelet is the stand-in; gives the folder in which its commands run."""
    program, pki, address = part("kubelet"), cluster.pki, cluster.nodes[0].address
    client = cluster.nodes[0].direct()
    with tempfile.TemporaryDirectory(prefix="mvproxy-container-") as root, subprocess.Popen(
            [program, "--listen=%s:%d" % (address, PORT), "--tls-cert-file=" + pki.crt("node-" + cluster.nodes[0].name),
             "--tls-private-key-file=" + pki.key("node-" + cluster.nodes[0].name), "--client-ca-file=" + pki.crt("ca"),
             "--root=" + root], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as kubelet:
        try:
            assert json.loads(kubelet.stdout.readline())["port"] == PORT
            _create(client, "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker"}})
            status = {"status": {"addresses": [{"type": "InternalIP", "address": address}],
                                 "daemonEndpoints": {"kubeletEndpoint": {"Port": PORT}}}}
            merge = {"Content-Type": "application/merge-patch+json"}
            answer = client.request("PATCH", "/api/v1/nodes/worker/status", status, merge)
            assert answer.status == 200, answer
            _create(client, PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "streams"},
                                   "spec": {"nodeName": "worker", "containers": [{"name": "main", "image": "example.com/none"}]}})
            status = {"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}}
            answer = client.request("PATCH", PODS + "/streams/status", status, merge)
            assert answer.status == 200, answer
            yield root
        finally:
            kubelet.kill()
            client.request("DELETE", PODS + "/streams?gracePeriodSeconds=0")
            client.request("DELETE", "/api/v1/nodes/worker")


def _everywhere(cluster):
    return [(node, node.kubectl(cluster.kubectls[-1]), name, variables) for node in cluster.proxies for name, variables in PROTOCOLS]


def _ok(result):
    assert result.status == 0, result
    return result.out


def test_commands(cluster):
    """exec and attach: output, input to its end, exit status, refusals; cp there and back"""
    with _pod(cluster) as root, tempfile.TemporaryDirectory() as folder:
        for node, kubectl, name, variables in _everywhere(cluster):
            assert _ok(kubectl.run("exec", "streams", "--", "echo", "hello", variables=variables)) == "hello\n", name
            text = "0123456789abcdef" * 50000
            assert _ok(kubectl.run("exec", "-i", "streams", "--", "cat", stdin=text, variables=variables)) == text, name
            result = kubectl.run("exec", "streams", "--", "sh", "-c", "echo wrong >&2; exit 7", variables=variables)
            assert result.status == 7 and "wrong" in result.err, result
            assert _ok(kubectl.run("attach", "-i", "streams", stdin="hi\n", variables=variables)) == "attached\nhi\n", name
            there, back = "%s-%s" % (node.name, name), os.path.join(folder, node.name + name)
            with open(os.path.join(folder, "file"), "w", encoding="ascii") as out:
                out.write(text)
            _ok(kubectl.run("cp", os.path.join(folder, "file"), "default/streams:" + there, variables=variables))
            assert os.path.getsize(os.path.join(root, there)) == len(text)
            _ok(kubectl.run("cp", "default/streams:" + there, back, variables=variables))
            with open(back, encoding="ascii") as copy:
                assert copy.read() == text, name
            stranger = node.kubectl(cluster.kubectls[-1], user="alice")
            straight = node.kubectl(cluster.kubectls[-1], user="alice", direct=True)
            refused = [k.run("exec", "streams", "--", "true", variables=variables) for k in (stranger, straight)]
            assert refused[0].status == refused[1].status != 0 and refused[0].err == refused[1].err, refused


@contextlib.contextmanager
def _logged(node):
    """While its mvproxy writes a line about each request."""
    try:
        node.write_config(access_log="all")
        assert node.ctl("reload")[0] == 0
        yield
    finally:
        node.write_config()
        assert node.ctl("reload")[0] == 0


def _access(node, since):
    """The Audit-ID of the last exec in its access log."""
    found = re.findall(r'"Request" .*uri="[^"]*/pods/streams/exec\?.* code=101 .*auditID="([^"]*)"', node.mvproxy.log_text()[since:])
    return found and found[-1]


def test_access_log(cluster):
    """exec stands in the access log under the Audit-ID of kube-apiserver's audit log, which the head of a 101 does not name"""
    with _pod(cluster):
        for node in cluster.proxies:
            with _logged(node):
                for name, variables in PROTOCOLS:
                    since = len(node.mvproxy.log_text())
                    _ok(node.kubectl(cluster.kubectls[-1]).run("exec", "streams", "--", "true", variables=variables))
                    audit_id = waiting.until(lambda n=node, s=since: _access(n, s), "the line about " + name)
                    event = waiting.until(lambda n=node, i=audit_id: n.audit(i), "the audit event " + audit_id)[-1]
                    assert event["user"]["username"] == "kubernetes-admin" and event["objectRef"]["subresource"] == "exec", event


def _echo(listener):
    while True:
        try:
            conn, _ = listener.accept()
        except OSError:
            return
        with conn:
            while True:
                data = conn.recv(65536)
                if not data:
                    break
                conn.sendall(data)


def test_port_forward(cluster):
    """port-forward: bytes there and back, to the end; logs -f line by line"""
    data = bytes(range(256)) * 2000
    with _pod(cluster), socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_echo, args=(listener,), daemon=True).start()
        for _, kubectl, name, variables in _everywhere(cluster):
            child = kubectl.start("port-forward", "streams", ":%d" % listener.getsockname()[1], variables=variables)
            try:
                line = child.stdout.readline()
                assert line.startswith("Forwarding from 127.0.0.1:"), line
                with socket.create_connection(("127.0.0.1", int(line.split()[2].rsplit(":", 1)[1])), timeout=60) as conn:
                    threading.Thread(target=lambda c=conn: (c.sendall(data), c.shutdown(socket.SHUT_WR))).start()
                    got = b""
                    while True:
                        piece = conn.recv(65536)
                        if not piece:
                            break
                        got += piece
                assert got == data, (name, len(got))
            finally:
                child.kill()
                child.wait()
                child.stdout.close()
            child = kubectl.start("logs", "-f", "streams")
            try:
                assert [child.stdout.readline() for _ in range(20)] == ["line %d\n" % n for n in range(1, 21)], name
            finally:
                child.kill()
                child.wait()
                child.stdout.close()


def test_settings(cluster):
    """HTTP/2 clients find the same limits as without mvproxy: streams at once, windows, size of headers"""
    pki = cluster.pki
    for node in cluster.proxies:
        found = []
        for address in (node.address, node.loopback):
            with Raw((address, SERVER_PORT), pki.crt("ca"), (pki.crt("admin"), pki.key("admin")), alpn=("h2",)) as conn:
                client = RawH2(conn)
                client.until(lambda c=client: c.settings)
                found.append(client.settings)
        through, straight = found
        for number in (MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE):
            assert through[number] == straight[number], found
        # Go adds room for ten fields' overhead to its limit of 1 MiB.
        assert through[MAX_HEADER_LIST_SIZE] <= straight[MAX_HEADER_LIST_SIZE] <= through[MAX_HEADER_LIST_SIZE] + 320, found


WEBSOCKET = {"Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
UPGRADES = ({"Upgrade": "raw/1"}, {**WEBSOCKET, "Sec-WebSocket-Protocol": "a.example.com"})


def _open(cluster, address, user, target, fields):
    """A raw client that has asked for an upgrade, and the head of the answer."""
    how = cluster.credentials(user)
    client = Raw((address, SERVER_PORT), cluster.pki.crt("ca"), how.get("certificate"))
    token = {"Authorization": "Bearer " + how["token"]} if "token" in how else {}
    client.request("GET", target, {"Connection": "Upgrade", **token, **fields})
    return client, client.final_head()


def _seen_as(node, target):
    """Whom kube-apiserver there saw ask for it, by its audit log."""
    def names():
        with open(node.audit_log, encoding="utf-8") as lines:
            path = target.partition("?")[0]  # its query stands there with escapes
            return {event["user"]["username"] for event in map(json.loads, (line for line in lines if path in line)) if event["requestURI"] == target}
    return waiting.until(names, "%s in the audit log" % target)


def _frame(client):
    """The payload of the next WebSocket text frame (RFC 6455, section 5.2); a server's are not masked."""
    head = client.exactly(2, b"")
    assert head[0] == 0x81 and head[1] < 128, head
    size = head[1]
    if size >= 126:
        size = int.from_bytes(client.exactly(2 if size == 126 else 8, b""), "big")
    return json.loads(client.exactly(size, b""))


def test_websocket_watch(cluster):
    """a watch over WebSocket, of a local and of a peer's resource: each event is a frame that comes before the next change, and the caller is himself"""
    node = cluster.old
    maps = "/api/v1/namespaces/default/configmaps"
    for path, thing, server in ((maps, lambda name: {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}, cluster.old),
                                (cluster.skew.collection, cluster.skew.thing, cluster.new)):
        writer = server.direct()
        for user, name in (("admin", "kubernetes-admin"), ("root", "root")):
            # Version 0: without one, a cache of the server that nobody has used for long may wait in vain to catch up with etcd.
            target = "%s?watch=true&resourceVersion=0&fieldSelector=metadata.name%%3Dframed&as=%s" % (path, user)
            client, answer = _open(cluster, node.address, user, target, {**WEBSOCKET, "Origin": "https://" + node.address})
            with client:
                assert answer.status == 101, answer
                for _ in range(5):
                    assert writer.request("POST", path, thing("framed")).status == 201
                    event = _frame(client)
                    assert (event["type"], event["object"]["metadata"].get("name")) == ("ADDED", "framed"), (path, event)
                    assert writer.request("DELETE", path + "/framed").status == 200
                    assert _frame(client)["type"] == "DELETED"
            assert _seen_as(server, target) == {name}, target


class _Behind(http.server.BaseHTTPRequestHandler):
    """What runs in the pod: tells what it was asked, refuses or accepts upgrades, and after one echoes bytes until the end."""

    protocol_version = "HTTP/1.1"
    GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

    def log_message(self, *unused):
        pass

    def do_GET(self):  # pylint: disable=invalid-name # http.server calls it so
        upgrade = self.headers.get("Upgrade")
        if not upgrade:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            self._say(200, json.dumps({"method": self.command, "target": self.path, "sha256": hashlib.sha256(body).hexdigest(),
                                       "names": sorted(name.lower() for name in self.headers)}).encode())
        elif "refused" in self.path:
            self._say(418, b"no tunnels on Sundays\n")
        else:
            self._echo(upgrade)

    do_POST = do_GET

    def _say(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "text/x-behind")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _echo(self, upgrade):
        self.send_response(101)
        self.send_header("Upgrade", upgrade)
        self.send_header("Connection", "Upgrade")
        if "Sec-WebSocket-Key" in self.headers:
            accept = hashlib.sha1(self.headers["Sec-WebSocket-Key"].encode() + self.GUID).digest()
            self.send_header("Sec-WebSocket-Accept", base64.b64encode(accept).decode())
            self.send_header("Sec-WebSocket-Protocol", self.headers["Sec-WebSocket-Protocol"])
        self.end_headers()
        self.close_connection = True
        while True:
            data = self.rfile.read1(65536)
            if not data:
                return
            self.wfile.write(data)


@contextlib.contextmanager
def _behind(cluster):
    """A pod with a program in it and a service before it; gives the paths under which the API server proxies to it."""
    client, address = cluster.nodes[0].direct(), cluster.nodes[0].address
    with _pod(cluster), http.server.ThreadingHTTPServer((address, BEHIND), _Behind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            pod = {"kind": "Pod", "namespace": "default", "name": "streams"}  # without one the server trusts no address
            _create(client, SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "behind"},
                                       "spec": {"ports": [{"name": "main", "port": 80, "targetPort": BEHIND}]}})
            _create(client, ENDPOINTS, {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "behind"},
                                        "subsets": [{"addresses": [{"ip": address, "targetRef": pod}],
                                                     "ports": [{"name": "main", "port": BEHIND}]}]})
            yield "%s/streams:%d/proxy" % (PODS, BEHIND), SERVICES + "/behind:main/proxy"
        finally:
            for path in (SERVICES, ENDPOINTS):
                client.request("DELETE", path + "/behind")
            server.shutdown()


def test_proxied_upgrades(cluster):
    """pods/proxy and services/proxy: upgrades are tunnels in both directions, as the caller's own; refusals as the program said them"""
    with _behind(cluster) as paths:
        for number, (node, path) in enumerate((n, p) for n in cluster.proxies for p in paths):
            for kind, fields in enumerate(UPGRADES):
                for user, name in (("admin", "kubernetes-admin"), ("root", "root")):
                    target = "%s/tunnel?number=%d-%d-%s" % (path, number, kind, user)
                    client, answer = _open(cluster, node.address, user, target, fields)
                    with client:
                        assert (answer.status, answer.header("Upgrade")) == (101, fields["Upgrade"]), (target, answer)
                        if "Sec-WebSocket-Key" in fields:  # the example of RFC 6455, section 1.3
                            assert answer.header("Sec-WebSocket-Accept") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", answer.headers
                            assert answer.header("Sec-WebSocket-Protocol") == "a.example.com", answer.headers
                        for size in (1, 1000, *[30000] * 10):
                            client.send(pattern(size))
                            assert client.exactly(size, b"") == pattern(size), target
                    assert _seen_as(node, target) == {name}, target
                for user, status in (("admin", 418), ("alice", 403), ("stranger", 401)):
                    seen = []
                    for address in (node.address, node.loopback):
                        client, answer = _open(cluster, address, user, path + "/refused", fields)
                        with client:
                            client.body(answer)
                            seen.append((answer.status, answer.header("Content-Type"), answer.body))
                    assert seen[0] == seen[1] and seen[0][0] == status, (path, user, seen)


def test_proxied_requests(cluster):
    """pods/proxy and services/proxy: plain requests arrive as without mvproxy"""
    with _behind(cluster) as paths:
        for node in cluster.proxies:
            for path in paths:
                for method, tail, body in (("GET", "/a%20b/c?x=1&y=%2F", None), ("GET", "/", None), ("POST", "/up", pattern(300000).hex())):
                    seen = [client.request(method, path + tail, body, {"Content-Type": "text/plain"}) for client in (node.proxied(), node.direct())]
                    assert [answer.status for answer in seen] == [200, 200], seen
                    through, straight = (answer.json() for answer in seen)
                    through["names"].remove("x-kubernetes-peer-proxied")  # which keeps the server from asking its peers itself
                    assert through == straight and through["target"].startswith(tail.partition("?")[0]), (through, straight)
