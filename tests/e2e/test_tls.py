#!/usr/bin/env python3
"""The TLS that clients meet: versions, certificates asked for but not required, resumption."""

import ssl
import subprocess

import fixture
from fixture import check, equal, until

MAPS = "/api/v1/namespaces/default/configmaps"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"


def s_client(world, *arguments):
    """What the openssl client tells about a handshake."""
    host, port = world.proxies["a"].address
    done = subprocess.run(["openssl", "s_client", "-connect", "%s:%d" % (host, port), "-servername", "kubernetes.default.svc",
                           "-CAfile", world.certs.crt("ca"), *arguments], stdin=subprocess.DEVNULL, capture_output=True,
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
        for _ in range(3):
            equal(client.ask("GET", CLASSES).status, 200, "status")
            world.sim.command("a", "cut")
            world.proxies["b"].log()
            equal(client.ask("GET", MAPS).status, 200, "status")
    seen = [r for r in world.sim.requests("a", MAPS) if r["certCN"] == "front-proxy-client"]
    check(any(r["resumed"] for r in seen), "no connection was resumed")


def test_large_client_chain(world):
    """a client that sends its intermediate certificate is known"""
    equal(world.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, user="deep").json()
          ["status"]["userInfo"]["username"], "deep", "user")


def test_many_handshakes(world):
    """200 clients come and go"""
    for _ in range(200):
        world.client().close()
    equal(world.ask("GET", MAPS).status, 200, "afterwards")
    until(lambda: world.proxies["a"].metric("mvproxy_front_connections") <= 2, "connections to be closed")


if __name__ == "__main__":
    fixture.main(globals())
