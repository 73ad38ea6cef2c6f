# SPDX-License-Identifier: Apache-2.0
"""The files of mvproxy's image: what was installed, the libraries that it is linked with, and users. No shell, no package manager."""

import os
import re
import subprocess

UID = 65532  # as in other images without a distribution
PASSWD = "root:x:0:0:root:/:/sbin/nologin\nmvproxy:x:%d:%d:Mixed Version Proxy:/:/sbin/nologin\n" % (UID, UID)
GROUP = "root:x:0:\nmvproxy:x:%d:\n" % UID
PROGRAMS = ("usr/sbin/mvproxy", "usr/bin/mvproxyctl")


class Entry:
    """A path in the image: a folder, a link (target), or a file (data). All are root's unless uid says else."""

    def __init__(self, mode, data=None, target=None, uid=0):
        self.mode, self.data, self.target, self.uid = mode, data, target, uid


class Package:
    """A Debian package that a file of the image is from."""

    def __init__(self, name, version, architecture):
        self.name, self.version, self.architecture = name, version, architecture


def _read(path):
    with open(path, "rb") as file:
        return file.read()


def _run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


def linked(program):
    """The shared libraries of a program and its dynamic linker, by the paths under which they are looked for."""
    found = re.findall(r"(?:=> )?(/\S+) \(0x", _run("ldd", program))
    return sorted(set(found))


def owner(path):
    """The Debian package that a file is from, or None."""
    real = os.path.realpath(path)
    # /lib is a link to /usr/lib, and dpkg may know either name.
    for name in (real, real.removeprefix("/usr"), path):
        said = _run("dpkg-query", "-S", name)
        if said:
            fields = _run("dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture}", said.partition(": ")[0]).split()
            return Package(*fields)
    return None


def _add_parents(entries):
    for path in list(entries):
        while "/" in path:
            path = path.rpartition("/")[0]
            entries.setdefault(path, Entry(0o755))


def build(staged):
    """({path: Entry}, {name: Package}) out of a folder into which mvproxy was installed with prefix /usr."""
    entries = {
        "bin": Entry(0o777, target="usr/bin"), "lib": Entry(0o777, target="usr/lib"), "lib64": Entry(0o777, target="usr/lib64"),
        "sbin": Entry(0o777, target="usr/sbin"), "etc/passwd": Entry(0o644, PASSWD.encode()), "etc/group": Entry(0o644, GROUP.encode()),
        "etc/mvproxy": Entry(0o755), "run/mvproxy": Entry(0o750, uid=UID), "proc": Entry(0o555), "tmp": Entry(0o1777), "usr/lib64": Entry(0o755)}
    packages = {}
    for program in PROGRAMS:
        path = os.path.join(staged, program)
        entries[program] = Entry(0o755, _read(path))
        for library in linked(path):
            # Below /usr, where the links of above lead.
            inside = library.lstrip("/") if library.startswith("/usr/") else "usr" + library
            entries[inside] = Entry(0o755 if "/ld-" in library else 0o644, _read(library))
            package = owner(library)
            if package:
                packages[package.name] = package
    for package in packages.values():
        copyright_file = "/usr/share/doc/%s/copyright" % package.name
        if os.path.exists(copyright_file):
            entries[copyright_file[1:]] = Entry(0o644, _read(copyright_file))
    _add_parents(entries)
    return entries, packages
