"""Programs whose call graph is known exactly, generated, and the judge of the stacks they show.

    g = Graph("aa", seed=1)            # functions aa_..., layer by layer, each of some odd frame
    g.program(), g.library()           # its C source, as a program or as a shared library
    Judge([g], ...).check(stacks)      # every caller and callee of every stack is one of g's edges

Every function stays itself (noinline, no sibling calls), has a frame of its own shape, and calls
few of the next layers: a stack that leaves a frame out, or takes one from elsewhere, shows a pair
that the graph does not have.
"""
import random
import re

LAYERS, WIDTH = 7, 6

# Never what a real program is built with, and nothing that changes how it is unwound.
EXACT = ["-fno-optimize-sibling-calls", "-fno-inline"]
EXACT_GCC = EXACT + ["-fno-ipa-icf", "-fno-ipa-ra", "-fno-partial-inlining", "-fno-ipa-cp"]

HEAD = r"""
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define F __attribute__((noinline))
#define KEEP(x) __asm__ volatile("" : "+r"(x))

static __thread uint64_t seed = 88172645463325252u;

static inline __attribute__((always_inline)) uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed >> 20;
}

static inline __attribute__((always_inline)) long burn(long x, int n)
{
	for (int i = 0; i < n; i++)
		KEEP(x);
	return x;
}
"""

# How a function of each kind reads. NAME is its own, CALL is an expression that calls on with (x),
# PTR one of its callees as a pointer, N a size. All are long NAME(long x).
KINDS = {
    "plain": "volatile char b[N]; b[0] = (char)x; long r = CALL; return r + b[0];",
    "bare": "long r = CALL; KEEP(r); return r + 1;",
    "saved": """long a = x + 1, b = x * 3, c = x ^ 5, d = x - 7, e = x << 1, f = x | 9;
	KEEP(a); KEEP(b); KEEP(c); KEEP(d); KEEP(e); KEEP(f);
	long r = CALL;
	KEEP(a); KEEP(b); KEEP(c); KEEP(d); KEEP(e); KEEP(f);
	return r + a + b + c + d + e + f;""",
    "alloca": """size_t n = 16 + (rnd() & 1023); volatile char *b = alloca(n); b[0] = (char)x;
	long r = CALL; return r + b[0];""",
    "aligned": """_Alignas(64) volatile char b[64 + N]; b[0] = (char)x;
	KEEP(x); long r = CALL; return r + b[0];""",
    "drap": """_Alignas(128) volatile char b[128]; volatile char *c = alloca(16 + (rnd() & 255));
	b[0] = c[0] = (char)x; long r = CALL; return r + b[0] + c[0];""",
    "args": """return NAME_many(x, 1, 2, 3, 4, 5, 6, 7, 8, x) + 1;""",
    "early": """if (x == 12345)
		return x;
	long y = x * 7; KEEP(y);
	if ((x & 7) == 3) { volatile char b[N]; b[0] = 1; long r = CALL; return r + y + b[0]; }
	long r = CALL; return r + y;""",
    "recurse": """volatile char b[N]; b[0] = 1;
	if (rnd() % 3 == 0) { long r = NAME(x + 1); return r + b[0]; }
	long r = CALL; return r + b[0];""",
    "pointer": "long (*volatile f)(long) = PTR; long r = f(x); KEEP(r); return r + 1;",
    "sort": """int v[5] = {5, 1, 4, 2, 3}; v[0] = (int)x & 7;
	qsort(v, 5, sizeof(v[0]), NAME_compare); return v[0] + v[4];""",
    "search": """int v[7] = {1, 2, 3, 4, 5, 6, 7}, k = 1 + (int)(rnd() % 7);
	int *p = bsearch(&k, v, 7, sizeof(v[0]), NAME_compare); return p ? *p : 0;""",
    "clock": """struct timespec t; volatile char b[N]; b[0] = 1;
	for (int i = 0; i < 20; i++) clock_gettime(CLOCK_MONOTONIC, &t);
	long r = CALL; return r + b[0] + t.tv_nsec;""",
    "system": """volatile char b[N]; b[0] = 1; x += getppid(); syscall(SYS_getpid);
	long r = CALL; return r + b[0];""",
    "fault": """volatile char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 8192; i += 4096) p[i] = (char)x;
	long r = CALL; munmap((void *)p, 8192); return r;""",
    "deep": "volatile char b[9000]; b[0] = b[8999] = 1; long r = CALL; return r + b[0];",
    "last": """jmp_buf back; if (_setjmp(back)) return x; NAME_never(x, back); return x + 1;""",
    "copy": """char a[2048], b[2048]; memset(a, (int)x, sizeof(a)); __asm__ volatile("" : : "r"(a), "r"(b) : "memory");
	for (int i = 0; i < 4; i++) memcpy(b, a, sizeof(a) - (rnd() & 63));
	__asm__ volatile("" : : "r"(b) : "memory"); long r = CALL; return r + b[1];""",
}
LEAVES = {
    "spin": "return burn(x, 8000);",
    "spinframe": "volatile char b[N]; b[0] = 1; return burn(x, 8000) + b[0];",
    "spinalign": "_Alignas(64) volatile char b[64]; b[0] = 1; return burn(x, 8000) + b[0];",
    "calls": "long r = 0; for (int i = 0; i < 300; i++) r += NAME_tiny(x + i); return r;",
}
# What of libc (or the vdso) each kind may have right below it: glibc's names, however it is stripped, and
# musl's.
MEMORY = r"(__)?(mem(cpy|move|set)|.*_(avx|sse|evex|erms).*|mempcpy)"
SORT = (r"qsort(_r)?|bsearch|__?qsort_r|msort_with_tmp(\.part\.0)?|quicksort|_quicksort|"
        r"(__)?sysconf|(__libc_)?(malloc|free)|sift|trinkle|cycle|wrapper_cmp|" + MEMORY)
