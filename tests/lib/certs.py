#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make every certificate that the tests need, with the openssl command line.

Usage from a shell:

    tests/lib/certs.py DIR [--node NAME=IP[,IP-or-DNS...]]... [--force]

Usage from Python: ``Authority`` issues single certificates, ``make_all`` makes the
standard set.  Keys are EC P-256, because a test run makes some twenty of them.

The standard set, each as NAME.crt and NAME.key in DIR:

    ca                    the cluster CA: serving certificates and client certificates
    front-proxy-ca        the request-header CA, distinct from the cluster CA
    front-proxy-client    CN=front-proxy-client, what --proxy-client-cert-file holds
    front-proxy-other     the same CA, a CN that is not among the allowed names
    admin                 CN=kubernetes-admin, O=system:masters
    alice                 CN=alice, O=dev, O=testers (a limited user)
    grouped               CN=grouped, O=group-0 ... group-13
    expired, not-yet      CN=alice with a validity that is over, or has not begun
    wrong-eku             CN=alice, usable as a server certificate only
    any-eku               CN=alice, usable for anything
    no-signature          CN=alice, for key encipherment and client authentication
    sha1, sha224          CN=alice, signed with these
    ed-ca, rsa-ca         CAs below ca, with keys of these kinds
    below-ed-ca, pss, short-pss  CN=deep, O=dev, issued by these, with RSA-PSS, and a salt that is too short
    any-ca, server-ca, sha1-ca, named-ca  CAs below ca: usable for anything; for servers; signed with SHA-1; for
                          hosts below example.com
    below-any-ca, below-server-ca, below-sha1-ca  CN=deep, O=dev, issued by these
    below-named-ca        CN=alice.smith, O=dev
    intermediate-ca       a CA below ca
    deep                  CN=deep, O=dev, issued by intermediate-ca; the file has the chain
    controller-manager    CN=system:kube-controller-manager
    scheduler             CN=system:kube-scheduler
    foreign-ca            a CA that nobody trusts
    foreign               CN=kubernetes-admin, O=system:masters issued by foreign-ca
    foreign-server        serving certificate issued by foreign-ca
    etcd-ca, etcd-server, etcd-client
    node-NAME             serving certificate of a node (by default: node-a, node-b, node-c)

