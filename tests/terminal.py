"""A program in a terminal of a given size: tmux is the terminal, and what it shows can be read.

    with terminal.Terminal([SMOLDER, "top"], 80, 24) as t:
        t.wait("the help line", lambda lines: "q quit" in lines[-1])
        t.keys("q")
"""
import os
import shutil
import subprocess
import tempfile

from always import tree, until
from tap import skip


class Terminal:
    def __init__(self, argv, width, height, env=None):
        if not shutil.which("tmux"):
            skip("tmux is not installed")
        self.dir = tempfile.mkdtemp()
        self.raw = os.path.join(self.dir, "raw")
        self.status = os.path.join(self.dir, "status")
        # Settings of the terminal before and after, and how it ended.
        words = " ".join(f"'{w}'" for w in argv)
        script = os.path.join(self.dir, "script")
        with open(script, "w") as f:
            f.write(f"trap : INT HUP\nstty -g > {self.dir}/before\n"
                    f"{words}\necho $? > {self.dir}/code\nstty -g > {self.dir}/after\n"
                    f"mv {self.dir}/after {self.status}\nexec sleep 1000\n")
        self.height = height
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height),
                   f"sh {script}", env={**os.environ, "LANG": "C.UTF-8", "TERM": "xterm", **(env or {})})

    def _tmux(self, *args, env=None):
        p = subprocess.run(["tmux", "-S", os.path.join(self.dir, "socket"), *args],
                           capture_output=True, text=True, env=env)
        assert p.returncode == 0, (args, p.stderr)
        return p.stdout

    def lines(self):
        """What is on the screen, all lines of it."""
        shown = self._tmux("capture-pane", "-p").split("\n")
        return (shown + [""] * self.height)[:self.height]

    def text(self):
        return "\n".join(self.lines())

    def keys(self, *keys):
        self._tmux("send-keys", *keys)

    def resize(self, width, height):
        self.height = height
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def ask(self, what):
        """Of tmux: "alternate_on", "cursor_flag", "pane_title", "pane_pid"."""
        return self._tmux("display-message", "-p", "#{%s}" % what).strip()

    def wait(self, what, condition):
        """Until a condition of the lines holds; what it gave."""
        seen = []

        def look():
            seen[:] = self.lines()
            return condition(seen)
        try:
            return until(what, look, patience=60)
        except AssertionError as e:
            raise AssertionError(f"{e}; the screen was:\n" + "\n".join(seen)) from None

    def record(self):
        """From now on, all that is written to the terminal goes to self.raw."""
        self._tmux("pipe-pane", f"cat >> {self.raw}")

    def recorded(self):
        try:
            with open(self.raw, "rb") as f:
                return f.read()
        except FileNotFoundError:
            return b""

    def program(self):
        """The pid of the program: the last one that was started."""
        def look():
            pids = tree(int(self.ask("pane_pid")))
            return pids[-1] if len(pids) > 1 else None
        return until("the program to start", look)

    def ended(self):
        """Waits for its end: (exit code, settings before, settings after)."""
        until("the program to end", lambda: os.path.exists(self.status), patience=60)
        def read(name):
            with open(os.path.join(self.dir, name)) as f:
                return f.read().strip()
        return int(read("code")), read("before"), read("status")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-S", os.path.join(self.dir, "socket"), "kill-server"],
                       capture_output=True)
        shutil.rmtree(self.dir, ignore_errors=True)