TIME = r"(__)?(vdso_)?clock_gettime|__clock_gettime(64)?|do_hres.*|.*vclock.*|.*pvclock.*|__vdso_.*|cgt_init|__syscall_ret"
SYSTEM = r"(__)?getppid|syscall|(__)?mmap(64)?|(__)?munmap|__syscall_ret|__vm_wait"
JUMP = (r"_*(sig)?(set|long)jmp.*|_longjmp_unwind|__libc_siglongjmp|__pthread_cleanup_upto|"
        r"__sigjmp_save")
BELOW = {"sort": SORT, "search": SORT, "clock": TIME, "system": SYSTEM, "fault": SYSTEM + "|" + MEMORY,
         "copy": MEMORY, "last": JUMP, "last_never": JUMP}
# A call through the PLT may stop in it, and the first one goes through the dynamic linker.
LINKER = (r".*@plt|\[.*\+0x[0-9a-f]+\]|_dl_.*|do_lookup_x|check_match|strcmp.*|"
          r"__tls_get_addr.*|update_get_addr|tls_get_addr_tail|allocate_.*|_int_.*|"
          r"(__libc_)?(malloc|free|calloc|realloc|memalign)|__rtld_.*|"
          r"_*(pthread|lll)_.*lock.*|" + MEMORY)

# tests/workloads/drive.h
DRIVE = {("main", "drive_loop"), ("drive_thread", "drive_loop"), ("drive_on_alarm", "drive_handler"),
         ("drive_on_profile", "drive_handler"),
         ("main", "drive_signals"), ("main", "drive_threads"), ("main", "drive_dlopen"),
         ("main", "drive_exec"), ("main", "drive_fork"), ("main", "drive_remap"),
         ("drive_exec", "drive_loop"), ("drive_fork", "drive_loop"), ("main", "drive_ready"),
         ("drive_remap_thread", "drive_remap_once"), ("drive_dlopen", "drive_library")}
HANDLERS = {"drive_on_alarm", "drive_on_profile", "drive_on_term"}
DRIVE_FUNCTIONS = {f for edge in DRIVE for f in edge} | {"drive_callback", "drive_handler"} | HANDLERS
DRIVE_ROOTS = {"main", "drive_thread", "drive_remap_thread"}
ROOTS = {"_start", "clone", "__clone", "clone3", "__clone3", "start_thread",
         "_dl_start_user"}
MARKS = {"[incomplete]", "[truncated]"}
RESTORER = {"__restore_rt"}  # where a handler returns to
NO_CALL = ("_[k]", "_[i]")  # record --annotations: of the kernel, and inlined


