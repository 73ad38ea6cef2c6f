#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Certificates and CAs that change while the daemon runs, in the ways in which files are changed: nobody reloads."""

import hashlib
import os
import shutil
import socket
import ssl

import fixture
import rawh2
from fixture import check, equal, until

MAPS = "/api/v1/namespaces/default/configmaps"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
CHANGES = "mvproxy_certificate_files_changes_total"
GOOD = "mvproxy_certificate_files_good"
END = "mvproxy_certificate_not_after_seconds"
TRUST = "extension-apiserver-authentication"

# Which file of the story's folder each option names.
FILES = {"tls-cert-file": "serving.crt", "tls-private-key-file": "serving.key", "client-ca-file": "client-ca.crt",
         "requestheader-client-ca-file": "front-proxy-ca.crt", "proxy-client-cert-file": "proxy.crt",
         "proxy-client-key-file": "proxy.key", "apiserver-ca-file": "apiserver-ca.crt", "peer-ca-file": "peer-ca.crt"}


def setup():
    world = fixture.World()
    proxy = world.proxies["a"]
    world.pki = os.path.join(world.scratch, "pki")
    os.mkdir(world.pki)
    for option, name in FILES.items():
        shutil.copy(proxy.options[option], path(world, name))
        proxy.options[option] = path(world, name)
    # A pair in a folder as a Kubernetes volume lays it out, and one as kubelet keeps its own.
    volume(world, 1, "node-b")
    for suffix in ("crt", "key"):
        os.symlink("..data/tls." + suffix, os.path.join(world.pki, "volume", "tls." + suffix))
    kubelet(world, 1, "node-c")
    proxy.options["tls-sni-cert-key"] = [
        "%s/volume/tls.crt,%s/volume/tls.key:volume.example.com" % (world.pki, world.pki),
        "%s/kubelet/current.pem,%s/kubelet/current.pem:kubelet.example.com" % (world.pki, world.pki)]
    return world.start()


def path(world, name):
    return os.path.join(world.pki, name)


def replace(world, name, source):
    """Another file in the place of this one, by rename."""
    staged = path(world, name) + ".tmp"
    shutil.copy(source, staged)
    os.replace(staged, path(world, name))


def volume(world, number, pair):
    """What kubelet does to a secret volume: a new folder, and ..data is swapped."""
    folder = os.path.join(world.pki, "volume")
    stamped = os.path.join(folder, "..2026_%d" % number)
    os.makedirs(stamped)
    shutil.copy(world.certs.crt(pair), os.path.join(stamped, "tls.crt"))
    shutil.copy(world.certs.key(pair), os.path.join(stamped, "tls.key"))
    os.symlink(os.path.basename(stamped), os.path.join(folder, "..data_tmp"))
    os.rename(os.path.join(folder, "..data_tmp"), os.path.join(folder, "..data"))
    old = os.path.join(folder, "..2026_%d" % (number - 1))
    if os.path.exists(old):
        shutil.rmtree(old)


def kubelet(world, number, pair):
    """What kubelet does to its client certificate: both in one dated file, and -current is swapped."""
    folder = os.path.join(world.pki, "kubelet")
    os.makedirs(folder, exist_ok=True)
    dated = os.path.join(folder, "dated-%d.pem" % number)
    with open(dated, "w", encoding="ascii") as out:
        for source in (world.certs.crt(pair), world.certs.key(pair)):
            with open(source, encoding="ascii") as text:
                out.write(text.read())
    os.symlink(dated, os.path.join(folder, "updated.pem"))
    os.rename(os.path.join(folder, "updated.pem"), os.path.join(folder, "current.pem"))


def served(world, name="localhost"):
    """The fingerprint of the certificate that a client gets who asks for this name."""
    with socket.create_connection(world.proxies["a"].address, timeout=fixture.PATIENCE) as tcp:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with context.wrap_socket(tcp, server_hostname=name) as tls:
            return hashlib.sha256(tls.getpeercert(binary_form=True)).hexdigest()


def fingerprint(file):
    with open(file, encoding="ascii") as text:
        pem = text.read()
    end = "-----END CERTIFICATE-----"
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem[:pem.index(end) + len(end)])).hexdigest()


def await_served(world, pair, name="localhost"):
    until(lambda: served(world, name) == fingerprint(world.certs.crt(pair)), "the certificate of " + pair)


def changes(world):
    return world.proxies["a"].metric(CHANGES)


