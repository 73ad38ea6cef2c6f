#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What mvproxy, nginx, haproxy and Node's http module make of the same bytes, before the same simulated server: of the requests in test_strict_http.py
and in the unit tests suites_*_test.c, and of the answers in test_hostile_server.py and there.  Prints the tables of docs/strict-http.md: a line for
each way in which they differ.

    top_builddir=... tests/e2e/survey_strict_http.py
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import fixture
import test_hostile_server as hostile
import test_strict_http as table
from rawhttp import Broken, Malformed

NGINX = """daemon off; master_process off; pid {dir}/nginx.pid; error_log {dir}/error.log; events {{ worker_connections 256; }}
http {{ access_log off; client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
  upstream api {{ server {host}:{back}; keepalive 8; }}
  server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {crt}; ssl_certificate_key {key}; client_max_body_size 0;
    location / {{ proxy_pass https://api; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host; proxy_request_buffering off; }} }} }}
"""
HAPROXY = """defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
frontend f
  bind 127.0.0.1:{port} ssl crt {pem}
  default_backend b
backend b
  http-reuse always
  server s {host}:{back} ssl verify none alpn http/1.1
"""


# Node's http module on both sides, as the plainest proxy of it: fields as they are but for one hop's, bodies by stream. What it
# accepts and then cannot write ends that request and not the server.
NODE = """const https = require("https"), fs = require("fs");
process.on("uncaughtException", () => {{}});
const agent = new https.Agent({{keepAlive: true, rejectUnauthorized: false}});
https.createServer({{cert: fs.readFileSync("{crt}"), key: fs.readFileSync("{key}")}}, (req, res) => {{
  let back;
  for (const name of ["connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade"])
    delete req.headers[name];
  try {{
    back = https.request({{host: "{host}", port: {back}, path: req.url, method: req.method, headers: req.headers, agent}});
  }} catch {{ // what Node accepts but does not write
    res.destroy();
    return;
  }}
  back.on("response", (answer) => {{
    res.writeHead(answer.statusCode, answer.headers);
    answer.pipe(res);
  }});
  back.on("error", () => res.destroy());
  req.on("error", () => back.destroy());
  req.on("aborted", () => back.destroy());
  req.pipe(back);
}}).listen({port}, "127.0.0.1");
"""
CONFIGS = {"nginx": NGINX, "haproxy": HAPROXY, "node": NODE}


class Contender:
    """A proxy before the server at an address."""

    def __init__(self, name, world, server):
        self.name, self.port = name, fixture.free_port()
        self.dir = tempfile.mkdtemp(prefix="survey-")
        crt, key = world.certs.crt("node-a"), world.certs.key("node-a")
        pem = os.path.join(self.dir, "both.pem")
        with open(pem, "w", encoding="ascii") as out:
            for part in (crt, key):
                with open(part, encoding="ascii") as source:
                    out.write(source.read())
        host, back = server
        config = os.path.join(self.dir, "config")
        with open(config, "w", encoding="ascii") as out:
            out.write(CONFIGS[name].format(dir=self.dir, host=host, back=back, port=self.port, crt=crt, key=key, pem=pem))
        command = {"nginx": ["nginx", "-c", config, "-p", self.dir], "haproxy": ["haproxy", "-db", "-f", config], "node": ["node", config]}[name]
        self.child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def listening():
            with socket.create_connection(("127.0.0.1", self.port)):
                return True
        fixture.until(listening, name)

    def close(self):
        self.child.kill()
        self.child.wait()
        shutil.rmtree(self.dir)


def rows(kind):
    """(name, bytes) of the unit tests' requests or answers."""
    seen = set(hostile.LIES) | {entry[0] for entry in table.VECTORS}
    for program in ("suites_request_test", "suites_message_test"):
        path = os.path.join(os.environ.get("top_builddir") or fixture.TREE, "tests/unit/http", program)
        told = subprocess.run([path], env=dict(os.environ, MVPROXY_TEST_ROWS="1"), capture_output=True, text=True, check=True).stdout
        for line in told.splitlines():
            if line.startswith("# %s " % kind):
                raw, _, name = line[len(kind) + 3:].partition(" ")
                while name in seen:
                    name += " again"
                seen.add(name)
                yield name, bytes.fromhex(raw)


def connect(world, port):
    return fixture.Raw(("127.0.0.1", port), world.certs.crt("ca"), (world.certs.crt("admin"), world.certs.key("admin")))


# ------------------------------------------------------------------------------------ requests


def whole(record):
    """Whether the server has read all of it. (That it serves nobody in particular, before the others, makes some a 403.)"""
    own = record["target"] in ("/api", "/apis")  # mvproxy's looks at the server
    return not own and not record["aborted"] and record["status"] != 400


class Row:
    """A vector of the unit tests, with a target whose body the server reads, if it has one that can be changed."""

    def __init__(self, number, name, raw):
        self.name, self.id = name, "row-%d" % number
        self.raw = re.sub(rb"(?m)^([A-Z]+) /([a-z]{0,3}) HTTP/", rb"\1 /sim/sink?v=%s&p=\2 HTTP/" % self.id.encode(), raw)

    def reached(self, records):
        return len([r for r in records if whole(r)]), 0

    def is_own(self, record):
        return "v=%s&" % self.id in record["target"]

    @property
    def has_id(self):
        return self.id.encode() in self.raw


