#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGHUP: all or nothing, and nobody who is connected notices."""

import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

import fixture
from fixture import check, equal, until

MAPS = "/api/v1/namespaces/default/configmaps"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
OK = "mvproxy_config_last_reload_successful"


def setup():
    world = fixture.World()
    # The files that are going to change are this story's own.
    for name in ("cert", "key"):
        proxy = world.proxies["a"]
        option = "tls-%s-file" % ("cert" if name == "cert" else "private-key")
        path = os.path.join(world.scratch, "serving." + name)
        shutil.copy(proxy.options[option], path)
        proxy.options[option] = path
    world.proxies["b"].options["discovery-refresh-interval"] = "1h"  # so that what is asked by the clock is a's
    world.told = listen_as_manager(world.proxies["a"], os.path.join(world.scratch, "notify"))
    return world.start()


def listen_as_manager(proxy, path):
    """The service manager's end of the notification socket; all that it is told, as dicts, in a list that grows."""
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(path)
    proxy.env["NOTIFY_SOCKET"] = path
    messages = []

    def read():
        while True:
            messages.append(dict(line.split("=", 1) for line in manager.recv(4096).decode().splitlines()))
    threading.Thread(target=read, daemon=True).start()
    return messages


def succeed(world, **options):
    proxy = world.proxies["a"]
    before = proxy.metric("mvproxy_config_last_reload_success_timestamp_seconds")
    mark = proxy.reload({k.replace("_", "-"): v for k, v in options.items()})
    until(lambda: proxy.log_contains("Reloaded", mark), "the reload")
    equal(proxy.metric(OK), 1.0, OK)
    check(proxy.metric("mvproxy_config_last_reload_success_timestamp_seconds") >= before, "timestamp")


def fail(world, *words, text=None, **options):
    """A reload that must be refused, for a reason that has these words in it."""
    proxy = world.proxies["a"]
    good = dict(proxy.options)
    mark = proxy.reload({k.replace("_", "-"): v for k, v in options.items()}, text)
    until(lambda: proxy.log_contains("Reload refused", mark), "the refusal")
    for word in words:
        check(proxy.log_contains(word, mark), word, "is not in the log:", proxy.log()[mark:])
    until(lambda: proxy.metric(OK) == 0.0, "the metric")
    proxy.options = good
    proxy.write_config()
    equal(world.ask("GET", MAPS).status, 200, "it serves on")


def served_certificate(world):
    host, port = world.proxies["a"].address
    with socket.create_connection((host, port), timeout=fixture.PATIENCE) as tcp:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with context.wrap_socket(tcp) as tls:
            return tls.getpeercert(binary_form=True)


def install(world, name):
    """Put another pair in the place of the serving pair."""
    for suffix, source in (("cert", world.certs.crt(name)), ("key", world.certs.key(name))):
        staged = os.path.join(world.scratch, "staged")
        shutil.copy(source, staged)
        os.replace(staged, os.path.join(world.scratch, "serving." + suffix))


def test_nothing_changes(world):
    """a reload without a change is a success"""
    succeed(world)
    equal(world.ask("GET", CLASSES).status, 200, "rerouted")


def connections(world):
    """How many a has made, and what its own requests to any server have been since the mark."""
    return world.proxies["a"].metric("mvproxy_back_connects_total", result="success")


def own_requests(world, since):
    return [r["path"] for r in world.sim.requests(since=since)
            if r["user"] and r["user"]["username"] == "system:apiserver" and r["path"] not in ("/version", "/readyz")]  # once a second: is it there, and its etcd?


def await_quiet(world):
    """Until nothing is left of the start: a look at discovery because of an event is followed by another a second later."""
    marks = [(world.sim.mark(), time.monotonic())]

    def quiet():
        if own_requests(world, marks[-1][0]):
            marks.append((world.sim.mark(), time.monotonic()))
        return time.monotonic() - marks[-1][1] > 3
    until(quiet, "nothing to be asked any more", pause=0.2)


