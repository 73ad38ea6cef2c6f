# SPDX-License-Identifier: Apache-2.0
"""What the image is made of, as SPDX 2.3 in JSON."""

import hashlib
import time

LICENCE = "Apache-2.0"


def _package(name, version, licence, purl, supplier):
    return {"SPDXID": "SPDXRef-Package-" + "".join(c if c.isalnum() or c in ".-" else "-" for c in name), "name": name, "versionInfo": version,
            "supplier": supplier, "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": licence,
            "licenseDeclared": licence, "copyrightText": "NOASSERTION",
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}]}


def _debian(package):
    return _package(package.name, package.version, "NOASSERTION", "pkg:deb/debian/%s@%s?arch=%s" % (
        package.name, package.version.replace("+", "%2B").replace(":", "%3A"), package.architecture), "Organization: Debian")


def document(version, packages, compiled_in, entries, when):
    """The document. packages: those that are linked at run time; compiled_in: those whose code is in the program; when: seconds since 1970."""
    own = _package("mvproxy", version, LICENCE, "pkg:generic/mvproxy@" + version, "NOASSERTION")
    own["checksums"] = [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(entries["usr/sbin/mvproxy"].data).hexdigest()}]
    linked = [_debian(p) for _, p in sorted(packages.items())]
    inside = [_debian(p) for _, p in sorted(compiled_in.items())]
    digest = hashlib.sha256("".join(p["SPDXID"] + p["versionInfo"] for p in [own, *linked, *inside]).encode()
                            + entries["usr/sbin/mvproxy"].data).hexdigest()
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "mvproxy-" + version,
        "documentNamespace": "https://mvproxy.example/spdx/" + digest,
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when)), "creators": ["Tool: mvproxy-contrib-image"]},
        "packages": [own, *linked, *inside],
        "relationships": [
            {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": own["SPDXID"]},
            *({"spdxElementId": own["SPDXID"], "relationshipType": "DYNAMIC_LINK", "relatedSpdxElement": p["SPDXID"]} for p in linked),
            *({"spdxElementId": own["SPDXID"], "relationshipType": "STATIC_LINK", "relatedSpdxElement": p["SPDXID"]} for p in inside)]}
