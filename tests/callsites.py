"""Judges stacks by the code they went through, knowing nothing of how they were found.

    with Process(pid) as p:                    # it lives, and stands still meanwhile
        j = Judge(p).stacks(pprof.read(path))
    j.bad                                      # why -> [(samples, stack)]

A stack without a mark must end where a thread begins: at the entry of a program, at the system call
that makes a thread, or at what a runtime is known to begin with. Every return address must follow a
call. Where that call says its target, the callee must be that function, or one that it jumps to: a tail
call, a cold part, a stub of the PLT. Where the target is in a register, that it follows a call is all
that can be said; such pairs are counted as loose.

Files are read from disk, code without a file (a JIT's) from the process's memory; where its functions
begin and end, a perf map may tell.
"""
import bisect
import functools
import os
import re
import signal
import struct
import subprocess
import tempfile

FUNCTION_MAX = 1 << 20
JUMPS_MAX = 200  # functions that a chain of tail calls is followed through
# What a runtime begins a stack with, and no code says so.
ROOTS = re.compile(
    r"_start|_dl_start_user|__start_context|(__)?clone3?|"
    # Go: a goroutine, a thread; and the scheduler, to which a goroutine gives its thread for good
    r"(runtime\.)?(goexit|mstart0?|rt0_go|sigtramp|mcall|gogo|gopreempt_m|preemptPark)(\.abi0)?|"
    r"_rt0_amd64.*")
# mov of a clone's number; the system call may stand some instructions later
CLONES = {64: (b"\xb8\xb3\x01\x00\x00", b"\xb8\x38\x00\x00\x00", b"\xb0\x38"),
          32: (b"\xb8\x78\x00\x00\x00", b"\xb8\xb3\x01\x00\x00", b"\xb0\x78")}
SYSCALL = {64: (b"\x0f\x05",), 32: (b"\xcd\x80", b"\x65\xff\x15\x10\x00\x00\x00")}
# mov $sigreturn; syscall
RESTORERS = (b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", b"\xb8\xad\x00\x00\x00\xcd\x80",
             b"\x58\xb8\x77\x00\x00\x00\xcd\x80", b"\xb8\x0f\x00\x00\x00\x0f\x05",
             b"\xb8\xad\x00\x00\x00\x0f\x05")
# Entered from anywhere, by a signal handler that changed the registers.
INJECTED = re.compile(r"runtime\.(asyncPreempt|sigpanic.*)(\.abi0)?")
# Called with a return address that was pushed, not left by a call: HotSpot's interpreter goes on at an
# entry for each kind of result.
PUSHED = re.compile(r"Interpreter")


def pushes_itself(addr):
    """HotSpot's way out of a method that is given up: mov $addr,%r10; push %r10; then it jumps."""
    return b"\x49\xba" + struct.pack("<Q", addr) + b"\x41\x52"


