#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Woken by an alert: its fault is caused, its expression holds, and what its runbook says to run shows who it is, why, and for how long."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from yaml import safe_load_all

import fixture
from fixture import Skip, check, ctl, ctl_json, equal, until
from test_check import authentication

BOOKS = os.path.join(fixture.TREE, "docs", "runbooks")
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
BUNDLE = os.path.join(tempfile.gettempdir(), "mvproxy-bundle-%d" % os.getpid())
AGE = r"(\d+(\.\d)? ?s|\d+m\d+s|\d+h\d+m|\d+d\d+h)"


def setup():
    """a has files of its own for its certificate, and an etcd that is not there."""
    world = fixture.World({"a": "v1.33", "b": "v1.34"})
    certs, a = world.certs, world.proxies["a"]
    for name in ("crt", "key"):
        shutil.copy(getattr(certs, name)("node-a"), os.path.join(world.scratch, "own." + name))
    a.options.update({"tls-cert-file": os.path.join(world.scratch, "own.crt"), "tls-private-key-file": os.path.join(world.scratch, "own.key"),
                      "etcd-servers": ["https://127.0.0.1:%d" % fixture.free_port()], "etcd-cafile": certs.crt("ca")})
    return world.start()


def named(alert):
    """The mvproxyctl commands under "What shows it", with something in place of what is to be filled in."""
    with open(os.path.join(BOOKS, alert + ".md"), encoding="utf-8") as page:
        part = page.read().split("## What shows it")[1].split("## What to do")[0]
    lines = re.findall(r"^    mvproxyctl (.*)$", part, re.M)
    check(lines, alert, "names no command")
    for line in lines:
        yield line.replace("/apis/GROUP/VERSION/RESOURCE", CLASSES).replace("SERVER", "test-server-b").replace("FILE", BUNDLE)


def run(world, alert):
    text = ""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(BUNDLE)
    for line in named(alert):
        asked, _, narrowed = line.partition(" | ")
        got = ctl(world, *shlex.split(asked))
        out = subprocess.run(shlex.split(narrowed), input=got[1], stdout=subprocess.PIPE, text=True, check=True).stdout if narrowed else got[1]
        text += "$ mvproxyctl %s\n%s%s" % (line, out, got[2])
    return text


@contextlib.contextmanager
def killed(world, name):
    """And well again afterwards."""
    with fixture.killed(world, name):
        yield
    until(lambda: all(s["answers"] == "answers" for s in ctl_json(world, "status")["servers"]), "its return")
    until(world.proxies["a"].ready, "ready again")


@contextlib.contextmanager
def faulty(world, status):
    """b answers that to who asks for what only it serves."""
    fault = world.sim.fault("status", server="b", path=CLASSES, status=status)
    try:
        yield
    finally:
        world.sim.heal(fault)
        until(lambda: world.ask("GET", CLASSES).status == 200 and not value(world, "mvproxy_back_ejected", server="test-server-b"), "its return", 60)


WALKED = set()


def walk(world, alert, fires, *shows):
    """The alert's expression holds, and the commands show all of this."""
    WALKED.add(alert)
    until(fires, "the fault of " + alert)
    missing = None

    def seen():
        nonlocal missing
        text = run(world, alert)
        missing = [s for s in shows if not re.search(s, text)]
        return not missing
    try:
        until(seen, "the commands of " + alert)
    except fixture.Failure as error:
        raise fixture.Failure("%s: not shown: %s\n%s" % (alert, missing, re.sub(r"(?m)^(# |mvproxy_|apiserver_|process_|aggregator_).*\n", "", run(world, alert)))) from error


def value(world, name, **labels):
    return world.proxies["a"].metric(name, **labels) or 0


def test_down(world):
    """MvproxyDown: no mvproxy answers"""
    world.proxies["a"].stop()
    walk(world, "MvproxyDown", lambda: not world.proxies["a"].running(), "no mvproxy answers")
    world.proxies["a"].start()
    with contextlib.ExitStack() as stack:
        os.kill(world.proxies["a"].child.pid, signal.SIGSTOP)
        stack.callback(os.kill, world.proxies["a"].child.pid, signal.SIGCONT)
        status, _, said = ctl(world, "status")
    hangs = re.search(r"no mvproxy answers: ([^(]*) \(", said)
    check(status == 2 and hangs, "mvproxyctl of one that hangs", status, said)
    with open(os.path.join(BOOKS, "MvproxyDown.md"), encoding="utf-8") as page:
        check("*%s*" % hangs.group(1) in page.read(), "not on the page", hangs.group(1))


