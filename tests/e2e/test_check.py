#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mvproxyctl check: a healthy installation has no mark, and each of many faults is named, with what to do about it: held against tests/e2e/check.golden.

MVPROXY_UPDATE_GOLDEN=1 writes the file anew; read what changed before it is committed.
"""

import base64
import contextlib
import json
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import time

import fixture
from fixture import check, equal, until
from test_loop import Forwarder

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check.golden")
MAP = "extension-apiserver-authentication"


def read(path):
    with open(path, encoding="ascii") as text:
        return text.read()


def authentication(world, **changes):
    """What kube-apiserver keeps in the ConfigMap."""
    def bundle(name):
        return read(world.certs.crt(name))

    data = {"client-ca-file": bundle("ca"), "requestheader-client-ca-file": bundle("front-proxy-ca"),
            "requestheader-allowed-names": '["front-proxy-client"]', "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-group-headers": '["X-Remote-Group"]', "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]'}
    world.sim.put("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "data": dict(data, **changes),
                                 "metadata": {"name": MAP, "namespace": "kube-system"}})


def ends_in(days):
    return time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + days * 86400 + 3600))


def setup():
    # As many descriptors as connections of clients may need, on any machine.
    world = fixture.World(options={"max-connections": 100}, servers={n: {"lease-renew-interval": "500ms"} for n in "ab"})
    extra, names = world.certs.extra, ["kubernetes.default.svc", "127.0.0.1"]
    extra("no-svc", "kube-apiserver", eku="serverAuth", sans=["localhost", "127.0.0.1"])
    extra("ended", "kube-apiserver", eku="serverAuth", sans=names, start="20200101000000Z", end="20200102000000Z")
    extra("ending", "kube-apiserver", eku="serverAuth", sans=names, end=ends_in(10))
    extra("foreign-server", "kube-apiserver", ca="foreign-ca", eku="serverAuth", sans=names)
    extra("ending-ca", "ending-ca", eku="", is_ca=True, end=ends_in(5))
    world.spare = fixture.free_port()
    authentication(world)
    world.start()
    # What is said of this machine's kernel here would be said in each test.
    status, text = before(world, {})
    if status and re.search("(?m)^host\n(.*\n)*[\u203c\u00d7]", text):
        world.close()
        raise fixture.Skip("this machine has marks of its own:\n" + marks(world, text))
    return world


# ------------------------------------------------------------------------------------------------------ asking


def ctl(world, arguments, locale="C.UTF-8"):
    program = os.path.join(os.path.dirname(fixture.mvproxy_binary()), "mvproxyctl")
    done = subprocess.run([program, "--socket", world.proxies["a"].options["control-socket"], "check", *arguments],
                          capture_output=True, text=True, check=False, timeout=2 * fixture.PATIENCE,
                          env=dict(os.environ, LC_ALL=locale))
    for alarm in fixture.ALARMS:
        check(alarm not in done.stderr, done.stderr)
    equal([line for line in done.stderr.splitlines() if fixture.REMARK not in line], [], "standard error")
    return done.returncode, done.stdout


def before(world, change, locale="C.UTF-8"):
    """The check before the start, with a configuration that differs from that of the running proxy, port included."""
    options = {k: v for k, v in dict(world.options("a"), **{"secure-port": world.spare, "max-connections": 100}, **change).items()
               if v is not None}
    path = os.path.join(world.scratch, "before.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(fixture.yaml(options))
    return ctl(world, ["--pre", "--config", path], locale)


def marks(world, text):
    """What is not well, and what to do about it, with what differs from run to run replaced by a word."""
    out, kept = [], False
    for line in text.splitlines():
        if line.startswith(("\u203c", "\u00d7")):
            kept = True
        elif not line.startswith("    "):
            kept = False
        if kept:
            out.append(line)
    text = "\n".join(out)
    for name, path in (("FILE", os.path.join(world.scratch, "before.yaml")), ("FILE", world.proxies["a"].config_path),
                       ("CERTS", os.path.join(world.scratch, "certs")), ("CERTS", world.certs.dir), ("DIR", world.scratch)):
        text = text.replace(path, name)
    for name, port in (("SERVER", world.addresses["a"][1]), ("PORT", world.ports["a"]), ("PEER", world.ports["b"]),
                       ("SPARE", world.spare)):
        text = text.replace(":%d" % port, ":" + name).replace("port %d" % port, "port " + name)
    text = re.sub(r"/[^ (]*/mvproxy/rbac/", "RBAC/", text)
    text = re.sub(r"FILE:\d+:", "FILE:N:", text)
    text = re.sub(r"(127\.0\.0\.1):\d+", r"\1:ELSEWHERE", text)
    text = re.sub(r"(clock of .* is )\d+", r"\1N", text)
    return re.sub(r"apiserver-[a-z2-7]{26}\b", "SERVER-ID", text)


# ------------------------------------------------------------------------------------------------------ faults


@contextlib.contextmanager
def server(world, name, **changes):
    """A server that was started with other flags."""
    usual = {"a": "v1.33", "b": "v1.34"}[name]
    was = {"profile": usual, "tls-cert-file": world.certs.crt("node-a"), "tls-private-key-file": world.certs.key("node-a"),
           "requestheader-client-ca-file": world.certs.crt("front-proxy-ca"), "requestheader-allowed-names": ["front-proxy-client"]}
    world.sim.restart_server(name, **changes)
    try:
        yield
    finally:
        world.sim.restart_server(name, **{key: was[key] for key in changes})


@contextlib.contextmanager
def unready(world, name="a"):
    world.sim.command(name, "not-ready")
    try:
        yield
    finally:
        world.sim.command(name, "ready")


@contextlib.contextmanager
def fault(world, *arguments, **more):
    one = world.sim.fault(*arguments, **more)
    try:
        yield
    finally:
        world.sim.heal(one)


@contextlib.contextmanager
def told(world, **changes):
    authentication(world, **changes)
    try:
        yield
    finally:
        authentication(world)


@contextlib.contextmanager
def untold(world):
    world.sim.delete("configmaps", MAP, "kube-system")
    try:
        yield
    finally:
        authentication(world)


@contextlib.contextmanager
def taken(world):
    """Somebody else is on the address."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", world.spare))
        other.listen()
        yield


