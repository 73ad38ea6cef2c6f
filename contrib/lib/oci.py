#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes an OCI image out of an installed mvproxy, without docker, without root; the same bytes each time.

    contrib/lib/oci.py --version VERSION --time SECONDS STAGED OUT.tar

STAGED is a folder into which mvproxy was installed with prefix /usr. OUT.tar is an OCI image layout that `ctr images import`, `podman load`
and `skopeo copy oci-archive:OUT.tar` take; OUT.tar.spdx.json says what is in it. SECONDS (since 1970) is the date of every file.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import platform
import sys
import tarfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rootfs  # noqa: E402 # pylint: disable=wrong-import-position
import sbom  # noqa: E402 # pylint: disable=wrong-import-position

NAME = "localhost/mvproxy"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
SBOM = "usr/share/doc/mvproxy/sbom.spdx.json"
# Code that is compiled in where Debian has no library of it.
COMPILED_IN = "/usr/share/llhttp/llhttp.c"


def pretty(value):
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


def archive(entries, when):
    """A tar of {path: rootfs.Entry} in which nothing depends on who made it, and where."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(entries):
            entry = entries[path]
            info = tarfile.TarInfo(path)
            info.mode, info.mtime, info.uid, info.gid = entry.mode, when, entry.uid, entry.uid
            if entry.target is not None:
                info.type, info.linkname = tarfile.SYMTYPE, entry.target
            elif entry.data is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(entry.data)
            tar.addfile(info, None if entry.data is None else io.BytesIO(entry.data))
    return out.getvalue()


def config(version, layer, created):
    return {"created": created, "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()), "os": "linux",
            "config": {"User": "%d:%d" % (rootfs.UID, rootfs.UID), "Entrypoint": ["/usr/sbin/mvproxy"], "WorkingDir": "/",
                       "Env": ["PATH=/usr/sbin:/usr/bin"], "StopSignal": "SIGTERM",
                       "Labels": {"org.opencontainers.image.title": "mvproxy", "org.opencontainers.image.version": version,
                                  "org.opencontainers.image.licenses": sbom.LICENCE}},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
            "history": [{"created": created, "created_by": "contrib/image"}]}


def image(entries, version, when, created):
    """The files of the image layout."""
    layer = archive(entries, when)
    files = {}

    def blob(data, kind):
        digest = hashlib.sha256(data).hexdigest()
        files["blobs/sha256/" + digest] = data
        return {"mediaType": "application/vnd.oci.image.%s" % kind, "digest": "sha256:" + digest, "size": len(data)}

    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": blob(pretty(config(version, layer, created)), "config.v1+json"),
                "layers": [blob(gzip.compress(layer, 9, mtime=0), "layer.v1.tar+gzip")]}
    listed = {**blob(pretty(manifest), "manifest.v1+json"),
              "annotations": {"org.opencontainers.image.ref.name": version, "io.containerd.image.name": "%s:%s" % (NAME, version)}}
    files["oci-layout"] = pretty({"imageLayoutVersion": "1.0.0"})
    files["index.json"] = pretty({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [listed]})
    return files


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", required=True)
    parser.add_argument("--time", type=int, required=True)
    parser.add_argument("staged")
    parser.add_argument("out")
    args = parser.parse_args()
    entries, packages = rootfs.build(args.staged)
    compiled_in = rootfs.owner(COMPILED_IN) if os.path.exists(COMPILED_IN) and "libllhttp" not in " ".join(entries) else None
    document = sbom.document(args.version, packages, {compiled_in.name: compiled_in} if compiled_in else {}, entries, args.time)
    entries[SBOM] = rootfs.Entry(0o644, pretty(document))
    entries.setdefault(os.path.dirname(SBOM), rootfs.Entry(0o755))
    files = image(entries, args.version, args.time, document["creationInfo"]["created"])
    outer = {path: rootfs.Entry(0o644, data) for path, data in files.items()}
    outer.update({"blobs": rootfs.Entry(0o755), "blobs/sha256": rootfs.Entry(0o755)})
    with open(args.out, "wb") as out:
        out.write(archive(outer, args.time))
    with open(args.out + ".spdx.json", "wb") as out:
        out.write(pretty(document))
    print("%s: %s:%s, %d files, %d packages" % (args.out, NAME, args.version, len(entries), len(document["packages"])))


main()
