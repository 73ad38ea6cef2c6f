#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No peer CA, no front-proxy pair, no rights: said once; what needs no peer goes on; what would need one gets 503."""

import os

import fixture
from fixture import check, equal, until

MAPS = "/api/v1/namespaces/default/configmaps"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
NOBODYS = "/apis/nobody.example.com/v1/things"
V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
TOKEN = {"Authorization": "Bearer token-root"}
PAIR = ("proxy-client-cert-file", "proxy-client-key-file")
CA = ("peer-ca-file",)
SAID = "Peers cannot be used"


def setup():
    world = fixture.World(options={"discovery-refresh-interval": "1s"})
    world.full = dict(world.proxies["a"].options)
    return world.start()


def by_token(world, path, accept="application/json", **more):
    return world.ask("GET", path, user=None, headers=dict(TOKEN, Accept=accept), **more)


def local_goes_on(world):
    """Every way in which the local server is used, whoever asks by token."""
    equal(by_token(world, MAPS).status, 200, "list")
    made = world.ask("POST", MAPS, {"metadata": {"name": "x"}}, user=None, headers=TOKEN)
    equal(made.status, 201, "create")
    gone = by_token(world, MAPS + "/y")
    equal((gone.status, gone.json()["reason"]), (404, "NotFound"), "an object that is not there")
    equal(world.ask("DELETE", MAPS + "/x", user=None, headers=TOKEN).status, 200, "delete")
    for path in ("/version", "/api", "/apis", "/apis/apps/v1", "/healthz"):
        through, direct = by_token(world, path), by_token(world, path, direct=True)
        equal((through.status, through.body), (direct.status, direct.body), path)
    with world.client(user=None) as watcher:
        watcher.request("GET", MAPS + "?watch=true", TOKEN)
        equal(watcher.final_head().status, 200, "watch")


def without_peers(world):
    """Local discovery only, and 503 with Retry-After for what a peer may have."""
    local_goes_on(world)
    through, direct = by_token(world, "/apis", V2), by_token(world, "/apis", V2, direct=True)
    equal((through.status, through.body), (200, direct.body), "/apis")
    for path in (CLASSES, NOBODYS, CLASSES + "?watch=true"):
        answer = by_token(world, path)
        equal((answer.status, answer.json()["reason"]), (503, "ServiceUnavailable"), path)
        check(int(answer.header("Retry-After")) >= 1, "Retry-After")
    told = fixture.ctl(world, "explain", "GET", CLASSES)[1]
    check("what it does not know is 503." in told or
          ("peers cannot be asked.\n" in told and "\nPeers:      cannot be asked: peer-ca-file is" in told), told)


def options_without(world, missing):
    return {k: v for k, v in world.full.items() if k not in missing}


def started(world, missing):
    proxy = world.proxies["a"]
    proxy.stop()
    proxy.options = options_without(world, missing)
    mark = proxy.log_mark()
    proxy.start()
    return mark


def reloaded(world, missing):
    proxy = world.proxies["a"]
    proxy.options = options_without(world, missing)
    mark = proxy.reload()
    proxy.await_log("Reloaded", mark)
    return mark


def once(world, mark, text=SAID):
    equal(world.proxies["a"].log()[mark:].count(text), 1, "times that it is said: " + text)


def test_no_peer_ca(world):
    """started without a peer CA"""
    mark = started(world, CA)
    without_peers(world)
    equal(world.ask("GET", MAPS).status, 200, "a user with a certificate")
    once(world, mark)


def test_no_pair(world):
    """started without a front-proxy pair: certificate users are refused, the others are not"""
    for missing in (PAIR, PAIR + CA):
        mark = started(world, missing)
        without_peers(world)
        equal(world.ask("GET", MAPS).status, 401, "a user with a certificate")
        once(world, mark)
        once(world, mark, "Certificate users are refused")


def test_by_reload(world):
    """taken away and given back by reloads: heard of each time, and as good as before"""
    started(world, ())
    until(lambda: by_token(world, CLASSES).status == 200, "rerouting")
    for missing in (CA, PAIR, PAIR + CA):
        mark = reloaded(world, missing)
        until(lambda: by_token(world, CLASSES).status == 503, "503 for what would need a peer")
        local_goes_on(world)
        equal(world.ask("GET", MAPS).status, 200 if missing == CA else 401, "a user with a certificate")
        once(world, mark)
        reloaded(world, missing)
        once(world, mark)
        reloaded(world, ())
        until(lambda: by_token(world, CLASSES).status == 200, "rerouting")
        until(lambda: b"resource.k8s.io" in by_token(world, "/apis", V2).body, "merged discovery")
        equal(world.ask("GET", CLASSES).status, 200, "a user with a certificate")


def test_wrong_ca(world):
    """a peer CA that has not signed any peer: the same, and no byte of HTTP for a server that is not trusted"""
    proxy = world.proxies["a"]
    mark = reloaded(world, ())
    proxy.options["peer-ca-file"] = world.certs.crt("foreign-ca")
    proxy.reload()
    proxy.await_log("Reload refused", mark)
    equal(by_token(world, CLASSES).status, 200, "rerouted: a reload does not give all peers up")
    proxy.stop()
    proxy.start()
    until(lambda: by_token(world, CLASSES).status == 503, "503 for what would need a peer")
    local_goes_on(world)
    equal(world.ask("GET", MAPS).status, 200, "a user with a certificate")
    reloaded(world, ())
    until(lambda: by_token(world, CLASSES).status == 200, "rerouting")


def test_no_rights(world):
    """started as a user who may read neither Leases nor discovery"""
    proxy = world.proxies["a"]
    proxy.stop()
    proxy.options = dict(world.full, **{"apiserver-user": "nobody", "apiserver-groups": ["nobodies"]})
    proxy.start()
    local_goes_on(world)
    for path in (CLASSES, NOBODYS):
        equal(by_token(world, path).status, 503, path)
    equal(world.ask("GET", MAPS).status, 200, "a user with a certificate")


def test_no_leases(world):
    """the local server denies the Leases alone: what it serves is served, what a peer may have gets 503"""
    proxy = world.proxies["a"]
    proxy.stop()
    proxy.options = dict(world.full)
    fault = world.sim.fault("status", "a", "GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", status=403,
                            body="{}", contentType="application/json")
    proxy.start()
    local_goes_on(world)
    for path in (CLASSES, NOBODYS):
        equal(by_token(world, path).status, 503, path)
    world.sim.heal(fault)
    until(lambda: by_token(world, CLASSES).status == 200, "rerouting, once they can be read")
    until(lambda: by_token(world, NOBODYS).status == 404, "and what nobody has")


def test_broken_files(world):
    """files that cannot be read are an error at the start and at a reload, and a reload leaves what was"""
    proxy = world.proxies["a"]
    for option in CA + PAIR:
        proxy.options = dict(world.full, **{option: os.path.join(world.scratch, "not-there")})
        mark = proxy.reload()
        proxy.await_log("Reload refused", mark)
        equal(by_token(world, CLASSES).status, 200, "rerouted as before")
    proxy.options = dict(world.full)
    proxy.write_config()


if __name__ == "__main__":
    fixture.main(globals())
