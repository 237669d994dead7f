#!/usr/bin/env python3
"""Names of every function of programs built here, against nm, go tool nm, c++filt and objdump."""
import collections
import functools
import lzma
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from gotable import GO_1_2, GO_1_16, GO_1_18, GO_1_20, go_table
from tap import BUILD, main, skip, test

NAMES = os.path.join(BUILD, "tests", "unit", "test_symbols")
USER, GO = 0, 5
TMP = tempfile.TemporaryDirectory()

C = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int __attribute__((noinline)) twice(int x) { return x * 2; }
int __attribute__((noinline)) thrice(int x) { return twice(x) + x; }
int __attribute__((weak, noinline)) maybe(int x) { return thrice(x) + 1; }
int alias(int x) __attribute__((alias("thrice")));
__asm__(".text\n.globl unsized\nunsized: nop\nnop\nret\n.type sized,@function\nsized: nop\n"
        "inside: nop\nret\n.size sized,.-sized\n");
void unsized(void);
int main(int argc, char **argv)
{
	unsized();
	qsort(argv, argc, sizeof(*argv), (int (*)(const void *, const void *))strcmp);
	return printf("%d %p\n", maybe(argc), (void *)atoi);
}
"""
CXX = r"""
#include <map>
#include <string>
#include <vector>
#include <algorithm>
#include <functional>
namespace deep { namespace er {
template <typename T, int N> struct Box {
	T v[N];
	Box();
	~Box();
	T sum(const std::function<T(T)> &f) const;
	operator bool() const { return v[0] != T(); }
};
template <typename T, int N> Box<T, N>::Box() { std::fill(v, v + N, T(N)); }
template <typename T, int N> Box<T, N>::~Box() { v[0] = T(); }
template <typename T, int N> T Box<T, N>::sum(const std::function<T(T)> &f) const
{
	T s = T();
	for (auto &x : v)
		s += f(x);
	return s;
}
template struct Box<int, 3>;
template struct Box<double, 7>;
} }
static std::map<std::string, std::vector<int>> table;
int main(int argc, char **argv)
{
	deep::er::Box<int, 3> b;
	for (int i = 0; i < argc; i++)
		table[argv[i]].push_back(b.sum([i](int x) { return x + i; }));
	return (int)table.size();
}
"""
RUST = r"""
use std::collections::HashMap;
trait Shape { fn area(&self) -> f64; }
struct Square<T>(T);
impl Shape for Square<f64> { #[inline(never)] fn area(&self) -> f64 { self.0 * self.0 } }
impl Shape for Square<u8> { #[inline(never)] fn area(&self) -> f64 { self.0 as f64 } }
#[inline(never)] fn generic<T: Shape, F: Fn(f64) -> f64>(t: &[T], f: F) -> f64 {
    t.iter().map(|x| f(x.area())).sum()
}
fn main() {
    let mut m: HashMap<String, f64> = HashMap::new();
    for a in std::env::args() { m.insert(a, generic(&[Square(2.0)], |x| x + 1.0)); }
    println!("{:?} {}", m, generic(&[Square(3u8)], |x| x * 2.0));
}
"""
GOLANG = r"""
package main

import (
	"fmt"
	"os"
	"sort"
	"strings"
)

type thing[T any] struct{ v T }

func (t *thing[T]) show() string { return fmt.Sprint(t.v) }

//go:noinline
func work(n int) int {
	f := func(x int) int { return x * n }
	return f(n) + len(strings.Repeat("x", n))
}

func main() {
	sort.Strings(os.Args)
	fmt.Println(work(len(os.Args)), (&thing[int]{1}).show(), (&thing[string]{"a"}).show())
}
"""


def run(*argv, **kw):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, **kw).stdout


def path(*parts):
    return os.path.join(TMP.name, *parts)


def write(name, text):
    os.makedirs(os.path.dirname(path(name)), exist_ok=True)
    with open(path(name), "w" if isinstance(text, str) else "wb") as f:
        f.write(text)
    return path(name)


def need(*tools):
    for t in tools:
        if not shutil.which(t):
            skip(f"{t} is not installed")


@functools.lru_cache(None)
def c_program(*flags):
    out = path("c" + str(abs(hash(flags))))
    run("gcc", "-O1", "-g0", "-o", out, *flags, write("p.c", C))
    return out


@functools.lru_cache(None)
def go_program(*flags):
    need("go")
    out = path("go" + str(abs(hash(flags))))
    run("go", "build", "-o", out, *flags, write("g.go", GOLANG),
        env=dict(os.environ, GOCACHE=path("gocache"), GOFLAGS="-mod=mod", GO111MODULE="off"))
    return out


def segments(elf):
    """(offset, address, size) of what is loaded, as the test's own reading of the headers."""
    with open(elf, "rb") as f:
        data = f.read()
    narrow = data[4] == 1
    at, = struct.unpack_from("<I" if narrow else "<Q", data, 28 if narrow else 32)
    count, = struct.unpack_from("<H", data, 44 if narrow else 56)
    for i in range(count):
        if narrow:
            kind, off, addr, _, size = struct.unpack_from("<IIIII", data, at + 32 * i)
        else:
            kind, _, off, addr, _, size = struct.unpack_from("<IIQQQQ", data, at + 56 * i)
        if kind == 1:
            yield off, addr, size


def ask(elf, addresses, root=None, layout=None):
    """[(kind, start, name)] for virtual addresses."""
    loads = list(segments(layout or elf))