@contextlib.contextmanager
def silent_peer(world):
    proxy = world.proxies["b"]
    proxy.kill()
    try:
        yield
    finally:
        proxy.start()
        world.settle()


def old_clock():
    body = b'{"major":"1","minor":"33","gitVersion":"v1.33.0"}'
    return base64.b64encode(b"HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: application/json\r\n"
                            b"Content-Length: %d\r\n\r\n%s" % (len(body), body)).decode()


def at_terminal(world):
    """(exit status, what stood there) of `mvproxyctl check` at a terminal."""
    program = os.path.join(os.path.dirname(fixture.mvproxy_binary()), "mvproxyctl")
    ours, theirs = os.openpty()
    with subprocess.Popen([program, "--socket", world.proxies["a"].options["control-socket"], "check"], stdout=theirs,
                          env=dict(os.environ, LC_ALL="C.UTF-8", TERM="xterm")) as run:
        os.close(theirs)
        text = b""
        with contextlib.suppress(OSError):  # its end
            while True:
                text += os.read(ours, 1 << 16)
    os.close(ours)
    return run.returncode, text.decode()


def faults(world):
    """(what is wrong, options that are changed, what else is)"""
    crt, key = world.certs.crt, world.certs.key
    forwarder = Forwarder(world.proxies["b"].address)
    pair = lambda name: {"tls-cert-file": crt(name), "tls-private-key-file": key(name)}  # noqa: E731
    return [
        ("an option that does not exist", {"secure-prot": 1}),
        ("no such file", {"tls-cert-file": "/nonexistent/apiserver.crt"}),
        ("this proxy as its own API server", {"apiserver": "https://127.0.0.1:%d" % world.spare}),
        ("a serving certificate that has ended", pair("ended")),
        ("a serving certificate that ends in ten days", pair("ending")),
        ("a CA that ends in five days", {"etcd-cafile": crt("ending-ca")}),
        ("a serving certificate that peers refuse by its names", pair("no-svc")),
        ("a serving certificate of a CA that peers do not know", pair("foreign-server")),
        ("a front-proxy certificate of another CA",
         {"proxy-client-cert-file": crt("admin"), "proxy-client-key-file": key("admin")}),
        ("no front-proxy certificate", {"proxy-client-cert-file": None, "proxy-client-key-file": None}),
        ("the local server is down", {}, fixture.killed(world, "a")),
        ("the local server has a certificate of another CA", {"apiserver-ca-file": crt("foreign-ca")}),
        ("the local server has another name", {"apiserver-tls-server-name": "somebody.example"}),
        ("the local server is an mvproxy", {"apiserver": "https://" + forwarder.address}),
        ("the local server is not ready", {}, unready(world)),
        ("the local server believes other front proxies", {}, server(world, "a", **{"requestheader-client-ca-file": crt("foreign-ca")})),
        ("the local server allows another name", {}, server(world, "a", **{"requestheader-allowed-names": ["aggregator"]})),
        ("the local server reads groups from another header", {"requestheader-group-headers": ["X-Foo"]}),
        ("the local server lets nobody ask who he is", {}, fault(world, "status", "a", "POST", "/apis/auth", status=403)),
        ("the API servers have other headers", {}, told(world, **{"requestheader-username-headers": '["X-User"]'})),
        ("the API servers name a header more", {}, told(world, **{"requestheader-group-headers": '["X-Remote-Group", "X-Teams"]'})),
        ("the API servers name a header of impersonation", {},
         told(world, **{"requestheader-group-headers": '["X-Remote-Group", "Impersonate-Group"]'})),
        ("a name that the API servers do not allow", {"requestheader-allowed-names": ["front-proxy-client", "somebody"]}),
        ("the API servers verify clients by another CA", {"client-ca-file": crt("foreign-ca")}),
        ("a CA of clients that API servers had", {}, told(world, **{"client-ca-file": read(crt("foreign-ca")) + read(crt("ca"))})),
        ("nothing says what the API servers believe", {}, untold(world)),
        ("another host name than the API server's", {"hostname-override": "somebody"}),
        ("a user without rights", {"apiserver-user": "system:mvproxy", "apiserver-groups": ["system:authenticated"]}),
        ("a peer that is down", {}, silent_peer(world)),
        ("a peer at an address where nobody is", {"peers": ["test-server-b=127.0.0.1:1"]}),
        ("a peer at an address that peer-allowed-cidrs does not have",
         {"peer-allowed-cidrs": ["10.0.0.0/8"], "peers": ["test-server-b=localhost:%d" % world.ports["b"]]}),
        ("a peer that no API server is", {"peers": ["test-server-b=127.0.0.1:%d" % world.ports["b"], "test-server-bb=127.0.0.1:1"]}),
        ("a peer that nothing leads to", {"peers": []}),
        ("a peer with a certificate of another CA", {"peers": ["test-server-b=%s:%d" % world.addresses["b"]]},
         server(world, "b", **pair("foreign-server"))),
        ("a peer that does not believe this front proxy", {"peers": ["test-server-b=%s:%d" % world.addresses["b"]]},
         server(world, "b", **{"requestheader-client-ca-file": crt("foreign-ca")})),
        ("a peer that is not ready", {}, unready(world, "b")),
        ("versions that are too far apart", {}, server(world, "b", profile="v1.36")),
        ("a clock that is wrong", {}, fault(world, "raw", "a", "GET", "/version", raw=old_clock())),
        ("peers that are not configured", {"peer-ca-file": None}),
        ("etcd that is not there", {"etcd-servers": ["http://127.0.0.1:1"]}),
        ("etcd that is none", {"etcd-servers": ["https://%s:%d" % world.addresses["b"]], "etcd-cafile": crt("ca")}),
        ("an address that somebody else has", {}, taken(world)),
        ("an admin address that somebody else has", {"admin-bind-address": "127.0.0.1:%d" % world.ports["b"], "peers": []}),
        ("a user of its own with the rights of all", {"apiserver-user": "system:mvproxy"}),
        ("a peer at the address of another one", {"peers": ["test-server-b=127.0.0.1:%d" % world.ports["b"], "somebody=127.0.0.1:%d" % world.ports["b"]]}),
        ("a peer at the address of another server", {"peers": ["test-server-b=127.0.0.1:%d" % world.ports["a"]]}),
        ("a peer's address for its own", {"bind-address": "127.0.0.1:%d" % world.spare, "peer-advertise-ip": "127.0.0.1", "peer-advertise-port": world.ports["b"]}),
        ("an address that this machine does not have", {"bind-address": "192.0.2.77"}),
        ("everybody is a trusted proxy", {"trusted-proxies": ["0.0.0.0/0"]}),
        ("no CA of front proxies", {"requestheader-client-ca-file": None}),
        ("a peer on loopback", {"peer-allowed-cidrs": [], "peers": ["test-server-b=127.0.0.1:%d" % world.ports["b"]]}),
        ("a peer that is named twice", {"peers": ["test-server-b=127.0.0.1:%d" % world.ports["b"], "test-server-b=127.0.0.1:1"]}),
        ("more memory for clients than there is", {"max-client-memory": 1 << 49}),
    ]


