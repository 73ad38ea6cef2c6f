#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The front-proxy certificate ends while the daemon runs: what is said, where, and what makes it well again."""

import datetime
import os
import re
import shutil
import time

import fixture
import test_runbooks
from fixture import check, ctl, ctl_json, equal, until

MAPS = "/api/v1/namespaces/default/configmaps"
TOKEN = {"Authorization": "Bearer token-root"}
END = "mvproxy_certificate_not_after_seconds"
OPTION = "proxy-client-cert-file"
SECONDS = 3  # it may as well have ended before it is read


def setup():
    world = fixture.World()
    a = world.proxies["a"]
    world.good = {"crt": world.certs.crt("front-proxy-client"), "key": world.certs.key("front-proxy-client")}
    for option, suffix in ((OPTION, "crt"), ("proxy-client-key-file", "key")):
        a.options[option] = os.path.join(world.scratch, "front-proxy." + suffix)
    world.said = OPTION + r" has expired \(20\d\d-\S+Z\): users with certificates get 401, and discovery cannot be read: " + \
        re.escape(a.options[OPTION])
    put(world, world.good)
    return world.start()


def put(world, pair):
    """In the place of the files, by rename."""
    a = world.proxies["a"]
    for option, suffix in (("proxy-client-key-file", "key"), (OPTION, "crt")):
        shutil.copy(pair[suffix], a.options[option] + ".new")
        os.replace(a.options[option] + ".new", a.options[option])


def says(pattern, text, where):
    check(re.search(pattern, text), where + " does not say", pattern, text)


def examine(world):
    """What an operator sees, wherever he looks; what clients see."""
    a = world.proxies["a"]
    status, text = a.get("/readyz")
    equal(status, 500, "/readyz")
    says(r"(?m)^\[-\]tls-certificates failed: .*see mvproxyctl status or /readyz/tls-certificates$", text, "/readyz")
    status, text = a.get("/readyz/tls-certificates")
    equal(status, 500, "/readyz/tls-certificates")
    says(world.said, text, "/readyz/tls-certificates")
    equal(a.get("/livez")[0], 200, "/livez: a restart would mend nothing")

    status, text, _ = ctl(world, "status")
    equal(status, 1, "status")
    says(r"\ANot ready\n", text, "status")
    says(r"(?m)^  tls-certificates: " + world.said + r"\n    Look at: mvproxyctl certs: renew the file, which is then used without a restart$",
         text, "status")
    for path in ("/statusz", "/"):
        says(r"has expired \(20", a.get(path)[1], path)
    says(r"(?m)^Not ready: .*tls-certificates: " + world.said + "$", a.get("/statusz")[1], "/statusz")
    status, text, _ = ctl(world, "certs")
    equal(status, 1, "certs")
    says("(?m)^" + OPTION + r" +20\S+Z +expired ", text, "certs")
    check(a.metric(END, option=OPTION) < time.time(), END)
    says(r'"Certificate has expired" option="%s" file="%s"' % (OPTION, re.escape(a.options[OPTION])), a.log(), "the log")
    says(r'"Status" status="Not ready: .*' + OPTION, a.log(), "the log")

    # The API port's /readyz is the local server's word: token users are well.
    for path in (MAPS, "/readyz"):
        equal(world.ask("GET", path, user=None, headers=TOKEN).status, 200, path + " with a token")
        until(lambda p=path: world.ask("GET", p).status == 401, path + " with a certificate")
    status, text, _ = ctl(world, "explain", "--as", "alice", "GET", MAPS)
    equal(status, 0, "explain")
    says(r"\AIs answered with 401: " + world.said, text, "explain --as alice")
    says(r"\AGoes to the local server\n", ctl(world, "explain", "GET", MAPS)[1], "explain for a token")
    equal(ctl_json(world, "explain", "GET", MAPS)["unauthorized"], None, "explain for a token")

    status, text, _ = ctl(world, "check")
    equal(status, 2, "check")
    says(r"(?m)%s: \S+ expired at .*\n +what to do: renew it$" % OPTION, text, "check")
    says(r"(?m)does not believe the front proxy: it answers 401\n +what to do: " + OPTION + " has expired: renew it$", text, "check")


def test_ends(world):
    """its end passes: readyz, status, page, metrics, log, explain and check say what, why and what to do"""
    a = world.proxies["a"]
    now = datetime.datetime.now(datetime.timezone.utc)
    began, end = ((now + datetime.timedelta(seconds=s)).strftime("%Y%m%d%H%M%SZ") for s in (-3600, SECONDS))
    world.certs.extra("short", "front-proxy-client", ca="front-proxy-ca", start=began, end=end)
    put(world, {"crt": world.certs.crt("short"), "key": world.certs.key("short")})
    until(lambda: a.metric(END, option=OPTION) < time.time(), "its end")
    a.await_log('"Certificate has expired" option="%s"' % OPTION)
    a.await_log("Not ready: ")
    until(lambda: a.get("/readyz")[0] == 500, "not ready")
    examine(world)


def test_runbook(world):
    """what the alert's runbook says to run shows it"""
    alert = "MvproxyCertificateExpiringNow"
    text = test_runbooks.run(world, alert)
    says("(?m)^" + OPTION + r" +20\S+Z +expired ", text, alert)
    says(r"(?m)^  tls-certificates: " + world.said, text, alert)
    says("(?m)^Is answered with 401: " + world.said, text, alert)
    with open(os.path.join(test_runbooks.BOOKS, alert + ".md"), encoding="utf-8") as page:
        page = page.read()
    says(r"(?m)^\| `%s` \|.*401" % OPTION, page, "the page")
    says(r"(?s)`/readyz` of the\s+admin listener fails.*API port", page, "the page")


def test_restart(world):
    """a start with it says the same"""
    a = world.proxies["a"]
    a.stop()
    mark = a.log_mark()
    a.start(ready=False)
    a.await_log('"Certificate has expired" option="%s"' % OPTION, mark)
    until(lambda: "tls-certificates failed" in a.get("/readyz")[1], "not ready")
    until(lambda: ctl(world, "status")[1].startswith("Not ready\n"), "status")
    says(world.said, ctl(world, "status")[1], "status")


def test_renewed(world):
    """the file is renewed: well again, without a restart"""
    a = world.proxies["a"]
    pid = a.child.pid
    put(world, world.good)
    a.await_ready()
    until(lambda: ctl(world, "status")[1].startswith("Ready\n"), "status")
    equal((ctl(world, "certs")[0], a.child.pid), (0, pid), "certs, the process")
    equal(world.ask("GET", MAPS).status, 200, "with a certificate")
    says(r"\AGoes to the local server\n", ctl(world, "explain", "--as", "alice", "GET", MAPS)[1], "explain")


if __name__ == "__main__":
    fixture.main(globals())
