#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A configuration with an error never starts; every error is one clear line with its place."""

import os
import pwd
import re
import socket
import subprocess

import fixture
from activated import inherit
from fixture import check, equal


def setup():
    return fixture.World({"a": "v1.33"}).start()


def run(world, text=None, *arguments, name="bad.yaml"):
    """Run the daemon to its end: (exit status, standard output, standard error)."""
    path = os.path.join(world.scratch, name)
    argv = [fixture.mvproxy_binary()]
    if text is not None:
        with open(path, "wb") as out:
            out.write(text if isinstance(text, bytes) else text.encode())
        argv += ["--config", path]
    done = subprocess.run(argv + list(arguments), stdin=subprocess.DEVNULL, capture_output=True, check=False,
                          timeout=fixture.PATIENCE)
    errors = done.stderr.decode(errors="replace")
    for alarm in fixture.ALARMS:
        check(alarm not in errors, errors)
    return done.returncode, done.stdout.decode(errors="replace"), errors.replace(path, "FILE")


def good(world, **changes):
    """A configuration that would start, with changes; None takes an option away."""
    options = dict(world.options("a"), **{k.replace("_", "-"): v for k, v in changes.items()})
    options["secure-port"] = changes.get("secure_port", fixture.free_port())
    return fixture.yaml({k: v for k, v in options.items() if v is not None})


def test_good(world):
    """a good configuration passes -t, silently, without being started"""
    status, out, errors = run(world, good(world), "-t")
    equal((status, errors), (0, ""), "-t " + out)


def test_no_file(world):
    """without a configuration file the first line says which one is not there"""
    status, out, errors = run(world, None, "-t")
    equal((status, out), (1, ""), errors)
    # A machine of developers might have one.
    if "mvproxy.yaml:" not in errors:
        check(re.match(r"no configuration file: /\S+/mvproxy\.yaml is not there: write it, or give --config FILE\n", errors), errors)


def test_lacking(world):
    """what may lack, and without which much does not work, is a warning with its remedy"""
    status, out, errors = run(world, good(world, peer_ca_file=None), "-t")
    equal((status, out), (0, "configuration is valid\n"), errors)
    check(re.fullmatch(r"warning: peer-ca-file: none: .*: give the CA .*\n", errors), errors)
    status, out, errors = run(world, good(world, proxy_client_cert_file=None, proxy_client_key_file=None), "-t")
    equal((status, out), (0, "configuration is valid\n"), errors)
    check(re.fullmatch(r"warning: proxy-client-cert-file: none: .*: give kube-apiserver's front-proxy pair\n", errors), errors)


def test_balancers_of_peers(world):
    """networks of balancers in which a peer is: its connections have no PROXY header"""
    status, out, errors = run(world, good(world, proxy_protocol_from=["10.0.0.0/24"], peers=["cp-b=10.0.0.2:6443", "cp-c=10.0.1.3:6443"],
                                         peer_allowed_cidrs=[]), "-t")
    equal((status, out), (0, "configuration is valid\n"), errors)
    check(re.fullmatch(r"warning: \S+:\d+:1: proxy-protocol-from: has 10.0.0.2, the peer cp-b, .*: give the balancer an address of its own\n", errors), errors)


def test_escapes(world):
    """what a terminal would act upon is not printed, of values and of keys"""
    for text in ('bind-address: "\\e[2J\\x07"\n', '"\\e[2Jx": 1\n', 'peers: ["\\u202ea=b"]\n'):
        for mode in ("-t", "--dump-config"):
            status, out, errors = run(world, text, mode)
            check(status > 0 and errors, text, mode)
            check(not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", out + errors), repr(errors))


def test_unreadable(world):
    """a file that the asking user may not read has another remedy than a wrong path"""
    locked = os.path.join(world.scratch, "locked")
    os.makedirs(locked, exist_ok=True)
    key = os.path.join(locked, "a.key")
    with open(world.certs.key("node-a"), encoding="ascii") as known, open(key, "w", encoding="ascii") as out:
        out.write(known.read())
    os.chmod(key, 0)
    path = os.path.join(world.scratch, "locked.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(good(world, tls_private_key_file=key))
    argv = [fixture.mvproxy_binary(), "--config", path, "-t"]
    if os.geteuid() == 0:  # without the right to read anything
        argv = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *argv]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=fixture.PATIENCE)
    said = [line for line in done.stderr.splitlines() if "tls-private-key-file" in line]
    check(len(said) == 1 and "%s: Permission denied: run this as root, or let the user" % key in said[0], done.stderr)
    os.chmod(path, 0)
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=fixture.PATIENCE)
    mine = "let the user %s, as whom this process runs, read it, or run it as root"
    equal(done.stderr, "%s: Permission denied: %s\n" % (path, "let the user that the service runs as read it" if os.geteuid() == 0 else mine % pwd.getpwuid(os.geteuid()).pw_name),
          "the configuration itself")
    if os.geteuid() == 0:  # as a reload that root asks for is read by the service's user
        argv = ["setpriv", "--reuid=65534", "--clear-groups", *argv[2:]]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=fixture.PATIENCE)
        equal(done.stderr, "%s: Permission denied: %s\n" % (path, mine % pwd.getpwuid(65534).pw_name), "who reads it is named")


