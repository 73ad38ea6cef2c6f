#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A front proxy that the local API server does not believe, or whose groups it does not read: what is said, where, and what
makes it well again."""

import os
import re
import shutil

import fixture
from fixture import check, ctl, equal, until

MAPS = "/api/v1/namespaces/default/configmaps"
TOKEN = {"Authorization": "Bearer token-root"}
GOOD = "mvproxy_certificate_files_good"
METRIC = "mvproxy_front_proxy_disbelieved"
PAIR = ("proxy-client-cert-file", "proxy-client-key-file")
REFUSED = "the local kube-apiserver does not believe this front proxy: it answers 401"
GROUPS = "the local kube-apiserver does not read the groups that are asserted: it answers 403"


def setup():
    world = fixture.World()
    world.certs.extra("front-proxy-other", "front-proxy-other", ca="front-proxy-ca")
    world.certs.extra("front-proxy-foreign", "front-proxy-client", ca="foreign-ca")
    for option in PAIR:
        world.proxies["a"].options[option] = os.path.join(world.scratch, option)
    put(world, "front-proxy-client")
    return world.start()


def put(world, name):
    """In the place of the files, by rename."""
    for option, source in zip(reversed(PAIR), (world.certs.key(name), world.certs.crt(name))):
        path = world.proxies["a"].options[option]
        shutil.copy(source, path + ".new")
        os.replace(path + ".new", path)


def await_unready(world, why):
    """What an operator sees, and what clients of his load balancer do."""
    proxy = world.proxies["a"]
    until(lambda: "requestheader: " + why in ctl(world, "status")[1], "status to say it")
    equal(proxy.get("/readyz")[0], 500, "/readyz")
    check("[-]requestheader failed" in proxy.get("/readyz")[1], proxy.get("/readyz"))
    check("[+]local-apiserver ok" in proxy.get("/readyz")[1], proxy.get("/readyz"))
    status, text, _ = ctl(world, "status")
    equal(status, 1, "status")
    check(text.startswith("Not ready\n") and "requestheader: " + why in text, text)
    equal(proxy.metric(METRIC), 1.0, METRIC)
    proxy.await_log('"API server does not believe this front proxy"')
    check(why in ctl(world, "explain", "--as", "root", "GET", MAPS)[1], "explain")
    equal(world.ask("GET", MAPS, user=None, headers=TOKEN).status, 200, "a token is believed all the same")


def await_well(world):
    proxy = world.proxies["a"]
    proxy.await_ready()
    until(lambda: ctl(world, "status")[1].startswith("Ready\n"), "status")
    equal((proxy.metric(METRIC), world.ask("GET", MAPS).status), (0.0, 200), "a user with a certificate")


def restarted(world, **options):
    proxy = world.proxies["a"]
    proxy.stop()
    proxy.options.update(options)
    proxy.start(ready=False)


def test_other_ca_at_server(world):
    """the local server is started with another CA of front proxies: not ready, until it has the right one again"""
    world.sim.restart_server("a", **{"requestheader-client-ca-file": world.certs.crt("foreign-ca")})
    await_unready(world, REFUSED)
    equal(world.ask("GET", MAPS).status, 401, "a user with a certificate")
    world.sim.restart_server("a", **{"requestheader-client-ca-file": world.certs.crt("front-proxy-ca")})
    await_well(world)


def test_other_name(world):
    """a pair of a name that the server does not accept: not ready, after it was replaced as after a start"""
    proxy = world.proxies["a"]
    names = proxy.options["requestheader-allowed-names"]
    proxy.await_log("Reloaded", proxy.reload({"requestheader-allowed-names": names + ["front-proxy-other"]}))
    put(world, "front-proxy-other")
    await_unready(world, REFUSED)
    restarted(world)
    until(lambda: "it answers 401" in ctl(world, "status")[1], "status to say it")
    text = ctl(world, "status")[1]
    check(text.startswith("Not ready\n  requestheader: the local kube-apiserver "), "the cause is not first", text)
    check("RBAC" not in text and "may the user of this proxy" not in text, "rights are suspected", text)
    check("it answers 401" in ctl(world, "explain", "--as", "root", "GET", MAPS)[1], "explain")
    await_unready(world, REFUSED)
    put(world, "front-proxy-client")
    await_well(world)
    proxy.await_log("Reloaded", proxy.reload({"requestheader-allowed-names": names}))


def test_stray_pair(world):
    """a pair of another CA or name than is configured does not replace a good one: neither by itself nor at a reload"""
    proxy = world.proxies["a"]
    for pair, option, at_reload in (
            ("front-proxy-foreign", "requestheader-client-ca-file", "has not signed proxy-client-cert-file"),
            ("front-proxy-other", "requestheader-allowed-names", "does not fit requestheader-allowed-names")):
        mark = proxy.log_mark()
        put(world, pair)
        until(lambda: proxy.metric(GOOD) == 0.0, GOOD)
        proxy.await_log("Certificate files changed but cannot be used, the old ones stay", mark)
        text = ctl(world, "status")[1]
        check("does not fit " + option in text and text.startswith("Ready\n"), text)
        status, _, errors = ctl(world, "reload")
        equal(status, 1, "reload")
        check(at_reload in errors, errors)
        equal(world.ask("GET", MAPS).status, 200, "a user with a certificate")
        put(world, "front-proxy-client")
        until(lambda: proxy.metric(GOOD) == 1.0, GOOD)
        await_well(world)


def test_group_header(world):
    """a group header that the server does not know: it refuses system:masters, so it has not read the groups"""
    restarted(world, **{"requestheader-group-headers": ["X-Foo"]})
    await_unready(world, GROUPS)
    equal(world.ask("GET", "/api/v1/nodes").status, 403, "a user with a certificate")
    restarted(world, **{"requestheader-group-headers": ["X-Remote-Group"]})
    await_well(world)


def test_no_pair(world):
    """without a pair nobody is asserted, and nothing is waited for"""
    keep = {option: world.proxies["a"].options.pop(option) for option in PAIR}
    restarted(world)
    until(lambda: ctl(world, "status")[1].startswith("Ready\n"), "status")
    equal(world.proxies["a"].metric(METRIC), None, METRIC)
    restarted(world, **keep)
    await_well(world)


if __name__ == "__main__":
    fixture.main(globals())
