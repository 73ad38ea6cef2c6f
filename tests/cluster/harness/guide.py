# SPDX-License-Identifier: Apache-2.0
"""The commands of a guide in docs/: the blocks that are marked with the name of their step, as they stand there.

    ```sh step=NAME
    commands
    ```
"""

import os
import re

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "docs")
BLOCK = re.compile(r"^( *)```sh(?: step=([a-z0-9-]+))?\n(.*?)^ *```$", re.M | re.S)


class Guide:
    """Steps by name; and which of them nobody has taken."""

    def __init__(self, name):
        with open(os.path.join(DOCS, name), encoding="utf-8") as file:
            text = file.read()
        self._steps, self._taken = {}, set()
        for indent, step, body in BLOCK.findall(text):
            assert step, "%s: commands without a step: %s" % (name, body)
            assert step not in self._steps, "%s: step %s twice" % (name, step)
            self._steps[step] = "".join(line.removeprefix(indent) for line in body.splitlines(keepends=True))

    def take(self, machine, *steps, **how):
        """What the commands of these steps write there; CommandFailed if one fails."""
        said = ""
        for step in steps:
            self._taken.add(step)
            said += machine.run(self._steps[step], **how)
        return said

    @property
    def not_taken(self):
        return sorted(set(self._steps) - self._taken)
