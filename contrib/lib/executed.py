# SPDX-License-Identifier: Apache-2.0
"""Which tests execute a line of src/: each has run once in a build with gcov, with its counters in a folder of its own."""

import glob
import hashlib
import json
import os
import shutil
import subprocess

# What a forked child has executed is kept as well.
CONFIGURED = ["CC=gcc", "--enable-coverage", "CFLAGS=-O0 -g0", "CPPFLAGS=-D_exit=exit", "LDFLAGS=-fuse-ld=gold"]


def environment(folder):
    return {"GCOV_PREFIX": folder}


class Executed:
    def __init__(self, folder):
        self.folder = folder
        self.cache, self.digests = {}, {}  # {(test, path of a source): {line: how often}}, {test: digest}

    def of(self, test):
        return os.path.join(self.folder, test.replace("/", "-"))

    def folder_of(self, test, program):
        """A new folder for a test that is to run; None: it has run as it is."""
        with open(program, "rb") as f:
            self.digests[test] = hashlib.sha256(f.read()).hexdigest()
        mark = os.path.join(self.of(test), "digest")
        if os.path.exists(mark):
            with open(mark, encoding="utf-8") as f:
                if f.read() == self.digests[test]:
                    return None
        shutil.rmtree(self.of(test), ignore_errors=True)
        os.makedirs(self.of(test))
        return self.of(test)

    def done(self, test):
        with open(os.path.join(self.of(test), "digest"), "w", encoding="utf-8") as f:
            f.write(self.digests[test])

    def lines(self, test, path, build):
        """{line: how often} of a source. One that is compiled a second time (libsteps.a) counts twice."""
        if (test, path) not in self.cache:
            found = self.cache[test, path] = {}
            where, name = os.path.split(os.path.join(build, path[:-2]))
            for counted in glob.glob("%s%s/%s.gcda" % (self.of(test), where, name)) + glob.glob("%s%s/*-%s.gcda" % (self.of(test), where, name)):
                shutil.copy(os.path.join(where, os.path.basename(counted)[:-5] + ".gcno"), os.path.dirname(counted))
                told = subprocess.run(["gcov", "-j", "-t", counted], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=build, check=False).stdout
                for one in json.loads(told)["files"] if told else []:
                    if one["file"].endswith(path):
                        for line in one["lines"]:
                            found[line["line_number"]] = found.get(line["line_number"], 0) + line["count"]
        return self.cache[test, path]

    def reaches(self, test, path, line, build):
        """A line without a counter belongs to the statement that begins above it."""
        lines = self.lines(test, path, build)
        begun = max((n for n in lines if n <= line), default=None)
        return begun is not None and lines[begun] > 0
