# SPDX-License-Identifier: Apache-2.0
"""kube-controller-manager with the two controllers that trust discovery, reaching the servers through a load balancer."""

import os

from . import waiting
from .balancer import Balancer
from .daemon import Daemon
from .kubectl import kubeconfig
from .node import PORT

BALANCER = ("127.0.0.1", 7443)  # an address that every server's certificate has
HEALTH_PORT = 10257
CONTROLLERS = "namespace-controller,garbage-collector-controller"


class Controllers:
    """The balancer and the controller manager, to be used in a `with`. behind: whether the balancer's servers are the
    nodes' mvproxies, or the kube-apiservers themselves."""

    def __init__(self, cluster, mvproxy):
        self._cluster = cluster
        self.mvproxy = mvproxy
        self.balancer = Balancer(*BALANCER, self.backends(cluster.nodes))
        config = kubeconfig(os.path.join(cluster.dir, "controller-manager.kubeconfig"), "https://%s:%d" % BALANCER,
                            cluster.pki.crt("ca"), **cluster.credentials("controller-manager"))
        self.manager = Daemon("kube-controller-manager", [
            cluster.program(cluster.setup.controllers, "kube-controller-manager"),
            "--kubeconfig=" + config,
            "--authentication-skip-lookup=true",
            "--controllers=" + CONTROLLERS,
            # Each controller is a service account of its own, with connections of its own, as kubeadm sets it up.
            "--use-service-account-credentials=true",
            "--service-account-private-key-file=" + os.path.join(cluster.pki.dir, "sa.key"),
            "--leader-elect=false",
            "--bind-address=127.0.0.1", "--secure-port=%d" % HEALTH_PORT, "--cert-dir=" + os.path.join(cluster.dir, "kcm"),
            "--v=2",
        ], cluster.logs, hostname="controllers")

    def backends(self, nodes):
        return [(n.address if self.mvproxy else n.loopback, PORT) for n in nodes]

    def only(self, *nodes):
        """The balancer, by chance, takes everybody there."""
        self.balancer.only(self.backends(nodes))

    def start(self):
        """The controller manager, until the garbage collector collects."""
        self.manager.start()

        def begun():
            self.manager.check()
            return "Proceeding to collect garbage" in self.manager.log_text().rpartition("---- started ")[2]
        waiting.until(begun, "the garbage collector of kube-controller-manager", 90)

    def __enter__(self):
        self.balancer.start()
        return self

    def __exit__(self, *_):
        self.manager.kill()
        self.balancer.stop()