def test_not_ready(world):
    """MvproxyNotReady: which check fails, and why"""
    a = world.proxies["a"]
    a.stop()
    with socket.create_server(("127.0.0.1", a.options["secure-port"])):
        a.start(ready=False)
        walk(world, "MvproxyNotReady", lambda: "mvproxy_ready 0\n" in a.get("/metrics")[1], r"client-listener: .*Address already in use")
    until(lambda: value(world, "mvproxy_ready") == 1, "ready again")


def test_log_lines_dropped(world):
    """MvproxyLogLinesDropped: how many were lost, of a log that cannot be written"""
    a = world.proxies["a"]
    a.stop()
    with open("/dev/full", "wb") as full:
        a.start(stderr=full)
    walk(world, "MvproxyLogLinesDropped", lambda: value(world, "mvproxy_log_lines_dropped_total") > 0, r"(?m)^mvproxy_log_lines_dropped_total [1-9]")
    a.stop()
    a.start()


def test_ejected(world):
    """MvproxyServerEjected: which server, by what it failed, since when"""
    def fires():
        world.ask("GET", CLASSES)
        return value(world, "mvproxy_back_ejected", server="test-server-b") > 0
    with faulty(world, 503):
        walk(world, "MvproxyServerEjected", fires, r"(?m)^test-server-b +live, ejected .*502 or 503 again and again \(for " + AGE + r"\)$")


def test_unreachable(world):
    """MvproxyServerUnreachable: which server, why, since when"""
    with killed(world, "b"):
        walk(world, "MvproxyServerUnreachable", lambda: value(world, "mvproxy_server_up", server="test-server-b") == 0,
             r"(?m)^test-server-b +live, does not answer[, ].*does not reach its kube-apiserver \(for " + AGE + r"\)$")


def test_unavailable(world):
    """MvproxyUnavailable: which server is away, why, since when; what would be done with such a request"""
    def fires():
        world.ask("GET", CLASSES)
        return unavailable(world) > before
    before = unavailable(world)
    with killed(world, "b"):
        walk(world, "MvproxyUnavailable", fires, r"(?m)^test-server-b +live, does not answer[, ].*\(for " + AGE, r"Goes to a peer|Is refused", r'route="peers-failed"|route="peer"')


def unavailable(world):
    """What the alert counts, over all routes; there from the start, or Prometheus does not see the first one grow."""
    found = re.findall(r'(?m)^mvproxy_unavailable_requests_total\{route="(?!rerouted)[^"]*"\} (\d+)', world.proxies["a"].get("/metrics")[1])
    check(len(found) > 10, "a series for each route")
    return sum(int(n) for n in found)


def test_invented_tokens(world):
    """MvproxyUnavailable: not for who has no credential, or one that no server has taken: anybody can invent one"""
    def asked(token):
        before = unavailable(world), value(world, "apiserver_request_total", code="503", resource="deviceclasses")
        for _ in range(3):
            equal(world.ask("GET", CLASSES, user=None, headers={"Authorization": token} if token else None).status, 503, token)
        return unavailable(world) - before[0], value(world, "apiserver_request_total", code="503", resource="deviceclasses") - before[1]
    check(world.ask("GET", "/api/v1/namespaces/default/configmaps", user=None, headers={"Authorization": "Bearer token-bob"}).status in (200, 403), "bob is known")
    with killed(world, "b"):
        until(lambda: world.ask("GET", CLASSES).status == 503, "nobody has it")
        equal([asked(token) for token in (None, "Basic eDp5", "Bearer nonsense", "Bearer token-bob")], [(0, 3), (0, 3), (0, 3), (3, 3)], "counted, answered with 503")


def test_said_by_the_server(world):
    """MvproxyUnavailable: not for a 503 that a server says, such as that of an aggregated API without its server"""
    path = "/apis/apps/v1/namespaces/default/deployments"
    before, said = unavailable(world), value(world, "apiserver_request_total", code="503", resource="deployments")
    fault = world.sim.fault("status", server="a", path=path, status=503, body="service unavailable\n", contentType="text/plain")
    try:
        for _ in range(5):
            equal(world.ask("GET", path).status, 503, "what the server says")
    finally:
        world.sim.heal(fault)
    equal((unavailable(world) - before, value(world, "apiserver_request_total", code="503", resource="deployments") - said), (0, 5), "mvproxy's own, all")