and sa.key/sa.pub, the service-account key pair.  A set that is complete is left alone
unless --force is given or its CA ends within a day.
"""

import argparse
import ipaddress
import os
import shutil
import subprocess
import sys
import tempfile

UID_OID = "1.3.6.1.4.1.57683.2"  # where kube-apiserver looks for a user's UID in a subject

SERVING_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
    "127.0.0.1",
    "::1",
    "10.96.0.1",
)

DEFAULT_NODES = {"a": ["127.0.0.1"], "b": ["127.0.0.1"], "c": ["127.0.0.1"]}

_CONFIG = """
oid_section = oids
[oids]
kubeUserUID = {oid}
[req]
distinguished_name = dn
prompt = no
string_mask = {mask}
utf8 = yes
[dn]
{dn}
[ca]
default_ca = this
[this]
database = {dir}/index.txt
new_certs_dir = {dir}
default_md = sha256
rand_serial = yes
policy = any
preserve = yes
unique_subject = no
x509_extensions = ext
[any]
organizationName = optional
commonName = optional
kubeUserUID = optional
[ext]
basicConstraints = critical,{basic}
keyUsage = critical,{usage}
subjectKeyIdentifier = hash
{extra}
"""


class CertError(Exception):
    """openssl refused; the text is its complaint."""


def _openssl(*args):
    done = subprocess.run(
        ["openssl", *args], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode != 0:
        raise CertError(
            "openssl %s: %s" % (args[0], done.stderr.decode(errors="replace").strip())
        )
    return done.stdout


def _san(names):
    parts = []
    for name in names:
        try:
            parts.append("IP:%s" % ipaddress.ip_address(name))
        except ValueError:
            parts.append("DNS:%s" % name)
    return ",".join(dict.fromkeys(parts))


def _escape(value):
    """One value of an openssl config line: $, \\, # and quotes have a meaning there; a space in front is lost unless escaped."""
    out = ""
    for index, char in enumerate(value):
        if char in "\n\r\t":
            out += {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[char]
        elif char in "\\$#\"'`;" or (char == " " and index == 0):
            out += "\\" + char
        else:
            out += char
    return out


class Authority:
    """Issues certificates into a directory."""

    def __init__(self, directory):
        self.dir = os.path.abspath(directory)
        os.makedirs(self.dir, exist_ok=True)

    def crt(self, name):
        return os.path.join(self.dir, name + ".crt")

    def key(self, name):
        return os.path.join(self.dir, name + ".key")

    def issue(self, name, cn, orgs=(), *, ca=None, sans=(), eku="clientAuth", uid=None,
              is_ca=False, days=3650, start=None, end=None, key_from=None, mask="utf8only", usage=None,
              md="sha256", constraints=None, algorithm=None, sigopts=()):
        """Write NAME.crt and NAME.key.

        ca is the name of the issuing pair (None: self-signed); eku is openssl's spelling, "" for
        none; start and end are YYYYMMDDHHMMSSZ; key_from reuses another pair's key; mask is the
        string type of the subject's values, as openssl names it; cn and uid may be tuples, for a subject
        that has several of them; usage is its key usage, if not the usual one; md the
        digest that it is signed with; constraints are a CA's, on names; algorithm is
        its key's, if not EC; sigopts is how its issuer signs.  When the
        issuer is itself below a CA the issuer's certificate is appended to NAME.crt.
        """
        lines = []
        for index, org in enumerate(orgs):
            lines.append("%d.O = %s" % (index, _escape(org)))
        for label, value in (("kubeUserUID", uid), ("CN", cn)):
            for index, one in enumerate((value,) if isinstance(value, str) else value or ()):
                lines.append("%d.%s = %s" % (index, label, _escape(one)))
        extra = []
        if eku:
            extra.append("extendedKeyUsage = " + eku)
        if sans:
            extra.append("subjectAltName = " + _san(sans))
        if constraints is not None:
            extra.append("nameConstraints = critical," + constraints)
        if ca is not None:
            extra.append("authorityKeyIdentifier = keyid")
        with tempfile.TemporaryDirectory(prefix="certs-") as tmp:
            config = os.path.join(tmp, "openssl.cnf")
            with open(config, "w", encoding="utf-8") as out:
                out.write(_CONFIG.format(
                    oid=UID_OID, dir=tmp, mask=mask, dn="\n".join(lines),
                    basic="CA:TRUE" if is_ca else "CA:FALSE",
                    usage=usage or ("keyCertSign,cRLSign,digitalSignature" if is_ca
                                    else "digitalSignature,keyEncipherment"),
                    extra="\n".join(extra)))
            open(os.path.join(tmp, "index.txt"), "w", encoding="ascii").close()
            key, csr, new = (os.path.join(tmp, n) for n in ("key", "csr", "crt"))
            if key_from is None:
                kind = (algorithm,) if algorithm else ("EC", "-pkeyopt", "ec_paramgen_curve:P-256")
                _openssl("genpkey", "-algorithm", *kind, "-out", key)
            else:
                shutil.copyfile(self.key(key_from), key)
            _openssl("req", "-new", "-config", config, "-key", key, "-out", csr)
            sign = ["ca", "-batch", "-md", md, "-notext", "-config", config, "-in", csr, "-out", new]
            if ca is None:
                sign += ["-selfsign", "-keyfile", key]
            else:
                sign += ["-cert", self.crt(ca), "-keyfile", self.key(ca)]
            for option in sigopts:
                sign += ["-sigopt", option]
            if start or end:
                sign += ["-startdate", start or "20200101000000Z",
                         "-enddate", end or "20491231235959Z"]
            else:
                sign += ["-days", str(days)]
            _openssl(*sign)
            if ca is not None and self._below_a_ca(ca):
                with open(new, "a", encoding="ascii") as out, \
                        open(self.crt(ca), encoding="ascii") as chain:
                    out.write(chain.read())
            os.chmod(key, 0o600)
            # Moved, not written in place, so that a reader never meets half a file.
            for source, target in ((key, self.key(name)), (new, self.crt(name))):
                staged = target + ".new"
                shutil.copyfile(source, staged)
                os.chmod(staged, 0o600 if source == key else 0o644)
                os.replace(staged, target)
        return self.crt(name), self.key(name)

    def _below_a_ca(self, name):
        text = _openssl("x509", "-in", self.crt(name), "-noout", "-subject", "-issuer").decode()
        subject, issuer = (line.split("=", 1)[1].strip() for line in text.splitlines()[:2])
        return subject != issuer

    def serving(self, name, addresses=(), *, ca="ca", cn="kube-apiserver"):
        """A kube-apiserver's serving pair: the names every one of them has, and addresses."""
        return self.issue(name, cn, ca=ca, sans=SERVING_NAMES + tuple(addresses),
                          eku="serverAuth")

    def service_account_pair(self):
        private = os.path.join(self.dir, "sa.key")
        _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256",
                 "-out", private)
        os.chmod(private, 0o600)
        public = _openssl("pkey", "-in", private, "-pubout")
        with open(os.path.join(self.dir, "sa.pub"), "wb") as out:
            out.write(public)

    def fresh(self, name):
        """Whether NAME.crt exists and lives for more than a day."""
        if not (os.path.exists(self.crt(name)) and os.path.exists(self.key(name))):
            return False
        try:
            _openssl("x509", "-in", self.crt(name), "-noout", "-checkend", "86400")
        except CertError:
            return False
        return True


