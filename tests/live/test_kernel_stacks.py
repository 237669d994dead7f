#!/usr/bin/env python3
"""The kernel's stacks, which the BPF side walks by itself where it can: on a busy machine most are
walked so, and those that are compared with the kernel's own walk are the same. (Every stack is
compared in tests/unit/test_collect.c.)"""
import contextlib
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import workloads
from recording import live, record
from tap import SOAK, main, skip

SAID = re.compile(r"kernel stacks: (\d+) walked, (\d+) by the kernel itself; (\d+) compared, "
                  r"(\d+) different")


def kernel_can():
    """Whether the kernel's tables are of the form that is walked by: 6.4 and later, with ORC."""
    with open("/proc/kallsyms") as f:
        orc = any(line.split()[2] == "__start_orc_unwind" for line in f)
    return orc and tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups())) >= (6, 4)


@live
def on_a_busy_machine():
    if not kernel_can():
        skip("this kernel's tables are of another form: it is asked for each stack")
    with contextlib.ExitStack() as stack:
        for name in ("syscalls", "pingpong", "threads", "glibc"):
            stack.enter_context(workloads.start(name))
        stack.enter_context(workloads.start("forks", "40", "/bin/sh", "-c", "/bin/ls /; :"))
        r = record("-v", "-a", "-F", 4999, "-d", 60 if SOAK else 5, "--annotations").ok()
    walked, asked, compared, different = map(int, SAID.search(r.err).groups())
    assert different == 0, r.err
    assert walked > 9 * asked, r.err
    assert walked > 1000 and compared >= walked // 200, r.err
    # A whole stack of a system call begins where the kernel is entered.
    entries = total = 0
    for frames, n in r.stacks:
        kernel = [f for f in frames if f.endswith("_[k]")]
        if len(kernel) > 2 and len(kernel) < len(frames) - 1:
            total += n
            entries += n * kernel[0].startswith(("entry_", "asm_", "ret_from_fork"))
    assert total > 500 and entries > 0.99 * total, f"{entries} of {total}\n{r.err}"
    print(f"# {walked} walked, {asked} by the kernel, {compared} compared, {entries}/{total} whole")


main()
