"""A terminal for tests: runs a program on a pseudo terminal and keeps its screen (pyte).

Use: with Terminal([ckpt, 'view', 'net.pth'], columns=80, rows=24) as t: t.wait_for('net.pth'); t.type('q'); t.wait()
"""

import errno
import fcntl
import os
import pty
import select
import struct
import termios
import time

import pyte

DEADLINE = float(os.environ.get("CKPT_TERMINAL_SECONDS", "60"))  # seconds for anything; machines may be busy


class Terminal:
    def __init__(self, command, columns=80, rows=24, folder=None, environment=None):
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.status = None
        values = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "LC_ALL", "COLUMNS", "LINES")}
        # pyte repeats no characters (REP), which xterm's entry uses.
        values.update({"TERM": "screen-256color", "LC_CTYPE": "C.UTF-8", "LANG": "C.UTF-8"})
        values.update(environment or {})
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                if folder:
                    os.chdir(folder)
                self._set_size(0, columns, rows)
                os.execvpe(command[0], command, values)
            finally:
                os._exit(127)
        self._set_size(self.fd, columns, rows)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.status is None:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
        os.close(self.fd)

    @staticmethod
    def _set_size(fd, columns, rows):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns, rows):
        self.screen.resize(rows, columns)
        self._set_size(self.fd, columns, rows)

    def read(self, seconds):
        """What comes within that time; False at the end of the program."""
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError as error:
            if error.errno == errno.EIO:
                return False
            raise
        if not data:
            return False
        self.raw += data
        self.stream.feed(data)
        return True

    def type(self, text):
        os.write(self.fd, text.encode())

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def text(self):
        return "\n".join(self.lines())

    def wait_for(self, *wanted, absent=()):
        """Until all of it is on the screen."""
        end = time.monotonic() + DEADLINE
        open_ = True
        while time.monotonic() < end:
            text = self.text()
            if all(w in text for w in wanted) and not any(a in text for a in absent):
                return text
            if not open_:
                break
            open_ = self.read(0.2)
        raise AssertionError(f"not on the screen: {wanted} (absent: {absent})\n{self.text()}")

    def wait(self):
        """The exit code, once the program ended; negative for a signal."""
        end = time.monotonic() + DEADLINE
        while self.read(0.2) and time.monotonic() < end:
            pass
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
                return self.status
            time.sleep(0.02)
        raise AssertionError("the program did not end\n" + self.text())