def test_local(world):
    """MvproxyLocalFailoverActive: why, since when"""
    with killed(world, "a"):
        walk(world, "MvproxyLocalFailoverActive", lambda: value(world, "mvproxy_local_failover_active") == 1,
         r"Not ready", r"local-apiserver: the local kube-apiserver does not answer", r"(?m)^test-server-a +local, does not answer[, ].*refused.* \(for " + AGE,
         r"(?m)^Failover: +active for " + AGE)


def test_reload(world):
    """MvproxyReloadRefused: which option of which file, since when"""
    a = world.proxies["a"]
    a.write_config("nonsense: 1\n")
    ctl(world, "reload")
    walk(world, "MvproxyReloadRefused", lambda: value(world, "mvproxy_config_last_reload_successful") == 0, r"mvproxy-a.yaml:1:1: nonsense: unknown option")
    check(re.search("last reload refused for " + AGE + ": .*nonsense", ctl(world, "status")[1]), "since when", ctl(world, "status")[1])
    a.write_config()
    ctl(world, "reload")


def test_skew(world):
    """MvproxySkewLasting: which group/versions, between which servers, since when"""
    walk(world, "MvproxySkewLasting", lambda: value(world, "mvproxy_skewed_group_versions") > 0,
         r"(?m)^GROUP/VERSION +test-server-a +test-server-b$", r"(?m)^apps/v1 +A +B$", r"The schemas of \d+ group/versions differ, for " + AGE, r"v1\.33\.0", r"v1\.34\.0")


def test_uneven(world):
    """the same alert: servers of one release, and one of them does not serve all of it"""
    world.sim.restart_server("a", profile="v1.34", **{"runtime-config": ["batch/v1=false"]})
    try:
        walk(world, "MvproxySkewLasting", lambda: value(world, "mvproxy_uneven_group_versions") == 1 and value(world, "mvproxy_skewed_group_versions") == 0,
             r"\d+ of \d+ resources are served by some servers only \(for " + AGE + r"\)\.", r"(?m)^RESOURCE +test-server-a +test-server-b$",
             r"(?m)^batch/v1 cronjobs +no +yes$")
        check(re.search(r"1 of \d+ group/versions are not the same on all servers \(for " + AGE + r"\), the schemas of 0 differ\n", ctl(world, "status")[1]),
              ctl(world, "status")[1])
    finally:
        world.sim.restart_server("a", profile="v1.33", **{"runtime-config": []})
        until(lambda: ctl_json(world, "peers")["servers"][0]["version"] == "v1.33.0" and world.proxies["a"].ready(), "its old release")


def test_disbelieved(world):
    """MvproxyAnswersDisbelieved: which server, what, when"""
    path = "/apis/apps/v1/namespaces/default/deployments"
    fault = world.sim.fault("status", server="a", path=path, status=404, body="404 page not found\n", contentType="text/plain")

    def fires():
        world.ask("GET", path)
        return value(world, "mvproxy_retries_total", reason="local-not-found") > 0
    try:
        walk(world, "MvproxyAnswersDisbelieved", fires, r"(?s)Not believed:.*\dZ .*test-server-a .*deployments")
    finally:
        world.sim.heal(fault)


def test_certificates(world):
    """MvproxyCertificateExpiring, ...Now: which option, which file, for how long"""
    a = world.proxies["a"]
    path, key = a.options["tls-cert-file"], a.options["tls-private-key-file"]
    for alert, days, low, high in (("MvproxyCertificateExpiring", 10, 2, 14), ("MvproxyCertificateExpiringNow", 1, 0, 2)):
        world.certs.extra("short-%d" % days, "kube-apiserver", sans=("127.0.0.1", "kubernetes.default.svc"), eku="serverAuth,clientAuth", days=days)
        shutil.copy(world.certs.key("short-%d" % days), key)
        shutil.copy(world.certs.crt("short-%d" % days), path)
        walk(world, alert, lambda low=low, high=high: low * 86400 < value(world, "mvproxy_certificate_not_after_seconds", option="tls-cert-file") - time.time() <= high * 86400,
             r"(?m)^tls-cert-file +20\S+ +" + AGE + r" .*/own\.crt")
    shutil.copy(world.certs.key("node-a"), key)
    shutil.copy(world.certs.crt("node-a"), path)
    until(lambda: value(world, "mvproxy_certificate_not_after_seconds", option="tls-cert-file") - time.time() > 14 * 86400, "the long one again")