def reload_without_a_change(world):
    for _ in range(5):
        succeed(world)
        install(world, "node-a")
    for number, option in enumerate(("apiserver-ca-file", "peer-ca-file", "proxy-client-cert-file", "proxy-client-key-file")):
        copy = os.path.join(world.scratch, "copy-%d" % number)
        shutil.copy(world.proxies["a"].options[option], copy)
        succeed(world, **{option.replace("-", "_"): copy})


def unasked(world, deed, attempts=3):
    """That the deed makes nobody ask or connect. On a busy machine a watch or a connection may end by itself meanwhile: what a reload
    does it does each time."""
    for attempt in range(attempts):
        mark, before = world.sim.mark(), connections(world)
        deed()
        asked, made = own_requests(world, mark), connections(world) - before
        if not asked and not made:
            break
        if attempt + 1 < attempts:
            await_quiet(world)
    equal(asked, [], "requests of mvproxy's own at a or b")
    check(before >= 1, "connections")
    equal(made, 0, "connections made")
    return mark


def test_nothing_is_done_again(world):
    """without a change nobody lists, watches, connects or reads discovery anew; other files with the same contents are no change"""
    succeed(world, discovery_refresh_interval="1h")
    await_quiet(world)
    mark = unasked(world, lambda: reload_without_a_change(world))
    equal(world.ask("GET", CLASSES).status, 200, "rerouted")
    log = world.proxies["a"].log_mark()
    with open(os.path.join(world.scratch, "copy-0"), "a", encoding="ascii") as out, \
            open(world.certs.crt("foreign-ca"), encoding="ascii") as pem:
        out.write(pem.read())  # the local server's CA only
    succeed(world)
    until(lambda: any("/leases" in path for path in own_requests(world, mark)), "the local server to be asked anew")
    check(not world.proxies["a"].log_contains("Peer address", log), "the peers are not")
    succeed(world, discovery_refresh_interval="30s")
    world.settle()


def test_broken_configurations(world):
    """a broken file leaves everything as it was, and says why"""
    fail(world, "nonsense", text="nonsense: 1\n")
    fail(world, ":2:", text="v: 2\n]\n")
    fail(world, "/nonexistent", client_ca_file="/nonexistent")
    fail(world, "/nonexistent", peer_ca_file="/nonexistent")
    fail(world, world.certs.key("foreign"), proxy_client_key_file=world.certs.key("foreign"))
    fail(world, "restart", secure_port=fixture.free_port())
    os.rename(world.proxies["a"].config_path, world.proxies["a"].config_path + ".away")
    mark = world.proxies["a"].log_mark()
    world.proxies["a"].signal(1)
    until(lambda: world.proxies["a"].log_contains("Reload refused", mark), "the refusal")
    world.proxies["a"].write_config()
    succeed(world)


def refuse(world, *words, **options):
    """The same, asked for with mvproxyctl, which says why; the file is put back."""
    proxy, good = world.proxies["a"], dict(world.proxies["a"].options)
    proxy.options.update({k.replace("_", "-"): v for k, v in options.items()})
    proxy.write_config()
    status, _, errors = fixture.ctl(world, "reload")
    proxy.options = good
    proxy.write_config()
    equal(status, 1, "mvproxyctl reload: " + errors)
    for word in words:
        check(word in errors, word, "is not in:", errors)
    equal(proxy.metric(OK), 0.0, OK)
    equal(world.ask("GET", "/version").status, 200, "it serves on")


