"""Reads what strace -f -o writes, and what smolder trace -o does, call by call."""
import collections
import difflib
import re

LINE = re.compile(r"^(\d+) +(.*)$")
CALL = re.compile(r"^(\w+)\((.*)$")
RESUMED = re.compile(r"^<\.\.\. (\w+) resumed>(.*)$")
UNFINISHED = " <unfinished ...>"
RESULT = re.compile(r"^(.*?)\)?\s+= (\S.*)$", re.S)

Call = collections.namedtuple("Call", "tid name text")  # text: all of the line, from its name on


def read(path):
    """The calls of a trace, in order of their ends; signals and ends are left out."""
    with open(path, encoding="latin-1") as f:
        return list(parse(f.read().splitlines()))


def parse(lines):
    begun = {}
    for line in lines:
        m = LINE.match(line)
        if not m:
            continue
        tid, rest = int(m[1]), m[2]
        if rest.startswith(("+++", "---")):
            continue
        if rest.endswith(UNFINISHED.strip()):
            begun[tid] = rest[:-len(UNFINISHED)] if rest.endswith(UNFINISHED) else rest[:-len(UNFINISHED) + 1]
            continue
        m = RESUMED.match(rest)
        if m:
            head = begun.pop(tid, m[1] + "(")
            rest = head + m[2]
        m = CALL.match(rest)
        if m:
            # The blanks before the result are not a part of it.
            yield Call(tid, m[1], re.sub(r"\)\s+= ", ") = ", rest))


def normal(text, pids):
    """Without what differs from run to run: addresses, process numbers, random bytes, times."""
    text = re.sub(r"\b0x[0-9a-f]{5,}\b", "ADDRESS", text)
    text = re.sub(r"\b\d+\b", lambda m: "PID" if int(m[0]) in pids else m[0], text)
    text = re.sub(r'^getrandom\("[^"]*"', 'getrandom("RANDOM"', text)
    text = re.sub(r"\{tv_sec=\d+, tv_[un]sec=\d+\}", "TIME", text)
    text = re.sub(r"^(sysinfo)\(\{.*\}\)", r"\1({...})", text)
    text = re.sub(r"f_(blocks|bfree|bavail|files|ffree)=\d+", r"f_\1=N", text)
    text = re.sub(r"\bst_size=\d+(?=.*/proc/)", "st_size=N", text)
    return text


def pids(calls):
    found = {c.tid for c in calls}
    for c in calls:
        m = re.match(r"^(?:clone|clone3|fork|vfork|getpid|gettid|getppid|set_tid_address|wait4|getpgrp|setsid)\(.*= (\d+)$", c.text)
        if m and int(m[1]):
            found.add(int(m[1]))
    return {p for p in found if p > 1}


def normalised(calls):
    known = pids(calls)
    return [(c.name, normal(c.text, known)) for c in calls]


def by_process(calls):
    """The calls of each thread, threads in the order in which they appear."""
    threads = {}
    for c in calls:
        threads.setdefault(c.tid, []).append(c)
    return threads


def aligned_differences(theirs, ours):
    """(their line, our line) of calls that stand at the same place and are not written alike; of a
    place where only one of them has a call, the other is ''."""
    a, b = normalised(theirs), normalised(ours)
    matcher = difflib.SequenceMatcher(None, [n for n, _ in a], [n for n, _ in b], autojunk=False)
    for tag, i, j, k, l in matcher.get_opcodes():
        if tag == "equal":
            for (_, x), (_, y) in zip(a[i:j], b[k:l]):
                if x != y:
                    yield x, y
        else:
            for _, x in a[i:j]:
                yield x, ""
            for _, y in b[k:l]:
                yield "", y


def renderings(calls):
    """name -> the lines of it, each once."""
    found = {}
    for name, text in normalised(calls):
        found.setdefault(name, set()).add(text)
    return found