def test_files(world):
    """MvproxyCertificateFilesUnusable: which file, what is wrong, since when"""
    path = world.proxies["a"].options["tls-cert-file"]
    with open(path, "w", encoding="ascii") as out:
        out.write("half a certificate\n")
    walk(world, "MvproxyCertificateFilesUnusable", lambda: "mvproxy_certificate_files_good 0\n" in world.proxies["a"].get("/metrics")[1],
         r"changed certificate files refused for " + AGE + ": .*own\\.crt")
    told = [(c["kind"], c["text"]) for c in ctl_json(world, "status")["changes"]]
    check(any(kind == "failed" and "changed certificate files were refused: " in text and "own.crt" in text for kind, text in told), "a change", told)
    shutil.copy(world.certs.crt("node-a"), path)
    until(lambda: value(world, "mvproxy_certificate_files_good") == 1, "the files to be good again")
    told = [(c["kind"], c["text"]) for c in ctl_json(world, "status")["changes"]]
    check(("recovered", "all certificate files can be used again") in told, "its end", told)


def rights():
    """Those of contrib/rbac, as the simulation takes them."""
    with open(os.path.join(fixture.TREE, "contrib", "rbac", "mvproxy.yaml"), encoding="utf-8") as roles:
        return [dict(rule, users=["system:mvproxy"], namespace=role["metadata"].get("namespace", ""))
                for role in safe_load_all(roles) for rule in role.get("rules", ())]


def test_leases(world):
    """MvproxyLeasesUnread: what the local server answers, since when, which right is missing. An open watch goes on without, so it is cut"""
    a, name, options = world.proxies["a"], "mvproxy_leases_watching", {"apiserver-user": "system:mvproxy", "apiserver-groups": ["system:authenticated"]}

    def taken():
        return a.metric(name) == 0 and a.metric("mvproxy_local_failover_active") == 0
    world.sim.ask("rules", "PUT", rights())
    try:
        a.await_log('"Reloaded"', a.reload(options))
        world.sim.command("a", "cut")
        until(lambda: a.metric(name) == 1 and a.ready(), "the Leases to be followed with the rights of contrib/rbac")
        world.sim.ask("rules", "PUT", [rule for rule in rights() if "leases" not in rule.get("resources", ())])
        world.sim.command("a", "cut")
        walk(world, "MvproxyLeasesUnread", taken, r"(?m)^Identity Leases cannot be read, .*\(for " + AGE + r"\): answered 403",
             r"(?s)identity and Leases.*system:mvproxy lacks rights: .*leases")
        world.sim.ask("rules", "PUT", rights())
        until(lambda: a.metric(name) == 1, "the Leases to be followed again, by itself")
    finally:
        for option in options:
            a.options.pop(option)
        a.await_log('"Reloaded"', a.reload())
        world.sim.ask("rules", "PUT", [])
        world.sim.command("a", "cut")
    until(lambda: a.metric(name) == 1 and a.ready(), "the usual user")


def test_etcd(world):
    """MvproxyEtcdUnreachable: which etcd, why, since when"""
    walk(world, "MvproxyEtcdUnreachable", lambda: "mvproxy_etcd_working 0\n" in world.proxies["a"].get("/metrics")[1],
         r"(?m)^Records: +cannot be used for " + AGE + r": .*127\.0\.0\.1:\d+.*refused")


def test_etcd_given_up(world):
    """an etcd that is configured no more is nobody's alert"""
    a = world.proxies["a"]
    until(lambda: value(world, "mvproxy_back_ejected", server="etcd") == 1, "it to be ejected")
    servers = a.options.pop("etcd-servers")
    a.await_log('"Reloaded"', a.reload())
    until(lambda: a.metric("mvproxy_etcd_working") is None and value(world, "mvproxy_back_ejected", server="etcd") == 0, "to be told of it no more")
    a.await_log('"Reloaded"', a.reload({"etcd-servers": servers}))
    until(lambda: value(world, "mvproxy_back_ejected", server="etcd") == 1, "and again, when it is configured again")


def test_requestheader(world):
    """MvproxyRequestheaderDiffers: what differs, since when"""
    a = world.proxies["a"]
    authentication(world, **{"requestheader-allowed-names": '["somebody-else"]'})
    a.stop()  # it is read at a start, and then every few minutes
    a.start(ready=False)
    walk(world, "MvproxyRequestheaderDiffers", lambda: value(world, "mvproxy_requestheader_differs") == 1,
         r"requestheader: .*front-proxy-client", r"(?s)Not believed:.*\dZ .*requestheader +the API servers believe otherwise")
    authentication(world)
    a.stop()
    a.start()