def test_golden(world):
    """each fault is answered as the golden file has it, and the exit status fits"""
    out = ""
    for name, change, *arrangement in faults(world):
        with arrangement[0] if arrangement else contextlib.nullcontext():
            status, text = before(world, change)
        said = marks(world, text)
        equal(status, 2 if "\u00d7" in said else 1, name + ": exit status\n" + text)
        out += "# %s\n%s\n\n" % (name, said)
    fixture.golden(GOLDEN, out)


def test_starting(world):
    """a server that starts has not read its RBAC: it is not ready, and nothing else is said of it"""
    world.sim.restart_server("a", **{"starts-unready": True})
    try:
        status, text = before(world, {"apiserver-user": "system:mvproxy", "apiserver-groups": ["system:authenticated"]})
    finally:
        world.sim.restart_server("a", **{"starts-unready": False})
    equal(len(re.findall("(?m)^\u00d7", text)), 1, text)
    check(status == 2 and "\u00d7 the local API server is not ready: " in text and
          "- whether it believes the front proxy is not examined: it is not ready" in text, text)


def test_ended_ca(world):
    """a CA of clients that has ended is in no ConfigMap any more, and is no finding of what API servers have"""
    world.certs.own.issue("old-ca", "kubernetes", eku="", is_ca=True, start="20200101000000Z", end="20210101000000Z")
    both = os.path.join(world.scratch, "clients.crt")
    with open(both, "w", encoding="ascii") as bundle:
        bundle.write(read(world.certs.own.crt("old-ca")) + read(world.certs.crt("ca")))
    check("client-ca-file has the CAs of the API servers" in before(world, {"client-ca-file": both})[1], "said otherwise")