def _plan(nodes):
    """(name, arguments for issue) of the standard set, issuers before the issued."""
    yield "ca", {"cn": "kubernetes", "is_ca": True, "eku": ""}
    yield "front-proxy-ca", {"cn": "front-proxy-ca", "is_ca": True, "eku": ""}
    yield "foreign-ca", {"cn": "foreign-ca", "is_ca": True, "eku": ""}
    yield "etcd-ca", {"cn": "etcd-ca", "is_ca": True, "eku": ""}
    yield "intermediate-ca", {"cn": "kubernetes-intermediate", "is_ca": True, "eku": "",
                              "ca": "ca"}
    yield "front-proxy-client", {"cn": "front-proxy-client", "ca": "front-proxy-ca"}
    yield "front-proxy-other", {"cn": "somebody-else", "ca": "front-proxy-ca"}
    yield "admin", {"cn": "kubernetes-admin", "orgs": ("system:masters",), "ca": "ca"}
    yield "alice", {"cn": "alice", "orgs": ("dev", "testers"), "ca": "ca"}
    yield "grouped", {"cn": "grouped", "orgs": tuple("group-%d" % i for i in range(14)), "ca": "ca"}
    yield "expired", {"cn": "alice", "orgs": ("dev",), "ca": "ca",
                      "start": "20200101000000Z", "end": "20200102000000Z"}
    yield "not-yet", {"cn": "alice", "orgs": ("dev",), "ca": "ca",
                      "start": "20480101000000Z", "end": "20490101000000Z"}
    yield "wrong-eku", {"cn": "alice", "orgs": ("dev",), "ca": "ca", "eku": "serverAuth"}
    yield "any-eku", {"cn": "alice", "orgs": ("dev",), "ca": "ca", "eku": "anyExtendedKeyUsage"}
    yield "no-signature", {"cn": "alice", "orgs": ("dev",), "ca": "ca", "usage": "keyEncipherment"}
    yield "any-ca", {"cn": "any-ca", "is_ca": True, "eku": "anyExtendedKeyUsage", "usage": "keyCertSign", "ca": "ca"}
    yield "server-ca", {"cn": "server-ca", "is_ca": True, "eku": "serverAuth", "ca": "ca"}
    yield "sha1-ca", {"cn": "sha1-ca", "is_ca": True, "eku": "", "ca": "ca", "md": "sha1"}
    yield "named-ca", {"cn": "named-ca", "is_ca": True, "eku": "", "ca": "ca", "constraints": "permitted;DNS:example.com"}
    yield "below-named-ca", {"cn": "alice.smith", "orgs": ("dev",), "ca": "named-ca"}
    yield "ed-ca", {"cn": "ed-ca", "is_ca": True, "eku": "", "ca": "ca", "algorithm": "ED25519"}
    yield "below-ed-ca", {"cn": "deep", "orgs": ("dev",), "ca": "ed-ca", "md": "null"}
    yield "rsa-ca", {"cn": "rsa-ca", "is_ca": True, "eku": "", "ca": "ca", "algorithm": "RSA"}
    for name, salt in (("pss", 32), ("short-pss", 20)):
        yield name, {"cn": "deep", "orgs": ("dev",), "ca": "rsa-ca", "sigopts": ("rsa_padding_mode:pss", "rsa_pss_saltlen:%d" % salt)}
    yield "sha1", {"cn": "alice", "orgs": ("dev",), "ca": "ca", "md": "sha1"}
    yield "sha224", {"cn": "alice", "orgs": ("dev",), "ca": "ca", "md": "sha224"}
    yield "below-sha1-ca", {"cn": "deep", "orgs": ("dev",), "ca": "sha1-ca"}
    yield "below-any-ca", {"cn": "deep", "orgs": ("dev",), "ca": "any-ca"}
    yield "below-server-ca", {"cn": "deep", "orgs": ("dev",), "ca": "server-ca"}
    yield "deep", {"cn": "deep", "orgs": ("dev",), "ca": "intermediate-ca"}
    yield "controller-manager", {"cn": "system:kube-controller-manager", "ca": "ca"}
    yield "scheduler", {"cn": "system:kube-scheduler", "ca": "ca"}
    yield "foreign", {"cn": "kubernetes-admin", "orgs": ("system:masters",), "ca": "foreign-ca"}
    yield "foreign-server", {"cn": "kube-apiserver", "ca": "foreign-ca", "sans": SERVING_NAMES,
                             "eku": "serverAuth"}
    yield "etcd-server", {"cn": "etcd", "ca": "etcd-ca", "eku": "serverAuth,clientAuth",
                          "sans": ("localhost", "127.0.0.1", "::1") + tuple(
                              a for addresses in nodes.values() for a in addresses)}
    yield "etcd-client", {"cn": "kube-apiserver-etcd-client", "ca": "etcd-ca"}
    for node, addresses in nodes.items():
        yield "node-" + node, {"cn": "kube-apiserver", "ca": "ca", "eku": "serverAuth",
                               "sans": SERVING_NAMES + (node,) + tuple(addresses)}


