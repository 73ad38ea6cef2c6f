#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The TLS that clients meet: versions, certificates asked for but not required, resumption."""

import os
import shutil
import ssl
import subprocess

import fixture
from fixture import check, equal, until
from rawhttp import Broken, Raw

MAPS = "/api/v1/namespaces/default/configmaps"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"


def s_client(world, *arguments, name="kubernetes.default.svc"):
    """What the openssl client tells about a handshake."""
    host, port = world.proxies["a"].address
    named = ["-servername", name] if name else ["-noservername"]
    done = subprocess.run(["openssl", "s_client", "-connect", "%s:%d" % (host, port), *named, "-CAfile",
                           world.certs.crt("ca"), *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          check=False, timeout=fixture.PATIENCE)
    return done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")


def test_versions(world):
    """TLS 1.2 and 1.3, nothing older"""
    for version, name in ((ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")):
        with world.client(version=version) as client:
            equal(client.sock.version(), name, "version")
            equal(client.ask("GET", CLASSES).status, 200, name)
    for old in ("-tls1", "-tls1_1"):
        text = s_client(world, old, "-cipher", "ALL:@SECLEVEL=0")
        check("Cipher is (NONE)" in text or "no protocols available" in text or "alert" in text, old, text)


def test_client_certificate_is_asked_for(world):
    """a client certificate is asked for, with both CAs as a hint, and never required"""
    text = s_client(world)
    check("Acceptable client certificate CA names" in text, text)
    hint = text.split("Acceptable client certificate CA names")[1]
    check("kubernetes" in hint and "front-proxy-ca" in hint, hint[:500])
    for user, status in ((None, 403), ("admin", 200), ("alice", 403), ("expired", 401), ("foreign", 401)):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with world.client(user=user, version=version) as client:
                equal(client.ask("GET", MAPS).status, status, "%s over %s" % (user, client.sock.version()))


def test_alpn(world):
    """http/1.1 by ALPN, and without ALPN"""
    for offer, chosen in ((("http/1.1",), "http/1.1"), ((), None)):
        with world.client(alpn=offer) as client:
            equal(client.sock.selected_alpn_protocol(), chosen, "ALPN %r" % (offer,))
            equal(client.ask("GET", MAPS).status, 200, "%r" % (offer,))


def test_resumption(world):
    """sessions are resumed, and the certificate's user stays"""
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        with world.client(user="admin", version=version) as first:
            equal(first.ask("GET", MAPS).status, 200, "first")
            session, context = first.sock.session, first.context
        with world.client(user="admin", version=version, session=session, context=context) as second:
            check(second.sock.session_reused, version, "was not resumed")
            equal(second.ask("GET", MAPS).status, 200, "as the same user")
            equal(second.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}).json()
                  ["status"]["userInfo"]["username"], "kubernetes-admin", "user")


def test_towards_servers(world):
    """connections to servers are resumed too"""
    with world.client() as client:
        for _ in range(20):  # a connection that is cut in its handshake resumes nothing
            equal(client.ask("GET", CLASSES).status, 200, "status")
            world.sim.command("a", "cut")
            world.proxies["b"].log()
            equal(client.ask("GET", MAPS).status, 200, "status")
            seen = [r for r in world.sim.requests("a", MAPS) if r["certCN"] == "front-proxy-client"]
            if any(r["resumed"] for r in seen):
                return
    check(False, "no connection was resumed")


def test_large_client_chain(world):
    """a client that sends its intermediate certificate is known"""
    equal(world.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, user="deep").json()
          ["status"]["userInfo"]["username"], "deep", "user")


def test_sni(world):
    """certificates by SNI: as kube-apiserver chooses, after a reload too; the host name in HTTP does not matter"""
    certs, proxy = world.certs, world.proxies["a"]

    def shown(name):
        return s_client(world, name=name).split("subject=")[1].splitlines()[0]

    certs.extra("sni-one", "one.example.com", ("one",), sans=("one.example.com", "both.example.com"), eku="serverAuth")
    certs.extra("sni-two", "two", ("two",), sans=("two.example.com",), eku="serverAuth")
    mark = proxy.reload({"tls-sni-cert-key": [
        "%s,%s" % (certs.crt("sni-one"), certs.key("sni-one")),
        "%s,%s:*.wild.example.com,both.example.com" % (certs.crt("sni-two"), certs.key("sni-two"))]})
    proxy.await_log("Reloaded", mark)
    for name, want in ((None, "kube-apiserver"), ("kubernetes", "kube-apiserver"), ("one.example.com", "O = one"),
                       ("ONE.example.com", "O = one"), ("both.example.com", "O = two"), ("a.wild.example.com", "O = two"),
                       ("two.example.com", "kube-apiserver"), ("a.b.wild.example.com", "kube-apiserver")):
        check(want in shown(name), name, shown(name))
    with Raw(proxy.address, certs.crt("ca"), (certs.crt("admin"), certs.key("admin")), name="one.example.com") as client:
        equal(client.ask("GET", MAPS).status, 200, "a user is a user under every name")
    mark = proxy.reload({"tls-sni-cert-key": []})
    proxy.await_log("Reloaded", mark)
    check("kube-apiserver" in shown("one.example.com"), shown("one.example.com"))