def test_unread_leases(world):
    """where the Leases cannot be read, it is not said that there is no other server: those are examined that the process knows"""
    with fault(world, "status", "a", "GET", "/apis/coordination.k8s.io", status=504):
        status, text = ctl(world, [])
        alone = before(world, {"peers": []})[1]
    check("the Leases cannot be read: only those are examined that the process knows" in text, text)
    check(re.search(r"\u221a peer test-server-b at .* \(as the process knows it\): v1.34.*, its discovery is read", text), text)
    equal(status, 2, text)
    check("the API server answers 504" in text, text)
    check("not examined: the Leases cannot be read" in alone and "there is no other API server" not in alone, alone)


def test_etcd_hangs(world):
    """etcd is away: what is in it is waited for once, each section tells at a terminal that it is being asked, and it takes less than 18 s"""
    stored = ("/api/v1/namespaces/kube-system/configmaps", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")
    with contextlib.ExitStack() as faults:
        faults.enter_context(fault(world, "status", "a", "GET", "/readyz", status=500, body="[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n"))
        for path in stored:
            faults.enter_context(fault(world, "hang", "a", "GET", path))
        begin = time.monotonic()
        status, text = at_terminal(world)
        took = time.monotonic() - begin
    check(took < 18, took, text)
    equal(status, 2, text)
    check("its /readyz answers 500 (etcd failed)" in text and "see above: the local API server is not ready" in text, text)
    check("is not examined: what is in its etcd the API server does not answer" in text, text)
    check(re.search(r"\u221a peer test-server-b at .* \(as the process knows it\)", text), text)
    for section in ("local API server", "identity and Leases", "peers"):
        check(section + " ...\r\033[K" in text and "\033[K%s\r\n" % section in text, section, text)
    world.settle()


def test_etcds_silent(world):
    """several endpoints of etcd that take connections and say nothing are waited for side by side: less than 18 s, not 30"""
    with contextlib.ExitStack() as opened:
        frozen = [opened.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(3)]
        begin = time.monotonic()
        status, text = before(world, {"etcd-servers": ["http://127.0.0.1:%d" % port for port in frozen]})
        took = time.monotonic() - begin
    check(took < 18, took, text)
    equal(status, 2, text)
    equal(len(re.findall("\u00d7 etcd-servers: http://127.0.0.1:\\d+: timed out: no answer to POST /v3/kv/range in 10.0 s\n    what to do: if etcd runs there, it hangs", text)), 3, text)


def test_lapsed_peer(world):
    """a peer that answers and renews its Lease no more: the process has seen that, the check sees the Lease for the first time"""
    proxy = world.proxies["a"]
    proxy.await_log("Reloaded", proxy.reload({"peer-stale-after": "2s"}))
    world.sim.command("b", "pause-lease")
    try:
        until(lambda: proxy.metric("mvproxy_peers", state="lapsed") == 1.0, "the peer to have lapsed")
        status, text = ctl(world, [])
    finally:
        world.sim.command("b", "resume-lease")
        del proxy.options["peer-stale-after"]
        proxy.await_log("Reloaded", proxy.reload())
    check(status == 1 and re.search(r"\u203c peer test-server-b at .* v1.34.*, its discovery is read, but the process has not seen its Lease renewed", text), text)
    check("\u221a peer test-server-b" not in text, text)
    world.settle()


def test_form(world):
    """in the golden file every mark has its remedy, and no line is about OpenSSL or longer than a paragraph"""
    with open(GOLDEN, encoding="utf-8") as golden:
        blocks = golden.read().strip().split("\n\n")
    check(len(blocks) >= 30, len(blocks))
    for block in blocks:
        lines = block.splitlines()[1:]
        check(lines and len(lines) % 2 == 0, block)
        for cause, remedy in zip(lines[::2], lines[1::2]):
            check(cause[0] in "\u203c\u00d7" and remedy.startswith("    what to do: "), block)
            check(len(cause) < 320 and len(remedy) < 320, block)
            for word in ("error:", "SSL routines", "EVP_", "(null)"):
                check(word not in cause, block)


# ------------------------------------------------------------------------------------------------------ health


def test_healthy(world):
    """a healthy installation has no mark: before it is started, while it runs, and as JSON"""
    until(lambda: ctl(world, [])[0] == 0, "the process to have read its peer, which the faults before have restarted, and the ConfigMap, once a minute",
          patience=150)
    for status, text in (before(world, {}), ctl(world, [])):
        equal((status, marks(world, text)), (0, ""), text)
        check("Everything is well" in text and "\u221a" in text, text)
        for section in ("configuration", "certificates", "local API server", "identity and Leases", "peers", "etcd", "host"):
            check("\n%s\n" % section in "\n" + text, section, text)
    program = os.path.join(os.path.dirname(fixture.mvproxy_binary()), "mvproxyctl")
    told_ = json.loads(subprocess.run([program, "--socket", world.proxies["a"].options["control-socket"], "-o", "json", "check"],
                                      capture_output=True, text=True, check=True).stdout)
    equal((told_["errors"], told_["warnings"]), (0, 0), told_)
    check(all(f["mark"] == "ok" and f["section"] and f["check"] and f["text"] for f in told_["findings"]), told_)


def test_reload(world):
    """a reload with a CA of clients that no API server has is put in force, and says what mvproxy -t and the API servers say of it"""
    proxy = world.proxies["a"]
    program = os.path.join(os.path.dirname(fixture.mvproxy_binary()), "mvproxyctl")

    def reload(**change):
        proxy.write_config(fixture.yaml(dict(proxy.options, **change)))
        done = subprocess.run([program, "--socket", proxy.options["control-socket"], "reload"], capture_output=True, text=True, check=False)
        equal((done.returncode, done.stdout), (0, "Reloaded.\n"), done.stderr)
        return done.stderr

    wrong, usual = {"client-ca-file": world.certs.crt("front-proxy-ca")}, reload()
    said = reload(**wrong)
    check("warning: %s:" % proxy.config_path in said and "is the front-proxy CA, and users have certificates of another as a rule" in said, said)
    until(lambda: "warning: client-ca-file: no API server has any certificate of it, so their clients get 401 here, as the API servers said last" in reload(**wrong),
          "what they say to be known: it may have been read while a fault above had taken it away")
    equal(reload(), usual, "put right")
    world.settle()


def test_as_it_goes(world):
    """each section is printed when it is through, not all at the end"""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # each write stays one of its own
    program = os.path.join(os.path.dirname(fixture.mvproxy_binary()), "mvproxyctl")
    with ours, theirs:
        subprocess.run([program, "--socket", world.proxies["a"].options["control-socket"], "check"], stdout=theirs, check=True,
                       env=dict(os.environ, LC_ALL="C.UTF-8"))
        theirs.close()
        written = list(iter(lambda: ours.recv(1 << 20).decode(), ""))
    for section in ("configuration", "certificates", "local API server", "identity and Leases", "peers", "etcd", "host"):
        equal(sum(text.startswith(section + "\n") for text in written), 1, "%s in %s" % (section, written))


def test_ascii(world):
    """where the locale is not UTF-8 the marks are plain"""
    status, text = before(world, {"max-client-memory": 1 << 49}, locale="C")
    equal(status, 1, text)
    check(text.isascii() and "\nok " in text and "\n!! " in text, text)


def test_changes_nothing(world):
    """what it asks changes no Lease, no record and nothing else in the cluster"""
    mark = world.sim.mark()
    before(world, {})
    asked = [r for r in world.sim.requests(since=mark) if r["method"] not in ("GET", "HEAD") and
             "selfsubject" not in r["path"] and "mvproxy" in json.dumps(r["header"])]
    equal(asked, [], "writing requests")


# ------------------------------------------------------------------------------------------------------ running


def test_file_differs(world):
    """the file has changed and the process has not: named, apart from what only a restart changes"""
    proxy = world.proxies["a"]
    proxy.write_config(fixture.yaml(dict(proxy.options, **{"v": 3, "hostname-override": "test-server-a", "control-socket": "/run/x.sock"})))
    status, text = ctl(world, [])
    equal(status, 1, text)
    check("other values than the file: v\n" in text and "only a restart changes: control-socket\n" in text, text)
    proxy.write_config()
    equal(ctl(world, [])[0], 0, "as before")


def test_file_gone(world):
    """the file is gone and the process goes on: that is what is wrong, and all else is examined by what the process has"""
    path = world.proxies["a"].config_path
    os.rename(path, path + ".away")
    try:
        status, text = ctl(world, [])
    finally:
        os.rename(path + ".away", path)
    equal(status, 2, text)
    check(text.count("\u00d7") == 1 and "\u00d7 %s is not there; what follows is about what the process has\n" % path in text, text)
    for title in ("certificates", "local API server", "identity and Leases", "peers", "etcd", "host"):
        check("\n%s\n" % title in text, title, "is missing:", text)
    equal(ctl(world, [])[0], 0, "as before")


def test_reload_refused(world):
    """a reload that was refused, and a process that does not run"""
    proxy = world.proxies["a"]
    proxy.reload(text=fixture.yaml(dict(proxy.options, **{"peer-ca-file": "/nonexistent"})))
    until(lambda: "the last reload was refused" in ctl(world, [])[1], "the refusal")
    mark = proxy.log_mark()
    proxy.reload()
    proxy.await_log("Reloaded", mark)
    until(lambda: ctl(world, [])[0] == 0, "all well again")


def test_not_ready(world):
    """a process that is not ready, and why"""
    world.sim.kill_server("a")
    until(lambda: not world.proxies["a"].ready(), "unready")
    status, text = ctl(world, [])
    check(status == 2 and "the process is not ready: local-apiserver: " in text and "\u00d7 apiserver: 127.0.0.1:" in text, text)
    world.sim.start_server("a")
    world.proxies["a"].await_ready()
    world.settle()


def test_not_running(world):
    """no process answers"""
    program = os.path.join(os.path.dirname(fixture.mvproxy_binary()), "mvproxyctl")
    done = subprocess.run([program, "--socket", "/nonexistent.sock", "check", "--config", world.proxies["a"].config_path],
                          capture_output=True, text=True, check=False, env=dict(os.environ, LC_ALL="C.UTF-8"))
    check(done.returncode == 2 and "no mvproxy answers at /nonexistent.sock" in done.stdout and "--pre" in done.stdout, done)


def test_command_line(world):
    """what the process was told on its command line is no difference to its file"""
    proxy = world.proxies["a"]
    usual = list(proxy.argv)
    proxy.stop()
    proxy.argv += ["--v=5", "--client-idle-timeout", "80s"]
    proxy.start()
    world.settle()
    equal(ctl(world, [])[0], 0, ctl(world, [])[1])
    proxy.stop()
    proxy.argv = usual
    proxy.start()
    world.settle()


def test_no_configuration(world):
    """there is no configuration at all"""
    program = os.path.join(os.path.dirname(fixture.mvproxy_binary()), "mvproxyctl")
    if os.path.exists("/etc/mvproxy/mvproxy.yaml"):
        raise fixture.Skip("this machine has one")
    done = subprocess.run([program, "check", "--pre"], capture_output=True, text=True, check=False, env=dict(os.environ, LC_ALL="C.UTF-8"))
    check(done.returncode == 2 and "\u00d7 there is no configuration: /" in done.stdout and "--config FILE" in done.stdout, done)
    done = subprocess.run([program, "check", "--pre", "--config", world.scratch], capture_output=True, text=True, check=False,
                          env=dict(os.environ, LC_ALL="C.UTF-8"))
    check(done.returncode == 2 and "\u00d7 " + world.scratch in done.stdout, done)


def test_descriptors(world):
    """a process with fewer descriptors than its connections may need"""
    child = world.proxies["a"].child.pid
    had = resource.prlimit(child, resource.RLIMIT_NOFILE)
    resource.prlimit(child, resource.RLIMIT_NOFILE, (600, had[1]))
    status, text = ctl(world, [])
    resource.prlimit(child, resource.RLIMIT_NOFILE, had)
    check(status == 1 and "may have 600 descriptors" in text, text)


def test_sysctls(world):
    """a short queue, and ports for outgoing connections that are few or take ours: in a network of its own"""
    path = os.path.join(world.scratch, "before.yaml")
    before(world, {})
    program = os.path.join(os.path.dirname(fixture.mvproxy_binary()), "mvproxyctl")
    script = ("sysctl -qw net.core.somaxconn=128 net.ipv4.ip_local_port_range='10000 20000' && "
              "exec '%s' check --pre --config '%s'" % (program, path))
    with open(path, encoding="utf-8") as config:
        text = re.sub(r"(?m)^secure-port: .*", "secure-port: 15000", config.read())
    with open(path, "w", encoding="utf-8") as config:
        config.write(text)
    done = subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, check=False,
                          env=dict(os.environ, LC_ALL="C.UTF-8"))
    if "sysctl" in done.stderr or "unshare" in done.stderr:
        raise fixture.Skip("no network namespace with settings of its own: " + done.stderr.strip())
    for words in ("net.core.somaxconn is 128", "port 15000 is one that the kernel gives", "10000 to 20000, bounds the connections"):
        check(words in done.stdout, words, done.stdout)


