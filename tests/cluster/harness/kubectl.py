# SPDX-License-Identifier: Apache-2.0
"""kubectl of a given version, talking to a given place as a given user."""

import json
import os
import subprocess
import tempfile


def kubeconfig(path, server, ca, certificate=None, token=None, namespace="default"):
    """Write a kubeconfig (JSON is YAML). Everything that secret-bearing files need: mode 0600."""
    user = {}
    if certificate is not None:
        user = {"client-certificate": certificate[0], "client-key": certificate[1]}
    if token is not None:
        user["token"] = token
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": server, "certificate-authority": ca}}],
        "users": [{"name": "it", "user": user}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it", "namespace": namespace}}],
    }
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        json.dump(config, out, indent=1)
    return path


class Result:
    """What a run gave: exit status, output, complaints."""

    def __init__(self, argv, done):
        self.argv = argv
        self.status = done.returncode
        self.out = done.stdout
        self.err = done.stderr

    def __repr__(self):
        return "%s -> %d\n%s%s" % (" ".join(self.argv), self.status, self.out[-2000:], self.err[-2000:])


class Kubectl:
    """One program and one kubeconfig. kubectl's discovery cache is fresh for every object of this class."""

    def __init__(self, program, config, state_dir):
        self.program = program
        self.config = config
        self.cache = tempfile.mkdtemp(prefix="kubectl-", dir=state_dir)

    def argv(self, *args):
        return [self.program, "--kubeconfig", self.config, "--cache-dir", self.cache, *args]

    def run(self, *args, stdin=None, timeout=60.0, variables=None):
        """variables: more of the environment."""
        done = subprocess.run(self.argv(*args), input=stdin, capture_output=True, text=True, timeout=timeout, check=False,
                              stdin=subprocess.DEVNULL if stdin is None else None,
                              env={"PATH": os.environ["PATH"], "HOME": self.cache, **(variables or {})})
        return Result(["kubectl", *args], done)

    def complete(self, *args):
        """What a shell is told to offer for the last argument."""
        program, *flags = self.argv()
        done = subprocess.run([program, "__complete", args[0], *flags, *args[1:]], capture_output=True, text=True, timeout=60.0, check=False,
                              stdin=subprocess.DEVNULL, env={"PATH": os.environ["PATH"], "HOME": self.cache})
        return Result(["kubectl", "__complete", *args], done)

    def start(self, *args, variables=None):
        """kubectl in the background, its output readable line by line."""
        return subprocess.Popen(self.argv(*args), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True,
                                env={"PATH": os.environ["PATH"], "HOME": self.cache, **(variables or {})})
