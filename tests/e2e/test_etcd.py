#!/usr/bin/env python3
"""Peer endpoint records in a real etcd of three members, with TLS and client certificates: read, written, survived."""

import http.server
import signal
import threading

import etcd as etcdlib
import fixture
from fixture import check, equal, until

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"


class World(fixture.World):
    """The usual two servers; peers are known by their records only: no static ones, no annotations."""

    def close(self):
        try:
            super().close()
        finally:
            self.etcd.destroy()

    def id(self, name):
        return self.sim.server(name)["id"]

    def revision(self, name):
        return self.etcd.revision(self.id(name))

    def await_rewritten(self, name, times=1):
        """It has been written again, so it is being kept."""
        for _ in range(times):
            before = self.revision(name)
            until(lambda b=before: self.revision(name) > b, "the record of %s to be written again" % name)


def setup():
    world = World(options={"peers": [], "identity-lease": "off"})
    try:
        world.etcd = etcdlib.Etcd(world.scratch, world.certs)
    except fixture.Skip:
        world.sim.destroy()
        raise
    world.etcd.start()
    for name, proxy in world.proxies.items():
        proxy.options.update({
            "peer-advertise-ip": "127.0.0.1", "peer-advertise-port": world.ports[name],
            "etcd-servers": world.etcd.urls, "etcd-cafile": world.certs.crt("etcd-ca"),
            "etcd-certfile": world.certs.crt("etcd-client"), "etcd-keyfile": world.certs.key("etcd-client")})
    return world.start()


def routed(world):
    """What only b serves is answered through a."""
    return world.ask("GET", CLASSES).status == 200


def test_records(world):
    """each server's record says where its mvproxy is, in kube-apiserver's form, under a lease of 15 s"""
    for name in "ab":
        pair, record = until(lambda n=name: world.etcd.record(world.id(n))[0] and world.etcd.record(world.id(n)),
                             "the record of " + name)
        equal((record["apiVersion"], record["kind"]), ("v1", "Endpoints"), "type")
        equal(record["metadata"]["labels"], {"apiserverIdentity": world.id(name)}, "label")
        equal(record["subsets"], [{"addresses": [{"ip": "127.0.0.1"}], "ports": [
            {"name": "https", "port": world.ports[name], "protocol": "TCP"}]}], "where")
        lease = world.etcd.ask("/v3/lease/timetolive", {"ID": pair["lease"]})
        equal(lease["grantedTTL"], "15", "TTL")


def test_routing(world):
    """peers are found by their records alone"""
    until(lambda: routed(world), "b's resource through a")
    log = world.proxies["a"].log()
    check('source="etcd"' in log and 'source="annotation"' not in log, "where the address is from")
    status, page = world.proxies["a"].get("/")
    equal(status, 200, "the status page")
    check(">127.0.0.1:%d<" % world.ports["b"] in page and ">etcd<" in page, "shows the address and its source:", page)
    check("works; 2 records, read; own record: published" in page, "and how it stands with etcd:", page)
    equal(world.proxies["a"].metric("mvproxy_etcd_working"), 1.0, "mvproxy_etcd_working")
    equal(world.proxies["a"].metric("mvproxy_peer_endpoint_records"), 2.0, "mvproxy_peer_endpoint_records")


def test_rewritten(world):
    """records are written again, under the same lease"""
    before = world.etcd.record(world.id("a"))[0]
    world.await_rewritten("a")
    after = world.etcd.record(world.id("a"))[0]
    equal(after["lease"], before["lease"], "lease")
    equal(after["create_revision"], before["create_revision"], "the same key all the time")


def test_failover(world):
    """the first endpoint dies: the others do"""
    world.etcd.members[0].kill()
    world.await_rewritten("a")
    world.await_rewritten("b")
    check(routed(world), "routing goes on")
    world.etcd.start()


def test_leader_change(world):
    """the leader is killed, and the next: records are kept, watches go on"""
    for _ in range(2):
        leader = until(world.etcd.leader, "a leader")
        leader.kill()
        until(lambda old=leader: world.etcd.leader() is not old, "another leader")
        world.await_rewritten("a")
        world.await_rewritten("b")
        check(routed(world), "routing goes on")
        world.etcd.start()
    world.await_rewritten("b")