def test_unserved(world):
    """an address that this machine has and the certificate names, and where nobody listens: in a network of its own"""
    path = os.path.join(world.scratch, "before.yaml")
    before(world, {})
    program = os.path.join(os.path.dirname(fixture.mvproxy_binary()), "mvproxyctl")

    def told(more, apiserver=None):
        script = "ip link set lo up && ip address add 10.96.0.1/32 dev lo && exec '%s' check --pre --config '%s'" % (program, path)
        with open(path, encoding="utf-8") as config:
            text = re.sub(r"(?m)^bind-address: .*", "bind-address: [127.0.0.1%s]" % more, config.read())
        if apiserver is not None:
            text = re.sub(r"(?m)^apiserver: .*", "apiserver: " + apiserver, text)
        with open(path, "w", encoding="utf-8") as config:
            config.write(text)
        done = subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, check=False,
                              env=dict(os.environ, LC_ALL="C.UTF-8"))
        if "unshare" in done.stderr or "ip:" in done.stderr:
            raise fixture.Skip("no network namespace with an address of its own: " + done.stderr.strip())
        return [line for line in done.stdout.splitlines() if "of 10.96.0.1, which this machine has" in line]

    check(len(told("")) == 1 and told("")[0].lstrip().startswith("‼"), told(""))
    equal(told(", 10.96.0.1"), [], "with it in bind-address")
    equal(told("", "https://10.96.0.1:%d" % world.spare), [], "kube-apiserver is there itself")