def test_front_proxy(world):
    """MvproxyFrontProxyDisbelieved: what the local server answers, since when"""
    world.sim.restart_server("a", **{"requestheader-client-ca-file": world.certs.crt("foreign-ca")})
    walk(world, "MvproxyFrontProxyDisbelieved", lambda: value(world, "mvproxy_front_proxy_disbelieved") == 1,
         r"requestheader: the local kube-apiserver does not believe this front proxy: it answers 401",
         r"(?s)Not believed:.*\dZ .*requestheader +the local kube-apiserver does not believe", r"does not believe the front proxy: it answers 401")
    world.sim.restart_server("a", **{"requestheader-client-ca-file": world.certs.crt("front-proxy-ca")})
    until(world.proxies["a"].ready, "ready again")


# Faults that cannot be caused here, and why: without the tool, or the right to use it.
UNABLE = {}


def unable(alert, why):
    UNABLE[alert] = why
    raise Skip("%s: %s" % (alert, why))


@contextlib.contextmanager
def attached(world, alert, *argv, said):
    """Another program has hold of a's mvproxy."""
    if not shutil.which(argv[0]):
        unable(alert, "no " + argv[0])
    with open(os.path.join(world.scratch, argv[0] + ".log"), "w+", encoding="utf-8") as log:
        child = subprocess.Popen([*argv, "-p", str(world.proxies["a"].child.pid)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            until(lambda: log.seek(0) == 0 and said in log.read() or child.poll() is not None, argv[0])
            if child.poll() is not None:
                unable(alert, "%s may not: %s" % (argv[0], log.seek(0) or log.read()[-300:]))
            yield child
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait(fixture.PATIENCE)


def slow_turns(world):
    """The share of the loop's turns that took more than 100 ms, since the start."""
    all_of_them = value(world, "mvproxy_loop_lag_seconds_count")
    return all_of_them and 1 - value(world, "mvproxy_loop_lag_seconds_bucket", le="0.1") / all_of_them


def test_slow(world):
    """MvproxyEventLoopSlow: who asks, for what, how much, for how long; each system call that sends takes 150 ms"""
    a = world.proxies["a"]
    a.stop()
    a.start()
    with attached(world, "MvproxyEventLoopSlow", "strace", "-qq", "-e", "trace=sendto,sendmsg,write,writev", "-e", "inject=sendto,sendmsg,write,writev:delay_enter=150000",
                  said="") as child, world.client("a", "admin") as client:
        client.send(b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: kubernetes.default.svc\r\n\r\n")

        def fires():
            check(child.poll() is None, "strace ended")
            world.ask("GET", "/api/v1/nodes")
            return slow_turns(world) > 0.01
        walk(world, "MvproxyEventLoopSlow", fires, r"(?m)^" + AGE + r" +watch +127\.0\.0\.1:\d+ +\S+ +test-server-a .* /api/v1/pods$")


def test_starved(world):
    """MvproxyEventLoopSlow, its other half: no processor, which the turns themselves do not show"""
    if not os.path.exists("/proc/self/schedstat"):
        raise Skip("the kernel does not tell")
    a = world.proxies["a"]
    before, others, processors = value(world, "mvproxy_schedstat_waiting_seconds_total"), [], os.sched_getaffinity(a.child.pid)
    one = {min(processors)}
    try:
        for _ in range(8):
            others.append(subprocess.Popen(["sh", "-c", "while :; do :; done"], preexec_fn=lambda: os.sched_setaffinity(0, one)))
        os.sched_setaffinity(a.child.pid, one)

        def fires():
            world.ask("GET", "/api/v1/nodes")
            return value(world, "mvproxy_schedstat_waiting_seconds_total") > before + 0.1
        walk(world, "MvproxyEventLoopSlow", fires, r"(?m)^mvproxy_schedstat_waiting_seconds_total \d+\.\d+")
    finally:
        os.sched_setaffinity(a.child.pid, processors)
        for other in others:
            other.kill()
            other.wait()


def test_memory(world):
    """MvproxyClientMemoryHigh: how many connections there are, and that they ask nothing: heads without an end"""
    a = world.proxies["a"]
    a.await_log('"Reloaded"', a.reload({"max-client-memory": 8 << 20}))
    clients = []
    try:
        for _ in range(60):  # small ones: what is refused is freed at once, and must not make the difference
            clients.append(world.client("a", "admin"))
            with contextlib.suppress(OSError):
                clients[-1].send(b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 150000)
        walk(world, "MvproxyClientMemoryHigh", lambda: value(world, "mvproxy_client_memory_bytes") / value(world, "mvproxy_client_memory_limit_bytes") > 0.8,
             r"(?m)^AGE +VERB +CLIENT .*PATH\n(?!\d)", r"(?m)^Clients hold [5-8] of the 8 MiB of max-client-memory", r"(?m)^Traffic: +\d\d+ of \d+ connections, 0 requests")
    finally:
        for client in clients:
            client.close()
        a.options.pop("max-client-memory")
        a.await_log('"Reloaded"', a.reload())


def test_places(world):
    """MvproxyClientsWait: for want of what, and who takes the places; check says so, too"""
    a, watches = world.proxies["a"], []
    name = "mvproxy_front_accept_pauses_total"
    try:
        for number in range(20):  # in twos, so that nobody has more than the others; those of the other mvproxy may have a place, too
            watches.append(world.client("a", "admin", source="127.0.0.%d" % (20 + number // 2)))
            watches[-1].request("GET", "/api/v1/namespaces/default/configmaps?watch=true")
            equal(watches[-1].final_head().status, 200, "watch")
        a.await_log('"Reloaded"', a.reload({"max-connections": 20}))
        walk(world, "MvproxyClientsWait", lambda: value(world, name, reason="connections") > 10 and not value(world, name, reason="descriptors"),
             r"(?m)^\d+ connections and 0 tunnels, of 20 that max-connections allows, and none can make room: new clients wait",
             r"(?m)^Traffic: +\d+ of 20 connections", r"(?m)^mvproxy_front_accept_pauses_total\{reason=\"connections\"\} [1-9]", r"(?m)^\S+ +watch +127\.0\.0\.2")
        status, text, _ = ctl(world, "check")
        check(status == 2 and "as many connections as max-connections allows (20)" in text, "check", status, text)
    finally:
        for watch in watches:
            watch.close()
        a.options.pop("max-connections")
        a.await_log('"Reloaded"', a.reload())
    until(lambda: not ctl_json(world, "status")["connectionLimitReached"], "room to be said", 60)


# The argument that says which pool the connection is of (x86-64: the second one), as if it were the one without certificate.
FLIP = ("-ex", "break *request_must_be_withheld", "-ex", "echo waits\\n", "-ex", "continue", "-ex", "set $rsi = 0", "-ex", "detach")


def test_withheld(world):
    """MvproxyRequestsWithheld: its last check stops a request that a debugger has put on the wrong connection"""
    a = world.proxies["a"]
    if os.uname().machine != "x86_64":
        unable("MvproxyRequestsWithheld", "the fault is made for x86-64")
    mark = a.log_mark()
    name = "mvproxy_back_requests_withheld_total"
    with attached(world, "MvproxyRequestsWithheld", "gdb", "-q", "-batch", "-nx", *FLIP, said="waits"):
        world.ask("GET", "/api/v1/nodes")  # this one, or one of mvproxy's own that is before it
        until(lambda: value(world, name), "a request that was put on the wrong connection")
    walk(world, "MvproxyRequestsWithheld", lambda: value(world, name) == 1, r"Written to ")
    with open(BUNDLE, encoding="utf-8") as bundle:
        check(re.search(name + r'\{server=\\"test-server-[ab]\\"\} 1', bundle.read()), "the bundle")
    os.unlink(BUNDLE)
    check(re.search('"Request withheld: .*certificate="none" users=1', a.log()[mark:]), "the line that the page looks for", a.tail())
    equal(world.ask("GET", "/api/v1/nodes").status, 200, "and the next one")


def test_all(world):  # pylint: disable=unused-argument # as all have it
    """every alert's fault was caused, and what its page says to run was run"""
    with open(os.path.join(fixture.TREE, "contrib", "prometheus", "mvproxy.rules.yaml"), encoding="utf-8") as rules:
        missing = set(re.findall(r"- alert: (\w+)", rules.read())) - WALKED
    equal(missing - set(UNABLE), set(), "alerts")
    if missing:
        raise Skip("not shown: " + "; ".join("%s (%s)" % (alert, UNABLE[alert]) for alert in sorted(missing)))


if __name__ == "__main__":
    fixture.main(globals())
