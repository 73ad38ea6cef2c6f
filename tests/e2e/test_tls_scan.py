#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What scanners say of the listener: testssl.sh and sslscan find nothing but what a test CA cannot have."""

import json
import os
import shutil
import subprocess
import xml.etree.ElementTree

import fixture
from fixture import Skip, check, equal

# Findings that are none, and why.
ALLOWED = {
    "cert_chain_of_trust": "the CA is the test's own",
    "cert_revocation": "Kubernetes has neither CRL nor OCSP, so its certificates name none",
    "engine_problem": "WARN, of the scanner's own OpenSSL",
    "DNS_CAArecord": "127.0.0.1 has no DNS records",
    "sessionresumption_ticket": "WARN, connect problem: a check of its own does not come to an end here; test_rotation.py sees sessions resumed",
    "HSTS": "a browser's matter; kube-apiserver's strict-transport-security-directives is off as well, and relayed if on",
}
# Protocols, ciphers, forward secrecy, server defaults and every vulnerability; not the simulation of 40 browsers.
CHECKS = ("-p", "-s", "-f", "-S", "-P", "-h", "-U")


def setup():
    world = fixture.World({"a": "v1.33"})
    proxy = world.proxies["a"]
    # As cert-manager would issue them: what the standard set has, ten years, is a finding of its own.
    world.certs.extra("scanned", "kube-apiserver", sans=("localhost", "127.0.0.1", "kubernetes.default.svc"),
                      eku="serverAuth", days=90)
    proxy.options["tls-cert-file"] = world.certs.crt("scanned")
    proxy.options["tls-private-key-file"] = world.certs.key("scanned")
    return world.start()


def program(*names):
    for name in names:
        if shutil.which(name):
            return name
    raise Skip("no %s here" % names[0])


def target(world):
    return "%s:%d" % world.proxies["a"].address


def testssl(world, attempt):
    """What it prints, and its findings from LOW upwards that are not allowed."""
    out = os.path.join(world.scratch, "testssl-%d.json" % attempt)
    done = subprocess.run([program("testssl", "testssl.sh"), "--quiet", "--color", "0", "--warnings", "off", "--ip", "one",
                           "--severity", "LOW", "--jsonfile", out, *CHECKS, target(world)], stdin=subprocess.DEVNULL,
                          capture_output=True, check=False)
    with open(out, encoding="utf-8") as findings:
        return done.stdout.decode(errors="replace"), [f for f in json.load(findings) if f["id"] not in ALLOWED]


def test_testssl(world):
    """testssl.sh: no finding from LOW upwards"""
    text, bad = testssl(world, 1)
    # WARN is no finding: a check of its own did not come to an end (on a busy machine its clients time out). It counts if it stays.
    if bad and all(f["severity"] == "WARN" for f in bad):
        text, bad = testssl(world, 2)
    for word in ("Testing protocols", "Testing server preferences", "Testing vulnerabilities", "Done "):
        check(word in text, "it did not get to \"%s\":" % word, text[-3000:])
    check("TLS 1.3" in text and "offered (OK): final" in text, "no TLS 1.3?", text[:3000])
    check(not bad, "\n".join("%s %s: %s" % (f["severity"], f["id"], f["finding"]) for f in bad))


def sslscan(world):
    done = subprocess.run([program("sslscan"), "--xml=-", "--no-colour", target(world)], stdin=subprocess.DEVNULL,
                          capture_output=True, check=True)
    return xml.etree.ElementTree.fromstring(done.stdout).find("ssltest")


def test_sslscan(world):
    """sslscan: protocols, ciphers, groups, renegotiation, compression, heartbleed"""
    seen = sslscan(world)
    equal({p.get("type") + p.get("version"): p.get("enabled") for p in seen.findall("protocol")},
          {"ssl2": "0", "ssl3": "0", "tls1.0": "0", "tls1.1": "0", "tls1.2": "1", "tls1.3": "1"}, "protocols")
    equal(seen.find("renegotiation").get("supported"), "0", "renegotiation")
    check(all(h.get("vulnerable") == "0" for h in seen.findall("heartbleed")), "heartbleed")
    ciphers = [(c.get("sslversion"), c.get("cipher"), c.get("strength")) for c in seen.findall("cipher")]
    check(len(ciphers) >= 6, "ciphers", ciphers)
    for version, name, strength in ciphers:
        # It knows nothing above "acceptable" for names without DHE, as all of TLS 1.3 have.
        check(strength == "strong" or (strength == "acceptable" and version == "TLSv1.3"), version, name, strength)
        check("GCM" in name or "CHACHA20" in name, version, name)
        check(version == "TLSv1.3" or name.startswith("ECDHE-"), version, name)
    preferred = [c.get("cipher") for c in seen.findall("cipher") if c.get("status") == "preferred"]
    check("TLS_AES_128_GCM_SHA256" in preferred, "preferred:", preferred)
    groups = {g.get("name") for g in seen.findall("group")}
    check("x25519" in groups and groups <= {"x25519", "secp256r1 (NIST P-256)", "secp384r1 (NIST P-384)"}, "groups", groups)


def test_sslscan_13(world):
    """with tls-min-version: VersionTLS13 there is nothing else"""
    proxy = world.proxies["a"]
    mark = proxy.reload({"tls-min-version": "VersionTLS13"})
    proxy.await_log("Reloaded", mark)
    seen = sslscan(world)
    equal([p.get("version") for p in seen.findall("protocol") if p.get("enabled") == "1"], ["1.3"], "protocols")
    equal({c.get("sslversion") for c in seen.findall("cipher")}, {"TLSv1.3"}, "ciphers")


if __name__ == "__main__":
    fixture.main(globals())