def test_cipher_suites(world):
    """tls-cipher-suites by kube-apiserver's names, warned of when insecure"""
    proxy = world.proxies["a"]

    def tls12(suite):
        text = s_client(world, "-tls1_2", "-cipher", suite)
        return "Cipher is " + suite in text

    check(tls12("ECDHE-ECDSA-AES128-GCM-SHA256"), "by default")
    check(not tls12("ECDHE-ECDSA-AES128-SHA256"), "not by default")
    mark = proxy.reload({"tls-cipher-suites": "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256,TLS_AES_128_GCM_SHA256"})
    proxy.await_log("Reloaded", mark)
    proxy.await_log("Insecure cipher suite in use", mark)
    check(tls12("ECDHE-ECDSA-AES128-SHA256"), "configured")
    check(not tls12("ECDHE-ECDSA-AES128-GCM-SHA256"), "not configured")
    with world.client(version=ssl.TLSVersion.TLSv1_3) as client:
        equal(client.ask("GET", MAPS).status, 200, "TLS 1.3")
    mark = proxy.reload({"tls-cipher-suites": []})
    proxy.await_log("Reloaded", mark)
    check(tls12("ECDHE-ECDSA-AES128-GCM-SHA256"), "the default again")


def test_groups(world):
    """key exchange: post-quantum if the library has it, X25519, P-256, P-384, and no other"""
    for group in ("X25519", "P-256", "P-384"):
        check("TLSv1.3, Cipher is" in s_client(world, "-groups", group), group)
    for group in ("P-521", "X448"):
        check("TLSv1.3, Cipher is" not in s_client(world, "-groups", group), group)
    post_quantum = s_client(world, "-groups", "X25519MLKEM768")
    if "SSL_CONF_cmd" not in post_quantum:  # the client can: OpenSSL 3.5 has it, and then so has the daemon
        check("TLSv1.3, Cipher is" in post_quantum, post_quantum)


def test_hostile_certificates(world):
    """client certificates that are too many or too large: refused or not verified, and nobody else notices"""
    certs = world.certs
    small = certs.extra("chained", "chained", ("dev",))[0]
    with open(small, encoding="ascii") as text:
        leaf = text.read()
    with open(certs.crt("intermediate-ca"), encoding="ascii") as text:
        other = text.read()
    for count, works in ((5, True), (6, False), (40, False), (2000, False)):  # 2000: about a megabyte
        chain = os.path.join(world.scratch, "chain.crt")
        with open(chain, "w", encoding="ascii") as out:
            out.write(leaf + other * count)
        shutil.copy(certs.key("chained"), os.path.join(world.scratch, "chain.key"))
        equal(served_with(world, chain, os.path.join(world.scratch, "chain.key")), works, "%d certificates" % count)
    certs.extra("broad", "broad", ("dev",), sans=["n%d.example.com" % i for i in range(10000)])
    check(not served_with(world, certs.crt("broad"), certs.key("broad")), "10000 names")
    certs.extra("many", "many", ["o%d" % i for i in range(200)])
    equal(world.ask("GET", MAPS, user="many").status, 401, "200 organizations")
    for _ in range(20):
        served_with(world, chain, os.path.join(world.scratch, "chain.key"))
    equal(world.ask("GET", MAPS).status, 200, "afterwards")


def test_dear_keys(world):
    """client certificates with keys by which a signature is dear to check, or that kube-apiserver does not take: refused"""
    crt, key = (os.path.join(world.scratch, "dear." + end) for end in ("crt", "key"))
    for kind, works in (("rsa:2048", True), ("rsa:2048 -pkeyopt rsa_keygen_pubexp:8589934593", False), ("ed25519", True), ("ed448", False)):
        subprocess.run(["openssl", "req", "-x509", "-nodes", "-newkey", *kind.split(), "-subj", "/CN=dear", "-keyout", key, "-out", crt],
                       check=True, capture_output=True)
        before = world.proxies["a"].metric("mvproxy_front_closed_total", reason="handshake") or 0
        try:
            with Raw(world.proxies["a"].address, world.certs.crt("ca"), (crt, key)) as client:
                equal((kind, client.ask("GET", MAPS).status), (kind, 401), "a key that is taken")
            check(works, kind, "was taken")
        except (OSError, Broken):
            check(not works, kind, "was refused")
            until(lambda: (world.proxies["a"].metric("mvproxy_front_closed_total", reason="handshake") or 0) > before, "it to be counted")


def served_with(world, crt, key):
    """Whether somebody with this pair gets an answer at all."""
    try:
        with Raw(world.proxies["a"].address, world.certs.crt("ca"), (crt, key)) as client:
            return client.ask("GET", MAPS).status == 403
    except (OSError, Broken):
        return False


def test_many_handshakes(world):
    """200 clients come and go"""
    for _ in range(200):
        world.client().close()
    equal(world.ask("GET", MAPS).status, 200, "afterwards")
    # What the peer keeps open to ask with is a handful.
    until(lambda: world.proxies["a"].metric("mvproxy_front_connections") < 20, "connections to be closed")


if __name__ == "__main__":
    fixture.main(globals())