class Elf:
    """The text of one file, and where its functions begin and end."""

    def __init__(self, data):
        self.data = data
        self.bits = 64 if data[4] == 2 else 32
        wide = self.bits == 64
        self.entry, phoff, shoff = struct.unpack_from("<QQQ" if wide else "<III", data, 24)
        phsize, phnum, shsize, shnum, names = struct.unpack_from("<5H", data, 54 if wide else 42)
        self.loads, self.hdr = [], None  # (vaddr, offset, size)
        for i in range(phnum):
            at = phoff + i * phsize
            if wide:
                kind, flags, offset, vaddr, _, size = struct.unpack_from("<IIQQQQ", data, at)
            else:
                kind, offset, vaddr, _, size, _, flags = struct.unpack_from("<7I", data, at)
            if kind == 1:
                self.loads.append((vaddr, offset, size, flags))
            elif kind == 0x6474e550:
                self.hdr = vaddr
        self.executable, symbols = [], []
        self.sections, self.section_names = [], []
        for i in range(shnum):
            at = shoff + i * shsize
            if at + shsize > len(data):
                break
            if wide:
                name, kind, flags, addr, offset, size, link, _, _, entry = \
                    struct.unpack_from("<IIQQQQIIQQ", data, at)
            else:
                name, kind, flags, addr, offset, size, link, _, _, entry = \
                    struct.unpack_from("<10I", data, at)
            self.sections.append((kind, flags, addr, offset, size, link, entry))
            self.section_names.append(name)
        if names < len(self.sections):
            begin = self.sections[names][3]
            self.section_names = [data[begin + n:data.find(b"\0", begin + n)].decode("ascii", "replace")
                                  for n in self.section_names]
        for kind, _, _, offset, size, link, entry in self.sections:
            if kind in (2, 11) and entry and link < len(self.sections):
                symbols += self._symbols(offset, size, entry, self.sections[link])
        symbols.sort()
        self.symbols, self.starts = symbols, [s[0] for s in symbols]
        self.fdes = self._fdes() or self._walk_fdes()
        self.fde_starts = [s for s, _ in self.fdes]

    def _symbols(self, offset, size, entry, strings):
        for at in range(offset, offset + size, entry):
            if self.bits == 64:
                name, info, _, section, value, length = struct.unpack_from("<IBBHQQ", self.data, at)
            else:
                name, value, length, info, _, section = struct.unpack_from("<IIIBBH", self.data, at)
            if info & 15 not in (0, 2, 10) or not 0 < section < len(self.sections) or \
                    not self.sections[section][1] & 4:
                continue
            begin = strings[3] + name
            name = self.data[begin:self.data.index(b"\0", begin)].decode("utf-8", "replace")
            if info & 15 == 0 and (not length and name.startswith((".", "$", "_GLOBAL"))):
                continue
            yield value, length, name

    def _fdes(self):
        """(start, where its FDE is), of .eh_frame_hdr"""
        if self.hdr is None:
            return []
        head = self.read(self.hdr, 12)
        if len(head) < 12 or head[0] != 1 or head[1] != 0x1b or head[2] != 3 or head[3] != 0x3b:
            return []
        count = struct.unpack_from("<I", head, 8)[0]
        table = self.read(self.hdr + 12, 8 * count)
        return [(self.hdr + a, self.hdr + b) for a, b in struct.iter_unpack("<ii", table)]

    def _walk_fdes(self):
        """The same of .eh_frame itself, where no table leads into it"""
        found = []
        for (kind, _, addr, offset, size, _, _), name in zip(self.sections, self.section_names):
            at, end = offset, offset + size if name == ".eh_frame" and kind != 8 else 0
            while at + 16 <= end:
                length, cie = struct.unpack_from("<II", self.data, at)
                if length in (0, 0xffffffff):
                    break
                if cie:  # as gcc writes them: 4 bytes each, relative to where they stand
                    here = addr + at - offset
                    start = here + 8 + struct.unpack_from("<i", self.data, at + 8)[0]
                    found.append((start, here))
                at += 4 + length
        return sorted(found)

    def offset(self, addr):
        for vaddr, offset, size, _ in self.loads:
            if vaddr <= addr < vaddr + size:
                return addr - vaddr + offset
        return None

    def address(self, offset):
        for vaddr, at, size, _ in self.loads:
            if at <= offset < at + size:
                return offset - at + vaddr
        return None

    def read(self, addr, size):
        at = self.offset(addr)
        return b"" if at is None else self.data[at:at + size]

    def writable(self, addr):
        return any(v <= addr < v + max(s, 1) and f & 2 for v, _, s, f in self.loads)

    @functools.lru_cache(None)
    def function(self, addr):
        """(start, end, name) of the function that has this address, None if nothing tells"""
        i = bisect.bisect_right(self.fde_starts, addr) - 1
        if i >= 0:
            start, fde = self.fdes[i]
            size = struct.unpack_from("<I", self.read(fde + 12, 4).ljust(4, b"\0"))[0]
            if addr < start + size:
                return start, start + size, self.name(addr)
        i = bisect.bisect_right(self.starts, addr) - 1
        if i < 0:
            return None
        start, size, name = self.symbols[i]
        after = bisect.bisect_right(self.starts, start)
        end = start + size if size else \
            self.starts[after] if after < len(self.starts) else start + 4096
        return (start, end, name) if addr < end else None

    def name(self, addr):
        i = bisect.bisect_right(self.starts, addr) - 1
        return self.symbols[i][2] if i >= 0 else ""