def test_what_the_check_refuses(world):
    """what mvproxy -t calls wrong is no reload: a local server that could not be believed, an mvproxy in its place, certificates that are over or do not fit"""
    crt, key = world.certs.crt, world.certs.key
    refuse(world, "mvproxy-a.yaml:", "apiserver-ca-file: the certificate that https://127.0.0.1:", "give the CA that has signed", apiserver_ca_file=crt("foreign-ca"))
    refuse(world, "apiserver-ca-file: the certificate", apiserver_tls_server_name="elsewhere.example.com")
    refuse(world, "apiserver: at https://127.0.0.1:", "an mvproxy answers, not a kube-apiserver",
           peers=[], apiserver="https://127.0.0.1:%d" % world.proxies["b"].address[1])
    refuse(world, "peers: test-server-b=127.0.0.1:", "is the address of the local API server, too (apiserver)",
           apiserver="https://127.0.0.1:%d" % world.proxies["b"].address[1])
    refuse(world, "apiserver: is this proxy itself", apiserver="https://127.0.0.1:%d" % world.proxies["a"].address[1])
    world.certs.extra("over", "kube-apiserver", sans=("kubernetes.default.svc",), eku="serverAuth", end="20210101000000Z")
    refuse(world, "tls-cert-file: ", "expired at 2021-", tls_cert_file=crt("over"), tls_private_key_file=key("over"))
    world.certs.extra("nameless", "kube-apiserver", sans=("localhost",), eku="serverAuth")
    refuse(world, "not valid for kubernetes.default.svc", tls_cert_file=crt("nameless"), tls_private_key_file=key("nameless"))
    refuse(world, "requestheader-client-ca-file: ", "has not signed proxy-client-cert-file", requestheader_client_ca_file=crt("foreign-ca"))
    succeed(world)


def test_absent_local_server(world):
    """an address at which nobody listens may be right, so it is taken, with a warning"""
    proxy = world.proxies["a"]
    good = proxy.options["apiserver"]
    with socket.create_server(("127.0.0.1", 0)) as gone:
        nobody = "https://127.0.0.1:%d" % gone.getsockname()[1]
    for address, words in ((nobody, ("warning: ", "apiserver: kube-apiserver does not answer at %s (" % nobody, "Connection refused")), (good, ())):
        proxy.options["apiserver"] = address
        proxy.write_config()
        status, out, errors = fixture.ctl(world, "reload")
        equal((status, out), (0, "Reloaded.\n"), "what it says")
        check(all(w in errors for w in words) and (words or "does not answer" not in errors), errors)
    until(lambda: world.ask("GET", MAPS).status == 200, "the server again")


def test_silent_local_server(world):
    """a local server that does not answer says nothing of the configuration: who reloads waits for it, another reload meanwhile is not lost, and nobody who is served waits"""
    proxy = world.proxies["a"]
    good = proxy.options["apiserver"]
    with socket.create_server(("127.0.0.1", 0)) as silent, world.client() as client:
        proxy.options["apiserver"] = "https://127.0.0.1:%d" % silent.getsockname()[1]
        proxy.write_config()
        mark = proxy.log_mark()
        with subprocess.Popen([os.path.join(os.path.dirname(fixture.mvproxy_binary()), "mvproxyctl"), "--socket",
                               proxy.options["control-socket"], "reload"], stdout=subprocess.PIPE, text=True) as asked:
            proxy.await_log('"Reloading"', mark)
            asks = silent.accept()[0]
            equal(client.ask("GET", MAPS).status, 200, "meanwhile, by the old server")
            check(not proxy.log_contains("Reloaded", mark), "in force before the server was asked")
            proxy.options["apiserver"] = good
            proxy.write_config()
            proxy.signal(1)
            equal(asked.communicate()[0], "Reloaded.\n", "what mvproxyctl says")
            asks.close()
        until(lambda: proxy.log()[mark:].count('"Reloaded"') == 2, "the second one")
    equal(world.ask("GET", "/version").status, 200, "the good server")
    world.settle()


def test_told_of_ones_own(world):
    """who waits for a reload is told of that one, though the next is over before he is told"""
    def connected():
        asker = socket.socket(socket.AF_UNIX)
        asker.settimeout(fixture.PATIENCE)
        asker.connect(proxy.options["control-socket"])
        return asker

    def told(asker):
        with asker, asker.makefile("rb") as answer:
            result = json.loads(answer.readline())["result"]
        return result["reloaded"], ["nonsense" in e for e in result["errors"]]

    proxy = world.proxies["a"]
    good = fixture.yaml(proxy.options)
    for _ in range(5):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            first, second = connected(), connected()
            proxy.write_config(fixture.yaml(dict(proxy.options, apiserver="https://127.0.0.1:%d" % silent.getsockname()[1])))
            first.sendall(b'{"v":1,"command":"reload"}\n')
            asked = silent.accept()[0]  # the first waits for this, and has read the file
            proxy.write_config(good + "nonsense: 1\n")
            mark = proxy.log_mark()
            asked.close()
            while '"Reloaded"' not in proxy.log()[mark:]:  # without a pause: who waits looks every 20 ms
                check(proxy.child.poll() is None, proxy.tail())
            second.sendall(b'{"v":1,"command":"reload"}\n')
            equal((told(first), told(second)), ((True, []), (False, [True])), "the first and the second")
        proxy.write_config(good)
        succeed(world)
    world.settle()


