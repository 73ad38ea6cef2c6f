# SPDX-License-Identifier: Apache-2.0
"""Who is asking: every kind of caller asks a real API server who it is, with and without mvproxy, over HTTP/1.1 and HTTP/2.

One table of callers. Each row is asked directly, and through mvproxy in both protocols, at both nodes; the servers' whole answers must be equal,
and be the ones that the table names, so that two wrong answers are no success. Then the same callers ask for what only the peer serves, and the
peer's audit log says whom it saw.
"""

import datetime
import http.client
import json
import os
import re
import shutil
import subprocess
import tempfile

from harness import waiting
from harness.api import WHOAMI, ensure, ensure_namespace, expect, remove, same, whoami
from harness.node import PORT
from harness.runner import Skip

PATIENCE = 60
H1, H2 = "--http1.1", "--http2"
BOTH = (H1, H2)
UTF8 = "Zo\u00eb \u00dcnal \u2603"
UNTIL = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")

# By which curl shows what is signed with SHA-1 as well.
OPENSSL = "openssl_conf = all\n[all]\nssl_conf = tls\n[tls]\nsystem_default = any\n[any]\nCipherString = DEFAULT:@SECLEVEL=0\n"

# name: what Authority.issue() takes. Made once, beside the standard set.
CERTIFICATES = {
    "uid": {"cn": "ursula", "orgs": ("dev",), "uid": "uid-of-ursula", "ca": "ca"},
    "two-uids": {"cn": "ursula", "uid": ("one", "two"), "ca": "ca"},
    "many": {"cn": "many", "orgs": tuple("group-%d" % n for n in range(60)), "ca": "ca"},
    "utf8": {"cn": UTF8, "orgs": ("gr\u00f6\u00dfe", "a b", "\u65e5\u672c"), "uid": "\u00fc-1", "ca": "ca"},
    "latin1": {"cn": "Zo\u00eb", "orgs": ("gr\u00f6\u00dfe",), "ca": "ca", "mask": "MASK:0x4"},
    "wide": {"cn": UTF8, "orgs": ("\u65e5\u672c",), "ca": "ca", "mask": "MASK:0x800"},
    "signs": {"cn": "a,b=c;d\"e\\f%2F+", "orgs": ("x,y", "{}", "a: b"), "ca": "ca"},
    "crlf": {"cn": "eve\r\nX-Remote-User: kubernetes-admin", "ca": "ca"},
    "lf": {"cn": "eve\nX-Remote-Group: system:masters", "ca": "ca"},
    "lf-group": {"cn": "eve", "orgs": ("dev\nX-Remote-Group: system:masters",), "ca": "ca"},
    "cr-uid": {"cn": "eve", "uid": "1\rX-Remote-Group: system:masters", "ca": "ca"},
    "outer-space": {"cn": " kubernetes-admin", "orgs": ("dev",), "ca": "ca"},
    "space-group": {"cn": "eve", "orgs": (" system:masters",), "ca": "ca"},
    "tab": {"cn": "a\tb", "orgs": ("dev",), "ca": "ca"},
    "two-names": {"cn": ("first", "second"), "orgs": ("dev",), "ca": "ca"},
    "no-name": {"cn": None, "orgs": ("system:masters",), "ca": "ca"},
    "no-groups": {"cn": "nobody-in-particular", "ca": "ca"},
    "no-eku": {"cn": "alice", "ca": "ca", "eku": ""},
    "both-eku": {"cn": "alice", "ca": "ca", "eku": "serverAuth,clientAuth"},
    "lookalike-ca": {"cn": "kubernetes", "is_ca": True, "eku": ""},
    "lookalike": {"cn": "kubernetes-admin", "orgs": ("system:masters",), "ca": "lookalike-ca"},
    "self-signed": {"cn": "kubernetes-admin", "orgs": ("system:masters",)},
    "not-a-ca": {"cn": "mallory", "ca": "ca"},
    "below-not-a-ca": {"cn": "kubernetes-admin", "orgs": ("system:masters",), "ca": "not-a-ca"},
    "front-intermediate": {"cn": "front-proxy-intermediate", "is_ca": True, "eku": "", "ca": "front-proxy-ca"},
    "front-deep": {"cn": "front-proxy-client", "ca": "front-intermediate"},
    "front-wrong-eku": {"cn": "front-proxy-client", "ca": "front-proxy-ca", "eku": "serverAuth"},
    "front-expired": {"cn": "front-proxy-client", "ca": "front-proxy-ca", "start": "20200101000000Z", "end": "20200102000000Z"},
    "front-by-clients-ca": {"cn": "front-proxy-client", "ca": "ca"},
    "front-foreign": {"cn": "front-proxy-client", "ca": "foreign-ca"},
}

