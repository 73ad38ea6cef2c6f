# SPDX-License-Identifier: Apache-2.0
"""One program that runs in the background, with its log."""

import os
import signal
import subprocess
import time


class DaemonError(Exception):
    """A program ended that should be running."""


class Daemon:
    """Starts, stops and kills one program; its output goes to LOGDIR/NAME.log over all its lives."""

    def __init__(self, name, argv, log_dir, hostname=None, env=None, pass_fds=()):
        self.name = name
        self.log = os.path.join(log_dir, name + ".log")
        self.argv = list(argv)
        self._hostname = hostname
        self._env = env
        self._pass_fds = pass_fds
        self._process = None

    def _command(self):
        if self._hostname is None:
            return self.argv
        # The identity of an API server is made of its host name, so each node has a name space for it of its own.
        return ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self._hostname, *self.argv]

    def start(self):
        if self.running():
            raise DaemonError("%s is running already" % self.name)
        with open(self.log, "ab") as out:
            out.write(b"---- started %s\n" % time.strftime("%H:%M:%S").encode())
            out.flush()
            # A session of its own: ^C at the terminal is for the test, which then stops things in order.
            self._process = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                             env=self._env, start_new_session=True, pass_fds=self._pass_fds)

    @property
    def pid(self):
        return self._process.pid

    def running(self):
        return self._process is not None and self._process.poll() is None

    def check(self):
        """Raise DaemonError if it is not running: there is no point in waiting for it then."""
        if not self.running():
            raise DaemonError("%s ended with status %s:\n%s" % (
                self.name, None if self._process is None else self._process.returncode, self.tail(15)))

    def signal(self, number):
        self._process.send_signal(number)

    def stop(self, timeout=20.0):
        """SIGTERM, then after the timeout SIGKILL. Returns the exit status (negative: the signal)."""
        if not self.running():
            return None if self._process is None else self._process.returncode
        self.signal(signal.SIGTERM)
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self):
        if self.running():
            self._process.kill()
        return None if self._process is None else self._process.wait()

    def tail(self, lines=20):
        """The end of its log, each line indented."""
        try:
            with open(self.log, encoding="utf-8", errors="replace") as file:
                return "".join("    | " + line[:400].rstrip("\n") + "\n" for line in file.readlines()[-lines:])
        except FileNotFoundError:
            return "    | (no log)\n"

    def log_text(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()
