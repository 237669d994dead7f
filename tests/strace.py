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


FRAME = re.compile(r"^ > (?:(.*)\()?(.*?)(?:\+0x[0-9a-f]+)?\)?(?: \[0x[0-9a-f]+\])?$")


def stacks(path):
    """(thread, name, which of its calls by that name) -> [(file, function)], as -k writes them; from a
    thread's last execve on."""
    found, seen, last = {}, collections.Counter(), None
    with open(path, encoding="latin-1") as f:
        for line in f:
            m, frame = LINE.match(line), FRAME.match(line)
            call = CALL.match(m[2]) if m else None
            if call and call[1] == "execve":
                found = {key: stack for key, stack in found.items() if key[0] != int(m[1])}
                seen = collections.Counter({key: n for key, n in seen.items() if key[0] != m[1]})
            if call:
                last = (int(m[1]), call[1], seen[m[1], call[1]])
                seen[m[1], call[1]] += 1
            elif frame and last:
                found.setdefault(last, []).append((frame[1] or "", frame[2]))
    return found


def by_thread(calls):
    """The calls of each thread."""
    threads = {}
    for c in calls:
        threads.setdefault(c.tid, []).append(c)
    return threads


def differences(theirs, ours):
    """(their line, our line) of calls of a thread that stand at the same place and are not written
    alike; of a place where only one of them has a call, the other is ''."""
    matcher = difflib.SequenceMatcher(None, [c.name for c in theirs], [c.name for c in ours], autojunk=False)
    for tag, i, j, k, l in matcher.get_opcodes():
        for n in range(max(j - i, l - k)):
            x = theirs[i + n].text if i + n < j else ""
            y = ours[k + n].text if k + n < l else ""
            if x != y:
                yield x, y