def test_place(world):
    """a local server that is on another machine is warned of; what is on this one is not"""
    elsewhere = before(world, {"apiserver": "https://192.0.2.1:%d" % world.spare})[1]
    check("‼ apiserver: 192.0.2.1 is no address of this machine" in elsewhere, elsewhere)
    check("no address of this machine" not in before(world, {})[1], "the right one")


def test_other_host_name(world):
    """a process that runs under another host name than the check: the Lease that is looked for is the process' server's"""
    options = dict(world.options("b"), **{"secure-port": fixture.free_port(), "control-socket": os.path.join(world.scratch, "other.control")})
    del options["hostname-override"]
    other = fixture.Mvproxy("mvproxy-other", world.scratch, options)
    other.argv = ["unshare", "--uts", "sh", "-c", 'hostname test-server-b && exec "$@"', "sh", *other.argv]
    other.write_config()
    other.spawn()
    try:
        until(lambda: other.ready() or "unshare" in other.log(), "it to be ready")
        if "unshare" in other.log():
            raise fixture.Skip("no host name of its own: " + other.tail(1))
        program = os.path.join(os.path.dirname(fixture.mvproxy_binary()), "mvproxyctl")
        said = subprocess.run([program, "--socket", options["control-socket"], "check"], capture_output=True, text=True, check=False,
                              env=dict(os.environ, LC_ALL="C.UTF-8")).stdout
        check("√ the Lease of test-server-b (" in said, said)
    finally:
        other.kill()