BOB, ROOT, WRONG = (("Authorization", "Bearer " + token) for token in ("token-of-bob", "token-of-root", "wrong"))
CAROL = ("X-Remote-User", "carol")
MASTERS = ("X-Remote-Group", "system:masters")
AS_CAROL = [("Impersonate-User", "carol"), ("Impersonate-Group", "dev"), ("Impersonate-Uid", "7"), ("Impersonate-Extra-Scopes", "x"),
            ("Impersonate-Extra-acme.com%2Fx", "y")]


class Row:
    """One caller: certificate or None, fields, and who that is: a name, a status, or (at cp-a, at cp-b).

    mended: the status through mvproxy where it is stricter than the server, because the name cannot stand in a header.
    """

    def __init__(self, certificate, fields, who, mended=None, over=BOTH):
        self.certificate, self.fields, self.mended, self.over = certificate, list(fields), mended, over
        self.who = who if isinstance(who, tuple) else (who, who)

    def __repr__(self):
        return "%s with %r" % (self.certificate, self.fields)


# The second node's front proxies may have any name, and other words besides. The first node's mvproxy removes those.
MORE_NAMES = ("X-Login", "X-Teams", "X-Number", "X-More-Scopes")
ROWS = [
    # Certificates of users.
    Row("admin", [], "kubernetes-admin"), Row("alice", [], "alice"), Row("deep", [], "deep"), Row("uid", [], "ursula"), Row("many", [], "many"),
    Row("no-groups", [], "nobody-in-particular"), Row("utf8", [], UTF8), Row("wide", [], UTF8), Row("signs", [], "a,b=c;d\"e\\f%2F+"),
    Row("two-names", [], "second"), Row("both-eku", [], "alice"), Row("no-eku", [], "alice"), Row("any-eku", [], "alice"),
    Row("no-signature", [], "alice"), Row("below-any-ca", [], "deep"), Row("below-named-ca", [], "alice.smith"),
    Row("below-ed-ca", [], "deep"), Row("pss", [], "deep"), Row("short-pss", [], 401), Row("below-server-ca", [], 401), Row("below-server-ca", [BOB], "bob"),
    Row("sha1", [], 401), Row("below-sha1-ca", [], 401), Row("sha1", [BOB], "bob"),
    Row("two-uids", [], 401), Row("two-uids", [BOB], "bob"), Row("no-name", [], 401), Row("no-name", [BOB], "bob"), Row("no-name", [WRONG], 401),
    # Hostile bytes in their names: never mended, never another header.
    Row("crlf", [], "eve\r\nX-Remote-User: kubernetes-admin", 401), Row("lf", [], "eve\nX-Remote-Group: system:masters", 401),
    Row("lf-group", [], "eve", 401), Row("cr-uid", [], "eve", 401), Row("outer-space", [], " kubernetes-admin", 401),
    Row("space-group", [], "eve", 401), Row("tab", [], "a\tb"), Row("latin1", [], "Zo\u00eb"),
    # A certificate that counts makes tokens and words count for nothing.
    Row("alice", [ROOT], "alice"), Row("alice", [WRONG], "alice"), Row("alice", [CAROL, MASTERS], "alice"),
    # Certificates that prove nothing; a good token still does.
    *(Row(name, fields, who) for name in ("expired", "not-yet", "wrong-eku", "foreign", "lookalike", "self-signed", "below-not-a-ca", "without-chain",
                                          "front-wrong-eku", "front-expired", "front-foreign")
      for fields, who in (([], 401), ([BOB], "bob"), ([WRONG], 401), ([CAROL, MASTERS], 401), ([CAROL, MASTERS, BOB], "bob"))),
    # Tokens.
    Row(None, [BOB], "bob"), Row(None, [ROOT], "root"), Row(None, [WRONG], 401), Row(None, [("Authorization", "bearer token-of-bob")], "bob"),
    Row(None, [("Authorization", "BEARER token-of-bob")], "bob"), Row(None, [("Authorization", "Bearer  token-of-bob")], None),
    Row(None, [("Authorization", "Bearer token-of-bob,token-of-root")], 401), Row(None, [("Authorization", "Bearer token-of-bob token-of-root")], None),
    Row(None, [("Authorization", "Bearer")], None), Row(None, [("Authorization", "Basic YWRtaW46YWRtaW4=")], None), Row(None, [], 403),
    Row(None, [("Authorization", "Bearer abcdef.0123456789abcdef")], "system:bootstrap:abcdef"),
    Row(None, [("Authorization", "Bearer abcdef.0123456789abcdee")], 401), Row(None, [("Authorization", "Bearer fedcba.0123456789abcdef")], 401),
    # Front proxies.
    Row("front-proxy-client", [CAROL], "carol"), Row("front-deep", [CAROL], "carol"), Row("front-proxy-client", [], 401),
    Row("front-proxy-client", [BOB], "bob"), Row("front-proxy-client", [WRONG], 401), Row("front-proxy-client", [CAROL, ROOT], "carol"),
    Row("front-proxy-client", [CAROL, ("X-Remote-User", "dave")], "carol"), Row("front-proxy-client", [("X-Remote-User", "")], 401),
    Row("front-proxy-client", [("x-remote-user", "carol"), ("X-REMOTE-GROUP", "a,b"), ("X-Remote-Group", "c"), ("X-Remote-Group", "")], "carol"),
    Row("front-proxy-client", [CAROL, ("X-Remote-Uid", "7"), ("X-Remote-Extra-Scopes", "x"), ("X-Remote-Extra-Scopes", "y"),
                               ("X-Remote-Extra-acme.com%2Fx%25y", "z"), ("X-Remote-Extra-%C3%A9", "e"), ("X-Remote-Extra-bad%zz", "b")], "carol"),
    Row("front-proxy-client", [("X-Remote-User", UTF8), ("X-Remote-Group", "gr\u00f6\u00dfe")], UTF8),
    Row("front-proxy-client", [("X-Remote-User", "system:anonymous"), ("X-Remote-Group", "system:unauthenticated")], 403),
    Row("front-proxy-client", [("X_Remote_User", "carol")], 401), Row("front-proxy-client", [("X-Login", "carol")], (401, "carol")),
    Row("front-proxy-client", [CAROL, ("X-Login", "dave"), ("X-Teams", "t"), ("X-Number", "8"), ("X-More-Scopes", "m"), ("X-Remote-Group", "g")], "carol"),
    Row("front-proxy-client", [CAROL, *AS_CAROL], 403), Row("front-proxy-client", [CAROL, MASTERS, *AS_CAROL], "carol"),
    Row("front-proxy-other", [], 401), Row("front-proxy-other", [CAROL], (401, "carol")), Row("front-proxy-other", [CAROL, BOB], ("bob", "carol")),
    Row("front-proxy-other", [BOB], "bob"), Row("front-by-clients-ca", [CAROL, MASTERS], "front-proxy-client"), Row("front-by-clients-ca", [], "front-proxy-client"),
    # Impersonation.
    Row("admin", AS_CAROL, "carol"), Row(None, [ROOT, *AS_CAROL], "carol"), Row("alice", AS_CAROL, 403), Row(None, [BOB, *AS_CAROL], 403), Row(None, AS_CAROL, 403),
    # Naming it in Connection does not make anybody forget it: else the client of a proxy that impersonates him would become that proxy.
    Row("admin", [("Connection", "keep-alive, Impersonate-User, Impersonate-Group"), *AS_CAROL], "carol", over=(H1,)),
    Row("admin", [("Impersonate-User", "system:anonymous")], 403), Row("admin", [("Impersonate-Group", "dev")], None),
]