# What is wrong, and where it must be said to be: (text, [pattern of one line ...]).
PLACES = [
    ("nonsense: 1\n", [r"^FILE:1:1: .*nonsense"]),
    ("v: 2\n\nnonsense: 1\n", [r"^FILE:3:1: .*nonsense"]),
    ("v: 2\nv: 3\n", [r"^FILE:2:1: .*v.*repeated"]),
    ("secure-port: x\n", [r"^FILE:1:14: secure-port.*x"]),
    ("secure-port: 65536\n", [r"^FILE:1:14: secure-port"]),
    ("secure-port: -1\n", [r"^FILE:1:14: secure-port"]),
    ("secure-port:\n", [r"^FILE:1:13: .*missing"]),
    ("peer-stale-after: 5 apples\n", [r"^FILE:1:19: peer-stale-after"]),
    ("peer-stale-after: [1s]\nv: {a: b}\n", [r"^FILE:1:1: peer-stale-after", r"^FILE:2:4: "]),
    ("local-failover: perhaps\n", [r"^FILE:1:17: local-failover"]),
    ("access-log: [all, slow=fast]\n", [r"^FILE:1:19: access-log.*slow=fast"]),
    ("logging-format: xml\n", [r"^FILE:1:17: logging-format.*text"]),
    ("peers: [nonsense]\n", [r"^FILE:1:\d+: peers.*nonsense"]),
    ("peers: [a=127.0.0.1:99999]\n", [r"^FILE:1:\d+: peers"]),
    ("peer-allowed-cidrs: [10.0.0.0/33]\n", [r"^FILE:1:\d+: peer-allowed-cidrs.*10\.0\.0\.0/33"]),
    ("apiserver: http://127.0.0.1:6443\n", [r"^FILE:1:\d+: apiserver"]),
    ("apiserver: https://\n", [r"^FILE:1:\d+: apiserver"]),
    ("admin-bind-address: nowhere\n", [r"^FILE:1:\d+: admin-bind-address"]),
    ("feature-gates: [Nonsense=true]\n", [r"^FILE:1:\d+: feature-gates.*Nonsense"]),
    ("feature-gates: [UnknownVersionInteroperabilityProxy=perhaps]\n", [r"^FILE:1:\d+: feature-gates"]),
    ("v: 2\n  secure-port: 1\n", [r"^FILE:\d+:\d+: "]),
    ("[1, 2]\n", [r"^FILE:1:1: "]),
    ("just words\n", [r"^FILE:1:1: "]),
    ("v: [1\n", [r"^FILE:\d+:\d+: "]),
    ("v: \"2\n", [r"^FILE:\d+:\d+: "]),
    ("a: &x 1\nv: *x\n", [r"^FILE:\d+:\d+: "]),
    ("v: 1\n---\nv: 2\n", [r"^FILE:\d+:\d+: "]),
    ("\tv: 1\n", [r"^FILE:1:\d+: "]),
    (b"v: \xff\xfe\n", [r"^FILE:\d+:\d+: "]),
    (b"v: 1\x00\n", [r"^FILE:\d+:\d+: "]),
    # Several at once.
    ("nonsense: 1\nsecure-port: x\nv: 99\nlocal-failover: 7\n",
     [r"^FILE:1:1: .*nonsense", r"^FILE:2:14: secure-port", r"^FILE:3:4: v", r"^FILE:4:17: local-failover"]),
]


def test_places(world):
    """each error names file, line and column; several are told in one go; exit status not 0"""
    for text, patterns in PLACES:
        for mode in ("-t", "--dump-config", None):
            status, _, errors = run(world, text, *([mode] if mode else []))
            check(status not in (0, None) and status > 0, text, "exit status", status)
            for pattern in patterns:
                check(re.search(pattern, errors, re.M), "%r: no line matches %s in:\n%s" % (text, pattern, errors))


FILES = ("tls-cert-file", "tls-private-key-file", "client-ca-file", "requestheader-client-ca-file", "apiserver-ca-file",
         "peer-ca-file", "proxy-client-cert-file", "proxy-client-key-file")


def test_files(world):
    """a file that is missing, empty, a folder, unreadable as what it should be: one line that names it"""
    empty, junk = os.path.join(world.scratch, "empty"), os.path.join(world.scratch, "junk")
    open(empty, "w", encoding="ascii").close()
    with open(junk, "w", encoding="ascii") as out:
        out.write("-----BEGIN CERTIFICATE-----\nbm90aGluZw==\n-----END CERTIFICATE-----\n")
    for option in FILES:
        for path in ("/nonexistent/file", world.scratch, empty, junk):
            for mode in ("-t", None):
                status, _, errors = run(world, good(world, **{option.replace("-", "_"): path}), *([mode] if mode else []))
                check(status > 0, option, path, "exit status", status)
                lines = [line for line in errors.splitlines() if path in line]
                check(len(lines) == 1, "%s %s: %d lines name it:\n%s" % (option, path, len(lines), errors))