def test_frozen_leader(world):
    """a leader that hangs, with its connections open"""
    leader = until(world.etcd.leader, "a leader")
    leader.freeze(True)
    try:
        until(lambda: any(m is not leader and m is world.etcd.leader() for m in world.etcd.members), "another leader")
        world.await_rewritten("a", 2)
        check(routed(world), "routing goes on")
    finally:
        leader.freeze(False)


def test_killed(world):
    """kill -9: the record expires, the neighbour hears of it; the next process writes it again"""
    b = world.proxies["b"]
    mark = world.proxies["a"].log_mark()
    b.kill()
    until(lambda: world.revision("b") == 0, "the record of b to expire")
    world.proxies["a"].await_log('"Peer endpoint record gone" peer="%s"' % world.id("b"), mark)
    b.start()
    until(lambda: world.revision("b") > 0, "the record of b")
    until(lambda: routed(world), "b's resource through a")


def test_graceful_stop(world):
    """SIGTERM: the record is gone when the process is"""
    b = world.proxies["b"]
    check(world.revision("b") > 0, "it is there")
    b.signal(signal.SIGTERM)
    equal(b.wait_exit(), 0, "exit status")
    equal(world.revision("b"), 0, "the record of b")
    check(b.log_contains("Removed the own peer endpoint record"), "and said so")
    b.start()
    until(lambda: world.revision("b") > 0, "the record of b")
    until(lambda: routed(world), "b's resource through a")


def test_etcd_comes_later(world):
    """no etcd at the start: ready all the same; when it comes, its records count"""
    a = world.proxies["a"]
    a.stop()
    for member in world.etcd.members:
        member.kill()
    mark = a.log_mark()
    a.start()
    check(world.ask("GET", "/api/v1/namespaces").status == 200, "the local server is served")
    a.await_log("etcd cannot be used", mark)
    equal(a.metric("mvproxy_etcd_working"), 0.0, "mvproxy_etcd_working")
    equal(a.log()[mark:].count('"etcd cannot be used'), 1, "said once")
    world.etcd.start()
    until(lambda: a.metric("mvproxy_etcd_working") == 1.0, "etcd to be used")
    until(lambda: world.revision("a") > 0 and world.revision("b") > 0, "both records")
    until(lambda: routed(world), "b's resource through a")


class Liar(http.server.BaseHTTPRequestHandler):
    """Something that answers, and is no etcd."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "12")
        self.end_headers()
        self.wfile.write(b"<h1>Hi.</h1>")

    def log_message(self, *unused):
        pass


def test_not_etcd(world):
    """something else at that port, and wrong certificates: said, counted, and of no other consequence"""
    a, good = world.proxies["a"], dict(world.proxies["a"].options)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    wrong = {
        "no etcd": {"etcd-servers": ["http://127.0.0.1:%d" % server.server_port]},
        "a kube-apiserver": {"etcd-servers": ["https://%s:%d" % world.addresses["a"]],
                             "etcd-cafile": world.certs.crt("ca")},
        "nobody": {"etcd-servers": ["https://127.0.0.1:%d" % fixture.free_port()]},
        "another CA": {"etcd-cafile": world.certs.crt("foreign-ca")},
        "no client certificate": {"etcd-certfile": "", "etcd-keyfile": ""},
        "an unknown client certificate": {"etcd-certfile": world.certs.crt("admin"),
                                          "etcd-keyfile": world.certs.key("admin")},
    }
    try:
        for what, options in wrong.items():
            mark = a.reload(options)
            a.await_log('"Reloaded"', mark)
            until(lambda: a.metric("mvproxy_etcd_working") == 0.0, "%s to be noticed" % what)
            check(a.log_contains("etcd cannot be used", mark), what, "is said")
            equal(a.get("/readyz")[0], 200, "%s: readiness" % what)
            equal(world.ask("GET", "/api/v1/namespaces").status, 200, "%s: the local server" % what)
            mark = a.reload(good)
            until(lambda: a.metric("mvproxy_etcd_working") == 1.0, "etcd after " + what)
    finally:
        server.shutdown()
    until(lambda: routed(world), "b's resource through a")


if __name__ == "__main__":
    fixture.main(globals())
