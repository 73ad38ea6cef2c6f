#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Old servers: legacy discovery without Leases (1.24), v2beta1 (1.28), and the newest (1.36)."""

import fixture
from fixture import check, equal, until

JOBS = "/apis/batch/v1/namespaces/default/jobs"
BETA = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
V2 = BETA.replace("v2beta1", "v2")


class Worlds:
    """A world for each pair; to the runner it looks like one."""

    def __init__(self):
        self.all = {}
        without = {"runtime-config": ["batch/v1=false"]}
        for version in ("v1.24", "v1.28", "v1.36"):
            self.all[version] = fixture.World({"a": version, "b": "v1.37" if version == "v1.36" else version},
                                              servers={"b": without},
                                              options={"identity-lease": "off" if version == "v1.24" else "auto"})
        self.scratch = self.all["v1.24"].scratch
        self.proxies = {"%s %s" % (v, n): p for v, w in self.all.items() for n, p in w.proxies.items()}
        self.sim = self

    def start(self):
        for world in self.all.values():
            world.start()
        return self

    def reset(self):
        for world in self.all.values():
            world.sim.reset()

    def examine(self):
        for world in self.all.values():
            world.examine()

    def close(self):
        for world in self.all.values():
            world.close()

    def destroy(self):
        for world in self.all.values():
            world.sim.destroy()

    def tails(self):
        return "\n".join(world.tails() for world in self.all.values())


def setup():
    return Worlds().start()


def job(name):
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {}}


def story(world):
    """The same for every version: b lacks batch/v1, a has it."""
    equal(world.ask("GET", JOBS, name="b", direct=True).status, 404, "directly at b")
    equal(world.ask("POST", JOBS, job("one"), "b").status, 201, "create through b")
    equal(world.ask("GET", JOBS + "/one", name="b").json()["metadata"]["name"], "one", "get")
    equal(world.ask("PATCH", JOBS + "/one/status", b'{"status":{"active":1}}', "b",
                    headers={"Content-Type": "application/merge-patch+json"}).json()["status"], {"active": 1}, "patch of status")
    equal(world.ask("GET", JOBS + "/one", name="a").json()["status"], {"active": 1}, "at a")
    equal(world.ask("DELETE", JOBS + "/one", name="b").status, 200, "delete")
    equal(world.ask("GET", JOBS + "/one", name="b").status, 404, "gone")
    equal(world.ask("GET", "/apis/nobody.example.com/v1/things", name="b").status, 404, "what nobody has")
    world.sim.kill_server("a")
    equal(world.ask("GET", JOBS, name="b").status, 503, "a is down")
    world.sim.start_server("a")
    until(lambda: world.ask("GET", JOBS, name="b").status == 200, "a to be back")


def documents(world, accept):
    return [world.ask("GET", "/apis", name=n, headers={"Accept": accept}) for n in "ab"]


def test_legacy(worlds):
    """1.24: discovery by the legacy walk, peers without Leases"""
    world = worlds.all["v1.24"]
    equal(world.sim.stored("leases.coordination.k8s.io"), [], "Leases")
    story(world)
    for through, direct in zip(documents(world, V2 + ",application/json"),
                               [world.ask("GET", "/apis", name=n, direct=True, headers={"Accept": V2 + ",application/json"}) for n in "ab"]):
        equal(through.status, 200, "status")
        if through.header("ETag") is None:  # what an old server's clients get: its own document
            equal(through.body, direct.body, "/apis")
    for path in ("/apis/batch", "/apis/batch/v1"):  # of the legacy discovery of a server that has no other
        equal(world.ask("GET", path, name="b").body, world.ask("GET", path, name="a", direct=True).body, path)
    # The group is there, in another version: that stays the local server's to say.
    equal(world.ask("GET", "/apis/batch/v1", name="b", direct=True).status, 404, "directly at b")


def test_beta(worlds):
    """1.28: discovery v2beta1, merged"""
    world = worlds.all["v1.28"]
    story(world)

    def merged():
        one, two = documents(world, BETA)
        names = [g["metadata"]["name"] for g in two.json()["items"]]
        return one.body == two.body and one.header("ETag") == two.header("ETag") and "batch" in names
    until(merged, "one merged v2beta1 document at both")
    answer = documents(world, BETA)[1]
    equal((answer.header("Content-Type"), answer.json()["apiVersion"]), (BETA, "apidiscovery.k8s.io/v2beta1"), "form")
    equal(world.ask("GET", "/apis", name="b", headers={"Accept": BETA, "If-None-Match": answer.header("ETag")}).status, 304, "304")


def test_newest(worlds):
    """1.36 and 1.37: Leases with addresses, replaced at each start"""
    world = worlds.all["v1.36"]
    story(world)
    for path, server in (("/apis/storagemigration.k8s.io/v1/storageversionmigrations", "b"), (JOBS, "a")):
        for name in "ab":
            mark = world.sim.mark()
            equal(world.ask("GET", path, name=name).status, 200, path)
            equal(world.sim.requests(path=path, since=mark)[-1]["server"], server, "who")
    one, two = documents(world, V2)
    check(one.body == two.body and b"storagemigration" in one.body and b'"batch"' in one.body, "merged")


def test_graceful_restart(worlds):
    """1.36: a server that stops removes its Lease; it comes back with another holder"""
    world = worlds.all["v1.36"]
    for _ in range(3):
        before = world.sim.stored("leases.coordination.k8s.io")
        world.sim.stop_server("a")
        equal(len(world.sim.stored("leases.coordination.k8s.io")), len(before) - 1, "Leases")
        equal({world.ask("GET", JOBS, name="b").status for _ in range(10)}, {503}, "while it is away")
        world.sim.start_server("a")
        until(lambda: world.ask("GET", JOBS, name="b").status == 200, "a to be back")


def test_killed_and_restarted(worlds):
    """1.36: a server that was killed replaces its own Lease: an answer or 503, never 404"""
    world = worlds.all["v1.36"]
    for _ in range(3):
        world.sim.kill_server("a")
        seen = {world.ask("GET", JOBS, name="b").status for _ in range(5)}
        world.sim.start_server("a")
        seen |= {world.ask("GET", JOBS, name="b").status for _ in range(20)}
        check(seen <= {200, 503}, "statuses", seen)
        until(lambda: world.ask("GET", JOBS, name="b").status == 200, "a to be back")


if __name__ == "__main__":
    fixture.main(globals())
