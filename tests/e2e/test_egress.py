#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peers behind real CONNECT proxies: tinyproxy over TCP, behind stunnel over TLS, behind socat on a Unix socket."""

import hashlib
import os
import shutil
import socket
import ssl
import subprocess
import threading

import etcd as etcdlib
import fixture
from fixture import Process, Skip, check, ctl, equal, free_port, until
from rawhttp import Broken, pattern
from test_upgrade import BOX, EXTRA, exchange, spdy, websocket
from test_watch import CLASSES, Watch, make

BYTES = CLASSES + "?simbody=bytes&n=%d"
SINK = CLASSES + "?simbody=sink"
SIZE = 12 << 20
KINDS = ("tls", "uds", "tcp")


def program(name):
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if not path:
        raise Skip("no " + name)
    return path


class Proxies:
    """tinyproxy, and the two that stand before it."""

    def __init__(self, world):
        self.world, self.scratch = world, world.scratch
        self.ports = {name: free_port() for name in ("plain", "refusing", "tls")}
        self.socket = os.path.join(self.scratch, "egress.sock")
        self.running = {
            "tinyproxy": self.tinyproxy("tinyproxy", "plain"),
            "refusing": self.tinyproxy("refusing", "refusing", "ConnectPort 1\n"),
            "stunnel": self.stunnel(),
            "socat": Process("socat", [program("socat"), "UNIX-LISTEN:%s,fork,unlink-early" % self.socket,
                                       "TCP:127.0.0.1:%d" % self.ports["plain"]], self.scratch),
        }

    def config(self, name, text):
        path = os.path.join(self.scratch, name + ".conf")
        with open(path, "w", encoding="ascii") as out:
            out.write(text)
        return path

    def tinyproxy(self, name, port, more=""):
        path = self.config(name, "Port %d\nListen 127.0.0.1\nAllow 127.0.0.1\nTimeout 600\nMaxClients 200\nLogLevel Connect\n%s"
                           % (self.ports[port], more))
        return Process(name, [program("tinyproxy"), "-d", "-c", path], self.scratch)

    def stunnel(self):
        certs = self.world.certs
        path = self.config("stunnel", "foreground = yes\npid =\ndebug = 5\nsocket = l:TCP_NODELAY=1\nsocket = r:TCP_NODELAY=1\n"
                           "[egress]\naccept = 127.0.0.1:%d\nconnect = 127.0.0.1:%d\ncert = %s\nkey = %s\nCAfile = %s\nverifyChain = yes\n"
                           % (self.ports["tls"], self.ports["plain"], certs.crt("node-a"), certs.key("node-a"), certs.crt("ca")))
        return Process("stunnel", [program("stunnel4"), path], self.scratch)

    def start(self, *names):
        for name in names or self.running:
            self.running[name].spawn()
        for port in self.ports.values():
            until(lambda p=port: socket.create_connection(("127.0.0.1", p)).close() is None, "a proxy on port %d" % port)
        until(lambda: os.path.exists(self.socket), "socat")

    def stop(self, *names):
        for name in names or self.running:
            self.running[name].destroy()

    def connects(self, name="tinyproxy"):
        return self.running[name].log().count("CONNECT 127.0.0.1:")


def transport(world, kind, port=None, pair="admin"):
    proxies, certs = world.egress, world.certs
    if kind == "uds":
        return "      uds:\n        udsName: %s\n" % proxies.socket
    if kind == "tcp":
        return "      tcp:\n        url: http://127.0.0.1:%d\n" % (port or proxies.ports["plain"])
    return ("      tcp:\n        url: https://127.0.0.1:%d\n        tlsConfig:\n          caBundle: %s\n          clientCert: %s\n"
            "          clientKey: %s\n" % (port or proxies.ports["tls"], certs.crt("ca"), certs.crt(pair), certs.key(pair)))


def write(world, text):
    path = world.proxies["a"].options["egress-selector-config-file"]
    with open(path + ".new", "w", encoding="utf-8") as out:
        out.write(text)
    os.replace(path + ".new", path)


def selection(inner, protocol="HTTPConnect"):
    return ("apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n- name: controlplane\n"
            "  connection:\n    proxyProtocol: %s\n" % protocol) + ("    transport:\n" + inner if inner else "")


def choose(world, kind, **how):
    """Go through this kind of proxy from now on."""
    write(world, selection(transport(world, kind, **how)))
    proxy = world.proxies["a"]
    proxy.await_log("Reloaded", proxy.reload())