def make_all(directory, nodes=None, force=False):
    """Make the standard set; nodes maps a node's name to its addresses. Returns the Authority."""
    authority = Authority(directory)
    plan = list(_plan(DEFAULT_NODES if nodes is None else nodes))
    issuers = [name for name, arguments in plan if arguments.get("is_ca")]
    remake = force or not all(authority.fresh(name) for name in issuers)
    for name, arguments in plan:
        here = os.path.exists(authority.crt(name)) and os.path.exists(authority.key(name))
        ends_by_design = "end" in arguments
        if remake or not here or not (ends_by_design or authority.fresh(name)):
            authority.issue(name, **arguments)
    if remake or not os.path.exists(os.path.join(authority.dir, "sa.pub")):
        authority.service_account_pair()
    return authority


def _node(text):
    name, equals, addresses = text.partition("=")
    if not name or (equals and not addresses):
        raise argparse.ArgumentTypeError("expected NAME or NAME=ADDRESS[,ADDRESS...]: " + text)
    return name, [a for a in addresses.split(",") if a]


def main(argv=None):
    parser = argparse.ArgumentParser(description="make the tests' certificates")
    parser.add_argument("directory")
    parser.add_argument("--node", type=_node, action="append", metavar="NAME=IP[,IP...]")
    parser.add_argument("--force", action="store_true", help="make all of them anew")
    args = parser.parse_args(argv)
    try:
        make_all(args.directory, dict(args.node) if args.node else None, args.force)
    except (CertError, OSError) as error:
        print("certs.py: %s" % error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
