#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The container image: the same bytes each time, nothing in it but what runs, a valid SPDX document, and it starts, as nobody in particular."""

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(TOP, "tests", "lib"))
import tap  # noqa: E402 # pylint: disable=wrong-import-position

OCI = os.path.join(TOP, "contrib", "lib", "oci.py")
PROGRAM = os.path.abspath(os.environ.get("MVPROXY") or os.path.join(os.environ.get("top_builddir", "."), "mvproxy"))
ID = re.compile(r"SPDXRef-[A-Za-z0-9.-]+\Z")
# Of SPDX 2.3, chapters 6 and 7.
OF_DOCUMENT = {"spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo"}
OF_PACKAGE = {"SPDXID", "name", "downloadLocation"}


def make(staged, out):
    subprocess.run([sys.executable, OCI, "--version", "1.2.3", "--time", "1700000000", staged, out], check=True, stdout=subprocess.DEVNULL)
    with open(out, "rb") as file:
        return file.read()


def blob(tar, described):
    """What a descriptor of the layout means, if digest and size are right."""
    data = tar.extractfile("blobs/" + described["digest"].replace(":", "/")).read()
    tap.ok("sha256:" + hashlib.sha256(data).hexdigest() == described["digest"] and len(data) == described["size"],
           "digest and size of the " + described["mediaType"])
    return data


def check_layout(image):
    """The layer, unpacked."""
    tar = tarfile.open(fileobj=io.BytesIO(image))
    tap.equal(json.load(tar.extractfile("oci-layout")), {"imageLayoutVersion": "1.0.0"}, "an OCI image layout")
    index = json.load(tar.extractfile("index.json"))
    manifest = json.loads(blob(tar, index["manifests"][0]))
    config = json.loads(blob(tar, manifest["config"]))
    unpacked = gzip.decompress(blob(tar, manifest["layers"][0]))
    tap.equal(config["rootfs"]["diff_ids"], ["sha256:" + hashlib.sha256(unpacked).hexdigest()], "the layer is the one that the configuration means")
    layer = tarfile.open(fileobj=io.BytesIO(unpacked))
    tap.equal(config["config"]["User"], "65532:65532", "it does not run as root")
    return layer


def check_content(layer):
    names = layer.getnames()
    programs = sorted(m.name for m in layer.getmembers() if m.isfile() and m.mode & 0o111 and "/ld-" not in m.name)
    tap.equal(programs, ["usr/bin/mvproxyctl", "usr/sbin/mvproxy"], "no program but ours: no shell")
    tap.ok(len(names) == len(set(names)) and not [n for n in names if n.startswith("/") or ".." in n.split("/")], "each path once, none leads out")
    tap.ok(not [m.name for m in layer.getmembers() if m.mode & 0o6000], "no setuid")
    tap.ok(not [n for n in names if re.search(r"\.(key|crt|pem)$", n)], "no key")


def check_sbom(path, layer):
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    tap.equal(document, json.load(layer.extractfile("usr/share/doc/mvproxy/sbom.spdx.json")), "the image carries its own SPDX document")
    tap.ok(OF_DOCUMENT <= set(document) and document["spdxVersion"] == "SPDX-2.3" and document["SPDXID"] == "SPDXRef-DOCUMENT", "what a document must have")
    packages = {p["SPDXID"]: p for p in document["packages"]}
    tap.ok(len(packages) == len(document["packages"]) and all(OF_PACKAGE <= set(p) and ID.match(p["SPDXID"]) for p in document["packages"]),
           "what a package must have, and identifiers that differ")
    ends = {r[e] for r in document["relationships"] for e in ("spdxElementId", "relatedSpdxElement")}
    tap.equal(ends, set(packages) | {"SPDXRef-DOCUMENT"}, "relationships join all of them, and nothing else")
    own = packages["SPDXRef-Package-mvproxy"]
    program = hashlib.sha256(layer.extractfile("usr/sbin/mvproxy").read()).hexdigest()
    tap.equal(own["checksums"][0]["checksumValue"], program, "the program's checksum")
    tap.ok({"libc6", "libssl3"} <= {p["name"] for p in document["packages"]}, "libraries are named", sorted(packages))


def check_start(layer, folder):
    if os.geteuid() != 0:
        tap.skip("it starts", "chroot needs root")
        return
    layer.extractall(folder)
    with open(os.path.join(folder, "usr/sbin/mvproxy"), "rb") as program:
        if b"__asan_init" in program.read():
            tap.skip("it starts", "sanitizers need more than the image has")
            return
    for path, program in (("/usr/sbin/mvproxy", "mvproxy"), ("/usr/bin/mvproxyctl", "mvproxyctl")):
        done = subprocess.run(["chroot", "--userspec=65532:65532", folder, path, "--version"], capture_output=True, text=True, check=False)
        tap.ok(done.returncode == 0 and done.stdout.startswith(program), program + " starts in it", done)
    done = subprocess.run(["chroot", "--userspec=65532:65532", folder, "/usr/sbin/mvproxy", "-t"], capture_output=True, text=True, check=False)
    tap.ok(done.returncode == 1 and "tls-cert-file: is required" in done.stderr, "and says that it is not configured", done)


def main():
    if shutil.which("dpkg-query") is None:
        tap.skip_all("only where dpkg knows what files belong to")
    with tempfile.TemporaryDirectory(prefix="mvproxy-image-") as work:
        staged = os.path.join(work, "staged")
        for program, folder in (("mvproxy", "usr/sbin"), ("mvproxyctl", "usr/bin")):
            os.makedirs(os.path.join(staged, folder))
            shutil.copy(os.path.join(os.path.dirname(PROGRAM), program), os.path.join(staged, folder))
        image = make(staged, os.path.join(work, "one.tar"))
        os.utime(os.path.join(staged, "usr/sbin/mvproxy"), (1, 1))
        tap.ok(image == make(staged, os.path.join(work, "two.tar")), "made twice, the same bytes")
        layer = check_layout(image)
        check_content(layer)
        check_sbom(os.path.join(work, "one.tar.spdx.json"), layer)
        check_start(layer, os.path.join(work, "root"))
    return tap.done()


sys.exit(main())