class Graph:
    def __init__(self, tag, seed, layers=LAYERS, width=WIDTH):
        self.tag = tag
        self.random = random.Random(seed)
        self.kinds = {}    # function -> kind
        self.edges = set()  # (caller, callee)
        self.via = {}      # (caller, callee) -> what of libc stands between
        self.body = []
        kinds = sorted(KINDS)
        layer_below, lower, self.layers = [], [], []
        for depth in range(layers, 0, -1):
            here = []
            for i in range(width):
                kind = self.random.choice(sorted(LEAVES)) if depth == layers else \
                    kinds[(i + depth * width + seed) % len(kinds)]
                name = f"{tag}_{kind}_{depth}{chr(ord('a') + i)}"
                self._function(name, kind, self.random.sample(layer_below, 2) +
                               self.random.sample(lower, min(1, len(lower)))
                               if layer_below else [])
                here.append(name)
            self.layers.insert(0, here)
            lower = lower + layer_below
            layer_below = here

    def _function(self, name, kind, callees):
        text = {**KINDS, **LEAVES}[kind]
        size = str(self.random.choice([1, 8, 24, 40, 100, 152, 500, 1000]))
        self.kinds[name] = kind
        own = name
        before = ""
        if kind in ("sort", "search"):
            own = name + "_compare"
            before = (f"F static int {own}(const void *a, const void *b)\n{{\n\tlong x = *(const int *)a"
                      f" - *(const int *)b;\n\tlong r = CALL;\n\tKEEP(r);\n\treturn (int)x;\n}}\n")
            self.kinds[own] = "compare"
            self.via[name, own] = SORT
        elif kind == "args":
            own = name + "_many"
            args = ", ".join(f"long a{i}" for i in range(9))
            before = (f"F long {own}({args}, long x)\n{{\n\tvolatile char b[{size}];\n\tb[0] = 1;\n"
                      "\tlong r = CALL;\n\treturn r + b[0] + " +
                      " + ".join(f"a{i}" for i in range(9)) + ";\n}\n")
            self.kinds[own] = "many"
            self.edges.add((name, own))
        elif kind == "last":
            # Its last instruction is a call: the return address is that of the next function.
            end, own = name + "_never", name + "_thrower"
            before = (f"F __attribute__((noreturn)) static void {own}(long x, jmp_buf back)\n{{\n"
                      f"\tlong r = CALL;\n\tKEEP(r);\n\t_longjmp(back, 1);\n}}\n"
                      f"F __attribute__((noreturn)) static void {end}(long x, jmp_buf back)\n{{\n"
                      f"\tvolatile char b[{size}];\n\tb[0] = 1;\n\t{own}(x + b[0], back);\n}}\n")
            self.kinds[end] = "last_caller"
            self.kinds[own] = "last_never"
            self.edges |= {(name, end), (end, own)}
        elif kind == "calls":
            before = f"F long {name}_tiny(long x)\n{{\n\tKEEP(x);\n\treturn x + 1;\n}}\n"
            self.kinds[name + "_tiny"] = "tiny"
            self.edges.add((name, name + "_tiny"))
        if kind == "recurse":
            self.edges.add((name, name))
        self.edges |= {(own, c) for c in callees}
        n = len(callees)
        call = "(" + "".join(f"rnd() % {n - i} == 0 ? {c}(x) : " if i < n - 1 else f"{c}(x))"
                             for i, c in enumerate(callees))
        pointer = "((long (*[])(long)){" + ", ".join(callees) + f"}})[rnd() % {max(n, 1)}]"
        for a, b in (("CALL", call), ("PTR", pointer), ("NAME", name), ("[N]", f"[{size}]"),
                     ("+ N]", f"+ {size}]")):
            text, before = text.replace(a, b), before.replace(a, b)
        self.body.append(f"{before}F long {name}(long x)\n{{\n\t{text}\n}}\n")

    @property
    def functions(self):
        return set(self.kinds)

    def _entry(self, name, static="static "):
        self.kinds[name] = "entry"
        self.edges |= {(name, c) for c in self.layers[0]}
        n = len(self.layers[0])
        cases = "".join(f"\tcase {i}:\n\t\tr += {c}(x);\n\t\tbreak;\n"
                        for i, c in enumerate(self.layers[0]))
        return (f"F {static}long {name}(long x)\n{{\n\tlong r = 0;\n\tswitch (rnd() % {n}) {{\n"
                f"{cases}\t}}\n\tKEEP(r);\n\treturn r;\n}}\n")

    def _sources(self):
        return HEAD + "\n" + "\n".join(self.body)

    @staticmethod
    def padding(rows):
        return (f'__asm__(".text\\n.cfi_startproc\\n.rept {rows // 2}\\nnop\\n'
                f'.cfi_adjust_cfa_offset 8\\nnop\\n.cfi_adjust_cfa_offset -8\\n.endr\\n'
                f'ud2\\n.cfi_endproc");\n') if rows else ""

    def library(self, rows=0):
        """A shared library; TAG_entry takes a callback and calls it now and then.

        `rows` makes its unwind table that much larger, by a function that is never called.
        """
        tag = self.tag
        once = self._entry(f"{tag}_once")
        self.kinds.update({f"{tag}_back": "back", f"{tag}_entry": "entry"})
        self.edges |= {(f"{tag}_entry", f"{tag}_once"), (f"{tag}_entry", f"{tag}_back"),
                       (f"{tag}_back", "drive_callback"), ("drive_library", f"{tag}_entry")}
        return self._sources() + once + self.padding(rows) + f"""
F static long {tag}_back(long x, long (*call)(long))
{{
	volatile char b[{self.random.choice([8, 72, 300])}];
	b[0] = 1;
	long r = call(x);
	return r + b[0];
}}

F long {tag}_entry(long x, long (*call)(long))
{{
	volatile char b[{self.random.choice([16, 88, 700])}];
	b[0] = 1;
	seed ^= (uint64_t)x;
	for (int i = 0; i < 20; i++)
		x += {tag}_once(x);
	x += {tag}_back(x, call);
	return x + b[0];
}}
"""

    def program(self, rows=0):
        """A program, driven by tests/workloads/drive.h; `rows` as for libraries."""
        once = self._entry(f"{self.tag}_once")
        self.kinds.update((f, "drive") for f in DRIVE_FUNCTIONS)
        self.edges |= DRIVE | {(f, f"{self.tag}_once") for f in
                               ("drive_loop", "drive_callback", "drive_handler", "main")}
        return (self._sources() + once + self.padding(rows) +
                f'\n#define ONCE {self.tag}_once\n#include "drive.h"\n')