TAKEN_OVER = """
import json, os, socket, sys
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("ready", flush=True)
while True:
    client = listener.accept()[0]
    asked = json.loads(client.makefile().readline())["command"]
    result = [] if asked == "config" else {"pid": "1/../self", "config": {"file": sys.argv[2]}, "notReady": []}
    client.sendall(json.dumps({"v": 1, "ok": True, "result": result}).encode() + b"\\n")
    client.close()
"""


@contextlib.contextmanager
def taken_over(folder, path):
    """A process of nobody's that answers at a control socket and says that its configuration is `path`."""
    sock = os.path.join(folder, os.path.basename(path) + ".control")
    with subprocess.Popen([sys.executable, "-c", TAKEN_OVER, sock, path], stdout=subprocess.PIPE, text=True) as child:
        try:
            child.stdout.readline()
            yield sock
        finally:
            child.kill()


def test_taken_over(world):
    """root opens what the process names with the rights of the process: no file of root's, no FIFO"""
    if os.geteuid() != 0:
        raise fixture.Skip("not root")
    program = os.path.join(os.path.dirname(fixture.mvproxy_binary()), "mvproxyctl")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        secret, fifo, open_to_all = (os.path.join(folder, name) for name in ("secret", "fifo", "open"))
        for path, mode in ((secret, 0o600), (open_to_all, 0o644)):
            with open(path, "w", encoding="ascii") as out:
                out.write("pa55word: 1\n")
            os.chmod(path, mode)
        os.mkfifo(fifo, 0o666)
        for path, words in ((secret, "Permission denied"), (fifo, "not a regular file"), (open_to_all, "pa55word: unknown option")):
            with taken_over(folder, path) as sock:
                done = subprocess.run([program, "--socket", sock, "check"], capture_output=True, text=True, check=False,
                                      timeout=fixture.PATIENCE, env=dict(os.environ, LC_ALL="C.UTF-8",
                                                                         ASAN_OPTIONS="detect_leaks=0"))  # needs root's rights
            equal((done.returncode, done.stderr), (2, ""), path)
            check("\u00d7 %s" % path in done.stdout and words in done.stdout, done.stdout)
            check(path == open_to_all or "pa55word" not in done.stdout, done.stdout)
    check(world.proxies["a"].ready(), "a real one beside it")


def test_wrong_use(world):
    """options that it does not know"""
    status, text = 0, ""
    program = os.path.join(os.path.dirname(fixture.mvproxy_binary()), "mvproxyctl")
    done = subprocess.run([program, "check", "--prr"], capture_output=True, text=True, check=False)
    check(done.returncode == 3 and "did you mean --pre?" in done.stderr, done, status, text, world.spare)
    done = subprocess.run([program, "check", "more"], capture_output=True, text=True, check=False)
    check(done.returncode == 3 and "usage: mvproxyctl check" in done.stderr, done)


if __name__ == "__main__":
    fixture.main(globals())
