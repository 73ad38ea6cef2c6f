#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peer endpoint records in a real etcd of three members, with TLS and client certificates: read, written, survived."""

import base64
import contextlib
import hashlib
import http.server
import signal
import threading

import etcd as etcdlib
import fixture
from fixture import check, equal, until
from test_spoofing import LEASES, Trap, forged

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
# Seconds. Written anew after ten, a hanging member costs five and a pause; a lease has fifteen, and as many again after each election.
REWRITTEN, EXPIRED = 60, 90


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
            # Without a leader, which a slow machine takes its time to elect, nobody can tell.
            (before,) = until(lambda: (self.revision(name),), "etcd to say what the record of %s is" % name, REWRITTEN)
            until(lambda b=before: self.revision(name) > b, "the record of %s to be written again" % name, REWRITTEN)

    @contextlib.contextmanager
    def without(self, member):
        """While it is dead the others do; it comes back whatever happens, or all that follows fails too."""
        member.kill()
        try:
            yield
            self.await_rewritten("a")
            self.await_rewritten("b")
            check(routed(self), "routing goes on")
        finally:
            self.etcd.start()


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


def forge(world, word, ip, port):
    """A Lease and a record as an API server's, whose address is somebody's choice; its ID."""
    name = "apiserver-" + base64.b32encode(hashlib.sha256(word.encode()).digest()[:16]).decode().rstrip("=").lower()
    lease = forged(name, "")
    del lease["metadata"]["annotations"]
    record = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name, "labels": {"apiserverIdentity": name}}}
    record["subsets"] = [{"addresses": [{"ip": ip}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}]
    world.etcd.put(name, record)
    world.sim.put(LEASES, lease)
    return name


def unforge(world, names):
    for name in names:
        world.sim.delete(LEASES, name, "kube-system")
        world.etcd.delete(name)


def test_forged_records(world):
    """records that point to loopback, our own listener, metadata services and other ports are not followed; one that may be gets a greeting"""
    a, traps = world.proxies["a"], [Trap()]
    try:
        traps.append(Trap("::1", fixture.socket.AF_INET6))
    except OSError:
        pass  # this host has no IPv6
    allowed, other_port = Trap("127.0.0.2"), Trap("127.0.0.3")
    world.proxies["b"].stop()  # it may dial all of loopback
    mark = a.reload({"peer-allowed-cidrs": ["127.0.0.2/32"]})
    a.await_log('"Reloaded"', mark)
    before = a.metric("mvproxy_front_accepted_connections_total")
    v4, v6, own = traps[0].port, traps[-1].port, a.address[1]
    places = [("127.0.0.1", v4), ("127.1.2.3", v4), ("0.0.0.0", v4), ("::1", v6), ("::", v6), ("::ffff:127.0.0.1", v4), ("::127.0.0.1", v4), ("127.0.0.1", own),
              ("::ffff:127.0.0.1", own), ("127.0.0.3", other_port.port), ("169.254.169.254", 80), ("::ffff:169.254.169.254", 80), ("fe80::1", 443), ("ff02::1", 443),
              ("224.0.0.1", 80), ("255.255.255.255", 80),
              # and what is no address, or no port
              ("localhost", v4), ("127.1", v4), ("0x7f000001", v4), ("2130706433", v4), ("0177.0.0.1", v4), ("127.0.0.1:%d" % v4, v4), ("[::1]", v6), ("::1%lo", v6),
              ("", v4), ("127.0.0.1", 0), ("127.0.0.2", 65536 + allowed.port), ("127.0.0.2", -1), ("127.0.0.2", str(allowed.port)), (["127.0.0.1"], v4)]
    names = [forge(world, "forged %d" % n, *place) for n, place in enumerate(places)]
    try:
        names.append(forge(world, "allowed", "127.0.0.2", allowed.port))  # the last: when it is called a second time, all others have had their turn
        until(lambda: allowed.visits >= 2, "the allowed one to be called")
        for name in names:
            check(name in a.get("/")[1], name, "is not known")
        equal([t.visits for t in (*traps, other_port)], [0] * (len(traps) + 1), "visits")
        equal(a.metric("mvproxy_front_accepted_connections_total"), before, "connections to our own listener")
        until(lambda: allowed.heard, "its greeting")
        check(allowed.heard[:2] == b"\x16\x03" and b"HTTP" not in allowed.heard and b"uthorization" not in allowed.heard, "it heard", allowed.heard)
        equal(world.ask("GET", "/api/v1/namespaces/default").status, 200, "a local resource meanwhile")
    finally:
        unforge(world, names)
        mark = a.reload({"peer-allowed-cidrs": ["127.0.0.0/8"]})
        a.await_log('"Reloaded"', mark)
        world.proxies["b"].start()
    until(lambda: routed(world), "b's resource through a")


def test_own_address(world):
    """a record that leads back to the proxy itself, where that may be dialled: no request goes round"""
    a = world.proxies["a"]
    a.options.update({"access-log": True})
    a.await_log('"Reloaded"', a.reload())
    name = forge(world, "self", "127.0.0.1", a.address[1])
    try:
        until(lambda: '"An mvproxy answers for this server" server="%s"' % name in a.log() or name in a.get("/")[1], "the record to be followed")
        for target in ("/apis/nobody.example.com/v1/things?resourceVersion=1", CLASSES + "?resourceVersion=2"):
            mark = a.log_mark()
            answer = world.ask("GET", target)
            check(answer.status in (200, 404, 503), answer)
            until(lambda t=target, m=mark: 'uri="%s"' % t in a.log()[m:], "the access log")
            check(a.log()[mark:].count('uri="%s"' % target) <= 2, target, "went round:", a.log()[mark:])
    finally:
        unforge(world, [name])


def test_started_without(world):
    """an mvproxy that starts while its server is away asks those whom records name, until the Leases say who is there"""
    a, pods = world.proxies["a"], "/api/v1/namespaces/default/pods"
    world.sim.kill_server("a")
    try:
        a.stop()
        a.start(ready=False)
        until(lambda: world.ask("GET", pods).status == 200, "b to answer")
        equal(world.ask("GET", pods).header("X-Mvproxy-Served-By"), world.id("b"), "who answered")
        known = {p["id"]: (p["lease"], p["life"]) for p in fixture.ctl_json(world, "peers")["servers"]}
        equal(known[world.id("b")], (False, "live"), known)
    finally:
        world.sim.start_server("a", **{"starts-unready": False})
    a.await_ready()
    until(lambda: routed(world), "b's resource through a")


def test_rewritten(world):
    """records are written again, under the same lease"""
    before = world.etcd.record(world.id("a"))[0]
    world.await_rewritten("a")
    after = world.etcd.record(world.id("a"))[0]
    equal(after["lease"], before["lease"], "lease")
    equal(after["create_revision"], before["create_revision"], "the same key all the time")


def test_failover(world):
    """the first endpoint dies: the others do"""
    with world.without(world.etcd.members[0]):
        pass


def test_leader_change(world):
    """the leader is killed, and the next: records are kept, watches go on"""
    for _ in range(2):
        leader = until(world.etcd.leader, "a leader")
        with world.without(leader):
            until(lambda old=leader: world.etcd.leader() is not old, "another leader")
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
    until(lambda: world.revision("b") == 0, "the record of b to expire", EXPIRED)
    world.proxies["a"].await_log('"Peer endpoint record gone" id="%s"' % world.id("b"), mark)
    b.start()
    until(lambda: world.revision("b") > 0, "the record of b")
    until(lambda: routed(world), "b's resource through a")


def test_graceful_stop(world):
    """SIGTERM: the record is gone when the process is"""
    b = world.proxies["b"]
    check(world.revision("b") > 0, "it is there")
    mark = b.log_mark()
    b.signal(signal.SIGTERM)
    equal(b.wait_exit(), 0, "exit status")
    # It has two seconds for that, which an etcd on a slow disk may need for itself; then the record expires.
    if not b.log_contains("Could not remove the own peer endpoint record in time", mark):
        equal(world.revision("b"), 0, "the record of b")
        check(b.log_contains("Removed the own peer endpoint record", mark), "and said so")
    until(lambda: world.revision("b") == 0, "the record of b to be gone", EXPIRED)
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
        "a kube-apiserver": {"etcd-servers": ["https://%s:%d" % world.addresses["b"]],
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