def test_broken_pair(world):
    """a serving certificate without its key, or half written, is not taken"""
    before = served_certificate(world)
    shutil.copy(world.certs.crt("node-b"), os.path.join(world.scratch, "serving.cert"))
    fail(world, "serving.key")
    equal(served_certificate(world), before, "the certificate")
    with open(os.path.join(world.scratch, "serving.cert"), "r+", encoding="ascii") as pem:
        pem.truncate(300)
    fail(world, "serving.cert", "tls-cert-file: certificate ", "damaged or cut short")
    equal(served_certificate(world), before, "the certificate")
    install(world, "node-a")
    until(lambda: world.proxies["a"].metric(OK) == 1.0, "the refusal to end with its cause: the files alone were why")
    succeed(world)


def test_new_certificate(world):
    """a new pair is served to new connections, and the old ones go on"""
    before = served_certificate(world)
    with world.client() as old:
        equal(old.ask("GET", MAPS).status, 200, "before")
        install(world, "node-c")
        succeed(world)
        check(served_certificate(world) != before, "the same certificate")
        equal(old.ask("GET", MAPS).status, 200, "the old connection")
        equal(old.ask("GET", CLASSES).status, 200, "the old connection, rerouted")
    equal(world.ask("GET", MAPS).status, 200, "a new connection")
    install(world, "node-a")
    succeed(world)


def test_open_connections(world):
    """watches, downloads and uploads that are under way do not notice"""
    with world.client() as watcher, world.client() as peers, world.client() as reader, world.client() as writer:
        watcher.request("GET", MAPS + "?watch=true")
        equal(watcher.final_head().status, 200, "watch")
        peers.request("GET", CLASSES + "?watch=true")
        equal(peers.final_head().status, 200, "watch at the peer")
        reader.request("GET", "/sim/bytes?n=3000000")
        head = reader.final_head()
        writer.request("POST", CLASSES + "?simbody=sink", {"Content-Length": "20"})
        writer.send(b"0123456789")
        for _ in range(5):
            succeed(world, v=5)
            succeed(world, v=4)
        equal(len(reader.body(head).body), 3000000, "download")
        writer.send(b"0123456789")
        equal(writer.answer("POST").json()["bytes"], 20, "upload")
        world.ask("POST", MAPS, {"metadata": {"name": "seen"}}, direct=True)
        check(b'"seen"' in watcher.chunk(), "the watch")
        world.ask("POST", CLASSES, {"metadata": {"name": "seen"}}, "b", direct=True)
        check(b'"seen"' in peers.chunk(), "the watch at the peer")
    world.ask("DELETE", MAPS, direct=True)
    world.ask("DELETE", CLASSES, name="b", direct=True)


def test_client_ca(world):
    """another client CA counts from the reload on, and the old one no more"""
    both = os.path.join(world.scratch, "both.crt")
    with open(both, "w", encoding="ascii") as out:
        for name in ("ca", "foreign-ca"):
            with open(world.certs.crt(name), encoding="ascii") as pem:
                out.write(pem.read())
    equal(world.ask("GET", MAPS, user="foreign").status, 401, "before")
    succeed(world, client_ca_file=both)
    equal(world.ask("GET", MAPS, user="foreign").status, 200, "trusted")
    equal(world.ask("GET", MAPS).status, 200, "admin")
    succeed(world, client_ca_file=world.certs.crt("ca"))
    equal(world.ask("GET", MAPS, user="foreign").status, 401, "trusted no more")


