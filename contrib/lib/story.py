#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The story that contrib/demo tells. See there."""

import argparse
import json
import os
import shutil
import signal
import sys
import time
from http.client import HTTPException

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "cluster"))
sys.path.insert(0, HERE)

from harness import sandbox, waiting  # noqa: E402 # pylint: disable=wrong-import-position
from harness.cluster import Cluster, addresses  # noqa: E402 # pylint: disable=wrong-import-position
from harness.daemon import DaemonError  # noqa: E402 # pylint: disable=wrong-import-position
from harness.node import NodeSpec  # noqa: E402 # pylint: disable=wrong-import-position
from harness.simulated import SimulatedCluster  # noqa: E402 # pylint: disable=wrong-import-position
from teller import Teller  # noqa: E402 # pylint: disable=wrong-import-position

STATE = "/run/mvproxy-demo"
GROUP_VERSION = "resource.k8s.io/v1"
COLLECTION = "/apis/resource.k8s.io/v1/deviceclasses"
KUBECTL_NAME = "deviceclasses.v1.resource.k8s.io"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
HEALED_WITHIN = 2.0  # seconds; said, not asserted: what is asserted is that it heals


def device_class(name):
    return {"apiVersion": GROUP_VERSION, "kind": "DeviceClass", "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}}


class Story:
    """The two nodes, and what is done with them in which order."""

    def __init__(self, cluster, teller, simulated):
        self.cluster = cluster
        self.old, self.new = cluster.nodes
        self.t = teller
        self.simulated = simulated

    # Asking, and showing it.

    def kubectl(self, node, *args, direct=False, limit=14):
        """Run kubectl of the old version, shown as one would type it in the state folder."""
        shown = " ".join("'%s'" % a if "{" in a else a.replace(self.cluster.dir + "/", "") for a in args)
        self.t.command("kubectl --kubeconfig %s%s %s" % (node.name, "-direct" if direct else "", shown))
        result = node.kubectl(self.old.spec.version, direct=direct).run(*args)
        self.t.output(result.out + result.err, limit)
        return result

    def request(self, node, method, path, direct=False, body=None, headers=None, limit=4):
        client = node.direct() if direct else node.proxied()
        self.t.command("%s %s   at %s" % (method, path, self.place(node, direct)))
        answer = client.request(method, path, body=body, headers=headers)
        text = "HTTP %d" % answer.status
        if answer.header("Retry-After"):
            text += "   Retry-After: %s" % answer.header("Retry-After")
        if answer.body:
            text += "\n" + answer.body.decode(errors="replace")
        self.t.output(text, limit)
        return answer

    @staticmethod
    def place(node, direct):
        return "%s's %s, %s:6443" % (node.name, "kube-apiserver" if direct else "mvproxy", node.loopback if direct else node.address)

    # The chapters.

    def problem(self):
        t = self.t
        t.heading("1. The problem: a false 404")
        t.tell("""Somebody creates a device class (an API that %s has and %s does not) at %s. It is stored in the
               etcd that both servers share.""" % (self.new.spec.minor, self.old.spec.minor, self.new.name))
        made = self.request(self.new, "POST", COLLECTION, direct=True, body=device_class("from-the-new-server"), limit=1)
        t.expect(made.status == 201, "the new server creates it")
        t.tell("""Now a client happens to reach %s, straight at its kube-apiserver. With a load balancer in front of a
               control plane in the middle of an upgrade that is a matter of luck.""" % self.old.name)
        if not self.simulated:
            result = self.kubectl(self.old, "get", KUBECTL_NAME, direct=True)
            t.expect(result.status != 0 and "doesn't have a resource type" in result.err, "kubectl finds no such resource type")
        answer = self.request(self.old, "GET", COLLECTION, direct=True)
        t.expect(answer.status == 404, "404, although the object exists: a controller may take that for a deletion")

    def healed(self):
        t = self.t
        t.heading("2. The same through mvproxy")
        t.tell("""mvproxy on %s knows that its own kube-apiserver does not serve %s, and that the one on %s does. It sends
               the request there, with the identity of whoever asked.""" % (self.old.name, GROUP_VERSION, self.new.name))
        answer = self.request(self.old, "GET", COLLECTION + "/from-the-new-server")
        t.expect(answer.status == 200, "the same server's address now answers 200 with the object")
        if self.simulated:
            self.verbs_by_http()
        else:
            self.verbs_by_kubectl()

    def verbs_by_kubectl(self):
        t = self.t
        t.tell("kubectl %s (older than the API itself) does its whole work with it, and a watch runs beside:"
               % self.old.spec.version)
        watch = self.old.proxied().watch_from_now(COLLECTION, "fieldSelector=metadata.name%3Dgpu")
        self.t.command("kubectl --kubeconfig %s get %s gpu --watch &" % (self.old.name, KUBECTL_NAME))
        manifest = os.path.join(self.cluster.dir, "gpu.json")
        with open(manifest, "w", encoding="ascii") as out:
            json.dump(device_class("gpu"), out)
        steps = (
            (("create", "-f", manifest), "created", "create"),
            (("get", KUBECTL_NAME, "gpu"), "gpu", "get"),
            (("get", KUBECTL_NAME), "from-the-new-server", "list"),
            (("patch", KUBECTL_NAME, "gpu", "--type=merge", "-p", '{"metadata":{"labels":{"speed":"high"}}}'), "patched", "patch"),
            (("delete", KUBECTL_NAME, "gpu"), "deleted", "delete"),
        )
        for args, wanted, verb in steps:
            result = self.kubectl(self.old, *args)
            t.expect(result.status == 0 and wanted in result.out, "%s works" % verb)
        self.expect_events(watch)

    def verbs_by_http(self):
        t = self.t
        watch = self.old.proxied().watch_from_now(COLLECTION, "fieldSelector=metadata.name%3Dgpu")
        steps = (
            ("POST", COLLECTION, device_class("gpu"), {}, 201, "create"),
            ("GET", COLLECTION + "/gpu", None, {}, 200, "get"),
            ("GET", COLLECTION, None, {}, 200, "list"),
            ("PATCH", COLLECTION + "/gpu", '{"metadata":{"labels":{"speed":"high"}}}',
             {"Content-Type": "application/merge-patch+json"}, 200, "patch"),
            ("DELETE", COLLECTION + "/gpu", None, {}, 200, "delete"),
        )
        for method, path, body, headers, status, verb in steps:
            answer = self.request(self.old, method, path, body=body, headers=headers, limit=2)
            t.expect(answer.status == status, "%s works" % verb)
        self.expect_events(watch)

    def expect_events(self, watch):
        with watch:
            seen = []
            while len(seen) < 3:
                event = watch.event()
                if event is None:
                    break
                if event["object"]["metadata"].get("name") == "gpu":
                    seen.append(event["type"])
        self.t.tell("What the watch has seen meanwhile, each as it happened:")
        self.t.output("\n".join(seen))
        self.t.expect(seen == ["ADDED", "MODIFIED", "DELETED"], "watch works")

    def discovery(self):
        t = self.t
        t.heading("3. One view of the APIs, wherever one asks")
        if not self.simulated:
            t.tell("The resource types that kubectl is told about, counted: straight at each server, then through each mvproxy.")
            names = {}
            for direct in (True, False):
                for node in (self.old, self.new):
                    kubectl = node.kubectl(self.old.spec.version, direct=direct)
                    names[node.name, direct] = kubectl.run("api-resources", "-o", "name").out.split()
                    t.command("kubectl --kubeconfig %s%s api-resources -o name | wc -l"
                              % (node.name, "-direct" if direct else ""))
                    t.output(str(len(names[node.name, direct])))
            t.expect(names[self.old.name, True] != names[self.new.name, True], "the servers themselves differ")
            t.expect(set(names[self.old.name, False]) == set(names[self.new.name, False])
                     == set(names[self.old.name, True]) | set(names[self.new.name, True]),
                     "through mvproxy both give the same, all of them")
        t.tell("Behind that is the aggregated discovery document, merged over all servers. Its ETag:")
        merged = {n.name: self.etag(n, AGGREGATED) for n in (self.old, self.new)}
        t.expect(len(set(merged.values())) == 1 and None not in merged.values(), "the same ETag at both: byte for byte the same")
        t.tell("A client that asks for profile=nopeer gets what the server behind this mvproxy has itself:")
        local = self.etag(self.old, AGGREGATED + ";profile=nopeer")
        direct = self.etag(self.old, AGGREGATED, direct=True)
        t.expect(local == direct and local not in merged.values(), "nopeer is the local server's own document")

    def etag(self, node, accept, direct=False):
        client = node.direct() if direct else node.proxied()
        answer = client.get("/apis", Accept=accept)
        self.t.command("GET /apis%s   at %s" % (" (profile=nopeer)" if "nopeer" in accept else "", self.place(node, direct)))
        groups = [g["metadata"]["name"] for g in answer.json()["items"]]
        tag = answer.header("ETag")
        self.t.output("HTTP %d   %d groups, %s resource.k8s.io   ETag %s" % (
            answer.status, len(groups), "with" if "resource.k8s.io" in groups else "without", (tag or "none")[:18] + "..."))
        return tag

    def outage(self):
        t = self.t
        t.heading("4. The only server that has it goes away")
        t.tell("The kube-apiserver %s on %s ends (it is killed: a graceful stop waits a minute for open watches)."
               % (self.new.spec.version, self.new.name))
        with t.progress("killing kube-apiserver on %s" % self.new.name):
            self.new.apiserver.kill()
        answer = self.request(self.old, "GET", COLLECTION)
        status = answer.json() if answer.status == 503 else {}
        t.expect(answer.status == 503 and status.get("kind") == "Status", "503 with a Status object: \"not now\", not \"no such thing\"")
        t.expect((answer.header("Retry-After") or "").isdigit(), "with Retry-After, so that clients wait and try again by themselves")
        seen = self.ask_for(5.0)
        t.tell("For five seconds, as fast as it goes: %s." % ", ".join("%d times HTTP %d" % (n, s) for s, n in seen.items()))
        t.expect(404 not in seen, "never a 404")
        other = self.old.proxied().get("/api/v1/namespaces")
        t.expect(other.status == 200, "everything that %s has itself goes on: GET /api/v1/namespaces is HTTP %d"
                 % (self.old.name, other.status))

    def ask_for(self, seconds):
        seen = {}
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            status = self.old.proxied().get(COLLECTION).status
            seen[status] = seen.get(status, 0) + 1
        return seen

    def back(self):
        t = self.t
        t.heading("5. It comes back")
        with t.progress("starting kube-apiserver on %s" % self.new.name):
            self.new.start_apiserver()
            self.new.await_apiserver()
        ready = time.monotonic()
        seen = {}

        def healed():
            status = self.old.proxied().get(COLLECTION).status
            seen[status] = seen.get(status, 0) + 1
            return status == 200
        waiting.until(healed, "200 again through the old server's mvproxy", timeout=60, pause=0.02)
        took = time.monotonic() - ready
        t.tell("%.1f s after the server is ready, the old server's address answers 200 again%s." % (
            took, "" if took <= HEALED_WITHIN else " (that is longer than it should take)"))
        t.expect(404 not in seen, "healed, and again without a single 404")
        self.request(self.old, "GET", COLLECTION + "/from-the-new-server", limit=2)
        if not self.simulated:
            waiting.until(lambda: self.old.kubectl().run("get", KUBECTL_NAME).status == 0, "kubectl knows the resource", 30, 0.05)
            result = self.kubectl(self.old, "get", KUBECTL_NAME)
            t.expect("from-the-new-server" in result.out, "kubectl knows the resource again, %.1f s after the server was ready"
                     % (time.monotonic() - ready))

    def tell(self):
        for chapter in (self.problem, self.healed, self.discovery, self.outage, self.back):
            chapter()


def introduce(t, cluster, simulated):
    old, new = cluster.nodes
    t.heading("A control plane in the middle of an upgrade")
    t.tell("""Two control-plane nodes share one etcd. %s still runs Kubernetes %s, %s runs %s already. An mvproxy
           stands in front of each kube-apiserver: same port, other address.%s""" % (
               old.name, old.spec.version, new.name, new.spec.version,
               " (Both servers and etcd are simulated in this run.)" if simulated else ""))
    def line(node):
        return "  clients --> %s:6443 mvproxy --> %s:6443 kube-apiserver %-8s --" % (
            node.address, node.loopback, node.spec.version)
    top, bottom = line(old), line(new)
    column = top.index("mvproxy") + 3
    t.picture("%s+\n%s+-- etcd\n%s+" % (top, " " * column + "|" + " " * (len(top) - column - 1), bottom))


def start(t, cluster, simulated):
    t.tell("Starting:")
    if simulated:
        with t.progress("two simulated kube-apiservers on one store"):
            cluster.start_kubernetes()
    else:
        with t.progress("etcd and both kube-apiservers"):
            cluster.start_kubernetes()
    with t.progress("waiting until both have published who they are (identity Leases)"):
        cluster.await_leases()
    with t.progress("both mvproxies"):
        cluster.start_mvproxies()


def look_around(cluster, host_pid, simulated):
    """For --keep: kubeconfigs, a shell inside, and how to end it."""
    for node in cluster.nodes:
        for direct in (False, True):
            shutil.copy(node.kubeconfig(direct=direct),
                        os.path.join(cluster.dir, node.name + ("-direct" if direct else "")))
    path = os.environ["PATH"]
    if not simulated:
        path = "%s:%s" % (os.path.dirname(cluster.program(cluster.nodes[0].spec.version, "kubectl")), path)
    shell = os.path.join(cluster.dir, "shell")
    with open(shell, "w", encoding="utf-8") as out:
        out.write("#!/bin/sh\n# A shell (or a command) in the demo's network, with its kubeconfigs in the current folder.\n"
                  "cd %s && PATH=%s KUBECONFIG=%s exec nsenter --target %d --net -- \"${@:-bash}\"\n"
                  % (cluster.dir, path, os.path.join(cluster.dir, cluster.nodes[0].name), host_pid))
    os.chmod(shell, 0o700)
    with open(os.path.join(cluster.dir, "pid"), "w", encoding="ascii") as out:
        out.write("%d\n" % host_pid)
    return shell


def explain_keep(t, cluster, shell, simulated):
    old, new = cluster.nodes
    t.heading("It is still running")
    t.tell("The servers live in a network of their own. This opens a shell there (or runs a command):")
    t.command(shell)
    if not simulated or shutil.which("kubectl"):  # where all is simulated, this machine's own
        t.command("%s kubectl --kubeconfig %s get %s" % (shell, old.name, KUBECTL_NAME))
    t.tell("""Kubeconfigs in %s: %s and %s go through mvproxy, %s-direct and %s-direct straight to kube-apiserver. Logs are in
           %s/logs, mvproxy's configuration in mvproxy-*.yaml, its metrics at http://%s:9443/metrics.""" % (
               cluster.dir, old.name, new.name, old.name, new.name, cluster.dir, old.loopback))
    ctl = os.path.join(os.path.dirname(cluster.mvproxy), "mvproxyctl")
    t.tell("What the mvproxies say, and why a request goes where it goes:")
    t.command("%s %s --socket %s status" % (shell, ctl, old.control_socket))
    t.command("%s %s --socket %s explain GET %s" % (shell, ctl, old.control_socket, COLLECTION))
    t.tell("To end it and remove everything:")
    t.command("contrib/demo --stop")


def play(args, box):
    t = Teller()
    specs = [NodeSpec("cp-a", args.old), NodeSpec("cp-b", args.new)]
    directory = STATE if args.keep else None
    if args.sim:
        cluster = SimulatedCluster(specs, args.apisim, args.mvproxy, directory=directory)
    else:
        cluster = Cluster(specs, args.programs, args.mvproxy, directory=directory)
    status = 1
    try:
        introduce(t, cluster, args.sim)
        start(t, cluster, args.sim)
        Story(cluster, t, args.sim).tell()
        status = 1 if t.summary() else 0
        if args.keep:
            explain_keep(t, cluster, look_around(cluster, box.host_pid, args.sim), args.sim)
            box.detach()
            signal.pause()
    except (waiting.Timeout, DaemonError, OSError, HTTPException, AssertionError) as error:
        print("\nerror: %s: %s\nThe ends of the logs:" % (type(error).__name__, error))
        cluster.show_logs(sys.stdout)
    except KeyboardInterrupt:
        print("\nStopped by you.")
        status = 130
    finally:
        cluster.stop()
    if not args.keep:
        print("Everything is stopped and removed.")
    return status


def kept_pid():
    """The first process of a demo that was kept running, 0 if there is none."""
    try:
        with open(os.path.join(STATE, "pid"), encoding="ascii") as file:
            pid = int(file.read())
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return pid if b"story.py" in file.read() else 0
    except (OSError, ValueError):
        return 0


def stop_kept():
    pid = kept_pid()
    if pid:
        os.kill(pid, signal.SIGTERM)
        waiting.until(lambda: not os.path.exists("/proc/%d" % pid), "the end of the demo", 30)
    existed = os.path.isdir(STATE)
    shutil.rmtree(STATE, ignore_errors=True)
    print("Stopped and removed." if pid or existed else "No demo is running.")
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mvproxy")
    parser.add_argument("--apisim")
    parser.add_argument("--programs")
    parser.add_argument("--old")
    parser.add_argument("--new")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--sim", action="store_true")
    parser.add_argument("--stop", action="store_true")
    args = parser.parse_args()
    if args.stop:
        return stop_kept()
    if args.keep:
        if kept_pid():
            sys.exit("a demo is running already; end it with contrib/demo --stop")
        shutil.rmtree(STATE, ignore_errors=True)
        os.makedirs(STATE, mode=0o700)
    try:
        return sandbox.run(lambda box: play(args, box), addresses(2))
    except sandbox.SandboxError as error:
        sys.exit("error: %s" % error)


if __name__ == "__main__":
    sys.exit(main())
