#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Servers of two releases: what both have goes to the newer one, if that is wanted, so that no field is lost."""

import re

import fixture
from fixture import check, equal, until
from test_watch import Watch

MAPS = "/api/v1/namespaces/default/configmaps"
BOB = {"Authorization": "Bearer token-root"}
SKEWED = "mvproxy_skewed_group_versions"


def setup():
    return fixture.World(profiles={"a": "v1.33", "b": "v1.34", "c": "v1.34"}).start()


def served_by(answer):
    return answer.header("X-Mvproxy-Served-By")


def switch(world, name, where):
    proxy = world.proxies[name]
    proxy.await_log("Reloaded", proxy.reload({"skewed-resources": where}))


def test_seen(world):
    """what differs is shown in any case, and by default nothing follows from it"""
    for name, proxy in world.proxies.items():
        until(lambda p=proxy: p.metric(SKEWED) > 3, "%s to see the difference" % name)
        told = proxy.get("/statusz")[1]
        check(re.search(r"the schemas of %d differ \(for [^)]*\) \(skewed-resources: local\)" % proxy.metric(SKEWED), told), told)
        check("apps/v1" in proxy.get("/")[1], "status page")
    answer = world.ask("GET", MAPS)
    equal((answer.status, served_by(answer), answer.all("Warning")), (200, None, []), "answer")


def test_newest(world):
    """newest: reads, writes, watches and tokens go to the newer servers, from those they stay"""
    switch(world, "a", "newest")
    switch(world, "b", "newest")
    for command in ("status", "skew"):
        told = fixture.ctl(world, command)
        check("skewed-resources: newest is in force" in told[1], told)
    for user, headers in (("admin", None), (None, BOB)):
        mark = world.sim.mark()
        for i in range(4):
            made = world.ask("POST", MAPS, {"metadata": {"name": "new-%s-%d" % (user or "bob", i)}}, user=user, headers=headers)
            equal(made.status, 201, "POST")
            check(served_by(made), "by whom")
        check("a" not in {r["server"] for r in world.sim.requests(path=MAPS, since=mark)}, "the older one was asked")
    with world.client() as client:
        watch = Watch(client, MAPS)
        check(served_by(watch.head), "a watch")
    answer = world.ask("GET", MAPS, name="b")
    equal((answer.status, served_by(answer)), (200, None), "at the newer one")
    for path in ("/version", "/readyz"):
        equal(served_by(world.ask("GET", path)), None, path)


def test_alone(world):
    """no newer one answers: the local one does, with a Warning, and the others as soon as they are back"""
    for name in "bc":
        world.sim.kill_server(name)
    answer = world.ask("POST", MAPS, {"metadata": {"name": "old"}})
    equal((answer.status, served_by(answer)), (201, None), "answer")
    check(any(w.startswith('299 - "') for w in answer.all("Warning")), answer.headers)
    for name in "bc":
        world.sim.start_server(name)
    until(lambda: served_by(world.ask("GET", MAPS)), "the newer ones")
    equal(world.ask("GET", MAPS).all("Warning"), [], "no Warning")


def test_local_away(world):
    """the local one is away: the newer ones as before; they are away as well: the local one's peer of the same age would do"""
    world.sim.kill_server("a")
    for _ in range(6):
        equal(world.ask("GET", MAPS).status, 200, "GET")
    world.sim.start_server("a")


def test_failed_over(world):
    """a newer server is away: the other newer one does its work, and the older one only when nobody else can, with a Warning"""
    world.sim.kill_server("b")
    mark = world.sim.mark()
    for _ in range(12):
        answer = world.ask("GET", MAPS, name="b")
        equal((answer.status, answer.all("Warning")), (200, []), "GET")
    equal({r["server"] for r in world.sim.requests(path=MAPS, since=mark)}, {"c"}, "servers that were asked")
    world.sim.kill_server("c")
    answer = until(lambda: next(filter(lambda a: a.status == 201, [world.ask("POST", MAPS, {"metadata": {"generateName": "o-"}}, name="b")]), None), "201")
    check(any(w.startswith('299 - "') for w in answer.all("Warning")), answer.headers)
    for name in "bc":
        world.sim.start_server(name)
    until(lambda: world.proxies["b"].ready() and world.proxies["c"].ready(), "both ready")
    until(lambda: world.ask("GET", MAPS, name="b").all("Warning") == [], "no Warning")


def test_upgraded(world):
    """all are of one release: nothing is skewed, and everybody stays"""
    world.sim.restart_server("a", profile="v1.34")
    until(lambda: world.proxies["a"].metric(SKEWED) == 0, "nothing to differ")
    until(lambda: served_by(world.ask("GET", MAPS)) is None, "the local one")


if __name__ == "__main__":
    fixture.main(globals())