class Judge:
    """Goes over stacks and keeps what the graph does not allow.

    The functions of the graph are judged pair by pair. What stands between two of them, above the
    first or below the last (libc, the dynamic linker, the vdso, the kernel) must be what the
    function that called it can call, and must lead to what it can call back.
    """

    def __init__(self, *graphs, own=None):
        self.functions, self.edges, self.via, self.kinds = set(), set(), {}, {}
        for g in graphs:
            self.functions |= g.functions
            self.edges |= g.edges
            self.via.update(g.via)
            self.kinds.update(g.kinds)
        self.own = own or {}  # comm -> the tags that its functions may have
        self.total = self.marked = self.no_user = 0
        self.bad = {}

    def _blame(self, why, frames, count):
        self.bad.setdefault(why, []).append((count, ";".join(frames)))

    def _foreign(self, a, between, b):
        """Whether `between` may stand between a and b (None: nothing below)."""
        if b in HANDLERS or (b is None and between[-1] in RESTORER):
            return True  # anything can be interrupted anywhere
        if b is not None:
            return (a, b) in self.via and all(re.fullmatch(self.via[a, b] + "|" + LINKER, f)
                                              for f in between)
        kind = self.kinds[a]
        if kind == "drive":
            return True  # these call much of libc
        below = BELOW.get(kind)
        return all(re.fullmatch(LINKER + ("|" + below if below else ""), f) for f in between)

    def stack(self, frames, count):
        self.total += count
        comm, rest = frames[0], [f for f in frames[1:] if not f.endswith(NO_CALL)]
        marked = bool(rest) and rest[0] in MARKS
        if marked:
            self.marked += count
            rest = rest[1:]
        elif not rest:
            self.no_user += count  # it ends, or is half way into another program
        elif rest[0] not in ROOTS:
            self._blame(f"not marked, and the root is {rest[0]}", frames, count)
        last, between = None, []
        for f in rest:
            if f not in self.functions:
                between.append(f)
                continue
            if comm in self.own and f.split("_")[0] not in self.own[comm] | {"drive", "main"}:
                self._blame(f"{comm} has no {f}", frames, count)
            if last is None:
                if not marked and f not in DRIVE_ROOTS | HANDLERS:
                    self._blame(f"{f} below {between[-1:]}", frames, count)
            elif not between and (last, f) not in self.edges:
                self._blame(f"{last} does not call {f}", frames, count)
            elif between and not self._foreign(last, between, f):
                self._blame(f"{last} does not call {f} through {between}", frames, count)
            last, between = f, []
        if last and between and not self._foreign(last, between, None):
            self._blame(f"{last} does not call {between}", frames, count)

    def stacks(self, stacks):
        for frames, count in stacks:
            self.stack(frames, count)
        return self

    def impossible(self):
        return sum(c for all_ in self.bad.values() for c, _ in all_)

    def __str__(self):
        text = [f"{self.total} samples, {self.marked} marked, "
                f"{self.no_user} without a user side, {self.impossible()} impossible"]
        for why, all_ in sorted(self.bad.items(), key=lambda kv: -len(kv[1]))[:5]:
            text.append(f"{why} ({sum(c for c, _ in all_)} samples), such as\n    {all_[0][1]}")
        return "\n  ".join(text)
