# SPDX-License-Identifier: Apache-2.0
"""The same cluster with the simulator, tests/apisim, in place of etcd and every kube-apiserver."""

import json
import os
import urllib.request

from . import waiting
from .cluster import Cluster
from .daemon import Daemon, DaemonError
from .node import PORT

CONTROL = "127.0.0.1:8001"


def control(path, body=None):
    """POST to the simulator's control interface."""
    request = urllib.request.Request("http://%s/_sim/%s" % (CONTROL, path), method="POST",
                                     data=b"" if body is None else json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


class SimulatedServer:
    """One of the simulator's servers, to be used as the Daemon of a kube-apiserver is."""

    def __init__(self, name, simulator):
        self.name = "simulated kube-apiserver " + name
        self.log = simulator.log
        self.argv = []
        self._node = name
        self._simulator = simulator
        self._running = False

    def start(self):
        if not self._simulator.running():
            self._simulator.start()
            waiting.until(lambda: control("servers/%s" % self._node), "the simulator", 20)
        control("servers/%s/start" % self._node)
        self._running = True

    def running(self):
        return self._running and self._simulator.running()

    def check(self):
        if not self.running():
            raise DaemonError("%s does not run:\n%s" % (self.name, self.tail()))

    def _end(self, how):
        if self.running():
            control("servers/%s/%s" % (self._node, how))
        self._running = False
        return 0

    def stop(self, timeout=20.0):  # pylint: disable=unused-argument # as Daemon has it
        return self._end("stop")

    def kill(self):
        return self._end("kill")

    def tail(self, lines=20):
        return self._simulator.tail(lines)


class SimulatedCluster(Cluster):
    """Call start(), use nodes, call stop(): as Cluster."""

    def __init__(self, setup, apisim, mvproxy=None, options=None, directory=None):
        super().__init__(setup, "", mvproxy, options, directory)
        config = self._write("apisim.json", json.dumps({
            "control": CONTROL, "servers": [self._server(n) for n in self.nodes]}, indent=1))
        self.etcd = Daemon("apisim", [apisim, "--config", config, "-v"], self.logs)
        for node in self.nodes:
            node.apiserver = SimulatedServer(node.name, self.etcd)

    def _server(self, node):
        pki = self.pki
        return {
            "name": node.name, "hostname": node.name, "listen": "%s:%d" % (node.loopback, PORT),
            "profile": "v" + node.spec.minor,
            "tls-cert-file": pki.crt("node-" + node.name), "tls-private-key-file": pki.key("node-" + node.name),
            "client-ca-file": pki.crt("ca"), "token-auth-file": self.token_file,
            "requestheader-client-ca-file": pki.crt("front-proxy-ca"),
            "requestheader-allowed-names": ["front-proxy-client"],
        }

    def start_kubernetes(self):
        self.etcd.start()
        for node in self.nodes:
            waiting.until(lambda n=node: n.direct().get("/readyz").status == 200, "simulated server " + node.name, 20)
            node.apiserver._running = True  # pylint: disable=protected-access # all of them start with the program

    def keep_logs(self, directory):
        super().keep_logs(os.path.join(directory, "simulated"))
