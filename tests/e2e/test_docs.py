#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the guides tell people to run is run: every block of docs/*.md that is marked so, on a control plane of two servers."""

import os
import re
import shlex
import subprocess

import fixture
from fixture import check, equal, until

DOCS = os.path.join(fixture.TREE, "docs")
RUN = re.compile(r"^```sh run\n(.*?)^```", re.M | re.S)


def setup():
    return fixture.World({"a": "v1.33", "b": "v1.34"}).start()


def commands(page):
    """(command, what it says) of each line of the page's blocks."""
    with open(os.path.join(DOCS, page), encoding="utf-8") as text:
        for block in RUN.findall(text.read()):
            for line in block.splitlines():
                command, _, says = line.partition("# says: ")
                yield command.strip(), says.strip()


def here(world, command):
    """The command as it is written for a node, on this world's first one."""
    a, built = world.proxies["a"], os.path.dirname(fixture.mvproxy_binary())
    words = shlex.split(command)
    words = [word.replace("http://127.0.0.1:9443", "http://" + a.options["admin-bind-address"]).replace("/etc/mvproxy/mvproxy.yaml", a.config_path)
             for word in words]
    words = ["test-server-b" if word == "cp-b" else word for word in words]
    if words[0] == "mvproxyctl":
        words[1:1] = ["--socket", a.options["control-socket"]]
    if words[0] in ("mvproxy", "mvproxyctl"):
        words[0] = os.path.join(built, words[0])
    return words


def run(world, page):
    told = list(commands(page))
    check(told, "no block of %s is run" % page)
    for command, says in told:
        def done(command=command, says=says):
            ran = subprocess.run(here(world, command), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, cwd=world.scratch,
                                 timeout=fixture.PATIENCE)
            check("unknown" not in ran.stderr and "usage:" not in ran.stderr, command, ran.stderr)
            return ran.returncode in wanted and says in ran.stdout.replace("test-server-b", "cp-b")
        # check finds much to say about a simulated world. And a world that has just begun may not have everything yet.
        wanted = (0, 1) if command == "mvproxyctl check" else (0,)
        until(done, "%s: %s" % (page, command))


def test_install(world):
    """docs/install.md"""
    run(world, "install.md")


def test_operate(world):
    """docs/operate.md"""
    run(world, "operate.md")


def test_troubleshoot(world):
    """docs/troubleshoot.md"""
    run(world, "troubleshoot.md")


def test_all(world):
    """no page has a block to be run that is not run here"""
    del world
    pages = {page for page in os.listdir(DOCS) if page.endswith(".md") and list(commands(page))}
    equal(pages, {"install.md", "operate.md", "troubleshoot.md"}, "pages")


if __name__ == "__main__":
    fixture.main(globals())