    def offset(addr):
        return next(a for a in (off + addr - start for off, start, size in loads
                                if start <= addr < start + size))
    text = "\n".join(f"{offset(a):x}" for a in addresses)
    out = run(NAMES, "names", elf, *([root] if root else []), input=text.encode())
    rows = [line.split(" ", 2) for line in out.decode("utf-8", "replace").splitlines()]
    assert len(rows) == len(addresses), f"{len(rows)} answers to {len(addresses)} questions"
    return [(int(k), int(s, 16), n) for k, s, n in rows]


def nm(elf, *flags):
    """{address: (size, {names})} of functions, demangled as c++filt does."""
    found = collections.defaultdict(lambda: [0, set()])
    for line in run("nm", "-S", "--defined-only", *flags, elf,
                    stderr=subprocess.DEVNULL).decode().splitlines():
        m = re.match(r"([0-9a-f]+) (?:([0-9a-f]+) )?([tTwWi]) (.*)", line)
        if m and (m[2] or m[3] in "tT"):
            f = found[int(m[1], 16)]
            f[0] = max(f[0], int(m[2] or "1", 16))
            f[1].add(m[4])
    names = sorted(n for f in found.values() for n in f[1])
    nice = run("c++filt", input="\n".join(names).encode()).decode().splitlines()
    # c++filt keeps the hashes of Rust's crates and functions, and the types of constants.
    noise = r"(?<=\w)\[[0-9a-f]{10,16}\]|::h[0-9a-f]{16}$|(?<=\d): [iu](?:size|\d+)\b"
    nice = dict(zip(names, (re.sub(noise, "", n) for n in nice)))
    # A version is no part of the name.
    return {a: (s, {nice[n] if n.startswith("_") else n.split("@")[0] for n in ns}
                | {nice[n].split("@")[0] for n in ns}) for a, (s, ns) in found.items()}


def check(elf, want, least, root=None, kind=USER, layout=None, skip_names=()):
    """Every function is named at its first, middle and last byte."""
    points = [(a, p, names) for a, (size, names) in sorted(want.items())
              for p in sorted({a, a + size // 2, a + size - 1})]
    assert len(want) >= least, f"only {len(want)} functions to check"
    got = ask(elf, [p for _, p, _ in points], root, layout)
    bad = [(hex(p), g, names) for (a, p, names), g in zip(points, got)
           if g[2] not in names and not names & set(skip_names)]
    assert not bad, f"{len(bad)} of {len(points)} wrong: {bad[:5]}"
    kinds = {g[0] for g in got}
    assert kind in kinds, kinds


MARKS = ("_init", "_fini", "_start", "inside", "unsized")  # labels of other shapes; see below


@test
def every_function_of_a_c_program():
    exe = c_program()
    check(exe, nm(exe), 8, skip_names=MARKS)


@test
def aliases_labels_and_functions_without_a_size():
    exe = c_program()
    want = {n: a for a, (_, ns) in nm(exe).items() for n in ns}
    addr = {n: a for n, a in want.items()}
    got = dict(zip(("thrice", "unsized", "unsized+2", "inside"),
                   ask(exe, [addr["thrice"], addr["unsized"], addr["unsized"] + 2,
                             addr["sized"] + 1])))
    assert got["thrice"][2] == "alias", got        # the shorter of two equals
    assert got["unsized"][2] == "unsized", got
    assert got["unsized+2"][2] == "unsized", got   # reaches to the next
    assert got["inside"][2] == "sized", got        # a label is no function
    assert got["inside"][1] == addr["sized"], got


@test
def every_function_of_a_32_bit_program():
    exe = c_program("-m32", "-fno-pic", "-no-pie")
    check(exe, nm(exe), 8, skip_names=MARKS)
    run("objcopy", "--only-keep-debug", exe, exe + ".debug")
    run("strip", "-o", exe + ".min", exe)
    run("objcopy", f"--add-gnu-debuglink={exe}.debug", exe + ".min", exe + ".linked")
    check(exe + ".linked", nm(exe), 8, skip_names=MARKS)


# Two exported functions without a size, as yasm writes them, among others that no symbol names. `cfi`
# describes all but the first two.
HIDDEN = r"""
.text
.macro fn name
.p2align 4
\name:
.endm
.macro body
	.rept 20
	imul %edx, %eax
	.endr
.endm
.globl known, last, main
fn known
	jmp 2f                          # over the head of a loop: the function goes on
	.p2align 4
1:	body
2:	dec %edi
	jnz 1b
	jmp known
fn .Lhidden
	body
	ret
fn .Lhidden_too
BEGIN
	body
	jmp *%rax
END
fn last
BEGIN
	body
	ret
END
fn .Lhidden_at_the_end
BEGIN
	body
	ret
END
.type main, @function
fn main
BEGIN
	ret
END
.size main, .-main
.section .rodata
.globl where
where: .quad known - known, .Lhidden - known, .Lhidden_too - known, last - known
	.quad .Lhidden_at_the_end - known, main - known
.section .note.GNU-stack,"",@progbits
"""


@test
def a_function_without_a_size_is_not_all_that_follows():
    for begin, end in (("", ""), (".cfi_startproc", ".cfi_endproc")):
        text = HIDDEN.replace("BEGIN", begin).replace("END", end)
        exe = path("hidden" + begin)
        run("gcc", "-o", exe, "-nostartfiles", "-Wl,-e,main", "-static", write("hidden.s", text))
        symbols = {line.split()[2]: int(line.split()[0], 16)
                   for line in run("nm", exe).decode().splitlines()}
        where = next(off + symbols["where"] - addr for off, addr, size in segments(exe)
                     if addr <= symbols["where"] < addr + size)
        with open(exe, "rb") as f:
            starts = [symbols["known"] + n for n in struct.unpack_from("<6Q", f.read(), where)]
        names = ["known", None, None, "last", None, "main"]
        for start, after, name in zip(starts, starts[1:] + [0], names):
            want = name or f"[{os.path.basename(exe)}+0x{start:x}]"
            points = [start, start + 17, start + 40] + [after - 1] * (name == "known")
            got = {n for _, _, n in ask(exe, points if name != "main" else [start])}
            assert got == {want}, (begin, hex(start), got, want)


@test
def the_entry_of_a_stripped_program_is_its_start():
    exe = c_program()
    run("strip", "-o", exe + ".bare", exe)
    start = next(a for a, (_, ns) in nm(exe).items() if "_start" in ns)
    got = ask(exe + ".bare", [start, start + 0x20, start + 0x30])
    assert [n for _, _, n in got[:2]] == ["_start", "_start"], got
    assert got[2][2].startswith("["), got


@test
def every_function_of_a_cxx_program():
    need("g++")
    run("g++", "-O0", "-o", path("cxx"), write("p.cc", CXX))
    check(path("cxx"), nm(path("cxx")), 200, skip_names=MARKS)


def rust(version):
    need("rustc")
    exe = path("rust-" + version)
    run("rustc", "-O", "-Z", "unstable-options", "-C", "symbol-mangling-version=" + version, "-o",
        exe, write("p.rs", RUST), env=dict(os.environ, RUSTC_BOOTSTRAP="1"))
    want = nm(exe)
    check(exe, want, 300, skip_names=MARKS)
    names = {n for _, ns in want.values() for n in ns}
    got = {n for _, _, n in ask(exe, sorted(want))}
    assert not any(re.search(r"::h[0-9a-f]{16}$", n) for n in got), "hashes"
    assert any("generic" in n for n in got & names), "generic was not seen"


@test
def every_function_of_a_rust_program_with_old_names():
    rust("legacy")


@test
def every_function_of_a_rust_program_with_new_names():
    rust("v0")


def go_functions(exe):
    """Functions of Go code, as the toolchain says; sizes reach to the next."""
    text = run("go", "tool", "nm", "-n", "-size", exe).decode()
    found = {}
    for line in text.splitlines():
        m = re.match(r"\s*([0-9a-f]+)\s+(\d+) [Tt] (.*)", line)
        if m and int(m[2]):
            name = re.sub(r"\.abi0$|\.abiinternal$", "", m[3])
            name = re.sub(r"\[.*\]", "[...]", name)  # as Go's own table has it
            size, names = found.get(int(m[1], 16), (0, set()))
            found[int(m[1], 16)] = (max(size, int(m[2])), names | {name})
    return found


# What the linker adds is in the symbol table and not in Go's own.
NOT_GO = ("runtime.text", "runtime.etext", "_start", "main", "go:buildid", "go.buildid",
          "_rt0_amd64_linux", "type..", "type:.")


def go_check(exe, like):
    want = {a: f for a, f in go_functions(like).items() if not f[1] & set(NOT_GO)}
    check(exe, want, 1000, kind=GO, layout=like)


@test
def every_function_of_a_go_program():
    go_check(go_program(), go_program())


@test
def every_function_of_a_stripped_go_program():
    exe = go_program("-ldflags=-s -w")
    assert not nm(exe), "it has symbols"
    go_check(exe, go_program())


@test
def every_function_of_a_go_program_without_sections():
    with open(go_program("-ldflags=-s -w"), "rb") as f:
        data = bytearray(f.read())
    data[40:48] = bytes(8)  # e_shoff
    data[60:64] = bytes(4)  # e_shnum, e_shstrndx
    go_check(write("go-bare", bytes(data)), go_program())


@test
def every_function_of_a_position_independent_go_program():
    exe = go_program("-buildmode=pie")
    run("strip", "-o", path("go-pie"), exe)
    go_check(path("go-pie"), exe)


@test
def go_tables_of_every_layout():
    exe = stripped("-DGO")
    text = next(a for a, (_, ns) in nm(exe).items() if "main" in ns)
    for magic in (GO_1_2, GO_1_16, GO_1_18, GO_1_20):
        write("gotable", go_table(magic, text))
        run("objcopy", "--add-section", f".gopclntab={path('gotable')}", exe + ".min", exe + ".go")
        got = ask(exe + ".go", [text, text + 15, text + 16, text + 31], layout=exe)
        want = [(GO, text, "main.main")] * 2 + [(GO, text + 16, "main.work")] * 2
        assert got == want, (hex(magic), got)


@test
def c_functions_of_a_go_program_are_not_gos():
    need("go", "gcc")
    source = """
package main

// __attribute__((noinline)) static int in_c(int x) { return x * 2; }
// int from_c(int x) { return in_c(x); }
import "C"

func main() { println(C.from_c(3)) }
"""
    os.makedirs(path("cgo"), exist_ok=True)
    for flags in ((), ("-buildmode=pie",)):
        run("go", "build", *flags, "-o", path("cgo/p"), write("cgo/p.go", source),
            env=dict(os.environ, GOCACHE=path("gocache"), GO111MODULE="off", CGO_ENABLED="1"))
        run("strip", "-o", path("cgo/stripped"), path("cgo/p"))
        at = {n: a for a, (_, ns) in nm(path("cgo/p")).items() for n in ns}
        points = [at["main.main"], at["from_c"]]
        got = ask(path("cgo/p"), points)
        assert [g[0::2] for g in got] == [(GO, "main.main"), (USER, "from_c")], (flags, got)
        got = ask(path("cgo/stripped"), points, layout=path("cgo/p"))
        assert got[0][0::2] == (GO, "main.main"), (flags, got)
        assert got[1][0] == USER, (flags, got)


@test
def exported_functions_of_libraries():
    for name in ("libc.so.6", "libm.so.6", "libcrypto.so.3", "libpython3.11.so.1.0"):
        lib = os.path.join("/lib/x86_64-linux-gnu", name)
        if os.path.exists(lib):
            want = nm(lib, "-D")
            # Where a debug file is installed, its names for the same address are right as well.
            points = sorted(want)
            got = ask(lib, points)
            bad = [(hex(a), g, want[a][1]) for a, g in zip(points, got)
                   if g[1] != a or g[2].startswith("[")]
            assert len(bad) <= len(points) // 200, f"{name}: {len(bad)} wrong: {bad[:5]}"


def plt_stubs(exe):
    text = run("objdump", "-d", "--no-show-raw-insn", exe).decode()
    return {int(a, 16): n for a, n in re.findall(r"^([0-9a-f]+) <([^>]+@plt)>:$", text, re.M)}


@test
def plt_stubs_have_the_names_of_what_they_call():
    for flags in ((), ("-fcf-protection=none",), ("-Wl,-z,lazy",), ("-Wl,-z,now",),
                  ("-fcf-protection=full", "-Wl,-z,ibtplt", "-Wl,-z,lazy"), ("-no-pie",)):
        exe = c_program(*flags)
        run("strip", "-o", exe + ".s", exe)
        stubs = plt_stubs(exe + ".s")
        assert {"qsort@plt", "printf@plt"} <= set(stubs.values()), (flags, stubs)
        for addr, got in zip(sorted(stubs), ask(exe + ".s", sorted(stubs))):
            assert got[2] == stubs[addr], (flags, hex(addr), got, stubs[addr])


def stripped(*flags):
    exe = c_program(*flags)
    run("objcopy", "--only-keep-debug", exe, exe + ".debug")
    run("strip", "-o", exe + ".min", exe)
    return exe


def fde_ranges(exe):
    """[(start, end)] of the functions in .eh_frame, as readelf tells."""
    out = run("readelf", "--debug-dump=frames", exe, stderr=subprocess.DEVNULL).decode()
    return sorted((int(a, 16), int(b, 16)) for a, b in
                  re.findall(r"FDE cie=\S+ pc=([0-9a-f]+)\.\.([0-9a-f]+)", out))


def check_functions(exe, like, functions):
    """Each address of a function without a name is shown by the function's start, in one way."""
    points = [(a, p) for a, b in functions for p in sorted({a, a + 1, (a + b) // 2, b - 1})]
    base = os.path.basename(exe)
    for (a, p), got in zip(points, ask(exe, [p for _, p in points], layout=like)):
        assert got[2] == f"[{base}+0x{a:x}]", f"{p:#x} in the function at {a:#x} is {got}"


@test
def functions_without_a_name_are_one_frame_each():
    exe = stripped("-DFUNCTIONS")
    ranges = fde_ranges(exe)
    where = {n: a for a, (_, ns) in nm(exe).items() for n in ns}
    mine = [r for r in ranges if r[0] in (where["twice"], where["thrice"], where["maybe"],
                                          where["main"])]
    assert len(mine) == 4, (ranges, where)
    check_functions(exe + ".min", exe, mine)
    # No function is described there: it begins between the one before and the address.
    gap = where["unsized"]
    assert not any(a <= gap < b for a, b in ranges)
    got = re.fullmatch(r"\[(.*)\+0x([0-9a-f]+)\]", ask(exe + ".min", [gap], layout=exe)[0][2])
    assert got[1] == os.path.basename(exe) + ".min", got
    assert max((b for _, b in ranges if b <= gap), default=0) <= int(got[2], 16) <= gap, got


@test
def functions_of_perl_without_a_name_are_one_frame_each():
    exe = os.path.realpath(shutil.which("perl") or "")
    if not os.path.isfile(exe):
        skip("no perl")
    exported = nm(exe, "-D")
    covered = sorted((a, a + size) for a, (size, _) in exported.items())
    hidden = [(a, b) for a, b in fde_ranges(exe) if b - a > 16
              and not any(x < b and a < y for x, y in covered)]
    names = {g[2] for g in ask(exe, [a for a, _ in hidden])}
    if not any("+0x" in n for n in names):
        skip("perl has its symbols")
    # One record describes all of .plt, whose stubs do have names.
    for end in (lambda r: r[0], lambda r: (r[0] + r[1]) // 2, lambda r: r[1] - 1):
        hidden = [r for r, g in zip(hidden, ask(exe, [end(r) for r in hidden])) if "+0x" in g[2]]
    assert len(hidden) > 100, len(hidden)
    check_functions(exe, exe, hidden)


@test
def a_table_of_functions_that_lies_names_nothing():
    exe = stripped("-DLIES")
    with open(exe + ".min", "rb") as f:
        good = f.read()
    at, = struct.unpack_from("<Q", good, 32)
    count, = struct.unpack_from("<H", good, 56)
    hdr = next(struct.unpack_from("<IIQQQQ", good, at + 56 * i) for i in range(count)
               if struct.unpack_from("<I", good, at + 56 * i)[0] == 0x6474e550)
    twice = next(a for a, (_, ns) in nm(exe).items() if "twice" in ns)
    truth = f"+0x{twice:x}]"
    entries, = struct.unpack_from("<I", good, hdr[2] + 8)
    at = next(hdr[2] + 12 + 8 * i for i in range(entries)
              if struct.unpack_from("<i", good, hdr[2] + 12 + 8 * i)[0] + hdr[3] == twice)
    inside = twice + 1

    def name(where, shape, value):
        data = bytearray(good)
        struct.pack_into(shape, data, where, value)
        return ask(write("lies", bytes(data)), [inside], layout=exe)[0][2]

    assert name(0, "<B", 0x7f).endswith(truth)
    for where, shape, value in ((hdr[2], "<B", 2), (hdr[2] + 3, "<B", 0x1b),
                                (hdr[2] + 8, "<I", 0), (hdr[2] + 8, "<I", 1 << 31),
                                (at + 4, "<i", -(1 << 31)), (at + 4, "<i", (1 << 31) - 1),
                                (at, "<i", (1 << 31) - 1), (at + 4, "<i", 0)):
        assert not name(where, shape, value).endswith(truth), (where - hdr[2], value)


def named(exe, like, root=None):
    want = {next(iter(ns)): a for a, (_, ns) in nm(like).items()}
    return ask(exe, [want["twice"]], root, like)[0][2] == "twice"


@test
def a_debug_file_is_found_by_build_id():
    exe = stripped("-Wl,--build-id=sha1")
    ident = re.search(r"Build ID: (\w+)", run("readelf", "-n", exe).decode())[1]
    assert not named(exe + ".min", exe)
    where = f"root/usr/lib/debug/.build-id/{ident[:2]}/{ident[2:]}.debug"
    with open(exe + ".debug", "rb") as f:
        write(where, f.read())
    assert named(exe + ".min", exe, path("root"))
    check(exe + ".min", nm(exe), 8, root=path("root"), layout=exe, skip_names=MARKS)

    # A symbolic link inside that root means what it means there, and a wrong file is refused.
    os.rename(path(where), path("root/real.debug"))
    os.symlink("/real.debug", path(where))
    assert named(exe + ".min", exe, path("root"))
    other = stripped("-Wl,--build-id=sha1", "-DOTHER", "-O2")
    shutil.copy(other + ".debug", path("root/real.debug"))
    assert not named(exe + ".min", exe, path("root"))


@test
def a_debug_file_is_found_by_its_link():
    for n, where in enumerate(("p.debug", ".debug/p.debug", None)):
        exe = stripped("-Wl,--build-id=none", f"-DN={n}")
        with open(exe + ".debug", "rb") as f:
            debug = f.read()
        home = path(f"link{n}", "bin")
        os.makedirs(home)
        write("p.debug", debug)
        run("objcopy", "--add-gnu-debuglink=p.debug", exe + ".min", os.path.join(home, "p"),
            cwd=TMP.name)
        linked = os.path.join(home, "p")
        assert not named(linked, exe)
        root = None
        if where:
            target = write(os.path.join(f"link{n}", "bin", where), debug)
        else:
            root = path(f"link{n}", "root")
            target = write(f"link{n}/root/usr/lib/debug{home}/p.debug", debug)
        assert named(linked, exe, root), where
        write(target, debug + b"\0")  # not what was linked: the CRC differs
        assert not named(linked, exe, root), where


@test
def a_link_to_itself_ends():
    exe = stripped("-Wl,--build-id=none", "-DLOOP")
    for name in ("a", "b"):
        write("loop/" + name, "x")
    run("objcopy", "--add-gnu-debuglink=b", exe + ".min", "a2", cwd=path("loop"))
    os.rename(path("loop/a2"), path("loop/b"))
    assert not named(path("loop/b"), exe)


@test
def packed_symbols_are_read():
    exe = stripped("-DPACKED")
    with open(exe + ".debug", "rb") as f:
        packed = lzma.compress(f.read())
    write("packed.xz", packed)
    run("objcopy", "--add-section", f".gnu_debugdata={path('packed.xz')}", exe + ".min",
        exe + ".packed")
    check(exe + ".packed", nm(exe), 8, layout=exe, skip_names=MARKS)

    for n, bad in enumerate((packed[:-20], b"", b"x" * 100, lzma.compress(bytes(100 << 20)))):
        write(f"bad{n}.xz", bad)
        run("objcopy", "--add-section", f".gnu_debugdata={path(f'bad{n}.xz')}", exe + ".min",
            exe + ".bad")
        assert not named(exe + ".bad", exe), n


def sections(data):
    at, = struct.unpack_from("<Q", data, 40)
    count, = struct.unpack_from("<H", data, 60)
    return [(at + 64 * i, struct.unpack_from("<IIQQQQIIQQ", data, at + 64 * i))
            for i in range(count)]


@test
def hostile_files_are_only_unnamed():
    """Lies in every field of the section headers, and in symbols: no crash, an answer, at once."""
    exe = c_program("-DHOSTILE")
    with open(exe, "rb") as f:
        good = f.read()
    address = [next(a for a, (_, ns) in nm(exe).items() if "twice" in ns)]
    lies = (0, 1, 0xffff, 1 << 32, (1 << 60) + 1, (1 << 64) - 1, len(good) - 1, len(good) + 1)
    tried = 0
    for at, section in sections(good):
        if section[1] not in (2, 3, 4, 11):  # symbols, strings, relocations
            continue
        for field, shape in ((4, "<I"), (24, "<Q"), (32, "<Q"), (40, "<I"), (56, "<Q")):
            for lie in lies:
                data = bytearray(good)
                struct.pack_into(shape, data, at + field, lie & (2 ** (8 * struct.calcsize(shape)) - 1))
                ask(write("hostile", bytes(data)), address, layout=exe)
                tried += 1
    assert tried > 200, tried

    symtab = next(s for _, s in sections(good) if s[1] == 2)
    for shape, field, lies in (("<I", 0, (1 << 31, (1 << 32) - 1)), ("<Q", 8, (1 << 63, 1)),
                               ("<Q", 16, ((1 << 64) - 1, 1 << 40))):
        for lie in lies:
            data = bytearray(good)
            for at in range(symtab[4], symtab[4] + symtab[5], 24):
                struct.pack_into(shape, data, at + field, lie)
            ask(write("hostile", bytes(data)), address, layout=exe)


@test
def a_name_of_a_megabyte_is_cut():
    name = "n" * (1 << 20)
    source = f'int main(void) {{ return 0; }}\n__asm__(".text\\n.globl {name}\\n.type {name},' \
             f'@function\\n{name}: ret\\n.size {name},1\\n");\n'
    run("gcc", "-o", path("long"), write("long.c", source))
    at = next(a for a, (_, ns) in nm(path("long")).items() if name in ns)
    got = ask(path("long"), [at])[0][2]
    assert 1000 < len(got) <= 4096 and set(got) == {"n"}, len(got)


@test
def a_file_of_another_kind_is_only_unnamed():
    with open(c_program(), "rb") as f:
        data = bytearray(f.read())
    addr = [min(nm(c_program()))]
    for at, value in ((4, 1), (5, 2), (16, 1), (16, 4), (0, 0)):  # 32-bit, big-endian, .o, core
        odd = bytearray(data)
        odd[at] = value
        got = ask(write("odd", bytes(odd)), addr, layout=c_program())
        assert got[0][2].startswith("[odd+0x"), got


@test
def a_jit_map_is_the_targets_own():
    """In a pid namespace and a root of its own: /tmp/perf-1.map of that root."""
    if os.geteuid() != 0:
        skip("needs root, for namespaces")
    script = "mount -t tmpfs none /tmp && echo '1000 10 inner' > /tmp/perf-$$.map && echo $$ && cat"
    p = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "sh", "-c", script],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        line = p.stdout.readline()
        if line != b"1\n":
            skip("namespaces cannot be made here")
        with open(f"/proc/{p.pid}/task/{p.pid}/children") as f:
            pid = f.read().split()[0]
        got = run(os.path.join(BUILD, "tests", "unit", "test_perfmap"), "name", pid, "1008")
        assert got == b"inner\n", got
        assert not os.path.exists("/tmp/perf-1.map")
    finally:
        p.stdin.close()
        p.wait()


main()