class Process:
    """A process that is stopped while it is looked into."""

    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)
        self.memory = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY)
        self.maps = []
        with open(f"/proc/{self.pid}/maps") as f:
            for line in f:
                span, mode, offset, _, _, *path = line.rstrip("\n").split(None, 5)
                start, end = (int(x, 16) for x in span.split("-"))
                self.maps.append((start, end, int(offset, 16), "x" in mode, path[0] if path else ""))
        self.files = {}
        self.jit = self._perf_map()
        self.jit_starts = [f[0] for f in self.jit]
        return self

    def _perf_map(self):
        try:
            with open(f"/tmp/perf-{self.pid}.map", errors="replace") as f:
                rows = [line.split(None, 2) for line in f]
        except FileNotFoundError:
            return []
        return sorted((int(a, 16), int(a, 16) + int(n, 16), name.strip()) for a, n, name in rows)

    def jit_function(self, addr):
        """As Elf.function(), of code without a file."""
        i = bisect.bisect_right(self.jit_starts, addr) - 1
        return self.jit[i] if i >= 0 and addr < self.jit[i][1] else None

    def __exit__(self, *_):
        os.close(self.memory)
        os.kill(self.pid, signal.SIGCONT)

    def read(self, addr, size):
        try:
            return os.pread(self.memory, size, addr)
        except (OSError, OverflowError):
            return b""

    def file(self, path):
        """The Elf of a path as it is mapped, or None."""
        if path not in self.files:
            data = b""
            if path == "[vdso]":
                data = next((self.read(m[0], m[1] - m[0]) for m in self.maps if m[4] == path), b"")
            elif not path.startswith("["):
                for at in (f"/proc/{self.pid}/root{path}", path):
                    if not data and os.path.isfile(at):
                        with open(at, "rb") as f:
                            data = f.read()
            self.files[path] = Elf(data) if data[:4] == b"\x7fELF" else None
        return self.files[path]

    @property
    def bits(self):
        with open(f"/proc/{self.pid}/exe", "rb") as f:
            return 64 if f.read(5)[4] == 2 else 32

    def place(self, addr):
        """(path, address in the file), or (None, addr) of memory without one; None: not mapped."""
        for start, end, offset, executable, path in self.maps:
            if start <= addr < end:
                elf = self.file(path) if path else None
                if not elf:
                    return (None, addr) if executable else None
                if path == "[vdso]":
                    return path, addr - start + elf.loads[0][0]
                return path, elf.address(addr - start + offset)
        return None

    def live(self, path, addr):
        """Where in the process an address of a file is, None if it is not mapped."""
        elf = self.file(path)
        offset = elf.offset(addr) if elf else addr
        for start, end, begin, _, other in self.maps:
            if other == path and offset is not None and begin <= offset < begin + end - start:
                return start + offset - begin
        return None


def calls_before(code, ret, bits):
    """The calls that could end right before `ret`, where `code` ends: (kind, operand)"""
    if len(code) >= 5 and code[-5] == 0xe8:
        target = ret + struct.unpack("<i", code[-4:])[0]
        yield "direct", target & (2 ** bits - 1)
    for size in (2, 3, 4, 6, 7):
        if len(code) < size or code[-size] != 0xff or code[-size + 1] >> 3 & 7 != 2:
            continue
        mod, rm = code[-size + 1] >> 6, code[-size + 1] & 7
        sib = mod != 3 and rm == 4
        disp = {0: 4 if rm == 5 else 0, 1: 1, 2: 4, 3: 0}[mod]
        if sib and mod == 0 and size > 2 and code[-size + 2] & 7 == 5:
            disp = 4
        if size != 2 + sib + disp:
            continue
        if mod == 0 and rm == 5:
            value = struct.unpack("<i", code[-4:])[0]
            yield "slot", (ret + value if bits == 64 else value & 0xffffffff)
        else:
            yield "register", None