class Answer:
    """What curl got."""

    def __init__(self, line, path):
        code, status, self.version = line.split()
        assert code == "0", "curl ended with %s: %s" % (line, path)
        self.status = int(status)
        with open(path, "rb") as body:
            self.body = body.read()

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return "HTTP/%s %d %r" % (self.version, self.status, self.body[:300])


def _quoted(text):
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")


class Callers:
    """Every certificate, and who asks with them."""

    def __init__(self, cluster):
        if not shutil.which("curl"):
            raise Skip("no curl here")
        self.cluster, self.pki = cluster, cluster.pki
        for name, arguments in CERTIFICATES.items():
            if not os.path.exists(self.pki.crt(name)):
                self.pki.issue(name, **arguments)
        self._cut("deep", "without-chain")
        admin = cluster.new.direct()
        for name, end in (("abcdef", UNTIL), ("fedcba", "2020-01-01T00:00:00Z")):
            data = {"token-id": name, "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
                    "auth-extra-groups": "system:bootstrappers:some", "expiration": end}
            ensure(admin, "/api/v1/namespaces/kube-system/secrets", {
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bootstrap-token-" + name}, "type": "bootstrap.kubernetes.io/token",
                "stringData": data})
        for node in cluster.nodes:  # each server reads Secrets from a cache of its own
            waiting.until(lambda n=node: self.ask(n, Row(None, [("Authorization", "Bearer abcdef.0123456789abcdef")], ""), H1, True).status == 201,
                          "the bootstrap token to be known at " + node.name)

    def _cut(self, source, target):
        """The leaf alone of a file that has its chain."""
        with open(self.pki.crt(source), encoding="ascii") as chain, open(self.pki.crt(target), "w", encoding="ascii") as out:
            out.write(chain.read().partition("-----END CERTIFICATE-----\n")[0] + "-----END CERTIFICATE-----\n")
        shutil.copy(self.pki.key(source), self.pki.key(target))

    def ask_all(self, node, rows, protocol, direct=False, path=WHOAMI):
        """Who they are, to the server at this node, or GET of another path: one answer for each. One curl does it all: the callers with one
        certificate, or without any, come in turn over one connection."""
        answers, missing = [None] * len(rows), list(range(len(rows)))
        for _ in range(20):
            for n, answer in zip(missing, self._transfers(node, [rows[n] for n in missing], {H1: "1.1", H2: "2"}[protocol], direct, path)):
                answers[n] = answer
            missing = [n for n, answer in enumerate(answers) if answer is None]
            if not missing:
                return answers
        raise AssertionError("curl gets no answer for %r" % [rows[n] for n in missing])

    def _transfers(self, node, rows, version, direct, path):
        """The answers; None where curl gave one up. An answer that does not wait for the body, as a refusal, ends with a RST_STREAM that curl 7.88
        takes for an error if it has not sent all, against RFC 9113 8.1."""
        with tempfile.TemporaryDirectory(dir=self.cluster.dir) as folder:
            config = "\nnext\n".join("\n".join(self._transfer(node, row, version, direct, path, os.path.join(folder, str(n)))) for n, row in enumerate(rows))
            permissive = os.path.join(folder, "openssl.cnf")
            with open(permissive, "w", encoding="ascii") as out:
                out.write(OPENSSL)
            done = subprocess.run(["curl", "-q", "-sS", "-K", "-"], input=config.encode(), capture_output=True, timeout=PATIENCE, check=False,
                                  env={**os.environ, "OPENSSL_CONF": permissive})
            lines = done.stdout.decode().splitlines()
            assert len(lines) == len(rows), (lines, done.stderr)
            answers = [None if version == "2" and line.startswith("92 ") else Answer(line, os.path.join(folder, str(n))) for n, line in enumerate(lines)]
        assert {a.version for a in answers if a} <= {version}, answers
        return answers

    def _transfer(self, node, row, version, direct, path, out):
        """What curl is to do, in the language of its config files."""
        yield "http%s" % version
        yield "url = " + _quoted("https://%s:%d%s" % (node.loopback if direct else node.address, PORT, path))
        yield "cacert = " + _quoted(self.pki.crt("ca"))
        yield 'user-agent = "caller"\nwrite-out = "%{exitcode} %{http_code} %{http_version}\\n"\noutput = ' + _quoted(out)
        if row.certificate:
            yield "cert = %s\nkey = %s" % (_quoted(self.pki.crt(row.certificate)), _quoted(self.pki.key(row.certificate)))
        if path == WHOAMI:
            yield 'header = "Content-Type: application/json"\ndata = ' + _quoted(json.dumps(whoami()))
        for name, value in row.fields:
            yield "header = " + _quoted("%s: %s" % (name, value) if value else name + ";")

    def ask(self, node, row, protocol, direct=False, path=WHOAMI):
        return self.ask_all(node, [row], protocol, direct, path)[0]


