#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the log says: where to look at a start, one line for one event, in the words that operators search for."""

import re

import fixture
from fixture import check, equal, until

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"  # only the peer has it


def setup():
    return fixture.World({"a": "v1.33", "b": "v1.34"}, options={"v": 10}).start()


def messages(proxy, level=10, since=0):
    """(message, line) of each line that is written with -v=LEVEL."""
    return [(found.group(1), line) for line in proxy.log()[since:].splitlines()
            for found in [re.match(r'[IWEF]\S+ \S+ +\d+ \S+ "((?:[^"\\]|\\.)*)"', line)] if found]


def test_start(world):
    """a start says which file was read and where each listener is"""
    a = world.proxies["a"]
    told = messages(a)
    (started,) = [line for message, line in told if message == "Started"]
    check('config="%s"' % a.config_path in started and 'version="' in started, started)
    listening = [line for message, line in told if message == "Listening"]
    for wanted in ('address="127.0.0.1" port=%d for="clients"' % world.ports["a"],
                   'address="%s" for="admin"' % a.options["admin-bind-address"],
                   'path="%s" for="mvproxyctl"' % a.options["control-socket"]):
        equal(len([line for line in listening if wanted in line]), 1, wanted)


def test_documents(world):
    """each merged document is one line when it takes the place of another, with enough of its tag to tell it apart, and no line has a whole one"""
    a = world.proxies["a"]

    def is_last():
        tag = world.ask("GET", "/apis", None, headers={"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}).header("ETag")
        check(re.fullmatch(r'"[0-9A-F]{128}"', tag), tag)
        return tags()[-1:] == [tag[1:13]]

    def tags():
        return [re.search(r'etag="([^"]*)"', line).group(1) for message, line in messages(a) if message == "Merged discovery"]
    until(is_last, "the line of the document that is served")
    told = tags()
    check(all(one != other for one, other in zip(told, told[1:])), "told twice: %s" % told)
    check(not re.search(r"[0-9A-F]{64}", a.log()), "a whole tag is in the log")


def test_words(world):
    """a peer that cannot be reached is an ejected outlier, by name and address, and is said to be back"""
    a = world.proxies["a"]
    mark = a.log_mark()
    world.proxies["b"].stop()

    def ejected():
        world.ask("GET", CLASSES, None)
        return a.log_contains("Outlier ejected", mark)
    until(ejected, "an ejection")
    world.proxies["b"].start()
    until(lambda: world.ask("GET", CLASSES, None).status == 200 and a.log_contains("Outlier ejection ended", mark), "its end")
    check('forMilliseconds=' in a.log()[mark:], "for how long")


if __name__ == "__main__":
    fixture.main(globals())