def test_at_rest(world):
    """at first nothing has changed; every certificate has its end among the metrics"""
    equal(changes(world), 0.0, CHANGES)
    equal(world.proxies["a"].metric(GOOD), 1.0, GOOD)
    for option, name in FILES.items():
        if not name.endswith(".key"):
            check((world.proxies["a"].metric(END, option=option, file=path(world, name)) or 0) > 1.7e9, option)
    check(world.proxies["a"].metric(END, option="tls-sni-cert-key[0]"), "the first pair by name")
    check(world.proxies["a"].metric(END, option="tls-sni-cert-key[1]"), "the second pair by name")
    equal(served(world), fingerprint(world.certs.crt("node-a")), "served")


def test_renamed_over(world):
    """a serving pair that is renamed over the old one is served, and what is open goes on"""
    with world.client() as old, world.client() as watcher:
        watcher.request("GET", MAPS + "?watch=true")
        equal(watcher.final_head().status, 200, "watch")
        replace(world, "serving.crt", world.certs.crt("node-b"))
        replace(world, "serving.key", world.certs.key("node-b"))
        await_served(world, "node-b")
        equal(old.ask("GET", MAPS).status, 200, "the old connection")
        equal(old.ask("GET", CLASSES).status, 200, "the old connection, rerouted")
        world.ask("POST", MAPS, {"metadata": {"name": "seen"}})
        check(b'"seen"' in watcher.chunk(), "the watch")
    world.ask("DELETE", MAPS + "/seen")
    check(changes(world) >= 1, CHANGES)


def test_written_in_place(world):
    """so is one that is written into the old files"""
    for suffix, source in (("crt", world.certs.crt("node-c")), ("key", world.certs.key("node-c"))):
        shutil.copyfile(source, path(world, "serving." + suffix))
    await_served(world, "node-c")


def test_volume(world):
    """a Kubernetes volume: ..data points to another folder"""
    equal(served(world, "volume.example.com"), fingerprint(world.certs.crt("node-b")), "before")
    volume(world, 2, "node-a")
    await_served(world, "node-a", "volume.example.com")
    volume(world, 3, "node-b")
    await_served(world, "node-b", "volume.example.com")


def test_kubelet(world):
    """kubelet's way: current.pem points to another file"""
    equal(served(world, "kubelet.example.com"), fingerprint(world.certs.crt("node-c")), "before")
    kubelet(world, 2, "node-a")
    await_served(world, "node-a", "kubelet.example.com")
    kubelet(world, 3, "node-b")
    await_served(world, "node-b", "kubelet.example.com")


def test_half_a_pair(world):
    """a certificate whose key has not come yet: the old pair stays, it is said once, and the key ends it"""
    proxy = world.proxies["a"]
    before, mark = served(world), proxy.log_mark()
    replace(world, "serving.crt", world.certs.crt("node-a"))
    until(lambda: proxy.metric(GOOD) == 0.0, "the metric")
    check(proxy.log_contains("does not belong to", mark), "said")
    equal(served(world), before, "served")
    proxy.await_log("cannot be used", mark)
    for _ in range(3):
        equal(world.ask("GET", MAPS).status, 200, "it serves on")
    equal(proxy.log()[mark:].count("cannot be used"), 1, "times that it was said")
    replace(world, "serving.key", world.certs.key("node-a"))
    await_served(world, "node-a")
    until(lambda: proxy.metric(GOOD) == 1.0, "the metric")


def test_broken_file(world):
    """a file that is cut short, empty or gone: the old one stays"""
    proxy = world.proxies["a"]
    for spoil in (lambda: os.truncate(path(world, "serving.crt"), 300), lambda: os.truncate(path(world, "serving.crt"), 0),
                  lambda: os.unlink(path(world, "serving.crt"))):
        before = served(world)
        spoil()
        until(lambda: proxy.metric(GOOD) == 0.0, "the metric")
        equal(served(world), before, "served")
        replace(world, "serving.crt", world.certs.crt("node-a"))
        until(lambda: proxy.metric(GOOD) == 1.0, "the metric")
    equal(served(world), before, "served")


