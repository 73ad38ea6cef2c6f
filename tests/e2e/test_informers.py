#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real informers (client-go's, tests/kube, and @kubernetes/client-node's, tests/node) before a server or a peer that dies, is restarted,
or forgets its history: they resume by themselves, and in the end they know what is there."""

import json
import os
import queue
import subprocess
import threading

import fixture
from fixture import Skip, check, equal, until

KINDS = (("local", "v1/configmaps", "configmaps", "/api/v1/namespaces/default/configmaps", "a"),
         ("peer's", "resource.k8s.io/v1/deviceclasses", "deviceclasses.resource.k8s.io", "/apis/resource.k8s.io/v1/deviceclasses", "b"))
PATIENCE = 90  # client-go waits longer and longer between attempts


def built(script):
    """(folder, None), or (None, why there is none)."""
    done = subprocess.run([os.path.join(fixture.TREE, "contrib", "lib", script), "--built"], capture_output=True, check=False)
    if done.returncode != 0:
        return None, done.stderr.decode(errors="replace").strip()[-200:]
    return done.stdout.decode().strip(), None


def clients():
    """{name: (command to which configuration and resource are added, environment)} of those that are here."""
    found, reasons = {}, []
    folder, why = built("build-kube-parts")
    if folder:
        found["client-go"] = (lambda config, resource: [os.path.join(folder, "informer"), "--kubeconfig", config, "--resource", resource], {})
    reasons.append(why)
    modules, why = built("build-node-parts")
    if modules:
        script = os.path.join(fixture.TREE, "tests", "node", "client.cjs")
        found["client-node"] = (lambda config, resource: ["node", script, "informer", config, resource], {"NODE_PATH": modules})
    reasons.append(why)
    for why in filter(None, reasons):
        print("# without: " + why)
    if not found:
        raise Skip("no informer: " + " ".join(filter(None, reasons)))
    return found


def setup():
    found = clients()
    world = fixture.World().start()
    world.informers = found
    return world


def kubeconfig(world):
    path = os.path.join(world.scratch, "kubeconfig")
    certs = world.certs
    with open(path, "w", encoding="ascii") as out:
        json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "it",
                   "clusters": [{"name": "it", "cluster": {"server": "https://%s:%d" % world.proxies["a"].address,
                                                           "certificate-authority": certs.crt("ca")}}],
                   "users": [{"name": "it", "user": {"client-certificate": certs.crt("admin"), "client-key": certs.key("admin")}}],
                   "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}]}, out)
    return path


class Informer:
    """The program, what it has said, and what it holds by that."""

    def __init__(self, world, client, resource):
        self.lines, self.holds, self.versions, self.errors, self.synced = queue.Queue(), {}, {}, [], False
        command, variables = world.informers[client]
        self.child = subprocess.Popen(command(kubeconfig(world), resource), text=True, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=dict(os.environ, **variables))
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.child.stdout:
            self.lines.put(json.loads(line))

    def __enter__(self):
        until(lambda: self.look() and self.synced, "the informer to be in step", PATIENCE)
        return self

    def __exit__(self, *unused):
        self.child.kill()
        self.child.wait()
        self.child.stdout.close()

    def look(self):
        """Take in what it has said; a version that goes back, or an object twice, is an error."""
        while not self.lines.empty():
            line = self.lines.get()
            name, kind = line.get("name"), line["event"]
            if kind == "synced":
                self.synced = True
            elif kind == "error":
                self.errors.append(line["text"])
            elif kind == "DELETED":
                check(name in self.holds, "deleted, but never there:", line)
                del self.holds[name]
            else:
                check((kind == "ADDED") == (name not in self.holds), "not in order:", line)
                check(int(line["rv"]) >= self.versions.get(name, 0), "older than what was told before:", line)
                self.holds[name], self.versions[name] = line.get("note"), int(line["rv"])
        return True

    def await_objects(self, wanted):
        until(lambda: self.look() and self.holds == wanted, "the informer to hold %r (holds %r, errors %r)" % (
            wanted, self.holds, self.errors[-3:]), PATIENCE)


def put(world, resource, name, note):
    """Behind the servers' backs, as another server would."""
    world.sim.put(resource, {"metadata": {"name": name, "namespace": "default" if resource == "configmaps" else "",
                                          "annotations": {"n": note}}})


def drop(world, resource, name):
    world.sim.delete(resource, name, "default" if resource == "configmaps" else "")


def trouble(world, how):
    """Before each kind and each client: what is done to it, and that it had to begin anew."""
    for client in world.informers:
        for title, argument, resource, path, server in KINDS:
            put(world, resource, "stays", "1")
            put(world, resource, "goes", "1")
            with Informer(world, client, argument) as informer:
                informer.await_objects({"stays": "1", "goes": "1"})
                until(lambda p=path: watches(world, p, 0), "the watch")
                mark = world.sim.mark()
                how(world, resource, server)
                put(world, resource, "stays", "2")
                put(world, resource, "comes", "1")
                drop(world, resource, "goes")
                if how is die:
                    world.sim.start_server(server)
                informer.await_objects({"stays": "2", "comes": "1"})
                put(world, resource, "comes", "2")
                informer.await_objects({"stays": "2", "comes": "2"})
                check(watches(world, path, mark), client, title, "no second watch: nothing was tried")
            for name in ("stays", "comes"):
                drop(world, resource, name)
            until(lambda p=path: all(r["done"] for r in watches(world, p, 0)), "the watches to be over")
            world.sim.reset()


def watches(world, path, mark):
    return [r for r in world.sim.requests(since=mark) if (r["user"] or {}).get("username") == "kubernetes-admin" and "watch=" in r["target"]
            and r["target"].split("?")[0] in (path, path.replace("/namespaces/default", ""))]


def die(world, resource, server):
    world.sim.kill_server(server)


def cut(world, resource, server):
    world.sim.command(server, "cut")


def end(world, resource, server):
    world.sim.end_watches(resource)


def forget(world, resource, server):
    world.sim.compact(resource)


def test_server_dies(world):
    """the server dies in the middle of a watch and comes back"""
    trouble(world, die)


def test_cut(world):
    """all connections of the server are reset"""
    trouble(world, cut)


def test_ended(world):
    """the server ends the watch, as it does every few minutes"""
    trouble(world, end)


def test_gone(world):
    """410: history is compacted, the informer lists again"""
    trouble(world, forget)


def test_proxy_restarted(world):
    """mvproxy itself is restarted under the watch"""
    def restart(world, *unused):
        world.proxies["a"].stop()
        world.proxies["a"].start()
    trouble(world, restart)


if __name__ == "__main__":
    fixture.main(globals())