LINE = re.compile(r"\s*([0-9a-f]+):\t(.*)")
TARGET = re.compile(r"(?:0x)?([0-9a-f]+)\s*\Z")
SWITCH = re.compile(r"\*0x[0-9a-f]+\(,%\w+,[48]\)")
SLOT = re.compile(r"\*.*\(%rip\)\s+# 0x([0-9a-f]+)|\*0x([0-9a-f]+)\Z")


def disassemble(blocks, bits):
    """Of each (address, bytes): {address after an instruction: (its mnemonic, its operands)}"""
    if not blocks:
        return []
    gap = b"\x90" * 32  # wherever the block before ended, the next begins in step
    with tempfile.NamedTemporaryFile() as f:
        at, begins = 0, []
        for _, data in blocks:
            begins.append(at)
            f.write(data + gap)
            at += len(data) + len(gap)
        f.flush()
        text = subprocess.run(
            ["objdump", "-D", "-w", "-b", "binary", "-m", "i386" + ":x86-64" * (bits == 64),
             "--no-show-raw-insn", f.name], capture_output=True, text=True, check=True).stdout
    out, last = [{} for _ in blocks], None
    for line in text.splitlines():
        m = LINE.match(line)
        if not m:
            continue
        here = int(m[1], 16)
        if last is not None:
            i = bisect.bisect_right(begins, last[0]) - 1
            moved = blocks[i][0] - begins[i]
            words = last[1].split(None, 1)
            while words and words[0] in ("notrack", "bnd", "rex.W", "data16", "addr32", "repz", "cs"):
                words = words[1].split(None, 1) if len(words) > 1 else []
            if words:
                operand = words[1] if len(words) > 1 else ""
                out[i][here + moved] = (words[0], operand, moved)
        last = here, m[2].strip()
    return out