def setup():
    for name in ("tinyproxy", "stunnel4", "socat"):
        program(name)
    world = fixture.World(servers={"b": {"extra": EXTRA}})
    world.egress = Proxies(world)
    world.egress.start()
    world.proxies["a"].options["egress-selector-config-file"] = os.path.join(world.scratch, "egress.yaml")
    write(world, selection(transport(world, "tcp")))
    world.start()
    equal(world.ask("POST", BOX[:-2], {"metadata": {"name": "p"}}, "b", direct=True).status, 201, "create")
    return world


def answered(world, status=200):
    """Whether a request for what only the peer has gets this answer."""
    return until(lambda: world.ask("GET", CLASSES).status == status, "the answer %d" % status)


def test_requests(world):
    """through each kind: a request, and the connection is kept for the next"""
    for kind in KINDS:
        before = world.egress.connects()
        choose(world, kind)
        answered(world)
        check(world.egress.connects() > before, kind, "the proxy was not asked")
        before = world.egress.connects()
        for _ in range(20):
            equal(world.ask("GET", CLASSES).status, 200, kind)
        check(world.egress.connects() <= before + 2, kind, "each request has its own tunnel")
    for name in ("start_total", "duration_seconds_count"):
        counted = world.proxies["a"].metric("apiserver_egress_dialer_dial_" + name, protocol="http_connect", transport="uds")
        check(counted and counted >= 1, "counted", name, counted)


def test_local_is_direct(world):
    """what the local server serves does not go there"""
    with world.client() as client:
        for _ in range(10):
            equal(client.ask("GET", "/api/v1/namespaces/default/configmaps").status, 200, "status")
    port = world.addresses["a"][1]
    check("CONNECT 127.0.0.1:%d" % port not in world.egress.running["tinyproxy"].log(), "the local server was asked for")


def test_watches(world):
    """through each kind: event by event"""
    for kind in KINDS:
        choose(world, kind)
        answered(world)
        with world.client() as client:
            watch = Watch(client, CLASSES)
            for i in range(5):
                make(world, CLASSES, "%s-%d" % (kind, i), "b")
                while watch.next()[:2] != ("ADDED", "%s-%d" % (kind, i)):
                    pass
    world.ask("DELETE", CLASSES, name="b", direct=True)


def test_bodies(world):
    """through each kind: 12 MB down and up, hashes compared"""
    wanted = hashlib.sha256()
    for start in range(0, SIZE, 1 << 20):
        wanted.update(pattern(1 << 20, start))
    for kind in KINDS:
        choose(world, kind)
        answered(world)
        with world.client() as client:
            total = hashlib.sha256()
            client.request("GET", BYTES % SIZE)
            client.body(client.final_head(), sink=total.update)
            equal(total.hexdigest(), wanted.hexdigest(), kind + " down")
            client.request("POST", SINK, {"Content-Length": str(SIZE)})
            for start in range(0, SIZE, 1 << 20):
                client.send(pattern(1 << 20, start))
            equal(client.answer("POST").json()["sha256"], wanted.hexdigest(), kind + " up")


def test_tunnels(world):
    """through each kind: an upgrade, bytes both ways, more than buffers hold, and the client's goodbye"""
    for kind in KINDS:
        choose(world, kind)
        answered(world)
        with world.client() as client:
            client.send(spdy(BOX))
            equal(client.final_head().status, 101, kind)
            for size in (1, 1000, 100000):
                exchange(client, pattern(size))
            client.sock.unwrap()
        until(lambda: world.sim.requests(path=BOX)[-1]["done"], "the server to be told")
        with world.client() as client:
            client.send(websocket(BOX, "AAAAAAAAAAAAAAAAAAAAAA==", query="sim-send=%d" % SIZE))
            equal(client.final_head().status, 101, kind)
            got = 0
            while got < SIZE:
                check(client.buffer or client.fill(), kind, "the tunnel ended")
                check(client.buffer == pattern(len(client.buffer), got), kind, "other bytes")
                got += len(client.buffer)
                client.buffer = b""
            exchange(client, b"still there")


