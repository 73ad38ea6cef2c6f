#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kubectl exec, attach, port-forward, cp and logs -f, over SPDY and over WebSocket, to the local server and to a peer; behind
the simulator stands what a kubelet is made of (tests/kube/kubelet)."""

import glob
import hashlib
import json
import os
import shutil
import socket
import subprocess
import threading

import fixture
from fixture import PATIENCE, Skip, check, equal, until
from rawhttp import pattern

# At node a the local server has these subresources of pods, at node b it does not and a is the peer.
NODES = (("local", "a"), ("peer's", "b"))
VARIABLES = ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS")
PROTOCOLS = (("SPDY", "SPDY/3.1", {v: "false" for v in VARIABLES}), ("WebSocket", "websocket", {v: "true" for v in VARIABLES}))
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
       "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "example.com/none"}]},
       "status": {"phase": "Running"}}
PATH = "/api/v1/namespaces/default/pods/p/"


def kubectl():
    """The newest one: those of before 1.30 know no WebSocket."""
    cache = os.environ.get("MVPROXY_K8S_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "mvproxy", "k8s")
    found = sorted(glob.glob(os.path.join(cache, "1.3[1-9].*", "kubectl")))
    if not found:
        raise Skip("no kubectl of 1.31 or newer here (contrib/lib/build-kubernetes makes one)")
    return found[-1]


def kubelet_program():
    """The stand-in's program; to build it takes minutes, so it is not done here."""
    script = os.path.join(fixture.TREE, "contrib", "lib", "build-kube-parts")
    done = subprocess.run([script, "--built"], capture_output=True, check=False)
    if done.returncode != 0:
        raise Skip("no stand-in kubelet: " + done.stderr.decode(errors="replace").strip()[-200:])
    return os.path.join(done.stdout.decode().strip(), "kubelet")


def kubelet(scratch, certs):
    """Start the stand-in; its address."""
    root = os.path.join(scratch, "container")
    os.mkdir(root)
    process = fixture.Process("kubelet", [kubelet_program(), "--tls-cert-file=" + certs.crt("node-a"), "--tls-private-key-file=" + certs.key("node-a"),
                                          "--client-ca-file=" + certs.crt("ca"), "--root=" + root, "--translate"], scratch)
    process.spawn(stdout=subprocess.PIPE)
    line = process.child.stdout.readline()
    check(line, "no kubelet:", process.tail())
    return "127.0.0.1:%d" % json.loads(line)["port"]


def setup():
    kubectl()
    kubelet_program()
    world = fixture.World(servers={"b": {"runtime-config": [
        "v1/pods/%s=false" % name for name in ("exec", "attach", "portforward", "log")]}})
    certs = world.certs
    world.sim.restart_server("a", **{
        "kubelet": kubelet(world.scratch, certs), "kubelet-certificate-authority": certs.crt("ca"),
        "kubelet-client-certificate": certs.crt("admin"), "kubelet-client-key": certs.key("admin")})
    world.start()
    world.sim.put("pods", POD)
    return world


def command(world, node, *arguments):
    host, port = world.proxies[node].address
    certs = world.certs
    return [kubectl(), "--server=https://%s:%d" % (host, port), "--certificate-authority=" + certs.crt("ca"),
            "--client-certificate=" + certs.crt("admin"), "--client-key=" + certs.key("admin"), *arguments]


def environment(world, variables):
    return dict(os.environ, HOME=world.scratch, KUBECONFIG="/dev/null", **variables)


def run(world, node, variables, *arguments, data=None, status=0):
    """Run kubectl; what it wrote."""
    done = subprocess.run(command(world, node, *arguments), env=environment(world, variables), input=data, capture_output=True,
                          stdin=subprocess.DEVNULL if data is None else None, timeout=4 * PATIENCE, check=False)
    equal(done.returncode, status, "kubectl %s: %s" % (" ".join(arguments), done.stderr.decode(errors="replace")[-1000:]))
    return done.stdout


def everywhere():
    return [(title, node, *protocol) for title, node in NODES for protocol in PROTOCOLS]


def upgraded(world, mark, subresource, protocol, what):
    """The upgrades since the mark arrived at a, as this protocol, as the caller's own."""
    seen = [r for r in world.sim.requests(path=PATH + subresource, since=mark) if "Upgrade" in r["headers"]]
    check(seen, what, "no upgrade has arrived")
    for record in seen:
        equal((record["server"], record["headers"]["Upgrade"], record["user"]["username"]), ("a", [protocol], "kubernetes-admin"), what)


def test_exec(world):
    """exec: output, complaints, exit status, input to its end"""
    for title, node, name, upgrade, variables in everywhere():
        mark = world.sim.mark()
        equal(run(world, node, variables, "exec", "p", "--", "echo", title), title.encode() + b"\n", name)
        equal(run(world, node, variables, "exec", "-i", "p", "--", "sha256sum", data=pattern(1 << 20)).split()[0].decode(),
              hashlib.sha256(pattern(1 << 20)).hexdigest(), name)
        done = subprocess.run(command(world, node, "exec", "p", "--", "sh", "-c", "echo to-err >&2; exit 7"), capture_output=True,
                              env=environment(world, variables), stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False)
        equal(done.returncode, 7, name)
        check(b"to-err" in done.stderr and done.stdout == b"", name, done)
        upgraded(world, mark, "exec", upgrade, "%s %s" % (title, name))


def test_much(world):
    """exec: 24 MB in and the same back"""
    data = pattern(24 << 20)
    for title, node, name, _, variables in everywhere():
        got = run(world, node, variables, "exec", "-i", "p", "--", "cat", data=data)
        check(got == data, title, name, "%d bytes came back, or others" % len(got))