def _differ(row, direct, through, who):
    """What is wrong with this pair of answers, or None."""
    try:
        if isinstance(who, int):
            assert direct.status == who, "directly %r, not %d" % (direct, who)
        elif who is not None:
            assert direct.status == 201 and direct.json()["status"]["userInfo"]["username"] == who, "directly %r, not %s" % (direct, who)
        if row.mended:
            assert through.status == row.mended, "%r, not %d" % (through, row.mended)
            return None
        assert direct.status == through.status, "%r and %r" % (direct, through)
        if direct.status == 201:
            same(direct.json()["status"], through.json()["status"], "answers")
        else:
            assert direct.body == through.body, "%r and %r" % (direct, through)
    except AssertionError as wrong:
        return "%r: %s" % (row, wrong)
    return None


def test_who_am_i(cluster):
    """each of the table, at each node, over HTTP/1.1 and HTTP/2: the same answer as without mvproxy, and the right one"""
    callers, wrong = Callers(cluster), []
    for index, node in enumerate(cluster.nodes):
        direct = callers.ask_all(node, ROWS, H1, direct=True)
        for protocol in BOTH:
            for row, one, other in zip(ROWS, direct, callers.ask_all(node, ROWS, protocol)):
                if protocol not in row.over:
                    continue
                trouble = _differ(row, one, other, row.who[index])
                wrong += ["%s %s %s" % (node.name, protocol, trouble)] if trouble else []
    assert not wrong, "%d differ:\n%s" % (len(wrong), "\n".join(wrong))