def test_required(world):
    """what is needed and not given is named, all of it at once"""
    status, _, errors = run(world, "v: 2\n", "-t")
    check(status > 0, status)
    for option in ("tls-cert-file", "tls-private-key-file", "apiserver-ca-file"):
        check(option in errors, option, "is not named in", errors)


def test_pairs(world):
    """a certificate that does not match its key"""
    for cert, key in (("tls-cert-file", "tls-private-key-file"), ("proxy-client-cert-file", "proxy-client-key-file")):
        for mode in ("-t", None):
            text = good(world, **{key.replace("-", "_"): world.certs.key("foreign")})
            status, _, errors = run(world, text, *([mode] if mode else []))
            check(status > 0 and ("match" in errors or "belong" in errors) and (cert in errors or world.certs.crt("node-a") in errors
                  or world.certs.key("foreign") in errors), "%s: %d %s" % (key, status, errors))
        status, _, errors = run(world, good(world, **{cert.replace("-", "_"): None}), "-t")
        check(status > 0 and cert in errors, "half a pair: %d %s" % (status, errors))


def test_port_in_use(world):
    """the admin listener's port in use, and clients': one line that names the address, exit status not 0"""
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as other:
        port = taken.getsockname()[1]
        status, _, errors = run(world, good(world, admin_bind_address="127.0.0.1:%d" % port, bind_address="127.0.0.1",
                                            secure_port=other.getsockname()[1]))
        check(status > 0, status)
        lines = [line for line in errors.splitlines() if str(port) in line and "in use" in line]
        equal(len(lines), 1, "lines in\n" + errors)


def test_addresses(world):
    """an address that is none, and one that leads back to ourselves"""
    status, _, errors = run(world, good(world, bind_address="not an address"))
    check(status > 0 and "not an address" in errors, status, errors)
    port = fixture.free_port()
    for bind in ("0.0.0.0", "127.0.0.1", "::", ["192.0.2.77", "127.0.0.1"]):
        text = good(world, bind_address=bind, secure_port=port, apiserver="https://127.0.0.1:%d" % port)
        for mode in (["-t"], []):
            status, _, errors = run(world, text, *mode)
            check(status > 0 and re.search(r"FILE:\d+:1: apiserver: is this proxy itself", errors), bind, mode, status, errors)


def test_inherited_loop(world):
    """a socket of the service manager that is the local server's address: refused at the start"""
    path = os.path.join(world.scratch, "inherited.yaml")
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        with open(path, "w", encoding="utf-8") as out:
            out.write(good(world, apiserver="https://127.0.0.1:%d" % two.getsockname()[1]))
        status, errors = inherit([one, two], [fixture.mvproxy_binary(), "--config", path])
    check(status > 0 and "is this proxy itself" in errors, status, errors)


def test_no_file(world):
    """a configuration file that is not there, or a folder"""
    for path in ("/nonexistent.yaml", world.scratch):
        status, _, errors = run(world, None, "--config", path)
        check(status > 0 and path in errors, status, errors)


def test_command_line(world):
    """the command line wins over the file, and its errors are as clear"""
    status, out, errors = run(world, good(world), "--dump-config", "--v=7", "--peer-stale-after=99s")
    equal((status, errors), (0, ""), "--dump-config")
    check(re.search(r"^v: \"?7\"?$", out, re.M) and "99s" in out or "1m39s" in out, out)
    for argument, text in (("--nonsense=1", "nonsense"), ("--v=x", "v"), ("--v", "v"), ("stray", "stray"),
                           ("--secure-port=70000", "secure-port"), ("--logging-format=xml", "logging-format")):
        status, _, errors = run(world, good(world), argument, "-t")
        check(status > 0 and text in errors, "%s: %d %s" % (argument, status, errors))


def test_dump_is_a_config(world):
    """what --dump-config prints is a configuration that means the same"""
    status, first, errors = run(world, good(world), "--dump-config")
    equal((status, errors), (0, ""), "dump")
    status, second, errors = run(world, first, "--dump-config")
    equal((status, errors, second), (0, "", first), "the dump of the dump")
    equal(run(world, first, "-t")[0], 0, "-t of the dump")


def test_help_and_version(world):
    """--help names every option of --dump-config; --version is one line"""
    status, text, _ = run(world, None, "--help")
    equal(status, 0, "--help")
    for line in run(world, good(world), "--dump-config")[1].splitlines():
        match = re.match(r"([a-z0-9-]+):", line)
        if match:
            check("--%s=" % match.group(1) in text, match.group(1), "is not in --help")
    status, text, _ = run(world, None, "--version")
    check(status == 0 and re.match(r"mvproxy \d+\.\d+", text), text)


def test_running_one_is_not_disturbed(world):
    """all the while the running one served"""
    equal(world.ask("GET", "/api/v1/namespaces").status, 200, "status")


if __name__ == "__main__":
    fixture.main(globals())
