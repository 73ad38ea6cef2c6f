#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a scraper sees: one name for a server in every family, nothing of what is not configured, compressed on demand."""

import gzip
import os
import re
import socket
import urllib.request

import fixture
import rawh2
from fixture import check, equal, until

FIRST = "/apis/resource.k8s.io/v1/deviceclasses"  # 1.34 has it, 1.33 has not
SAMPLE = re.compile(r'^([a-z_:]+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


# What an mvproxy exports that is given nothing but a server, a certificate and a client CA. More of it is more that everybody pays for.
UNCONFIGURED = set("""
    aggregator_discovery_nopeer_requests_total aggregator_discovery_peer_aggregated_cache_hits_total
    aggregator_discovery_peer_aggregated_cache_misses_total apiserver_client_certificate_expiration_seconds
    apiserver_peer_discovery_sync_errors_total process_cpu_seconds_total process_max_fds process_open_fds process_resident_memory_bytes
    process_start_time_seconds process_threads process_virtual_memory_bytes
    mvproxy_admin_requests_total mvproxy_audit_lines_left_out_total mvproxy_back_connection_reuses_total mvproxy_back_connections
    mvproxy_back_connects_total mvproxy_back_requests_withheld_total mvproxy_back_retries_refused_total mvproxy_back_retries_total
    mvproxy_back_streams mvproxy_build_info mvproxy_certificate_files_changes_total mvproxy_certificate_files_good
    mvproxy_certificate_lifetime_seconds mvproxy_certificate_not_after_seconds mvproxy_client_memory_bytes mvproxy_client_memory_limit_bytes mvproxy_config_hash
    mvproxy_config_last_reload_success_timestamp_seconds mvproxy_config_last_reload_successful mvproxy_control_closed_total
    mvproxy_discovery_age_seconds mvproxy_discovery_merge_failures_total mvproxy_discovery_merge_seconds mvproxy_discovery_merged_bytes
    mvproxy_discovery_refreshes_total mvproxy_excluded_group_versions mvproxy_front_accept_pauses_total
    mvproxy_front_accepted_connections_total mvproxy_front_answers_not_taken_total mvproxy_front_closed_total mvproxy_front_connections
    mvproxy_front_connections_fresh mvproxy_front_handshake_seconds mvproxy_front_received_bytes_total mvproxy_front_requests_in_flight
    mvproxy_front_requests_given_up_refusals_total mvproxy_front_requests_given_up_total
    mvproxy_front_requests_total mvproxy_front_sent_bytes_total mvproxy_front_slow_readers_total mvproxy_identity_lease_publishing
    mvproxy_identity_leases_collected_total mvproxy_leases_watching mvproxy_local_failover_active mvproxy_log_lines_dropped_total mvproxy_loop_lag_seconds
    mvproxy_peers mvproxy_peers_drained mvproxy_peers_ignored_total mvproxy_ready mvproxy_request_duration_seconds mvproxy_requestheader_differs
    mvproxy_resource_requests_total mvproxy_retries_total mvproxy_schedstat_waiting_seconds_total mvproxy_served_generation
    mvproxy_server_info mvproxy_server_up mvproxy_skewed_group_versions mvproxy_suspended_seconds_total mvproxy_tunnel_client_bytes_total
    mvproxy_tunnel_server_bytes_total mvproxy_tunnels mvproxy_unavailable_requests_total mvproxy_uneven_group_versions
""".split())


def setup():
    return fixture.World(options={"discovery-refresh-interval": "1h"}).start()


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


def test_unconfigured(world):
    """which families there are where nothing is configured that can be left out"""
    needed = {"bind-address", "tls-cert-file", "tls-private-key-file", "client-ca-file", "apiserver", "apiserver-ca-file", "v"}
    options = {name: value for name, value in world.options("a").items() if name in needed}
    bare = fixture.Mvproxy("mvproxy-bare", world.scratch, dict(
        options, **{"secure-port": fixture.free_port(), "admin-bind-address": "127.0.0.1:%d" % fixture.free_port(),
                    "control-socket": os.path.join(world.scratch, "bare.control")}))
    bare.start()
    until(lambda: "mvproxy_discovery_merge_seconds_count" in families(bare), "it to have read what its server has")
    there = {re.sub("_(bucket|count|sum)$", "", name) for name in families(bare)}
    bare.stop()
    equal(there - UNCONFIGURED, set(), "families of what is not configured")
    equal(UNCONFIGURED - there, set(), "families that are gone")


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


def test_openmetrics(world):
    """who asks for OpenMetrics gets no family twice: there a counter's family has no _total, so a gauge must not have its name"""
    proxy = world.proxies["a"]
    request = urllib.request.Request("http://%s/metrics" % proxy.admin, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    with urllib.request.urlopen(request, timeout=fixture.PATIENCE) as answer:
        check(answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0"), answer.headers["Content-Type"])
        text = answer.read().decode()
    named = re.findall("^# TYPE ([^ ]+) ", text, re.M)
    equal(sorted(named), sorted(set(named)), "families")
    check(len(named) > 50 and text.endswith("# EOF\n"), "all of them", len(named))


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


# ------------------------------------------------------------------------------------ no value of a label counts what another one counts

PAGES = os.path.join(fixture.TREE, "man", "metrics.inc.mdoc")
DESCRIBED = re.compile(r"^\.It Li (\S+) Ns Brq (.*)$", re.M)
PODS, MAPS, DEPLOYMENTS = "/api/v1/pods", "/api/v1/namespaces/default/configmaps", "/apis/apps/v1/namespaces/default/deployments"
# Of these labels two values are two things, not two outcomes of one.
THINGS = {"server", "id", "version", "address", "group", "resource", "subresource", "verb", "dry_run", "scope", "component", "compiler", "option", "file", "name", "path"}
# Families that are looked at nowhere as a whole. Each event there is one value of one enum; what two values would count twice cannot be caused in
# a story, or not so that it is known how often.
NOT_SUMMED = {
    "apiserver_peer_discovery_sync_errors_total", "mvproxy_identity_lease_renewals_total", "mvproxy_identity_lease_tags_total",
    "mvproxy_etcd_requests_total", "mvproxy_peer_endpoint_record_changes_total", "mvproxy_peer_endpoint_record_writes_total",
    "mvproxy_front_accept_pauses_total", "mvproxy_admin_limits_total", "kubernetes_healthcheck", "kubernetes_healthchecks_total",
    "apiserver_egress_dialer_dial_start_total", "apiserver_egress_dialer_dial_failure_count", "apiserver_egress_dialer_dial_duration_seconds",
    "mvproxy_disbelieved_total",
}
UNHEARD = ("0", "400", "401", "403", "429", "504")
TIMES = 3


def total(samples, family, which=lambda labels: True):
    """Over all label sets; of a histogram the observations."""
    return sum(value for name, labels, value in samples if name in (family, family + "_count") and which(labels))


def no_scrape(labels):
    return labels.get("path") != "/metrics"


def refresh(world):
    for _ in range(TIMES):
        fixture.ctl(world, "refresh", "test-server-b")


def ask_peer(world):
    for _ in range(TIMES):
        equal(ask(world, "a", FIRST), 200, FIRST)


def ask_without_peer(world):
    proxy = world.proxies["a"]
    world.proxies["b"].kill()
    until(lambda: proxy.metric("mvproxy_server_up", server="test-server-b") == 0, "it to be seen")
    for _ in range(TIMES):
        equal(ask(world, "a", FIRST), 503, FIRST)
    return lambda: (world.proxies["b"].start(), until(lambda: ask(world, "a", FIRST) == 200, "its return"))


def ask_without_local(world):
    world.sim.kill_server("a")
    until(lambda: world.proxies["a"].metric("mvproxy_local_failover_active") == 1, "failover")
    for _ in range(TIMES):
        equal(ask(world, "a", PODS), 200, PODS)
    return lambda: (world.sim.start_server("a"), until(world.proxies["a"].ready, "its return"))


def ask_for_unserved(world):
    world.sim.fault("status", server="a", path=DEPLOYMENTS, status=404, body="404 page not found\n", contentType="text/plain")
    for _ in range(TIMES):
        equal(ask(world, "a", DEPLOYMENTS), 404, DEPLOYMENTS)
    return world.sim.heal


def write_in_vain(world):
    world.sim.fault("reset", "a", "POST", MAPS)
    for _ in range(TIMES):
        equal(world.ask("POST", MAPS, {"metadata": {"name": "never"}}).status, 503, "no answer to a POST")
    return world.sim.heal


def ask_badly(world):
    for _ in range(TIMES):
        with world.client("a", "admin") as client:
            client.send(b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n")
            equal(client.head().status, 400, "two hosts")


def ask_admin(world):
    for path in ("/livez", "/nothing", "/statusz"):
        world.proxies["a"].get(path)


def ask_socket(world):
    for _ in range(TIMES):
        fixture.ctl(world, "status")


# What happens TIMES times, and the families that are to count just these.
DEEDS = {
    refresh: ["mvproxy_discovery_refreshes_total"],
    ask_peer: ["apiserver_rerouted_request_total", "mvproxy_skewed_resource_requests_total"],
    ask_without_peer: ["apiserver_peer_proxy_errors_total", "mvproxy_unavailable_requests_total"],
    ask_without_local: ["mvproxy_local_failover_requests_total"],
    ask_for_unserved: ["mvproxy_retries_total"],
    write_in_vain: ["mvproxy_back_failures_total"],
    ask_badly: ["mvproxy_front_refusals_total"],
    ask_admin: ["mvproxy_admin_requests_total"],
    ask_socket: ["mvproxy_control_closed_total"],
}


def accounts(samples):
    """Family: (all of its values, what they have to be together by others)."""
    def here(labels):
        return labels["server"] == server

    def dialling(labels):
        return here(labels) and labels["state"] == "dialling"
    requests = [(labels, value) for name, labels, value in samples if name == "apiserver_request_total"]
    others = {
        "mvproxy_front_closed_total": total(samples, "mvproxy_front_accepted_connections_total") - total(samples, "mvproxy_front_connections"),
        "apiserver_request_total": total(samples, "mvproxy_front_requests_total") - total(samples, "mvproxy_front_requests_in_flight"),
        "mvproxy_request_duration_seconds": sum(value for labels, value in requests if labels["verb"] not in ("WATCH", "CONNECT")),
        "mvproxy_resource_requests_total": sum(value for labels, value in requests if labels["resource"] and labels["code"] not in UNHEARD),
        "mvproxy_peers": total(samples, "mvproxy_server_info") - 1,
    }
    told = {family: (total(samples, family), other) for family, other in others.items()}
    for server in ("test-server-a", "test-server-b"):
        told["mvproxy_back_connects_total of " + server] = (
            total(samples, "mvproxy_back_connects_total", here) + total(samples, "mvproxy_back_connections", dialling),
            total(samples, "mvproxy_back_connections_closed_total", here) + total(samples, "mvproxy_back_connections", here))
    return told


SUMMED = {"mvproxy_front_closed_total", "apiserver_request_total", "mvproxy_request_duration_seconds", "mvproxy_resource_requests_total", "mvproxy_peers",
          "mvproxy_back_connects_total", "mvproxy_back_connections", "mvproxy_back_connections_closed_total"}


def counts(world, deed, names):
    """{family: how many more it has after the deed}"""
    proxy = world.proxies["a"]
    before = scrape(proxy)

    def more(family):
        return total(scrape(proxy), family, no_scrape) - total(before, family, no_scrape)
    undo = deed(world)
    for family in names:
        until(lambda family=family: more(family) >= TIMES, "%s to count %s" % (family, deed.__name__))
    counted = {family: more(family) for family in names}
    if undo is not None:
        undo()
    return counted


def test_disjoint(world):
    """no value of a label counts what another one of its family counts too: together they are as many as happened"""
    proxy = world.proxies["a"]
    equal([labels for name, labels, _ in scrape(proxy) if name == "mvproxy_front_accepted_connections_total"], [{}], "labels")
    for deed, names in DEEDS.items():
        # An event may have discovery read once more meanwhile; what is counted twice is so each time.
        for _ in range(3 if deed is refresh else 1):
            counted = counts(world, deed, names)
            if set(counted.values()) == {TIMES}:
                break
        equal(counted, {family: TIMES for family in names}, "counted after %s" % deed.__name__)
    before = proxy.metric("mvproxy_front_handshake_seconds_count")
    ask_peer(world)
    check(proxy.metric("mvproxy_front_handshake_seconds_count") - before >= TIMES, "handshakes done")


def test_accounts(world):
    """likewise of what has happened since the start, by what other families say of the same"""
    def agree():
        wrong = {family: both for family, both in accounts(scrape(world.proxies["a"])).items() if both[0] != both[1]}
        check(not wrong, "(all of its values, what they have to be)", wrong)
        return True
    until(agree, "them to agree")


def test_all(world):
    """each family of the manual whose labels tell one outcome from another is looked at by these two tests, or it is said that it is not"""
    del world
    with open(PAGES, encoding="utf-8") as page:
        told = {name for name, labels in DESCRIBED.findall(page.read()) if set(re.findall(r"[a-z_]+", labels.replace("Ar ", ""))) - THINGS}
    summed = SUMMED | {family for names in DEEDS.values() for family in names}
    equal(told, summed | NOT_SUMMED, "families")
    check(not summed & NOT_SUMMED, "both", summed & NOT_SUMMED)


if __name__ == "__main__":
    fixture.main(globals())