def test_proxy_dies(world):
    """the proxy dies in the middle of a body: the client sees it broken; 503 until it is back"""
    for kind, names in (("tcp", ["tinyproxy"]), ("tls", ["stunnel"]), ("uds", ["tinyproxy"])):
        choose(world, kind)
        answered(world)
        with world.client() as client:
            client.request("GET", BYTES % (1 << 30))
            head = client.final_head()
            equal(head.status, 200, kind)
            seen = []

            def sink(data):
                if not seen:
                    world.egress.stop(*names)
                seen.append(len(data))

            try:
                client.body(head, sink=sink)
            except Broken:
                pass
            else:
                check(False, kind, "the body looked whole")
            check(0 < sum(seen) < 1 << 30, kind, sum(seen))
        answer = world.ask("GET", CLASSES)
        equal(answer.status, 503, kind)
        world.egress.start(*names)
        answered(world)


def test_check_names_the_proxy(world):
    """the proxy is away: check sends nobody to the peers"""
    choose(world, "tcp", port=free_port())
    text = ctl(world, "check")[1]
    line = text[text.index("peer test-server-b: egress proxy "):].split("\n")
    check("Connection refused" in line[0], text)
    check("egress-selector-config-file" in line[1] and "start its mvproxy" not in line[1], text)
    choose(world, "tcp")
    answered(world)


def test_refusal(world):
    """a proxy that says 403: 503, logged with its words, counted"""
    proxy = world.proxies["a"]
    mark = proxy.log_mark()
    choose(world, "tcp", port=world.egress.ports["refusing"])
    equal(world.ask("GET", CLASSES).status, 503, "status")
    proxy.await_log('it answered \\"HTTP/1.1 403', mark)
    failures = proxy.metric("apiserver_egress_dialer_dial_failure_count", transport="tcp", stage="proxy")
    check(failures and failures >= 1, "counted", failures)
    choose(world, "tcp")
    answered(world)


class Impostor:
    """A TLS server whose certificate nobody trusts; it writes down what is said to it."""

    def __init__(self, certs):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certs.crt("foreign-server"), certs.key("foreign-server"))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.met, self.heard = 0, b""
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            self.met += 1
            try:
                with self.context.wrap_socket(plain, server_side=True) as conn:
                    self.heard += conn.recv(1000)
            except OSError:
                pass


def test_impostor(world):
    """behind the proxy stands somebody else: nothing is sent"""
    proxy = world.proxies["a"]
    peers = proxy.options["peers"]
    for kind in KINDS:
        impostor = Impostor(world.certs)
        mark = proxy.log_mark()
        proxy.options["peers"] = ["test-server-b=127.0.0.1:%d" % impostor.port]
        choose(world, kind)
        equal(world.ask("GET", CLASSES).status, 503, kind)
        proxy.await_log("certificate refused", mark)
        check(impostor.met > 0, kind, "not even met")
        equal(impostor.heard, b"", kind)
        impostor.listener.close()
    proxy.options["peers"] = peers
    choose(world, "tcp")
    answered(world)


def test_bad_file(world):
    """a reload with a bad file keeps the old proxy and says why, with line and column"""
    proxy = world.proxies["a"]
    for text, complaint in (
            (selection(transport(world, "uds"), "GRPC"), "egress.yaml:6:20: proxyProtocol: GRPC is not supported"),
            (selection("      tcp:\n        url: https://127.0.0.1:1\n"), "egress.yaml:8:7: tlsConfig: must be present"),
            (selection(transport(world, "tls", pair="nobody")), "egress.yaml:12:23: clientCert: "),
            (selection("").replace("name", "nome"), "egress.yaml:4:3: unknown field"),
            ("[", "egress.yaml:2:1: ")):
        write(world, text)
        # The file is watched, too: what is said of it may come before the reload, which may be put off.
        proxy.await_log(complaint, proxy.reload())
        until(lambda: proxy.metric("mvproxy_config_last_reload_successful") == 0, "the reload to be refused")
        answered(world)
        done = subprocess.run([*proxy.argv, "-t"], capture_output=True, check=False)
        equal(done.returncode, 1, "mvproxy -t")
        check(complaint.encode() in done.stderr, "mvproxy -t:", done.stderr)
    choose(world, "tcp")
    answered(world)