def test_expired_pair(world):
    """a pair that is over (a backup that is put back) does not replace a valid one, by itself or by a reload; the next valid one does"""
    proxy = world.proxies["a"]
    world.certs.extra("over", "kube-apiserver", sans=("kubernetes.default.svc",), eku="serverAuth", end="20210101000000Z")
    before, mark = served(world), proxy.log_mark()
    for suffix, source in (("key", world.certs.key("over")), ("crt", world.certs.crt("over"))):
        replace(world, "serving." + suffix, source)
    until(lambda: proxy.metric(GOOD) == 0.0, "the metric")
    until(lambda: proxy.log_contains("expired at 2021-01-01", mark), "the reason")
    status, _, errors = fixture.ctl(world, "reload")
    equal(status, 1, "mvproxyctl reload")
    check("tls-cert-file: " in errors and "expired at 2021-01-01" in errors, errors)
    equal(served(world), before, "served")
    for suffix, source in (("key", world.certs.key("node-b")), ("crt", world.certs.crt("node-b"))):
        replace(world, "serving." + suffix, source)
    await_served(world, "node-b")
    until(lambda: proxy.metric(GOOD) == 1.0 and proxy.metric("mvproxy_config_last_reload_successful") == 1.0, "the metrics")
    for suffix, source in (("key", world.certs.key("node-a")), ("crt", world.certs.crt("node-a"))):
        replace(world, "serving." + suffix, source)
    await_served(world, "node-a")


def test_foreign_pair(world):
    """a pair that peers, or those who use the address, do not believe does not replace one that they do, by itself or by a reload"""
    proxy = world.proxies["a"]
    world.certs.extra("elsewhere", "kube-apiserver", ca="ca", sans=("kubernetes.default.svc", "192.0.2.99"), eku="serverAuth")
    for pair, why in (("foreign-server", "is not signed by peer-ca-file"), ("elsewhere", "is not valid for " + proxy.address[0])):
        before, mark = served(world), proxy.log_mark()
        for suffix, source in (("key", world.certs.key(pair)), ("crt", world.certs.crt(pair))):
            replace(world, "serving." + suffix, source)
        until(lambda: proxy.log_contains(why, mark), "the reason in the log")
        equal((proxy.metric(GOOD), served(world)), (0.0, before), "the metric, and what is served")
        text = fixture.ctl(world, "status")[1]
        check("certificate files refused" in text and why in text, text)
        status, _, errors = fixture.ctl(world, "reload")
        equal(status, 1, "mvproxyctl reload")
        check("tls-cert-file: " in errors and why in errors, errors)
        for suffix, source in (("key", world.certs.key("node-a")), ("crt", world.certs.crt("node-a"))):
            replace(world, "serving." + suffix, source)
        until(lambda: proxy.metric(GOOD) == 1.0, "the metric")


def test_client_ca(world):
    """another client CA counts at once for new connections; a ticket from before is worth nothing"""
    def who(client):
        return client.ask("POST", WHOAMI, {}).json()["status"]["userInfo"]["username"]

    equal(world.ask("GET", MAPS, user="foreign").status, 401, "before")
    before = changes(world)
    with open(path(world, "both"), "w", encoding="ascii") as out:
        for name in ("ca", "foreign-ca"):
            with open(world.certs.crt(name), encoding="ascii") as pem:
                out.write(pem.read())
    replace(world, "client-ca.crt", path(world, "both"))
    until(lambda: changes(world) == before + 1, "the change")
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        if version == ssl.TLSVersion.TLSv1_3:
            replace(world, "client-ca.crt", path(world, "both"))
            until(lambda: world.ask("GET", MAPS, user="foreign").status == 200, "trust")
        with world.client(user="foreign", version=version) as first:
            equal(who(first), "kubernetes-admin", "trusted")
            session, context = first.sock.session, first.context
        with world.client(user="foreign", version=version, session=session, context=context) as second:
            check(second.sock.session_reused, "nothing has changed, and it was not resumed")
            before = changes(world)
            replace(world, "client-ca.crt", world.certs.crt("ca"))
            until(lambda b=before: changes(world) == b + 1, "the change")
        with world.client(user="foreign", version=version, session=session, context=context) as third:
            check(not third.sock.session_reused, "a ticket has outlived the CA")
            equal(third.ask("GET", MAPS).status, 401, "trusted no more")


def authentication(world, *client_cas):
    """The ConfigMap in which API servers tell whom they believe."""
    def bundle(*names):
        texts = []
        for name in names:
            with open(world.certs.crt(name), encoding="ascii") as pem:
                texts.append(pem.read())
        return "".join(texts)

    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": TRUST, "namespace": "kube-system"}, "data": {
        "client-ca-file": bundle(*client_cas), "requestheader-client-ca-file": bundle("front-proxy-ca"),
        "requestheader-allowed-names": '["front-proxy-client"]', "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-group-headers": '["X-Remote-Group"]', "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]'}}