def test_words(cluster):
    """whose words are not all that some server believes says so, and removes what it does not know; both are ready"""
    first, second = cluster.nodes
    said = "requestheader-username-headers: X-Login is not configured here"
    waiting.until(lambda: said in first.mvproxy.log_text(), "the first to have noticed", 90)
    assert said not in second.mvproxy.log_text()
    for node in cluster.nodes:
        status, text = node.admin("/readyz?verbose")
        assert status == 200 and "[+]requestheader ok" in text, (status, text)


def test_can_fail(cluster):
    """the comparison tells two users, two UIDs, two groups and two credentials apart"""
    callers, node = Callers(cluster), cluster.old
    proxy = [("X-Remote-User", "carol"), ("X-Remote-Group", "a")]
    pairs = [(Row("alice", [], ""), Row("admin", [], "")), (Row("alice", [], ""), Row("no-eku", [], "")), (Row("front-proxy-client", proxy, ""), Row("front-proxy-client", proxy[:1], "")),
             (Row("front-proxy-client", proxy, ""), Row("front-proxy-client", [*proxy, ("X-Remote-Uid", "1")], "")),
             (Row("front-proxy-client", proxy, ""), Row("front-proxy-client", [*proxy, ("X-Remote-Extra-x", "1")], "")),
             (Row(None, [], ""), Row("expired", [], ""))]
    for one, other in pairs:
        assert _differ(one, callers.ask(node, one, H1, direct=True), callers.ask(node, other, H2), None), (one, other)


def _events(node, prefix):
    """{audit ID: event} of those that begin so."""
    found = {}
    with open(node.audit_log, encoding="utf-8") as lines:
        for line in lines:
            if prefix in line:
                event = json.loads(line)
                found[event["auditID"]] = event
    return found


def test_at_the_peer(cluster):
    """the peer's audit log has the same user for each of them, by words that both believe, and nobody passes who does not pass directly"""
    callers, wrong, rows = Callers(cluster), [], [r for r in ROWS if r.who[0] == r.who[1] and not r.mended]
    prefix, path = "peer-%d-" % os.getpid(), cluster.skew.collection
    plain = [Row(r.certificate, [f for f in r.fields if f[0] not in MORE_NAMES], r.who) for r in rows]

    def ask(node, whose, way, *how):
        marked = [Row(r.certificate, [*r.fields, ("Audit-ID", "%s%s-%d" % (prefix, way, n))], r.who) for n, r in enumerate(whose)]
        return callers.ask_all(node, marked, *how, path)
    direct = ask(cluster.new, plain, "direct", H1, True)
    for protocol in BOTH:
        through = ask(cluster.old, rows, "through" + protocol, protocol, False)
        # A 401 may be mvproxy's, which the peer need not see; whatever else was answered has an event.
        expected = {"%sthrough%s-%d" % (prefix, protocol, n) for n, answer in enumerate(through) if answer.status != 401}
        waiting.until(lambda e=expected: e <= set(_events(cluster.new, prefix)), "the audit events at the peer")
        events = _events(cluster.new, prefix)
        for n, (row, one, other) in enumerate(zip(rows, direct, through)):
            left, right = (events.get("%s%s-%d" % (prefix, way, n), {}) for way in ("direct", "through" + protocol))
            if one.status != other.status or (one.status == 403 and one.json()["message"] != other.json()["message"]):
                wrong.append("%s %r: %r and %r" % (protocol, row, one, other))
            elif right and [left.get(k) for k in ("user", "impersonatedUser")] != [right.get(k) for k in ("user", "impersonatedUser")]:
                wrong.append("%s %r: %r and %r" % (protocol, row, left, right))
    assert not wrong, "%d differ:\n%s" % (len(wrong), "\n".join(wrong))


def _access(node, audit_id):
    """The line of mvproxy's access log about a request there, as a dictionary."""
    lines = [line for line in node.mvproxy.log_text().splitlines() if '"Request"' in line and 'auditID="%s"' % audit_id in line]
    return dict(re.findall(r'(\w+)="?((?:[^"\\]|\\.)*?)"?(?= |$)', lines[-1])) if lines else None


