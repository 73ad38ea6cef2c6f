# SPDX-License-Identifier: Apache-2.0
"""The proxies that are compared, each with the configuration that makes it do the same work.

All: TLS 1.3 on both sides with one cipher, keep-alive and pools on both sides, client certificates asked for but not required, the
server's certificate verified, one worker, no access log, the client's address appended to X-Forwarded-For. Whoever speaks HTTP/2 to
servers takes part twice, with it and without: which is better depends on the case, and the ratio is to the best of all.
"""

import os
import re

from harness.daemon import Daemon
from harness.node import PORT, yaml

NGINX_COMMON = """
daemon off;
user root;
worker_processes 1;
error_log stderr error;
pid %(dir)s/%(name)s.pid;
events { worker_connections 8192; }
http {
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 300s;
    client_body_temp_path %(dir)s/%(name)s-body;
    proxy_temp_path %(dir)s/%(name)s-proxy;
    fastcgi_temp_path %(dir)s/%(name)s-f;
    uwsgi_temp_path %(dir)s/%(name)s-u;
    scgi_temp_path %(dir)s/%(name)s-s;
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
    ssl_session_cache off;
    ssl_certificate %(crt)s;
    ssl_certificate_key %(key)s;
    ssl_client_certificate %(ca)s;
    ssl_verify_client optional;
"""

NGINX_PROXY = NGINX_COMMON + """
    map $http_upgrade $hop { default upgrade; "" ""; }
    upstream server { server %(server)s; keepalive 256; keepalive_requests 1000000000; keepalive_timeout 300s; }
    upstream other { server %(other)s; keepalive 256; keepalive_requests 1000000000; keepalive_timeout 300s; }
    server {
        listen %(listen)s ssl http2 backlog=4096;
        proxy_http_version 1.1;
        proxy_set_header Connection $hop;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_ssl_verify on;
        proxy_ssl_trusted_certificate %(ca)s;
        proxy_ssl_name kubernetes.default.svc;
        proxy_ssl_server_name on;
        proxy_ssl_protocols TLSv1.3;
        proxy_ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
        proxy_buffers 8 32k;
        proxy_max_temp_file_size 0;
        location / { proxy_pass https://server; }
        location /apis/resource.k8s.io/ { proxy_pass https://other; }
    }
}
"""

# The server behind all of them: the bodies that are measured are files; whatever else mvproxy asks for comes from the simulator.
NGINX_BACKEND = NGINX_COMMON + """
    map $http_upgrade $hop { default upgrade; "" ""; }
    upstream simulator { server %(simulator)s; keepalive 16; }
    server {
        listen %(listen)s ssl http2 backlog=4096;
        http2_max_concurrent_streams 250;
        http2_chunk_size 16k;
        root %(dir)s/bodies;
        sendfile_max_chunk 64k;
        location /api/v1/namespaces/bench/configmaps/ { default_type application/json; }
        location /apis/resource.k8s.io/v1/deviceclasses/ { default_type application/json; }
        location / {
            proxy_pass https://simulator;
            proxy_http_version 1.1;
            proxy_set_header Connection $hop;
            proxy_set_header Upgrade $http_upgrade;
            proxy_buffering off;
            proxy_read_timeout 1h;
            proxy_ssl_certificate %(proxy_crt)s;
            proxy_ssl_certificate_key %(proxy_key)s;
        }
    }
}
"""

HAPROXY = """
global
    nbthread 1
    maxconn 4096
    ssl-default-bind-options ssl-min-ver TLSv1.2
    ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256
    ssl-default-server-ciphersuites TLS_AES_128_GCM_SHA256
    tune.ssl.cachesize 0
defaults
    mode http
    timeout connect 5s
    timeout client 300s
    timeout server 300s
    timeout tunnel 300s
    http-reuse always
    option forwardfor
frontend front
    bind %(listen)s ssl alpn h2,http/1.1 crt %(pem)s ca-file %(ca)s verify optional crt-ignore-err all ca-ignore-err all no-tls-tickets
    use_backend other if { path_beg /apis/resource.k8s.io/ }
    default_backend back
    %(more)s
backend back
    server it %(server)s ssl ca-file %(ca)s verify required verifyhost kubernetes.default.svc sni str(kubernetes.default.svc) ssl-min-ver TLSv1.3 alpn %(alpn)s
backend other
    server it %(other)s ssl ca-file %(ca)s verify required verifyhost kubernetes.default.svc sni str(kubernetes.default.svc) ssl-min-ver TLSv1.3 alpn %(alpn)s
"""


class Contender:
    """A proxy that listens on an address of its own, pinned to one core. The family is what a case says it is for."""

    def __init__(self, name, family, address, daemon, version):
        self.name = name
        self.family = family
        self.address = address
        self.daemon = daemon
        self.version = version

    def pids(self):
        """The process and its children: where the work is done differs."""
        found = [self.daemon.pid]
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open("/proc/%s/stat" % entry, encoding="ascii", errors="replace") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == self.daemon.pid:
                found.append(int(entry))
        return found


def pinned(name, argv, logs, core, hostname=None):
    """A Daemon that runs on one core only."""
    return Daemon(name, ["taskset", "-c", str(core), *argv], logs, hostname=hostname)


def write(path, text):
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(text)
    return path