def test_attach(world):
    """attach: both directions, until the input ends"""
    for title, node, name, upgrade, variables in everywhere():
        mark = world.sim.mark()
        got = run(world, node, variables, "attach", "-i", "p", data=b"hello\n")
        equal(got, b"attached\nhello\n", "%s %s" % (title, name))
        upgraded(world, mark, "attach", upgrade, "%s %s" % (title, name))


def test_copy(world):
    """cp: a folder there and back"""
    folder = os.path.join(world.scratch, "folder")
    os.mkdir(folder)
    for size in (0, 1, 70000, 3000000):
        with open(os.path.join(folder, "of-%d" % size), "wb") as out:
            out.write(pattern(size))
    for title, node, name, _, variables in everywhere():
        there, back = "copy-%s-%s" % (node, name), os.path.join(world.scratch, "back-%s-%s" % (node, name))
        run(world, node, variables, "cp", folder, "default/p:" + there)
        run(world, node, variables, "cp", "default/p:" + there, back)
        for size in (0, 1, 70000, 3000000):
            with open(os.path.join(back, "of-%d" % size), "rb") as copy:
                check(copy.read() == pattern(size), title, name, "a file of", size, "bytes differs")
        shutil.rmtree(back)


class Echo:
    """A server behind the pod: sends back what it gets, and ends when the client has ended."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            conn, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    @staticmethod
    def serve(conn):
        with conn:
            while True:
                data = conn.recv(65536)
                if not data:
                    return
                conn.sendall(data)


def through(port, data):
    """Send data to a forwarded port, half-close, and read until the end."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as conn:
        def send():
            conn.sendall(data)
            conn.shutdown(socket.SHUT_WR)
        sender = threading.Thread(target=send)
        sender.start()
        got = hashlib.sha256()
        while True:
            piece = conn.recv(65536)
            if not piece:
                break
            got.update(piece)
        sender.join()
    return got.hexdigest()


def test_port_forward(world):
    """port-forward: several connections one after the other and at once, with half-close"""
    echo = Echo()
    data = pattern(2000000)
    wanted = hashlib.sha256(data).hexdigest()
    for title, node, name, upgrade, variables in everywhere():
        mark = world.sim.mark()
        with subprocess.Popen(command(world, node, "port-forward", "p", ":%d" % echo.port), stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment(world, variables)) as child:
            try:
                line = child.stdout.readline()
                check(line.startswith("Forwarding from 127.0.0.1:"), title, name, line)
                port = int(line.split()[2].rsplit(":", 1)[1])
                equal(through(port, data), wanted, "%s %s" % (title, name))
                got = []
                threads = [threading.Thread(target=lambda: got.append(through(port, data))) for _ in range(3)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                equal(got, [wanted] * 3, "%s %s, at once" % (title, name))
            finally:
                child.kill()
        upgraded(world, mark, "portforward", upgrade, "%s %s" % (title, name))


def test_logs(world):
    """logs -f: line by line, and the reader's end is the server's"""
    for title, node in NODES:
        mark = world.sim.mark()
        with subprocess.Popen(command(world, node, "logs", "-f", "p"), stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=environment(world, {})) as child:
            try:
                for number in range(1, 31):
                    equal(child.stdout.readline(), "line %d\n" % number, title)
            finally:
                child.kill()
        until(lambda m=mark: all(r["done"] for r in world.sim.requests(path=PATH + "log", since=m)), "the log to be cancelled")


def test_refused(world):
    """a refusal is shown as the server said it"""
    for title, node, name, _, variables in everywhere():
        fault = world.sim.fault("status", "a", "", PATH + "exec", status=403,
                                body=json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden",
                                                 "code": 403, "message": "no commands on Sundays"}), contentType="application/json")
        done = subprocess.run(command(world, node, "exec", "p", "--", "true"), capture_output=True, env=environment(world, variables),
                              stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False)
        check(done.returncode != 0 and b"no commands on Sundays" in done.stderr, title, name, done)
        world.sim.heal(fault)


def test_client_node(world):
    """@kubernetes/client-node: exec with its own WebSocket client, 1 MB in and back, and a command that fails"""
    done = subprocess.run([os.path.join(fixture.TREE, "contrib", "lib", "build-node-parts"), "--built"], capture_output=True, check=False)
    if done.returncode != 0:
        raise Skip(done.stderr.decode(errors="replace").strip()[-200:])
    variables = dict(os.environ, NODE_PATH=done.stdout.decode().strip())
    script, certs = os.path.join(fixture.TREE, "tests", "node", "client.cjs"), world.certs
    data = hashlib.sha256(b"node").hexdigest().encode() * 16384
    for title, node in NODES:
        mark = world.sim.mark()
        config = os.path.join(world.scratch, "kubeconfig-" + node)
        with open(config, "w", encoding="ascii") as out:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "it",
                       "clusters": [{"name": "it", "cluster": {"server": "https://%s:%d" % world.proxies[node].address,
                                                               "certificate-authority": certs.crt("ca")}}],
                       "users": [{"name": "it", "user": {"client-certificate": certs.crt("admin"), "client-key": certs.key("admin")}}],
                       "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}]}, out)
        for command_line, given, wanted, status in ((["head", "-c", str(len(data))], data, data, 0), (["sh", "-c", "exit 3"], b"", b"", 1)):
            done = subprocess.run(["node", script, "exec", config, "p", *command_line], input=given, capture_output=True, timeout=4 * PATIENCE,
                                  env=variables, check=False)
            check(done.returncode == status and done.stdout == wanted, title, command_line, done.returncode, len(done.stdout),
                  done.stderr.decode(errors="replace")[-500:])
        upgraded(world, mark, "exec", "websocket", title)


if __name__ == "__main__":
    fixture.main(globals())