def test_foreign_client_ca(world):
    """a client CA that no API server has is held back while they have the one before, until they have it"""
    proxy = world.proxies["a"]
    world.sim.put("configmaps", authentication(world, "ca"))
    # Other words: only then they are compared anew at once.
    proxy.await_log("Reloaded", proxy.reload({"requestheader-allowed-names": ["front-proxy-client", "another"]}))
    until(lambda: proxy.metric("mvproxy_requestheader_differs") == 1.0, "the ConfigMap to be read")
    proxy.await_log("Reloaded", proxy.reload({"requestheader-allowed-names": ["front-proxy-client"]}))
    until(lambda: proxy.get("/readyz")[0] == 200, "ready")
    mark, before = proxy.log_mark(), changes(world)
    why = "client-ca-file: " + path(world, "client-ca.crt") + ": no API server has any certificate of it"
    replace(world, "client-ca.crt", world.certs.crt("foreign-ca"))
    proxy.await_log(why, mark)
    equal((proxy.metric(GOOD), changes(world)), (0.0, before), "the metrics")
    text = fixture.ctl(world, "status")[1]
    check("certificate files refused" in text and why in text, text)
    equal((world.ask("GET", MAPS).status, world.ask("GET", MAPS, user="foreign").status), (200, 401), "the one before counts")
    equal(proxy.get("/readyz")[0], 200, "ready")
    for suffix, source in (("key", world.certs.key("node-b")), ("crt", world.certs.crt("node-b"))):
        replace(world, "serving." + suffix, source)
    await_served(world, "node-b")
    equal((proxy.metric(GOOD), world.ask("GET", MAPS).status), (0.0, 200), "another file is used meanwhile, and that is not")
    world.sim.put("configmaps", authentication(world, "ca", "foreign-ca"))
    until(lambda: world.ask("GET", MAPS, user="foreign").status == 200, "it to be used once they have it")
    equal(world.ask("GET", MAPS).status, 401, "and not the one before")
    until(lambda: proxy.metric(GOOD) == 1.0, "the metric")
    replace(world, "client-ca.crt", world.certs.crt("ca"))
    for suffix, source in (("key", world.certs.key("node-a")), ("crt", world.certs.crt("node-a"))):
        replace(world, "serving." + suffix, source)
    until(lambda: world.ask("GET", MAPS).status == 200, "the one before again")
    await_served(world, "node-a")
    world.sim.delete("configmaps", TRUST, "kube-system")
    proxy.await_log("Reloaded", proxy.reload({"requestheader-allowed-names": ["front-proxy-client", "another"]}))
    proxy.await_log("Reloaded", proxy.reload({"requestheader-allowed-names": ["front-proxy-client"]}))


def use_front_proxy(world, pair):
    """A pair that the CA of front proxies in force has not signed, for one that has been replaced before."""
    for suffix in ("crt", "key"):
        replace(world, "proxy." + suffix, getattr(world.certs, suffix)(pair))


def test_requestheader_ca(world):
    """the same for the CA of front proxies, which does not go before the pair that it has signed"""
    proxy = world.proxies["a"]
    world.certs.extra("foreign-front-proxy", "front-proxy-client", ca="foreign-ca")
    name = {"X-Remote-User": "kubernetes-admin", "X-Remote-Group": "system:masters"}

    def asserts(**more):
        with world.client(user="front-proxy-client", **more) as client:
            status = client.ask("GET", MAPS, None, name).status
            return status, client.sock.session, client.context, client.sock.session_reused

    status, session, context, _ = asserts()
    equal(status, 200, "believed")
    equal(asserts(session=session, context=context)[::3], (200, True), "resumed")
    before = changes(world)
    mark = proxy.log_mark()
    replace(world, "front-proxy-ca.crt", world.certs.crt("foreign-ca"))
    proxy.await_log("requestheader-client-ca-file: " + path(world, "front-proxy-ca.crt") + ": has not signed proxy-client-cert-file", mark)
    equal((proxy.metric(GOOD), changes(world)), (0.0, before), "the metrics")
    equal((asserts()[0], world.ask("GET", CLASSES).status), (200, 200), "both sides are believed all the same")
    use_front_proxy(world, "foreign-front-proxy")
    until(lambda: changes(world) == before + 1, "the change")
    equal(asserts(session=session, context=context)[::3], (401, False), "believed no more")
    use_front_proxy(world, "front-proxy-client")
    until(lambda: proxy.metric(GOOD) == 0.0, "the pair to be refused")
    replace(world, "front-proxy-ca.crt", world.certs.crt("front-proxy-ca"))
    until(lambda: proxy.metric(GOOD) == 1.0, "both of them")
    until(lambda: asserts()[0] == 200, "believed again")


