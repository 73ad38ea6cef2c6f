# SPDX-License-Identifier: Apache-2.0
"""Container images of one program that was built, for nodes without a registry: an OCI image layout in a tar, as `ctr images import` takes it."""

import hashlib
import io
import json
import tarfile

OCI = "application/vnd.oci.image."


def _add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def _blob(tar, data, kind):
    """Its descriptor."""
    digest = hashlib.sha256(data).hexdigest()
    _add(tar, "blobs/sha256/" + digest, data)
    return {"mediaType": OCI + kind, "digest": "sha256:" + digest, "size": len(data)}


def make(out, name, path, program):
    """The image `name` in the file `out`, which has nothing but the (static) program, at that path."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as files:
        files.add(program, path.lstrip("/"))
    with tarfile.open(out, "w") as tar:
        described = _blob(tar, layer.getvalue(), "layer.v1.tar")
        config = _blob(tar, json.dumps({
            "architecture": "amd64", "os": "linux", "config": {"Entrypoint": [path], "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [described["digest"]]}}).encode(), "config.v1+json")
        manifest = _blob(tar, json.dumps({"schemaVersion": 2, "mediaType": OCI + "manifest.v1+json", "config": config,
                                          "layers": [described]}).encode(), "manifest.v1+json")
        manifest["annotations"] = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
        _add(tar, "index.json", json.dumps({"schemaVersion": 2, "manifests": [manifest]}).encode())
        _add(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
