# SPDX-License-Identifier: Apache-2.0
"""Programs made of Kubernetes' own libraries (tests/kube)."""

import os
import subprocess

from .runner import Skip

BUILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "contrib", "lib", "build-kube-parts")


def part(name):
    """The path of one; to build them takes minutes, so without them a test is skipped."""
    done = subprocess.run([BUILD, "--built"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Skip(done.stderr.strip()[-200:])
    return os.path.join(done.stdout.strip(), name)