def test_access_log(cluster):
    """both mvproxies' access logs are joined with the peer's audit log by the Audit-ID: who asked for what, how, and what came of it"""
    path = cluster.skew.collection + "?limit=7"
    for user, name in (("admin", "kubernetes-admin"), ("bob", None)):
        answer = cluster.old.proxied(user).get(path, **{"User-Agent": "joined/1.0"})
        audit_id = answer.header("Audit-Id")
        here, there = (waiting.until(lambda n=node: _access(n, audit_id), "the line of " + node.name) for node in (cluster.old, cluster.new))
        event = waiting.until(lambda i=audit_id: cluster.new.audit(i), "the audit event at the peer")[-1]
        assert not cluster.old.audit(audit_id), "the server that lacks the API was asked"
        assert (here["peer"], here["route"], there["identity"]) == (cluster.new.name, "peer", "front-proxy" if name else "pass"), (here, there)
        for line in (here, there):
            assert line["uri"] == event["requestURI"] and line["verb"] == event["verb"] and line["userAgent"] == event["userAgent"], (line, event)
            assert line["code"] == str(answer.status) == str(event["responseStatus"]["code"]), (line, event)
            assert line["user"] == (name or ""), line
        assert event["user"]["username"] == (name or "bob"), event


NAMES = ("X-Remote-User", "X-Remote-Group", "X-Remote-Uid", "X-Remote-Extra-Scopes", "X-Remote-Extra-authentication.kubernetes.io%2Fcredential-id")


def _spellings(name):
    yield from dict.fromkeys((name, name.lower(), name.upper(), name.replace("-", "_"), name.lower().replace("-", "_"), name.replace("-", "_", 1)))


def _forgeries(name):
    """Ways to send it: each spelling, twice, with spaces around, beside an honest-looking one, and in a Connection list."""
    for spelling in _spellings(name):
        yield [(spelling, "system:masters")], BOTH
        yield [(spelling, "system:masters"), (spelling, "kubernetes-admin")], BOTH
        yield [(spelling, "  system:masters \t ")], (H1,)  # HTTP/2 has no such values
        yield [("Connection", "keep-alive, " + spelling), (spelling, "system:masters")], (H1,)
    yield [(spelling, "system:masters") for spelling in _spellings(name)], BOTH


def test_forgeries(cluster):
    """identity headers of somebody who is no front proxy: nothing that they say counts, in whatever spelling"""
    callers, wrong = Callers(cluster), []
    for node, names in ((n, NAMES + (MORE_NAMES if n is cluster.new else ())) for n in cluster.nodes):
        for certificate, fields in (("alice", []), (None, [BOB]), (None, []), ("foreign", [])):
            honest = callers.ask(node, Row(certificate, fields, None), H1, direct=True)
            ways = [way for name in names for way in _forgeries(name)] if certificate == "alice" or fields else []
            ways.append(([(s, "system:masters") for name in names for s in _spellings(name)], BOTH))
            for protocol in BOTH:
                rows = [Row(certificate, fields + extra, None) for extra, over in ways if protocol in over]
                wrong += ["%s %s %s" % (node.name, protocol, trouble) for row, answer in zip(rows, callers.ask_all(node, rows, protocol))
                          for trouble in [_differ(row, honest, answer, None)] if trouble]
    assert not wrong, "%d differ:\n%s" % (len(wrong), "\n".join(wrong[:40]))


def test_trailers(cluster):
    """identity headers in trailers of either protocol change nobody"""
    callers = Callers(cluster)
    body = json.dumps(whoami()).encode()
    lines = "".join("%s: system:masters\r\n" % s for name in NAMES for s in _spellings(name)).encode()
    for node in cluster.nodes:
        honest = callers.ask(node, Row("alice", [], ""), H1, direct=True).json()["status"]
        connection = node.proxied("alice").connect()
        connection.sock.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nTrailer: X-Remote-User\r\n\r\n"
                                b"%x\r\n%s\r\n0\r\n%s\r\n" % (WHOAMI.encode(), len(body), body, lines))
        answer = http.client.HTTPResponse(connection.sock, method="POST")
        answer.begin()
        assert answer.status == 201, answer.read()
        same(honest, json.loads(answer.read())["status"], "what trailers over HTTP/1.1 change")
        connection.close()
        if not shutil.which("nghttp"):
            raise Skip("no nghttp here")
        data = os.path.join(cluster.dir, "review.json")
        with open(data, "wb") as out:
            out.write(body)
        trailers = [a for name in NAMES for a in ("--trailer", "%s: system:masters" % name.lower())]
        done = subprocess.run(["nghttp", "--no-verify-peer", "--cert", callers.pki.crt("alice"), "--key", callers.pki.key("alice"), "-H", ":method: POST", "-H",
                               "content-type: application/json", "-d", data, *trailers, "https://%s:%d%s" % (node.address, PORT, WHOAMI)],
                              capture_output=True, timeout=PATIENCE, check=False)
        same(honest, json.loads(done.stdout)["status"], "what trailers over HTTP/2 change: %r" % done.stderr)