class Judge:
    """What a program does in its own way:

    pushed    return addresses in code without a file are pushed by hand, and may follow anything
    no_return a stack may begin in a function that never returns
    """

    def __init__(self, process, pushed=False, no_return=False):
        self.process, self.pushed, self.no_return = process, pushed, no_return
        self.samples = self.whole = 0
        self.strict = self.loose = 0
        self.bad = {}
        self.code = {}     # (path, start) -> what disassemble() says
        self.jumps = {}    # the same -> what _find_jumps() says
        self.verdicts = {}

    # -- code -----------------------------------------------------------------------------------

    def _read(self, path, addr, size):
        elf = self.process.file(path) if path else None
        if elf:
            return elf.read(addr, size)
        live = self.process.live(path, addr) if path else addr  # a file of code that a JIT made
        return self.process.read(live, size) if live is not None else b""

    def _bits(self, path):
        elf = self.process.file(path) if path else None
        return elf.bits if elf else self.process.bits

    def _function(self, path, addr):
        if path is None:
            return self.process.jit_function(addr)
        elf = self.process.file(path)
        return elf.function(addr) if elf else None

    def _instructions(self, path, function):
        key = path, function[0]
        if key not in self.code:
            self._disassemble({key: function})
        return self.code[key]

    def _disassemble(self, wanted):
        """Many functions at once: objdump takes longer to start than to work."""
        for bits in (64, 32):
            some = {k: f for k, f in wanted.items() if k not in self.code and
                    self._bits(k[0]) == bits}
            blocks = [(f[0], self._read(path, f[0], min(f[1] - f[0], FUNCTION_MAX)))
                      for (path, _), f in some.items()]
            self.code.update(zip(some, disassemble(blocks, bits)))

    def _slot(self, path, addr):
        """What a slot of a file's table of addresses holds now, as a place; None: not known."""
        live = self.process.live(path, addr)
        if live is None:
            return None
        size = self._bits(path) // 8
        data = self.process.read(live, size)
        return self.process.place(int.from_bytes(data, "little")) if len(data) == size else None

    def _jumps(self, path, function):
        """Where a function jumps to outside of itself: (places, whether it may be anywhere else)"""
        key = path, function[0]
        if key not in self.jumps:
            self.jumps[key] = self._find_jumps(path, function)
        return self.jumps[key]

    def _find_jumps(self, path, function):
        start, end, _ = function
        out, wild, last, table = [], False, None, 0
        for name, operand, moved in self._instructions(path, function).values():
            last = name
            # A switch: from a table of distances, or of addresses.
            table = 6 if name.startswith("movslq") and ",4)" in operand else table - 1
            if not name.startswith("j") and not name.startswith("loop"):
                continue
            if operand.startswith("*") and (table > 0 and operand.startswith("*%") or SWITCH.match(operand)):
                continue
            if operand.startswith("*"):
                m = SLOT.match(operand)
                place = m and self._slot(path, int(m[1] or m[2], 16) + (moved if m[1] else 0))
                if place:
                    out.append(place)
                else:
                    wild = True
                continue
            m = TARGET.search(operand)
            target = (int(m[1], 16) + moved) & (2 ** self._bits(path) - 1) if m else start
            if not start <= target < end:
                out.append((path, target))
        if last and not re.match(r"jmp|ret|call|ud2|hlt|nop|int3|xchg|data16|cs|leave", last):
            out.append((path, end))  # goes on in what stands behind it
        return out, wild

    # -- verdicts -------------------------------------------------------------------------------

    def _reaches(self, target, callee):
        """'strict', 'loose' or None: whether who calls `target` may find itself in `callee`."""
        todo, seen, wild = [target], {}, False
        while todo and len(seen) < JUMPS_MAX:
            step = {}
            for path, addr in todo:
                if path == callee.file and addr == callee.addr:
                    return "strict"
                function = self._function(path, addr) if path else None
                if function is None:
                    wild = True
                elif path == callee.file and function[0] <= callee.addr < function[1]:
                    return "strict"
                elif (path, function[0]) not in seen:
                    step[path, function[0]] = function
            self._disassemble(step)
            seen.update(step)
            todo = []
            for (path, _), function in step.items():
                places, any_ = self._jumps(path, function)
                todo += places
                wild |= any_
        return "loose" if wild or todo else None

    def _calls(self, caller, callee):
        """'strict' or 'loose' if the caller may have called the callee; else why not, as a list."""
        path, ret, place = caller.file, caller.addr + 1, None
        code = self._read(path, ret - 8, 8)
        if len(code) < 8:
            return ["its code cannot be read"] if path is None else "loose"
        bits = self._bits(path)
        calls = list(calls_before(code, ret, bits))
        function = self._function(path, caller.addr)
        if path is None and (self.pushed or function and PUSHED.fullmatch(function[2]) or
                             self._read(path, ret, 12) == pushes_itself(ret)):
            return "loose"
        if function:
            at = self._instructions(path, function).get(ret)
            if at and not at[0].startswith("call"):
                calls = []
            elif at:
                star = "*" in at[1]
                calls = [c for c in calls if (c[0] != "direct") == star]
        if not calls:
            return [f"no call before {ret:#x}: {code.hex(' ')}"]
        for kind, operand in calls:
            if kind == "register":
                return "loose"
            if kind == "slot":  # may have held something else then
                place = self._slot(path, operand) if path else None
                return "strict" if place and self._reaches(place, callee) == "strict" else "loose"
            if path is None:
                place = self.process.place(operand)
            else:
                place = path, operand
            if place is None:
                continue
            if path is None and place[0] is None:
                return "loose"  # where JIT code calls may be patched
            verdict = self._reaches(place, callee)
            if verdict:
                return verdict
        return [f"it calls {self._say(place) if place else hex(operand)}"]

    def _say(self, place):
        path, addr = place
        function = self._function(path, addr)
        name = function[2] if function and function[2] else hex(addr)
        return f"{name} of {os.path.basename(path)}" if path else hex(addr)

    def restorer(self, frame):
        """Whether it is where signal handlers return to, at the beginning or further on."""
        code = self._read(frame.file, frame.addr - 8, 20)
        return any(0 <= code.find(r) <= 9 < code.find(r) + 2 + len(r) for r in RESTORERS)

    def root(self, frame):
        """Whether a stack may begin there."""
        if ROOTS.fullmatch(frame.name):
            return True
        elf = self.process.file(frame.file) if frame.file else None
        if not elf:
            return False
        function = elf.function(frame.addr) or (frame.addr - 96, frame.addr + 32, "")
        if ROOTS.fullmatch(function[2]) or function[0] <= elf.entry < function[1]:
            return True
        if self.no_return and elf.function(frame.addr) and not any(
                i[0].startswith("ret") for i in self._instructions(frame.file, function).values()):
            return True
        code = elf.read(function[0], min(function[1] - function[0], 512))
        return any(c in code for c in CLONES[elf.bits]) and any(c in code for c in SYSCALL[elf.bits])

    def pair(self, callee, caller, last):
        """As _calls(), with what is entered without a call."""
        if self.restorer(callee) or INJECTED.fullmatch(callee.name):
            return "loose"
        if self.restorer(caller) or (last and ROOTS.fullmatch(caller.name)):
            return "loose"
        return self._calls(caller, callee)

    def stack(self, s):
        frames = s.frames
        if not frames:
            return
        self.samples += s.count
        marked = any(f.addr == 0 for f in frames)
        self.whole += 0 if marked else s.count
        why = None
        if not marked and not self.root(frames[-1]):
            why = f"called complete, and the root is {frames[-1].name}"
        for i in range(1, len(frames)):
            callee, caller = frames[i - 1], frames[i]
            if not callee.addr or not caller.addr:
                continue
            key = callee, caller, i == len(frames) - 1
            if key not in self.verdicts:
                self.verdicts[key] = self.pair(*key)
            verdict = self.verdicts[key]
            if verdict == "strict":
                self.strict += s.count
            elif verdict == "loose":
                self.loose += s.count
            else:
                why = why or (f"{caller.name} does not call {callee.name}: {verdict[0]}" +
                              " (at the leaf)" * (i == 1) +
                              " (in a stack that is marked)" * marked)
        if why:
            self.bad.setdefault(why, []).append((s.count, self.show(s)))

    def _want(self, wanted, callee, caller):
        """The caller's code, and that of what it calls where that is not the callee itself."""
        function = self._function(caller.file, caller.addr)
        if function:
            wanted[caller.file, function[0]] = function
        code = self._read(caller.file, caller.addr - 4, 5) if caller.file else b""
        if len(code) == 5 and code[0] == 0xe8:
            target = caller.addr + 1 + struct.unpack("<i", code[1:])[0]
            function = self._function(caller.file, target)
            if function and not function[0] <= callee.addr < function[1]:
                wanted[caller.file, function[0]] = function

    def stacks(self, stacks):
        pairs = {(a, b) for s in stacks for a, b in zip(s.frames, s.frames[1:]) if a.addr and b.addr}
        wanted = {}
        for callee, caller in pairs:
            self._want(wanted, callee, caller)
        self._disassemble(wanted)
        for s in stacks:
            self.stack(s)
        return self

    def exceptions(self, kind=""):
        return sum(n for why, all_ in self.bad.items() if why.startswith(kind) for n, _ in all_)

    @staticmethod
    def show(s):
        return s.labels.get("thread", "") + ": " + ";".join(
            f"{f.name}" + (f"<{os.path.basename(f.file or 'jit')}+{f.addr:#x}>" if f.addr else "")
            for f in reversed(s.frames))

    def report(self, most=5):
        text = []
        for why, all_ in sorted(self.bad.items(), key=lambda kv: -sum(n for n, _ in kv[1]))[:most]:
            text.append(f"{sum(n for n, _ in all_)} samples: {why}, such as\n    {all_[0][1]}")
        return "\n  ".join(text)
