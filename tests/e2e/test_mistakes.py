#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mistakes of operators, and the line that `mvproxy -t` says to each: held against tests/e2e/mistakes.golden.

MVPROXY_UPDATE_GOLDEN=1 writes the file anew; read what changed before it is committed.
"""

import os
import re
import socket
import subprocess
import threading

import fixture
from fixture import check, equal

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mistakes.golden")


def setup():
    world = fixture.World({"a": "v1.33"})
    extra, folder = world.certs.extra, world.scratch
    extra("no-svc", "kube-apiserver", eku="serverAuth", sans=["localhost"])
    extra("ended", "kube-apiserver", eku="serverAuth", sans=["kubernetes.default.svc"], start="20200101000000Z", end="20200102000000Z")
    extra("future", "kube-apiserver", eku="serverAuth", sans=["kubernetes.default.svc"], start="20480101000000Z", end="20490101000000Z")
    extra("client-only", "kube-apiserver", eku="clientAuth", sans=["kubernetes.default.svc"])
    extra("proxy-ended", "front-proxy-client", ca="front-proxy-ca", start="20200101000000Z", end="20200102000000Z")
    extra("proxy-server", "front-proxy-client", ca="front-proxy-ca", eku="serverAuth")
    extra("proxy-foreign", "front-proxy-client", ca="foreign-ca")
    write(folder, "empty.crt", "")
    os.symlink("/nonexistent/control.sock", os.path.join(folder, "link"))
    write(folder, "half.crt", "-----BEGIN CERTIFICATE-----\nMIIB\n")
    write(folder, "junk.crt", "-----BEGIN CERTIFICATE-----\nbm90aGluZw==\n-----END CERTIFICATE-----\n")
    subprocess.run(["openssl", "ec", "-aes128", "-passout", "pass:x", "-in", world.certs.key("node-a"),
                    "-out", os.path.join(folder, "encrypted.key")], check=True, capture_output=True)
    return world


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="ascii") as out:
        out.write(text)


def mistakes(world):
    """(what is wrong, options that are changed (None: taken away) or lines that are added, arguments)"""
    crt, key, at = world.certs.crt, world.certs.key, lambda name: os.path.join(world.scratch, name)
    port = world.ports["a"]
    return [
        ("an option that does not exist", {"bind-adress": "10.0.0.1"}),
        ("an option of another program", {"listen-address": "10.0.0.1"}),
        ("a flag that does not exist", {}, "--confg=x"),
        ("a mode that does not exist", {}, "--verison"),
        ("a flag without its value", {}, "--v"),
        ("a stray argument", {}, "start"),
        ("a port that is none", {"secure-port": "https"}),
        ("a port that is too large", {"secure-port": 66443}),
        ("a duration without a unit", {"client-idle-timeout": 90}),
        ("a duration that is too short", {"discovery-refresh-interval": "1ms"}),
        ("a truth that is none", {"local-failover": "yes"}),
        ("a filter that is none", {"access-log": ["slow"]}),
        ("a choice that is none", {"logging-format": "xml"}),
        ("a name to listen on", {"bind-address": "cp-a"}),
        ("an address of another machine for the admin listener", {"admin-bind-address": "192.0.2.77:9443"}),
        ("the same address twice", {"bind-address": ["127.0.0.1", "127.0.0.1:%d" % port]}),
        ("itself as the API server", {"apiserver": "https://127.0.0.1:%d" % port}),
        ("itself by the wildcard address", {"bind-address": "0.0.0.0", "apiserver": "https://localhost:%d" % port}),
        ("itself by the machine's name", {"bind-address": "0.0.0.0", "apiserver": "https://%s:%d" % (socket.gethostname(), port)}),
        ("itself by a name in capitals", {"apiserver": "https://LOCALHOST:%d" % port}),
        ("itself by the address that is none", {"apiserver": "https://0.0.0.0:%d" % port}),
        ("itself as IPv6 writes IPv4", {"apiserver": "https://[::ffff:127.0.0.1]:%d" % port}),
        ("the clients' port for the admin listener", {"admin-bind-address": "127.0.0.1:%d" % port}),
        ("itself as a peer", {"peers": ["cp-b=127.0.0.1:%d" % port]}),
        ("itself as a peer, as IPv6 writes IPv4", {"peers": ["cp-b=[::FFFF:7F00:0001]:%d" % port]}),
        ("itself as a peer, by a name in capitals", {"peers": ["cp-b=LOCALHOST:%d" % port]}),
        ("the API server as a peer", {"apiserver": "https://127.0.0.1:6444", "peers": ["cp-b=127.0.0.1:6444"]}),
        ("the API server as a peer, as IPv6 writes IPv4", {"apiserver": "https://127.0.0.1:6444", "peers": ["cp-b=[::ffff:127.0.0.1]:6444"]}),
        ("the API server as a peer, by a name", {"apiserver": "https://127.0.0.1:6444", "peers": ["cp-b=LocalHost:06444"]}),
        ("the API server as a peer, by the long form", {"apiserver": "https://[::1]:6444", "peers": ["cp-b=[0:0:0:0:0:0:0:0001]:6444"]}),
        ("an API server without TLS", {"apiserver": "http://127.0.0.1:6443"}),
        ("a peer without a port", {"peers": ["cp-b=10.0.0.2"]}),
        ("a network that is none", {"peer-allowed-cidrs": ["10.0.0.0/40"]}),
        ("trusted proxies that are no networks", {"trusted-proxies": ["balancer"]}),
        ("half an address for peers", {"peer-advertise-ip": "10.0.0.1"}),
        ("a gate that does not exist", {"feature-gates": ["UnknownVersionInterop=true"]}),
        ("etcd without its CA", {"etcd-servers": ["https://10.0.0.1:2379"]}),
        ("a cipher suite that does not exist", {"tls-cipher-suites": ["AES128"]}),
        ("no serving certificate", {"tls-cert-file": None}),
        ("a certificate without its key", {"proxy-client-key-file": None}),
        ("a file that is not there", {"tls-cert-file": "/nonexistent/apiserver.crt"}),
        ("a folder for a file", {"client-ca-file": world.scratch}),
        ("an empty file", {"peer-ca-file": at("empty.crt")}),
        ("half a certificate", {"tls-cert-file": at("half.crt")}),
        ("no certificate in PEM's clothes", {"apiserver-ca-file": at("junk.crt")}),
        ("certificate and key swapped", {"tls-cert-file": key("node-a"), "tls-private-key-file": crt("node-a")}),
        ("the key of another certificate", {"tls-private-key-file": key("node-b")}),
        ("a key for the control socket", {"control-socket": key("node-a")}),
        ("a folder for the control socket", {"control-socket": world.scratch}),
        ("a symbolic link for the control socket", {"control-socket": at("link")}),
        ("an encrypted key", {"tls-private-key-file": at("encrypted.key")}),
        ("a serving certificate that has ended", {"tls-cert-file": crt("ended"), "tls-private-key-file": key("ended")}),
        ("one that has not begun", {"tls-cert-file": crt("future"), "tls-private-key-file": key("future")}),
        ("one that peers will refuse", {"tls-cert-file": crt("no-svc"), "tls-private-key-file": key("no-svc")}),
        ("a client's certificate to serve with", {"tls-cert-file": crt("client-only"), "tls-private-key-file": key("client-only")}),
        ("a front-proxy certificate that has ended",
         {"proxy-client-cert-file": crt("proxy-ended"), "proxy-client-key-file": key("proxy-ended")}),
        ("a server's certificate as the front proxy's",
         {"proxy-client-cert-file": crt("proxy-server"), "proxy-client-key-file": key("proxy-server")}),
        ("a front-proxy certificate that nobody believes",
         {"proxy-client-cert-file": crt("proxy-foreign"), "proxy-client-key-file": key("proxy-foreign")}),
        ("the clients' CA as the front-proxy CA",
         {"requestheader-client-ca-file": crt("ca"), "requestheader-allowed-names": [],
          "proxy-client-cert-file": crt("admin"), "proxy-client-key-file": key("admin")}),
        ("a user's certificate as the front proxy's", {"proxy-client-cert-file": crt("admin"), "proxy-client-key-file": key("admin")}),
        ("a server's certificate as the clients' CA", {"client-ca-file": crt("node-a")}),
        ("the two CAs swapped", {"client-ca-file": crt("front-proxy-ca"), "requestheader-client-ca-file": crt("ca")}),
        ("the admin listener as the API server", {"apiserver": "https://127.0.0.1:9443", "admin-bind-address": "127.0.0.1:9443"}),
        ("the admin listener where clients are served, by the wildcard", {"admin-bind-address": "0.0.0.0:%d" % port}),
        ("the admin listener as etcd", {"etcd-servers": ["https://127.0.0.1:9443"], "etcd-cafile": crt("ca"), "admin-bind-address": "127.0.0.1:9443"}),
        ("the API server as etcd", {"etcd-servers": ["https://127.0.0.1:6444"], "etcd-cafile": crt("ca"), "apiserver": "https://127.0.0.1:6444"}),
        ("an address and the wildcard that has it", {"bind-address": ["0.0.0.0", "10.0.0.1"]}),
        ("both wildcards", {"bind-address": ["::", "0.0.0.0"]}),
        ("IPv6 in brackets without a port", {"bind-address": "[2001:db8::1]"}),
        ("an address of many", {"bind-address": "224.0.0.1"}),
        ("a URL for a peer", {"peers": ["cp-b=https://10.0.0.2:6443"]}),
        ("an API server with a path", {"apiserver": "https://127.0.0.1:6444/api"}),
        ("a port alone for the admin listener", {"admin-bind-address": "9443"}),
        ("port 0 of the API server", {"apiserver": "https://127.0.0.1:0"}),
        ("HTTP's own header for names", {"requestheader-username-headers": ["Authorization"]}),
        ("a header's name with blanks", {"requestheader-username-headers": ["X Remote User"]}),
        ("etcd's prefix without its slash", {"etcd-servers": ["http://10.0.0.1:2379"], "etcd-prefix": "registry/"}),
        ("half of a pair by name", {"tls-sni-cert-key": [crt("node-a")]}),
        ("the key of another certificate by name", {"tls-sni-cert-key": ["%s,%s:a.example" % (crt("node-a"), key("node-b"))]}),
        ("a path that a shell would have to read", {"client-ca-file": "~/ca.crt"}),
        ("an entry of a list in lines of its own", "tls-cipher-suites:\n- TLS_AES_128_GCM_SHA256\n- AES128\n"),
        ("an option twice", "v: 2\nv: 3\n"),
        ("a mapping for a value", "tls-min-version:\n  lowest: VersionTLS12\n"),
        ("a mapping for a list", "trusted-proxies:\n  balancer: 10.0.0.2\n"),
        ("a value that lacks", "tls-min-version:\n"),
        ("a quote that does not end", "tls-min-version: \"VersionTLS12\n"),
        ("a bracket that does not end", "tls-cipher-suites: [TLS_AES_128_GCM_SHA256\nlogging-format: text\n"),
        ("a tab", "tls-cipher-suites:\n\t- TLS_AES_128_GCM_SHA256\n"),
        ("no blank behind the colon", "tls-min-version:VersionTLS12\nlogging-format: text\n"),
        ("an equals sign for the colon", "tls-min-version=VersionTLS12\nlogging-format: text\n"),
        ("a line that is indented", "logging-format: text\n tls-min-version: VersionTLS12\n"),
        ("marks of a merge", "<<<<<<< HEAD\nlogging-format: text\n=======\nlogging-format: json\n>>>>>>> other\n"),
        ("a special blank", "tls-min-version:\u00a0VersionTLS12\nlogging-format: text\n"),
        ("a byte of another encoding", b"# M\xfcller\n"),
        ("a control character", "logging-format: te\0xt\n"),
        ("a template that was not filled in", "tls-min-version: {{ version }}\n"),
        ("a value that begins as none may", "logging-format: @text\n"),
    ]


def said(world, change, argument=None, status=(1, 2)):
    """What -t says, with what differs from run to run replaced by a word."""
    options, raw = (change, b"") if isinstance(change, dict) else ({}, change if isinstance(change, bytes) else change.encode())
    options = {k: v for k, v in dict(world.options("a"), **options).items() if v is not None}
    if raw:
        del options["v"]
    path = os.path.join(world.scratch, "wrong.yaml")
    with open(path, "wb") as out:
        out.write(fixture.yaml(options).encode() + raw)
    argv = [fixture.mvproxy_binary(), "--config", path, "-t"] + ([argument] if argument else [])
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=fixture.PATIENCE)
    check(done.returncode in status, change, argument, "exit status", done.returncode, done.stdout)
    for alarm in fixture.ALARMS:
        check(alarm not in done.stderr, done.stderr)
    text = done.stderr.replace(path, "FILE").replace(world.scratch, "DIR").replace(world.certs.dir, "CERTS")
    text = text.replace("DIR/certs", "CERTS").replace(str(world.ports["a"]), "PORT").replace(socket.gethostname(), "HOST")
    return re.sub(r"FILE:\d+:", "FILE:N:", text)


def test_golden(world):
    """each mistake is answered as the golden file has it: one line that says where, what, and what to do"""
    out = "".join("# %s\n%s\n" % (row[0], said(world, *row[1:])) for row in mistakes(world))
    fixture.golden(GOLDEN, out)
    check(len(mistakes(world)) >= 40, "forty of them")


def test_doubtful(world):
    """what may be meant is valid, and said all the same"""
    for change, line in (({"requestheader-allowed-names": ["other"]},
                          "warning: FILE:N:1: requestheader-allowed-names: does not have front-proxy-client, the name of proxy-client-cert-file: "
                          "peers that are configured likewise do not believe us: add it, as kube-apiserver has it\n"),
                         ({"control-socket": "/nonexistent/control.sock"},
                          "warning: FILE:N:1: control-socket: /nonexistent: No such file or directory: make that folder\n"),
                         ({"control-socket": "/run/mvproxy/control.sock", "requestheader-allowed-names": ["a", "front-proxy-client"]}, "")):
        equal(said(world, change, status=(0,)), line, change)


def test_form(world):
    """no mistake is answered with more than two lines, with words of OpenSSL, or without the option's name"""
    for name, change, *argument in mistakes(world):
        lines = said(world, change, *argument).splitlines()
        check(1 <= len(lines) <= 2, name, lines)
        for word in ("PEM routines", "start line", "asn1", "error:", "EVP_", "x509 cert"):
            check(word not in "\n".join(lines), name, lines)
        for line in lines:
            # A place, what is wrong, and what to do or what is meant; "is required" has no place.
            check(len(re.split(r": (?!VALUE)", line)) >= 3 or "swapped" in line, name, line)
        if not isinstance(change, dict):
            continue
        options = list(change) or [a.split("=")[0] for a in argument]
        check(any(o in "\n".join(lines) for o in options), name, lines)


