"""Streams of pods through real kube-apiservers: kubectl over SPDY and over WebSocket, and a stand-in for the kubelet (tests/kube)."""

import contextlib
import json
import os
import socket
import subprocess
import tempfile
import threading

from harness import cluster as _harness  # noqa: F401 # finds tests/lib
from harness.node import PORT as SERVER_PORT
from harness.runner import Skip
from rawhttp import Raw

LIB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "contrib", "lib")
VARIABLES = ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS")
PROTOCOLS = (("SPDY", {v: "false" for v in VARIABLES}), ("WebSocket", {v: "true" for v in VARIABLES}))
PORT = 10250
PODS = "/api/v1/namespaces/default/pods"


def _program():
    done = subprocess.run([os.path.join(LIB, "build-kube-parts"), "--built"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Skip(done.stderr.strip()[-200:])
    return os.path.join(done.stdout.strip(), "kubelet")


def _create(client, path, thing):
    answer = client.request("POST", path, thing)
    assert answer.status in (201, 409), answer


@contextlib.contextmanager
def _pod(cluster):
    """A pod "streams" on a node whose kubelet is the stand-in; gives the folder in which its commands run."""
    program, pki, address = _program(), cluster.pki, cluster.nodes[0].address
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
            answer = client.request("PATCH", PODS + "/streams/status", {"status": {"phase": "Running"}}, merge)
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


def _frame(client):
    """The payload of the next WebSocket text frame (RFC 6455, section 5.2); a server's are not masked."""
    head = client.exactly(2, b"")
    assert head[0] == 0x81 and head[1] < 128, head
    size = head[1]
    if size >= 126:
        size = int.from_bytes(client.exactly(2 if size == 126 else 8, b""), "big")
    return json.loads(client.exactly(size, b""))


def test_websocket_watch(cluster):
    """a watch over WebSocket, of a local and of a peer's resource: each event is a frame, and it comes before the next change"""
    pki, node = cluster.pki, cluster.old
    maps = "/api/v1/namespaces/default/configmaps"
    for path, thing, server in ((maps, lambda name: {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}, cluster.old),
                                (cluster.skew.collection, cluster.skew.thing, cluster.new)):
        writer = server.direct()
        with Raw((node.address, SERVER_PORT), pki.crt("ca"), (pki.crt("admin"), pki.key("admin"))) as client:
            # Version 0: without one, a cache of the server that nobody has used for long may wait in vain to catch up with etcd.
            client.request("GET", path + "?watch=true&resourceVersion=0&fieldSelector=metadata.name%3Dframed",
                           {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Origin": "https://" + node.address})
            answer = client.final_head()
            assert answer.status == 101, answer
            for _ in range(5):
                assert writer.request("POST", path, thing("framed")).status == 201
                event = _frame(client)
                assert (event["type"], event["object"]["metadata"].get("name")) == ("ADDED", "framed"), (path, event)
                assert writer.request("DELETE", path + "/framed").status == 200
                assert _frame(client)["type"] == "DELETED"