class Vector(table.Case):
    """One of test_strict_http.py."""

    has_id = True

    def reached(self, records):
        """How many were read to their end; a body that breaks off is an aborted request to the server. And how many hidden ones."""
        hidden = [r for r in records if r["target"].endswith("hidden=" + self.id)]
        return len([r for r in records if r not in hidden and whole(r)]), len(hidden)

    def is_own(self, record):
        return record["target"].partition("v=")[2].partition("&")[0] == self.id or record["target"].endswith("hidden=" + self.id)


def exchange(world, port, raw):
    """The status codes of the answers, as far as they come within a moment."""
    try:
        client = connect(world, port)
    except OSError:
        return ["-"]
    with client:
        try:
            client.send(raw)
            client.sock.settimeout(0.15)
            while client.fill():
                client.sock.settimeout(0.05)
        except OSError:
            pass
        return re.findall(r"HTTP/1\.[01] ([1-9][0-9][0-9]) ", client.buffer.decode("latin-1")) or ["-"]


def settled(world, since):
    """The requests after that one, each to its end."""
    def ended():
        records = world.sim.requests(since=since)
        return (records,) if all(r["done"] for r in records) else None
    time.sleep(0.2)
    return fixture.until(ended, "requests to end")[0]


def survey_requests(world, port):
    """By vector: (what happened, statuses)."""
    world.sim.reset()
    cases = [Vector(number, "local", entry) for number, entry in enumerate(table.VECTORS)]
    cases += [Row(number, name, raw) for number, (name, raw) in enumerate(rows("request"))]
    out, reached = {}, {}
    for case in cases:  # first those without an ID: what comes is theirs
        if not case.has_id:
            since = world.sim.mark()
            out[case.name] = exchange(world, port, case.raw)
            reached[case.name] = settled(world, since)
    since = world.sim.mark()
    for case in cases:
        if case.has_id:
            out[case.name] = exchange(world, port, case.raw)
    records = settled(world, since)
    for case in cases:
        passed, hidden = case.reached([r for r in records if case.is_own(r)] if case.has_id else reached[case.name])
        out[case.name] = ("two" if passed > 1 or (passed and hidden) else "passed" if passed else "stopped", ",".join(out[case.name]))
    return out


# ------------------------------------------------------------------------------------ answers


def survey_answers(world, port):
    """By lie: (what the client had of it, status)."""
    out = {}
    for number, (name, (_, _, method, _)) in enumerate(hostile.LIES.items()):
        try:
            with connect(world, port) as client:
                client.sock.settimeout(2)
                out[name] = look(client, method, "/sim/whoami?lie=%d" % number)
        except Malformed:  # what the server wrote reaches a client as it is
            out[name] = ("malformed", "-")
        except (OSError, ValueError, IndexError):
            out[name] = ("none", "-")
    return out


def look(client, method, target):
    client.request("GET" if method == hostile.UPGRADING else method, target, hostile.UPGRADE if method == hostile.UPGRADING else None)
    try:
        answer = client.final_head()
    except Broken:
        return "none", "-"
    try:
        client.body(answer, method)
    except (Broken, OSError):
        return "broken", str(answer.status)
    if hostile.SECRET in answer.body:
        return "another's", str(answer.status)
    return "none" if answer.status in (500, 502, 503) else "whole", str(answer.status)


def tell(title, results):
    """A line of the table for each way in which they differ, with the statuses of mvproxy."""
    kinds = {}
    for name in results["mvproxy"]:
        seen = tuple(result[name][0] for result in results.values())
        if len(set(seen)) > 1:
            statuses, names = kinds.setdefault(seen, (set(), []))
            statuses.add(results["mvproxy"][name][1])
            names.append(name)
    differ = sum(len(names) for _, names in kinds.values())
    print("\n## %s: %d, they agree about %d\n" % (title, len(results["mvproxy"]), len(results["mvproxy"]) - differ))
    print("| %s | vectors |\n|%s" % (" | ".join(results), " --- |" * (len(results) + 1)))
    for seen, (statuses, names) in sorted(kinds.items(), key=lambda kind: -len(kind[1][1])):
        print("| %s %s | %s | %s |" % (seen[0], " ".join(sorted(statuses)), " | ".join(seen[1:]), "; ".join(names)), flush=True)


def survey(world, one, mvproxy, server):
    results = {"mvproxy": one(world, mvproxy)}
    for name in CONFIGS:
        contender = Contender(name, world, server)
        try:
            results[name] = one(world, contender.port)
        finally:
            contender.close()
    return results


def main():
    for name, raw in rows("answer"):
        hostile.lie(name, [raw, hostile.CLOSE], None, method="HEAD" if "HEAD" in name else "GET")
    world = hostile.setup()
    try:
        proxy, liar = world.proxies["a"].address[1], world.liars["local"].port
        tell("Answers", survey(world, survey_answers, proxy, ("127.0.0.1", liar)))
        proxy = world.proxies["a"]
        proxy.stop()
        proxy.options["apiserver"] = "https://%s:%d" % world.addresses["a"]
        proxy.start()
        tell("Requests", survey(world, survey_requests, proxy.address[1], world.addresses["a"]))
    finally:
        world.close()


if __name__ == "__main__":
    main()