def test_websocket_token(cluster):
    """the bearer sub-protocol of WebSocket clients: good, wrong, beside a certificate, and at the peer"""
    callers = Callers(cluster)
    upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]

    def protocols(token):
        return upgrade + [("Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.%s, v4.channel.k8s.io" % token)]
    # In base64: token-of-bob, wrong. bob may not exec; a stranger is nobody; alice's certificate comes first.
    path = "/api/v1/namespaces/default/pods/none/exec?command=id&stdout=1"
    for certificate, token, status, word in ((None, "dG9rZW4tb2YtYm9i", 403, '\\"bob\\"'), (None, "d3Jvbmc", 401, "Unauthorized"), ("alice", "dG9rZW4tb2YtYm9i", 403, '\\"alice\\"'),
                                             ("foreign", "dG9rZW4tb2YtYm9i", 403, '\\"bob\\"'), ("foreign", "d3Jvbmc", 401, "Unauthorized")):
        row = Row(certificate, protocols(token), None)
        for node in cluster.nodes:
            direct, through = callers.ask(node, row, H1, True, path), callers.ask(node, row, H1, False, path)
            assert direct.status == status and word in direct.body.decode(), (certificate, token, direct)
            assert (direct.status, direct.body) == (through.status, through.body), (certificate, token, direct, through)
    watch = cluster.skew.collection + "?watch=1"
    row = Row(None, protocols("dG9rZW4tb2YtYm9i") + [("Audit-ID", "websocket-%d" % os.getpid())], None)
    answer = callers.ask(cluster.old, row, H1, False, watch)
    assert answer.status == 403, answer
    events = waiting.until(lambda: cluster.new.audit("websocket-%d" % os.getpid()), "the audit event at the peer")
    assert events[-1]["user"]["username"] == "bob", events


def test_service_accounts(cluster):
    """tokens of service accounts, good and revoked"""
    callers, admin = Callers(cluster), cluster.new.direct()
    ensure_namespace(admin, "callers")
    accounts = "/api/v1/namespaces/callers/serviceaccounts"
    ensure(admin, accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    made = expect(admin.request("POST", accounts + "/robot/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                                                                    "spec": {"expirationSeconds": 600}}), 201)
    good = [("Authorization", "Bearer " + made.json()["status"]["token"])]
    for fields, who in ((good, "system:serviceaccount:callers:robot"), ([(good[0][0], good[0][1][:-4] + "AAAA")], 401)):
        for node in cluster.nodes:
            row = Row(None, fields, who)
            for protocol in BOTH:
                trouble = _differ(row, callers.ask(node, row, H1, True), callers.ask(node, row, protocol), who)
                assert not trouble, trouble
    remove(admin, accounts + "/robot")
    for node in cluster.nodes:
        waiting.until(lambda n=node: callers.ask(n, Row(None, good, ""), H1, True).status == 401, "the token to be revoked")
        for protocol in BOTH:
            assert callers.ask(node, Row(None, good, ""), protocol).status == 401, "a revoked token counts"


APIS = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def test_readers(cluster):
    """a right to read /apis, given and taken away: refused after discovery-authz-ttl, and nobody else is served from the verdict"""
    callers, admin = Callers(cluster), cluster.new.direct()
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "callers-read"},
               "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:discovery"},
               "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous"}]}
    accept = ("Accept", APIS)
    others = [Row(None, [accept, BOB], 200), Row(None, [accept, WRONG], 401), Row(None, [accept, (BOB[0], BOB[1][:-1])], 401),
              Row(None, [accept, (BOB[0], BOB[1] + "b")], 401), Row(None, [accept, ROOT, ("Impersonate-User", "nobody")], 200),
              Row(None, [accept, ROOT, ("Impersonate-User", "system:anonymous")], None), Row(None, [accept], None)]

    def status(node, direct, row=others[-1]):
        return callers.ask(node, row, H1, direct, "/apis").status

    def whole(wanted):
        for node in cluster.nodes:
            for protocol in BOTH:
                got = callers.ask_all(node, others * 2, protocol, path="/apis")
                for row, answer in zip(others * 2, got):
                    assert answer.status == (row.who[0] or wanted), (node.name, protocol, row, answer)
                    assert (cluster.skew.group.encode() in answer.body) == (answer.status == 200), (node.name, protocol, row, answer)
    whole(403)
    try:
        ensure(admin, bindings, binding)
        for node in cluster.nodes:
            waiting.until(lambda n=node: status(n, True) == 200, "anonymous to be allowed at " + node.name)
            waiting.until(lambda n=node: status(n, False) == 200, "anonymous to be allowed through " + node.name)
        whole(200)
    finally:
        remove(admin, bindings + "/callers-read")
    for node in cluster.nodes:
        waiting.until(lambda n=node: status(n, True) == 403, "anonymous to be forbidden at " + node.name)
        for row in others[-2:]:  # each has a verdict of its own
            waiting.until(lambda n=node, r=row: status(n, False, r) == 403, "%r to be forbidden through %s" % (row, node.name))
    whole(403)


