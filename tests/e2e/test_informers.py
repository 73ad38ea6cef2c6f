#!/usr/bin/env python3
"""A real informer (client-go's, tests/kube) before a server or a peer that dies, is restarted, or forgets its history: it resumes by
itself, and in the end it knows what is there."""

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


def program():
    script = os.path.join(fixture.TREE, "contrib", "lib", "build-kube-parts")
    done = subprocess.run([script, "--built"], capture_output=True, check=False)
    if done.returncode != 0:
        raise Skip("no informer: " + done.stderr.decode(errors="replace").strip()[-200:])
    return os.path.join(done.stdout.decode().strip(), "informer")


def setup():
    program()
    return fixture.World().start()


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

    def __init__(self, world, resource):
        self.lines, self.holds, self.versions, self.errors, self.synced = queue.Queue(), {}, {}, [], False
        self.child = subprocess.Popen([program(), "--kubeconfig", kubeconfig(world), "--resource", resource], text=True,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
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
    """Each kind: what is done to it, and how it is seen that the watch had to begin anew."""
    for title, argument, resource, path, server in KINDS:
        put(world, resource, "stays", "1")
        put(world, resource, "goes", "1")
        with Informer(world, argument) as informer:
            informer.await_objects({"stays": "1", "goes": "1"})
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
            check([r for r in world.sim.requests(path=path.replace("/namespaces/default", ""), since=mark) if "watch=" in r["target"]],
                  title, "no second watch: nothing was tried")
        for name in ("stays", "comes"):
            drop(world, resource, name)


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
