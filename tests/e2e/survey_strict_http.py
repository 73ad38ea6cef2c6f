#!/usr/bin/env python3
"""The table of test_strict_http.py sent to nginx, haproxy and Node's http module before the same simulated server: what reaches it.
Prints one line per vector on which they differ from mvproxy (docs/strict-http.md is made of it).

    top_builddir=... tests/e2e/survey_strict_http.py
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

import fixture
import test_strict_http as table

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
    """A proxy before the simulated server a."""

    def __init__(self, name, world):
        self.name, self.port = name, fixture.free_port()
        self.dir = tempfile.mkdtemp(prefix="survey-")
        crt, key = world.certs.crt("node-a"), world.certs.key("node-a")
        pem = os.path.join(self.dir, "both.pem")
        with open(pem, "w", encoding="ascii") as out:
            for part in (crt, key):
                with open(part, encoding="ascii") as source:
                    out.write(source.read())
        host, back = world.addresses["a"]
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


def exchange(world, port, raw):
    """The status codes of the answers, as far as they come within a moment."""
    try:
        client = fixture.Raw(("127.0.0.1", port), world.certs.crt("ca"), (world.certs.crt("admin"), world.certs.key("admin")))
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


def survey(world, name, port):
    """By vector: (statuses, requests that reached the server, hidden requests that did)."""
    world.sim.reset()
    cases = [table.Case(number, "local", entry) for number, entry in enumerate(table.VECTORS)]
    statuses = [exchange(world, port, case.raw) for case in cases]
    records = world.sim.requests()
    out = {}
    for case, seen in zip(cases, statuses):
        # What a server read to its end; a body that breaks off is an aborted request to it.
        mine = [r for r in records if r["target"].partition("v=")[2].partition("&")[0] == case.id and r["status"] == 200 and not r["aborted"]]
        hidden = [r for r in records if r["target"].endswith("hidden=" + case.id)]
        out[case.name] = (",".join(seen), len(mine), len(hidden))
    sys.stderr.write("%s: %d requests reached the server, %d hidden ones\n" % (
        name, sum(v[1] for v in out.values()), sum(v[2] for v in out.values())))
    return out


def main():
    world = fixture.World({"a": "v1.33"}).start()
    results = {"mvproxy": survey(world, "mvproxy", world.proxies["a"].address[1])}
    try:
        for name in CONFIGS:
            contender = Contender(name, world)
            results[name] = survey(world, name, contender.port)
            contender.close()
    finally:
        world.close()
    for vector in results["mvproxy"]:
        reached = {name: result[vector] for name, result in results.items()}
        if len({r[1:] for r in reached.values()}) > 1:
            print("| %s | %s |" % (vector, " | ".join("%s %s" % (
                "two" if r[2] and r[1] else "passed" if r[1] else "stopped", r[0]) for r in reached.values())))


if __name__ == "__main__":
    main()
