#!/usr/bin/env python3
"""Every recording that README.md and the manual pages show is made, on a busy process, for a second."""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from examples import examples  # noqa: E402
from tap import SMOLDER, main, skip, test  # noqa: E402


def shortened(line, pid, seconds):
    line = re.sub(r"^sudo ", "", line)
    line = re.sub(r"\b1234\b", str(pid), line)
    line = re.sub(r"-d \d+", "-d 1", line)
    line = re.sub(r"^(smolder (?:profile|offcputime) .*) \d+ >", r"\1 1 >", line)
    line = re.sub(r"^(smolder (?:syscalls|stat) .*[^-]\S) \d+$", r"\1 1", line)
    if " -- " in line:
        return line
    # What would go on until Ctrl-C: one, as a second soon after it would break it off.
    return re.sub(r"^smolder (trace|syscalls|syscount|stat|bpf)\b", rf"timeout --foreground --preserve-status -s INT {seconds} \g<0>", line)


@test
def recordings_that_are_shown_work():
    if os.geteuid() != 0:
        skip("needs root")
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("make", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"),
                               ("curl", "exec true"), ("flamegraph.pl", "exec cat")):
                path = os.path.join(folder, name)
                with open(path, "w") as f:
                    f.write(f"#!/bin/sh\n{text}\n")
                os.chmod(path, 0o755)
            env = dict(os.environ, PATH=f"{folder}:{os.path.dirname(SMOLDER)}:{os.environ['PATH']}")
            ran = 0
            for where, line in examples():
                if not re.search(r"smolder (record|profile|doctor|offcpu|offcputime|syscalls|syscount|stat|trace|bpf(?! \w))\b", line):
                    continue
                for seconds in (2, 20):  # a busy machine may take longer than that to begin
                    short = shortened(line, busy.pid, seconds)
                    p = subprocess.run(["sh", "-ec", short], cwd=folder, env=env, capture_output=True,
                                       text=True, timeout=120)
                    if p.returncode != 130 or p.stderr:
                        break
                assert p.returncode == 0, f"{where}: {short}: {p.returncode}: {p.stderr}"
                made = re.search(r"(?:-o |> ?)([\w.]+\.[\w.]+)", short)
                if made:
                    size = os.path.getsize(os.path.join(folder, made[1]))
                    # What waits for a disk is not there to be met.
                    assert size > 0 or "--until" in short, f"{where}: {short}: {made[1]} is empty: {p.stderr}"
                else:
                    assert p.stdout or p.stderr or "/dev/null" in short, f"{where}: {short}: says nothing"
                ran += 1
            assert ran > 30, ran
    finally:
        busy.kill()
        busy.wait()


main()