def test_filters(cluster):
    """what kube-apiserver's filters put on each answer (CORS, HSTS) is on merged discovery, whole, unchanged or refused"""
    def fields(answer):
        # One of its own for each request.
        assert len(answer.all("Audit-Id")) == 1, answer
        return {name: answer.all(name) for name in
                ("Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Allow-Methods", "Access-Control-Allow-Headers",
                 "Access-Control-Expose-Headers", "Strict-Transport-Security")}
    for node in cluster.nodes:
        tag = node.proxied().get("/apis", Accept=APIS).header("ETag")
        for user, origin, more in (("admin", "https://console.example.com", {}), ("admin", "https://elsewhere.example.com", {}),
                                   ("admin", None, {}), ("admin", "https://console.example.com", {"If_None_Match": tag}),
                                   ("anonymous", "https://console.example.com", {})):
            headers = dict({"Accept": APIS}, **more, **({"Origin": origin} if origin else {}))
            for path in ("/apis", "/api", "/apis/" + cluster.skew.group, "/openapi/v3"):
                direct, through = node.direct(user).get(path, **headers), node.proxied(user).get(path, **headers)
                assert fields(direct) == fields(through), (node.name, path, origin, direct, through)
                if origin == "https://console.example.com" and user == "admin":
                    assert direct.header("Access-Control-Allow-Origin") == origin and direct.header("Strict-Transport-Security"), direct


def test_reading_by_head(cluster):
    """RBAC tells HEAD from GET: who may do the one with /apis gets nothing by the other's verdict"""
    admin, rbac = cluster.new.direct(), "/apis/rbac.authorization.k8s.io/v1/"
    name, user = {"name": "callers-head"}, "system:anonymous"
    role = {"metadata": name, "rules": [{"nonResourceURLs": ["/apis"], "verbs": ["head"]}]}
    binding = {"metadata": name, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "callers-head"},
               "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]}
    whom = {"Accept": APIS, "Impersonate-User": user}

    def statuses(client, who, methods):
        return [client.request(m, "/apis", headers=who).status for m in methods]
    try:
        ensure(admin, rbac + "clusterroles", role)
        ensure(admin, rbac + "clusterrolebindings", binding)
        for node in cluster.nodes:
            waiting.until(lambda n=node: statuses(n.direct(), whom, ["HEAD"]) == [200], "HEAD to be allowed at " + node.name)
            for who in (whom, {"Accept": APIS, "Impersonate-User": "bob", "Impersonate-Group": "system:authenticated"}):
                for methods in (["HEAD", "GET", "HEAD"], ["GET", "HEAD", "GET"]):
                    wanted = statuses(node.direct(), who, methods)
                    assert set(wanted) == {200, 403}, wanted
                    assert statuses(node.proxied(), who, methods) == wanted, (node.name, who, methods, wanted)
    finally:
        remove(admin, rbac + "clusterrolebindings/callers-head")
        remove(admin, rbac + "clusterroles/callers-head")


def test_spellings(cluster):
    """other spellings of /apis and of a path that only the peer serves mean to mvproxy what they mean to the server"""
    accept, plain = {"Accept": APIS}, {"Accept": "application/json"}
    for path in ("/apis", "/%61pis", "/apis?x", "//apis", "/apis/", "/apis%2f", "/%2fapis", "/./apis", "/apis/.", "/x/../apis", "/apis;x", "/apis%3fx", "/APIS", "/%61pis/apps"):
        for node in cluster.nodes:
            for who in (accept, dict(accept, **{"Impersonate-User": "system:anonymous"})):
                wanted, got = (client.request("GET", path, headers=who) for client in (node.direct(), node.proxied()))
                assert got.status == wanted.status, (node.name, path, who, wanted, got)
                whole = cluster.skew.group.encode() in got.body and cluster.skew.group.encode() not in wanted.body
                assert not whole or (got.status == 200 and path in ("/apis", "/%61pis", "/apis?x")), (node.name, path, who, got)
    for path in ("/%61pi/v1/nodes", "//api/v1/nodes", "/api//v1/nodes", "/api/v1/nodes/", "/api/v1//nodes", "/api/v1/%6eodes", "/api/v1/nodes%2f", "/api/v1/nodes/.", "/api/v1/./nodes"):
        for who in (plain, dict(plain, **{"Impersonate-User": "system:anonymous"})):
            wanted, got = (client.request("GET", path, headers=who).status for client in (cluster.new.direct(), cluster.new.proxied()))
            assert got == wanted, (path, who, wanted, got)