def test_names_of_identities(world):
    """whoever sends an identity header's name of before a reload, or of after it, is answered: nothing is withheld"""
    proxy = world.proxies["a"]
    usual = {"username": ["X-Remote-User"], "group": ["X-Remote-Group"]}
    more = {"username": ["X-Remote-User", "X-Custom-User"], "group": ["X-Remote-Group", "X-Custom-Group"]}
    for names in (more, usual, {"username": ["X-New-User"], "group": ["X-Custom-User"]}, usual, usual):
        succeed(world, **{"requestheader_%s_headers" % kind: value for kind, value in names.items()})
        for name in ("X-Remote-User", "X-Custom-User", "X-Custom-Group", "X-New-User"):
            for path in ("/healthz", MAPS, CLASSES):
                check(world.ask("GET", path, user=None, headers=[(name, "x")]).status in (200, 403), "%s of a stranger with %s" % (path, name))
            if names["username"] == usual["username"]:
                until(lambda field=name: world.ask("GET", MAPS, headers=[(field, "x")]).status == 200, "an answer with " + name)
        equal(proxy.metric("mvproxy_back_requests_withheld_total") or 0, 0, "requests withheld")


def test_feature_gate(world):
    """switched off and on again: local only, then rerouted as before; without a restart"""
    accept = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}

    def local():
        answer = world.ask("GET", CLASSES)
        return answer.status == 404 and answer.body == b"404 page not found\n" and \
            world.ask("GET", "/apis", headers=accept).body == world.ask("GET", "/apis", headers=accept, direct=True).body

    for _ in range(2):
        succeed(world, feature_gates=["UnknownVersionInteroperabilityProxy=false"])
        until(local, "everything to be local")
        succeed(world, feature_gates=["UnknownVersionInteroperabilityProxy=true"])
        until(lambda: world.ask("GET", CLASSES).status == 200, "rerouting")
        until(lambda: b"resource.k8s.io" in world.ask("GET", "/apis", headers=accept).body, "merged discovery")


def test_peers(world):
    """a peer's address can be changed"""
    good = world.proxies["a"].options["peers"]
    succeed(world, peers=["test-server-b=127.0.0.1:%d" % fixture.free_port()])
    until(lambda: world.ask("GET", CLASSES).status == 503, "the wrong address")
    succeed(world, peers=good)
    until(lambda: world.ask("GET", CLASSES).status == 200, "the right address")


def test_local_server_address(world):
    """the local server can move"""
    proxy = world.proxies["a"]
    old = proxy.options["apiserver"]
    succeed(world, apiserver="https://127.0.0.1:%d" % world.addresses["b"][1])
    until(lambda: world.ask("GET", "/version").json()["minor"] == "34", "the other server")
    succeed(world, apiserver=old)
    until(lambda: world.ask("GET", "/version").json()["minor"] == "33", "the old server")
    world.settle()


def test_under_load(world):
    """reload after reload while requests run: not one fails"""
    with world.client() as one, world.client(user=None) as two:
        for number in range(6):
            mark = world.proxies["a"].log_mark()
            world.proxies["a"].signal(1)
            while not world.proxies["a"].log_contains("Reloaded", mark):
                equal(one.ask("GET", CLASSES if number % 2 else MAPS).status, 200, "certificate")
                equal(two.ask("GET", MAPS, None, {"Authorization": "Bearer token-root"}).status, 200, "token")
    world.settle()
    equal(world.ask("GET", CLASSES).status, 200, "afterwards")


def test_many_signals(world):
    """hundreds of SIGHUPs are a few reloads, and what is written before the last of them counts"""
    proxy = world.proxies["a"]
    mark, begun = proxy.log_mark(), time.monotonic()
    for number in range(300):
        if number == 299:
            proxy.write_config("no-such-option: 1\n")
        proxy.signal(1)
        time.sleep(0.001)  # else the kernel makes one of many
    until(lambda: proxy.metric("mvproxy_config_last_reload_successful") == 0, "the last one to be followed")
    reloads = proxy.log()[mark:].count('"Reloading"')
    allowed = 2 + (time.monotonic() - begun) / 0.5
    check(1 <= reloads <= allowed, reloads, "reloads, allowed:", allowed)
    proxy.reload()
    until(lambda: proxy.metric("mvproxy_config_last_reload_successful") == 1, "the good one")