class Rival:
    """One row of RIVALS: a program in one configuration."""

    def __init__(self, name, family, program, alpn):
        self.name = name
        self.family = family
        self.program = program  # a key of what Maker was given
        self.alpn = alpn        # what is spoken to the server


RIVALS = [
    Rival("nginx", "nginx", "nginx", "http/1.1"),  # it speaks HTTP/2 to servers from 1.29.4 on, which Debian does not have
    Rival("haproxy", "haproxy", "haproxy", "http/1.1"),
    Rival("haproxy, h2", "haproxy", "haproxy", "h2"),
    Rival("haproxy 3", "haproxy", "haproxy3", "http/1.1"),
    Rival("haproxy 3, h2", "haproxy", "haproxy3", "h2"),
    Rival("nghttpx", "nghttpx", "nghttpx", "http/1.1"),
    Rival("nghttpx, h2", "nghttpx", "nghttpx", "h2"),
]


class Maker:
    """Makes contenders that forward to one server, and to another one what only that has (the simulator's 1.34)."""

    def __init__(self, directory, logs, pki, serving, core):
        self._dir = directory
        self._logs = logs
        self._pki = pki
        self._serving = serving  # name of the certificate
        self._core = core

    def rival(self, rival, program, address, server, other, token=None):
        """token: haproxy shows it to the server for whoever asks."""
        name = rival.name.replace(", ", "-").replace(" ", "")
        words = {"dir": self._dir, "name": name, "listen": "%s:%d" % (address, PORT), "ca": self._pki.crt("ca"),
                 "crt": self._pki.crt(self._serving), "key": self._pki.key(self._serving), "server": server, "other": other,
                 "alpn": rival.alpn, "more": "http-request set-header Authorization 'Bearer %s'" % token if token else ""}
        argv, flag = getattr(self, "_" + rival.family)(program, words)
        return Contender(rival.name, rival.family, address, pinned(name, argv, self._logs, self._core), version_of(program, flag))

    def _config(self, words, text):
        return write(os.path.join(self._dir, words["name"] + ".conf"), text % words)

    def _nginx(self, program, words):
        return [program, "-c", self._config(words, NGINX_PROXY)], "-v"

    def _haproxy(self, program, words):
        with open(words["crt"], encoding="ascii") as crt, open(words["key"], encoding="ascii") as key:
            words["pem"] = write(os.path.join(self._dir, words["name"] + ".pem"), crt.read() + key.read())
        return [program, "-db", "-f", self._config(words, HAPROXY)], "-v"

    def _nghttpx(self, program, words):
        return [program, "--conf=/dev/null", "--workers=1", "--single-process", "--frontend=" + ",".join(words["listen"].split(":")),
                "--backend=%s;;proto=%s;tls;sni=kubernetes.default.svc" % (",".join(words["server"].split(":")), words["alpn"]),
                "--cacert=" + words["ca"], "--tls13-ciphers=TLS_AES_128_GCM_SHA256",
                "--tls13-client-ciphers=TLS_AES_128_GCM_SHA256", "--add-x-forwarded-for", "--backend-connections-per-host=256",
                "--errorlog-file=/dev/stderr", "--accesslog-file=/dev/null", "--no-ocsp", words["key"], words["crt"]], "--version"

    def backend(self, program, name, address, simulator, core):
        words = {"dir": self._dir, "name": name, "listen": "%s:%d" % (address, PORT), "ca": self._pki.crt("ca"),
                 "crt": self._pki.crt(self._serving), "key": self._pki.key(self._serving), "simulator": simulator,
                 "proxy_crt": self._pki.crt("front-proxy-client"), "proxy_key": self._pki.key("front-proxy-client")}
        # The backend is told of certificates by those that have one, and asks nobody for his identity.
        config = write(os.path.join(self._dir, name + ".conf"), NGINX_BACKEND.replace(
            "ssl_verify_client optional", "ssl_verify_client optional_no_ca") % words)
        return pinned(name, [program, "-c", config], self._logs, core)

    def mvproxy(self, name, program, address, server, admin, peers):
        pki = self._pki
        config = write(os.path.join(self._dir, name + ".yaml"), yaml({
            "bind-address": address, "secure-port": PORT,
            "tls-cert-file": pki.crt(self._serving), "tls-private-key-file": pki.key(self._serving),
            "client-ca-file": pki.crt("ca"), "requestheader-client-ca-file": pki.crt("front-proxy-ca"),
            "requestheader-allowed-names": ["front-proxy-client"],
            "proxy-client-cert-file": pki.crt("front-proxy-client"), "proxy-client-key-file": pki.key("front-proxy-client"),
            "apiserver": "https://" + server, "apiserver-ca-file": pki.crt("ca"), "peer-ca-file": pki.crt("ca"),
            "peers": peers, "admin-bind-address": admin,
        }))
        return Contender(name, "mvproxy", address, pinned(name, [program, "--config", config], self._logs, self._core, hostname="local"),
                         version_of(program, "--version"))


def version_of(program, flag):
    """The first number of the form 1.2.3 that the program says of itself."""
    import subprocess
    done = subprocess.run([program, flag], capture_output=True, text=True, check=False)
    found = re.search(r"\d+\.\d+(\.\d+)?", done.stdout + done.stderr)
    return found.group(0) if found else "?"
