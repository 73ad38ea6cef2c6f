#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a scraper sees: one name for a server in every family, nothing of what is not configured, compressed on demand."""

import gzip
import re
import socket
import urllib.request

import fixture
import rawh2
from fixture import check, equal, until

FIRST = "/apis/resource.k8s.io/v1/deviceclasses"  # 1.34 has it, 1.33 has not
SAMPLE = re.compile(r'^([a-z_:]+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


def scrape(proxy):
    """[(name, {label: value}, value)]"""
    samples = []
    for line in proxy.get("/metrics")[1].splitlines():
        if not line.startswith("#"):
            match = SAMPLE.match(line)
            check(match, "a line is no sample:", line)
            samples.append((match.group(1), dict(LABEL.findall(match.group(2) or "")), float(match.group(3))))
    return samples


def families(proxy):
    return {name for name, _, _ in scrape(proxy)}


def versions(proxy):
    return {labels["server"]: labels["version"] for name, labels, _ in scrape(proxy) if name == "mvproxy_server_info"}


def ask(world, node, path):
    return world.ask("GET", path, name=node).status


def idle(world, alpn):
    """A connection on which one request was answered; HTTP/2 has said all that it has to say by then."""
    client = world.client(alpn=alpn)
    if alpn == ("h2",):
        two = rawh2.RawH2(client)
        check(two.whole(two.request("GET", "/version")), "HTTP/2")
    else:
        equal(client.ask("GET", "/version").status, 200, "HTTP/1.1")
    return client


def test_left(world):
    """a client that leaves without TLS's close_notify: an end where nothing was under way, else a connection that broke"""
    a = world.proxies["a"]
    for alpn in (("http/1.1",), ("h2",)):
        for how, reason in ((None, "client"), (b"GET /version HT", "stream_failed"), ("watch", "stream_failed")):
            if alpn == ("h2",) and how is not None:
                continue
            client = idle(world, alpn)
            if how == "watch":
                client.request("GET", "/api/v1/namespaces/default/configmaps?watch=true")
                equal(client.final_head().status, 200, "watch")
            elif how is not None:
                client.send(how)
            address = "%s:%d" % client.sock.getsockname()
            client.sock.shutdown(socket.SHUT_WR)  # a FIN; what has not been read would make it a reset
            closed = re.compile(r'"Connection closed" connection=\d+ client="%s" reason="(\w+)"' % re.escape(address))
            equal(until(lambda c=closed: c.search(a.log()), "the end of " + address).group(1), reason, "%s, %s" % (alpn[0], how))
            client.close()


def test_one_name(world):
    """a server has the same name in every family, its host name, and mvproxy_server_info has the rest"""
    for path in ("/api/v1/pods", FIRST):
        equal(ask(world, "a", path), 200, path)
    samples = scrape(world.proxies["a"])
    named = {}
    for name, labels, _ in samples:
        check("origin" not in labels and "peer" not in labels and "hostname" not in labels, name, labels)
        if "server" in labels:
            named.setdefault(labels["server"], set()).add(name)
    equal(set(named), {"test-server-a", "test-server-b"}, "servers")
    check("mvproxy_back_request_duration_seconds_count" in named["test-server-a"] & named["test-server-b"], named)
    check("mvproxy_discovery_age_seconds" in named["test-server-a"] & named["test-server-b"], named)
    info = {labels["server"]: labels for name, labels, value in samples if name == "mvproxy_server_info" and value == 1}
    for node in "ab":
        one = info["test-server-" + node]
        equal(one["id"], world.sim.server(node)["id"], "ID of " + node)
        check(re.fullmatch(r"127\.0\.0\.1:[0-9]+", one["address"]), one)
    until(lambda: versions(world.proxies["a"]) == {"test-server-a": "v1.33.0", "test-server-b": "v1.34.0"}, "the versions")


def test_by_server(world):
    """each request counts in the histogram of the server that answered it, a watch in none"""
    proxy, name = world.proxies["a"], "mvproxy_back_request_duration_seconds_count"
    before = proxy.metric(name, server="test-server-b")
    for _ in range(5):
        equal(ask(world, "a", FIRST), 200, FIRST)
    with world.client("a", "admin") as client:
        client.request("GET", FIRST + "?watch=1")
        equal(client.final_head().status, 200, "the watch")
    equal(proxy.metric(name, server="test-server-b") - before, 5, "answered by b")


def test_latency(world):
    """by route and by server, in seconds: no less than the server takes, no more than the client waits"""
    proxy, delay = world.proxies["a"], 0.3
    names = {"mvproxy_request_duration_seconds": {"route": "peer"}, "mvproxy_back_request_duration_seconds": {"server": "test-server-b"}}

    def told(end):
        return {name: proxy.metric(name + end, **labels) or 0 for name, labels in names.items()}
    ask(world, "a", FIRST)
    counts, sums = told("_count"), told("_sum")
    world.sim.fault("delay-head", server="b", path=FIRST, ms=int(delay * 1000))
    began = fixture.time.monotonic()
    equal(ask(world, "a", FIRST), 200, FIRST)
    until(lambda: all(count == counts[name] + 1 for name, count in told("_count").items()), "one more in each")
    waited = fixture.time.monotonic() - began
    for name, total in told("_sum").items():
        check(delay - 0.001 <= total - sums[name] <= waited + 0.001, name, total - sums[name], "of", waited)


def test_not_configured(world):
    """nothing is said of etcd and of Leases that are not published, until they are configured"""
    proxy = world.proxies["a"]
    silent = {"mvproxy_etcd_working", "mvproxy_peer_endpoint_records", "mvproxy_peer_endpoint_records_watching",
              "mvproxy_peer_endpoint_record_publishing"}
    check(not silent & families(proxy), silent & families(proxy))
    check("mvproxy_local_failover_active" in families(proxy), "failover is on")
    hashed = proxy.metric("mvproxy_config_hash")
    check(hashed > 0, hashed)
    proxy.reload({"local-failover": False, "identity-lease": "off"})
    until(lambda: "mvproxy_local_failover_active" not in families(proxy), "failover is off")
    check(not any(n.startswith("mvproxy_identity_lease_publishing") for n in families(proxy)), "no Lease is published")
    check(proxy.metric("mvproxy_config_hash") not in (hashed, 0), "another configuration has another hash")
    proxy.reload({"local-failover": True, "identity-lease": "auto"})
    until(lambda: proxy.metric("mvproxy_config_hash") == hashed, "the one before has the one before")
    equal(proxy.metric("mvproxy_local_failover_active"), 0, "shown again")


def test_disjoint(world):
    """no value of a label counts what another one of its family counts too: what was accepted, and handshakes that were done"""
    proxy = world.proxies["a"]
    equal([labels for name, labels, _ in scrape(proxy) if name == "mvproxy_front_connections_total"], [{}], "labels")
    before = proxy.metric("mvproxy_front_connections_total"), proxy.metric("mvproxy_front_handshake_seconds_count")
    for _ in range(3):
        ask(world, "a", "/version")
    check(proxy.metric("mvproxy_front_connections_total") - before[0] >= 3, "accepted")
    check(proxy.metric("mvproxy_front_handshake_seconds_count") - before[1] >= 3, "handshakes done")


def test_verbs(world):
    """requests are counted by kube-apiserver's verbs and scopes, whatever the server behind counts"""
    maps, proxy = "/api/v1/namespaces/default/configmaps", world.proxies["a"]
    patch = {"metadata": {"labels": {"a": "b"}}}
    for method, path, body, headers, labels in (
            ("POST", maps, {"metadata": {"name": "counted"}}, None, {"verb": "POST", "scope": "resource"}),
            ("GET", maps, None, None, {"verb": "LIST", "scope": "namespace"}),
            ("PATCH", maps + "/counted", patch, {"Content-Type": "application/merge-patch+json"}, {"verb": "PATCH", "scope": "resource"}),
            ("PATCH", maps + "/counted?fieldManager=t", dict(patch, apiVersion="v1", kind="ConfigMap"),
             {"Content-Type": "application/apply-patch+yaml"}, {"verb": "APPLY", "scope": "resource"}),
            ("DELETE", maps, None, None, {"verb": "DELETE", "scope": "namespace"})):
        before = proxy.metric("apiserver_request_total", resource="configmaps", **labels) or 0
        world.ask(method, path, body, headers=headers)
        equal(proxy.metric("apiserver_request_total", resource="configmaps", **labels), before + 1, method + " " + path)


def test_certificates(world):
    """only what a client proves by its certificate counts in the histogram of their ends"""
    proxy, name = world.proxies["a"], "apiserver_client_certificate_expiration_seconds_count"
    for user, headers, counted in (("admin", None, 1), (None, None, 0), (None, {"Authorization": "Bearer token-bob"}, 0),
                                   ("front-proxy-client", {"X-Remote-User": "bob"}, 0)):
        before = proxy.metric(name)
        world.ask("GET", "/api/v1/namespaces/default/configmaps", user=user, headers=headers)
        equal(proxy.metric(name), before + counted, str(user))


def test_gzip(world):
    """who accepts gzip gets the same samples in a fraction of the bytes"""
    proxy = world.proxies["a"]
    sizes = {}
    for path in ("/metrics", "/metrics/slis"):
        for accept in ("gzip", "gzip;q=0", "identity"):
            request = urllib.request.Request("http://%s%s" % (proxy.admin, path), headers={"Accept-Encoding": accept})
            with urllib.request.urlopen(request, timeout=fixture.PATIENCE) as answer:
                body, coding = answer.read(), answer.headers["Content-Encoding"]
            equal(coding, "gzip" if accept == "gzip" else None, "Content-Encoding for " + accept)
            sizes[path, accept] = len(body)
            text = gzip.decompress(body) if coding else body
            names = {line.split(b" ")[2] for line in text.splitlines() if line.startswith(b"# TYPE ")}
            check(len(names) > (30 if path == "/metrics" else 1), path, accept, names)
    check(sizes["/metrics", "gzip"] * 5 < sizes["/metrics", "identity"], sizes)


if __name__ == "__main__":
    fixture.main(globals())