def test_service_manager(world):
    """the service manager hears of every reload, and why one was refused"""
    equal([m["STATUS"] for m in world.told if "READY" in m][0], "Starting", "at the start")
    for reload, status in ((lambda: fail(world, "unknown option", text="no-such-option: 1\n"), "no-such-option: unknown option"),
                           (lambda: succeed(world), "Serving")):
        until(lambda: sum("RELOADING" in m for m in world.told) + 1 == sum("READY" in m for m in world.told), "the reload before")
        before = len(world.told)
        reload()
        until(lambda b=before: any("READY" in m for m in world.told[b:]), "READY=1")
        since = [m for m in world.told[before:] if "RELOADING" in m or "READY" in m]
        check(int(since[0]["MONOTONIC_USEC"]) > 0, "RELOADING=1 comes first, with its time:", since)
        check(status in since[1]["STATUS"], "then READY=1 and what came of it:", since)


LAUNCH = """import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP, signal.SIGTERM})
os.kill(os.getpid(), signal.SIGHUP)
os.execv(sys.argv[1], sys.argv[1:])"""


def test_while_starting(world):
    """a reload that is asked for while the process starts neither ends it nor is forgotten; what its parent held back is not held back"""
    proxy = world.proxies["a"]
    proxy.stop()
    proxy.argv = [sys.executable, "-c", LAUNCH, *proxy.argv]
    mark = proxy.log_mark()
    proxy.start()
    until(lambda: proxy.log_contains("Reloaded", mark), "the reload")
    proxy.stop()


def test_who_waits_hears(world):
    """a reload that asks a server that hangs: who waits for it hears all the while that the process is alive"""
    proxy = world.proxies["a"]
    proxy.start()
    with socket.create_server(("127.0.0.1", 0)) as hangs, socket.socket(socket.AF_UNIX) as waits:
        proxy.write_config(fixture.yaml(dict(proxy.options, apiserver="https://127.0.0.1:%d" % hangs.getsockname()[1])))
        waits.settimeout(fixture.PATIENCE)
        waits.connect(proxy.options["control-socket"])
        waits.sendall(b'{"v":1,"command":"reload"}\n')
        heard = b""
        while not heard.endswith(b"\n"):
            heard += waits.recv(4096)
        blanks = heard.partition(b'"result":')[2]
        check(len(blanks) - len(blanks.lstrip(b" ")) > 10, "blanks", heard)
        check("warnings" in json.loads(heard)["result"], "and then how it went", heard)
    proxy.write_config()
    mark = proxy.log_mark()
    proxy.signal(1)
    until(lambda: proxy.log_contains("Reloaded", mark), "the reload")
    proxy.stop()


def test_nobody_reads_the_log(world):
    """standard error is a pipe that nobody reads: everybody is served, and what could not be written is counted, and said when somebody reads"""
    proxy = world.proxies["a"]
    proxy.stop()
    proxy.options["v"] = 6
    reader, writer = os.pipe()
    proxy.start(stderr=writer)
    os.close(writer)
    until(lambda: [world.ask("GET", MAPS).status for _ in range(20)] and proxy.metric("mvproxy_log_lines_dropped_total") > 0, "lines to be dropped")
    for _ in range(20):
        equal(world.ask("GET", MAPS).status, 200, "status")
    heard = []

    def hear():
        for data in iter(lambda: os.read(reader, 65536), b""):
            heard.append(data)

    thread = threading.Thread(target=hear)
    thread.start()
    until(lambda: b"log lines dropped" in b"".join(heard).lower(), "the log to say so")
    proxy.stop()
    thread.join()
    os.close(reader)
    del proxy.options["v"]


if __name__ == "__main__":
    fixture.main(globals())