def test_open_connections(world):
    """an open connection is worth what its certificate is worth now, as with kube-apiserver: no handshake outlives a CA"""
    name = {"X-Remote-User": "kubernetes-admin", "X-Remote-Group": "system:masters"}

    def change(file, ca, pair=None):
        before = changes(world)
        replace(world, file, world.certs.crt(ca))
        if pair:
            use_front_proxy(world, pair)
        until(lambda: changes(world) == before + 1, "the change")

    with world.client() as user, world.client(alpn=("h2",)) as conn, world.client(user="front-proxy-client") as proxy, \
            world.client() as watcher, world.client() as idle, world.client(user="deep") as deep:
        two = rawh2.RawH2(conn)

        def statuses():
            # deep comes with an intermediate certificate, and may not list.
            return (user.ask("GET", MAPS).status, deep.ask("GET", MAPS).status, two.ok(two.request("GET", MAPS)), proxy.ask("GET", MAPS, None, name).status)

        watcher.request("GET", MAPS + "?watch=true")
        equal(watcher.final_head().status, 200, "watch")
        equal(statuses(), (200, 403, True, 200), "before")
        change("client-ca.crt", "foreign-ca")
        equal(statuses(), (401, 401, False, 200), "without the users' CA")
        equal(idle.ask("GET", MAPS).status, 401, "a first request, on a connection from before")
        change("front-proxy-ca.crt", "foreign-ca", "foreign-front-proxy")
        equal(statuses(), (401, 401, False, 401), "without either")
        change("client-ca.crt", "ca")
        change("front-proxy-ca.crt", "front-proxy-ca", "front-proxy-client")
        equal(statuses(), (200, 403, True, 200), "with both again")
        world.ask("POST", MAPS, {"metadata": {"name": "open"}})
        check(b'"open"' in watcher.chunk(), "what was under way goes on")
    world.ask("DELETE", MAPS + "/open")


def test_proxy_client_pair(world):
    """the certificate that servers see: new connections show the new one, and idle old ones are not used any more"""
    world.certs.extra("proxy-2", "front-proxy-client", ca="front-proxy-ca")
    equal(world.ask("GET", MAPS).status, 200, "before")
    old = {r["conn"] for r in world.sim.requests("a", MAPS)}
    before = changes(world)
    replace(world, "proxy.crt", world.certs.crt("proxy-2"))
    replace(world, "proxy.key", world.certs.key("proxy-2"))
    until(lambda: changes(world) > before, "the change")
    mark = world.sim.mark()
    equal(world.ask("GET", MAPS).status, 200, "local")
    equal(world.ask("GET", CLASSES).status, 200, "rerouted")
    new = {r["conn"] for r in world.sim.requests("a", MAPS, mark)}
    check(new and not new & old, "an old connection was used", old, new)


def test_nothing_new(world):
    """the same content again changes nothing, and tickets live on; so they do over SIGHUP"""
    proxy, before = world.proxies["a"], changes(world)
    with world.client() as first:
        equal(first.ask("GET", MAPS).status, 200, "first")
        session, context = first.sock.session, first.context
    replace(world, "serving.crt", world.certs.crt("node-a"))
    mark = proxy.reload()
    proxy.await_log("Reloaded", mark)
    replace(world, "serving.crt", world.certs.crt("node-a"))
    with world.client(session=session, context=context) as second:
        check(second.sock.session_reused, "the ticket is gone")
        equal(second.ask("GET", MAPS).status, 200, "second")
    equal(changes(world), before, CHANGES)


def test_other_files(world):
    """after a reload the files that it names are watched"""
    proxy = world.proxies["a"]
    shutil.copy(world.certs.crt("node-b"), path(world, "other.crt"))
    shutil.copy(world.certs.key("node-b"), path(world, "other.key"))
    mark = proxy.reload({"tls-cert-file": path(world, "other.crt"), "tls-private-key-file": path(world, "other.key")})
    proxy.await_log("Reloaded", mark)
    await_served(world, "node-b")
    replace(world, "other.crt", world.certs.crt("node-c"))
    replace(world, "other.key", world.certs.key("node-c"))
    await_served(world, "node-c")


if __name__ == "__main__":
    fixture.main(globals())