def warned(world, change):
    """What -t warns of and takes."""
    path = os.path.join(world.scratch, "doubtful.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(fixture.yaml({k: v for k, v in dict(world.options("a"), **change).items() if v is not None}))
    done = subprocess.run([fixture.mvproxy_binary(), "--config", path, "-t"], capture_output=True, text=True, check=False, timeout=fixture.PATIENCE)
    equal(done.returncode, 0, done.stderr)
    return done.stderr


def test_warnings(world):
    """what works today and not after the next renewal, or for nobody with a certificate, is warned of"""
    crt = world.certs.crt
    equal(warned(world, {}), "", "nothing is wrong")
    check("apiserver-ca-file: %s has no certificate of a CA" % crt("node-a") in warned(world, {"apiserver-ca-file": crt("node-a")}), "a server's certificate")
    check("peer-ca-file: %s has no certificate of a CA" % crt("node-a") in warned(world, {"peer-ca-file": crt("node-a")}), "a peer's certificate")
    check("client-ca-file: %s is the front-proxy CA" % crt("front-proxy-ca") in warned(world, {"client-ca-file": crt("front-proxy-ca")}), "the front-proxy CA")


DOUBTS = [
    ({"peers": ["cp-b=10.0.0.2:6443"]}, r"FILE:N:9: peers: 10\.0\.0\.2 is not in peer-allowed-cidrs, and dialled all the same, .*: take "),
    ({"peers": ["cp-b=127.0.0.5:6443"], "peer-allowed-cidrs": []}, r"FILE:N:9: peers: 127\.0\.0\.5 is no address of another machine .*: give "),
    ({"peers": ["cp-b=127.0.0.5:1", "cp-b=127.0.0.6:1"]}, r"FILE:N:29: peers: cp-b is named twice, and only the last address is used: take one out"),
    ({"peers": ["cp-b=127.0.0.5:6443", "cp-c=127.0.0.5:6443"]}, r"FILE:N:32: peers: 127\.0\.0\.5:6443 is the address of cp-b, too, .*: give each its own"),
    ({"tls-cipher-suites": ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA"]},
     r"FILE:N:62: tls-cipher-suites: TLS_RSA_WITH_AES_128_CBC_SHA is insecure: take it out"),
    ({"access-log-sample": 10, "access-log": ["errors"]}, r"FILE:N:1: access-log-sample: has no effect without all in access-log"),
    ({"access-log-user": True}, r"FILE:N:1: access-log-user: has no effect without access-log: give it"),
    ({"requestheader-client-ca-file": None}, r"requestheader-client-ca-file: none: .*: give kube-apiserver's --requestheader-client-ca-file"),
    ({"client-ca-file": None}, r"client-ca-file: none: users with certificates are refused: give kube-apiserver's --client-ca-file"),
    ({"trusted-proxies": ["10.0.0.1", "0.0.0.0/0"]}, r"FILE:N:31: trusted-proxies: 0\.0\.0\.0/0 is everybody, .*: give "),
    ({"trusted-proxies": ["::/0"]}, r"FILE:N:19: trusted-proxies: ::/0 is everybody, .*: give "),
    ({"trusted-proxies": ["10.0.0.5/8"]}, r"FILE:N:19: trusted-proxies: 10\.0\.0\.5/8 means all of 10\.0\.0\.0/8: write that, or 10\.0\.0\.5 alone "),
    ({"peer-allowed-cidrs": ["127.0.0.0/8", "fd00::1/64"]}, r"FILE:N:\d+: peer-allowed-cidrs: fd00::1/64 means all of fd00::/64: "),
    ({"apiserver-user": "system:mvproxy"}, r"FILE:N:1: apiserver-user: system:mvproxy is in system:masters, .*: give apiserver-groups"),
    ({"requestheader-group-headers": ["X-Remote-User"]}, r"FILE:N:31: requestheader-group-headers: X-Remote-User is in requestheader-username-headers"),
    ({"peer-advertise-ip": "127.0.0.1", "peer-advertise-port": 6443}, r"FILE:N:1: peer-advertise-ip: peers on other machines do not reach 127\.0\.0\.1: give "),
    ({"hostname-override": "cp..a/x"}, r"FILE:N:1: hostname-override: \"cp\.\.a/x\" is not a host's name, .*: give "),
    ({"etcd-cafile": "CA"}, r"FILE:N:1: etcd-cafile: has no effect without etcd-servers: give them"),
    ({"tls-sni-cert-key": ["CRT(ended),KEY(ended):a.example"]}, r"FILE:N:20: tls-sni-cert-key: CERTS/ended\.crt expired at 2020-.*: renew it"),
    ({"tls-sni-cert-key": ["CRT(node-a),KEY(node-a):exa mple.com"]}, r"FILE:N:20: tls-sni-cert-key: \"exa mple\.com\" is a name that no client asks for: "),
    ({"control-socket": "mv.sock"}, r"FILE:N:1: control-socket: mv\.sock is no whole path, .*: begin it with /"),
    ({"control-socket": "/run/mvproxy/" + "x" * 87}, r"FILE:N:1: control-socket: /run/mvproxy/x+ is longer than 99 characters, .*: give a shorter one"),
]


def test_dangerous(world):
    """what is dangerous, without effect or not meant is warned of, each in one line; it is valid all the same"""
    def fill(value):
        if isinstance(value, list):
            return [fill(v) for v in value]
        if value == "CA":
            return world.certs.crt("ca")
        text = re.sub(r"CRT\(([a-z-]+)\)", lambda m: world.certs.crt(m.group(1)), value) if isinstance(value, str) else value
        return re.sub(r"KEY\(([a-z-]+)\)", lambda m: world.certs.key(m.group(1)), text) if isinstance(text, str) else text

    for change, pattern in DOUBTS:
        lines = said(world, {k: fill(v) for k, v in change.items()}, status=(0,)).splitlines()
        check(len(lines) == 1 and re.match("warning: " + pattern, lines[0]), change, lines)


def test_all_at_once(world):
    """mistakes of every kind in one file are told in one run, each once"""
    lines = said(world, {"secure-port": "abc", "tls-cert-file": "/x", "bind-address": "foo", "peerz": "a", "v": "x", "peers": ["b"],
                         "trusted-proxies": ["0.0.0.0/0"]}).splitlines()
    equal(len(lines), len(set(lines)), lines)
    for option in ("secure-port", "tls-cert-file", "bind-address", "peerz", "v", "peers", "trusted-proxies"):
        equal(len([line for line in lines if re.match(r"(warning: )?FILE:N:\d+: %s: " % option, line)]), 1, option + " in " + repr(lines))


def test_shown(world):
    """an API server that runs already is asked for its certificate: one that apiserver-ca-file has not signed is told of, in place"""
    world.start()
    equal(warned(world, {}), "", "it is believed")
    answer = said(world, {"apiserver-ca-file": world.certs.crt("foreign-ca")})
    check(re.search(r"^FILE:N:\d+: apiserver-ca-file: the certificate that https://\S+ shows is not believed \(.*\): give the CA", answer), answer)
    answer = said(world, {"apiserver-tls-server-name": "another.example"})
    check("is not believed" in answer, answer)
    answer = said(world, {"apiserver": "https://127.0.0.1:%d" % world.ports["a"], "secure-port": fixture.free_port()})
    check(re.search(r"^FILE:N:\d+: apiserver: at https://\S+ an mvproxy answers, not a kube-apiserver, .*: let it lead to", answer), answer)
    equal(len(answer.splitlines()), 1, answer)


def test_plain(world):
    """what answers at the API server's address and speaks plain HTTP is named so"""
    def answer(listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):  # closed with something unread, it would be a reset
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
        port = listener.getsockname()[1]
        lines = said(world, {"apiserver": "https://127.0.0.1:%d" % port}).splitlines()
        listener.shutdown(socket.SHUT_RDWR)
    equal(lines, ["FILE:N:1: apiserver: what answers at https://127.0.0.1:%d does not speak TLS: "
                  "give kube-apiserver's own address and --secure-port" % port], "said")


def test_user(world):
    """files that the service's user cannot read are named, if that user exists and root asks"""
    if os.geteuid() != 0 or subprocess.run(["id", "mvproxy"], capture_output=True, check=False).returncode != 0:
        return
    options = world.options("a")
    locked = os.path.join(world.scratch, "locked.key")
    with open(options["tls-private-key-file"], encoding="ascii") as key, open(locked, "w", encoding="ascii") as out:
        out.write(key.read())
    os.chmod(locked, 0o600)
    answer = said(world, {"tls-private-key-file": locked})
    check("the user mvproxy" in answer and "setfacl -m u:mvproxy:r" in answer, answer)


if __name__ == "__main__":
    fixture.main(globals())