def test_watched_file(world):
    """the file changes without a reload: nobody is told of certificates, neither where it is wrong nor where it is right"""
    proxy, used = world.proxies["a"], "Egress configuration changed, new connections use the new one"
    for _ in range(5):
        mark = proxy.log_mark()
        write(world, selection(transport(world, "uds"), "GRPC"))
        proxy.await_log("Egress configuration changed but cannot be used, the old one stays", mark)
        status = ctl(world, "status")[1]
        check("A changed egress configuration was refused" in status and "changed egress configuration refused for" in status, status)
        check("egress configuration has changed and cannot be used" in ctl(world, "check")[1], "check")
        write(world, selection(transport(world, "uds")))
        until(lambda m=mark: proxy.log_contains(used, m) or proxy.log_contains('"Reloaded"', m), used)
        if proxy.log_contains(used, mark):
            break
        choose(world, "tcp")  # a reload of before, which was put off, took it
    until(lambda: "the egress configuration can be used again" in ctl(world, "status")[1], "the change")
    check("Certificate files" not in proxy.log()[mark:], proxy.log()[mark:])
    choose(world, "tcp")
    answered(world)


def test_certificates_are_read_again(world):
    """the certificate for the proxy changes under the same name: a reload takes it"""
    own = {what: os.path.join(world.scratch, "egress-client." + what) for what in ("crt", "key")}

    def take(pair):
        for what, path in own.items():
            shutil.copy(getattr(world.certs, what)(pair), path + ".new")
            os.replace(path + ".new", path)

    take("admin")
    text = selection(transport(world, "tls"))
    text = text.replace(world.certs.crt("admin"), own["crt"]).replace(world.certs.key("admin"), own["key"])
    write(world, text)
    proxy = world.proxies["a"]
    proxy.await_log("Reloaded", proxy.reload())
    answered(world)
    take("foreign")
    proxy.await_log("Reloaded", proxy.reload())
    answered(world, 503)
    take("admin")
    proxy.await_log("Reloaded", proxy.reload())
    answered(world)


def test_files_named_anew(world):
    """the file changes and names another pair: both changes are noticed without a reload"""
    folder = os.path.join(world.scratch, "next")
    os.mkdir(folder)

    def take(pair):
        for what in ("crt", "key"):
            shutil.copy(getattr(world.certs, what)(pair), os.path.join(folder, "new"))
            os.replace(os.path.join(folder, "new"), os.path.join(folder, "client." + what))

    take("foreign")
    text = selection(transport(world, "tls"))
    for what in ("crt", "key"):
        text = text.replace(getattr(world.certs, what)("admin"), os.path.join(folder, "client." + what))
    write(world, text)
    answered(world, 503)
    take("admin")
    answered(world)


def test_etcd(world):
    """the selection etcd: the records in a real etcd are written through the proxy, peers are dialled directly"""
    proxy = world.proxies["a"]
    etcd = etcdlib.Etcd(world.scratch, world.certs, members=1)
    etcd.start()
    try:
        write(world, selection(transport(world, "tls")).replace("controlplane", "etcd"))
        before = world.egress.connects()
        proxy.await_log("Reloaded", proxy.reload({
            "peer-advertise-ip": "127.0.0.1", "peer-advertise-port": world.ports["a"],
            "etcd-servers": etcd.urls, "etcd-cafile": world.certs.crt("etcd-ca"),
            "etcd-certfile": world.certs.crt("etcd-client"), "etcd-keyfile": world.certs.key("etcd-client")}))
        until(lambda: etcd.record(world.sim.server("a")["id"])[0], "the record")
        answered(world)
        log = world.egress.running["tinyproxy"].log()
        check(world.egress.connects() > before, "the proxy was not asked")
        check("CONNECT " + etcd.urls[0][len("https://"):] in log, "not for etcd")
        check("CONNECT 127.0.0.1:%d" % world.ports["b"] not in log.split("CONNECT " + etcd.urls[0][len("https://"):], 1)[1],
              "for a peer")
        proxy.await_log("Reloaded", proxy.reload({"etcd-servers": []}))
    finally:
        etcd.destroy()


def test_direct_again(world):
    """Direct, or no file: no proxy"""
    proxy = world.proxies["a"]
    write(world, selection("", "Direct"))
    proxy.await_log("Reloaded", proxy.reload())
    answered(world)
    before = world.egress.connects()
    proxy.await_log("Reloaded", proxy.reload({"egress-selector-config-file": ""}))
    for _ in range(5):
        equal(world.ask("GET", CLASSES).status, 200, "status")
    equal(world.egress.connects(), before, "tunnels")
    world.egress.stop()


if __name__ == "__main__":
    fixture.main(globals())
