#!/usr/bin/env python3
"""Inlined calls and lines at every instruction of programs built here, against llvm-symbolizer and
eu-addr2line."""
import functools
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import BUILD, main, skip, test
import workloads

FIND = os.path.join(BUILD, "tests", "unit", "test_debug_lines")
TMP = tempfile.TemporaryDirectory()

C = r"""
#include <stdlib.h>
volatile int sink;
#define INLINE static inline __attribute__((always_inline))
INLINE int one(int x) { sink += x; return x ^ sink; }
INLINE int two(int x)
{
	if (x & 1) {
		int y = one(x);
		return y + one(y);
	}
	return one(x + 1);
}
INLINE int three(int x)
{
	int s = 0;
	for (int i = 0; i < x; i++)
		s += two(i) - one(s);
	return s;
}
int __attribute__((noinline)) nest(int x)
{
	return three(x) + two(x);
}
static int compare(const void *a, const void *b)
{
	return one(*(const int *)a) - *(const int *)b;
}
int main(int argc, char **argv)
{
	int v[16] = {argc, 7, 3, 2};
	(void)argv;
	qsort(v, 16, sizeof(*v), compare);
	if (nest(v[0]) == 42)
		abort();
	return nest(argc) & 1;
}
"""
CXX = r"""
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>
namespace deep { namespace er {
template <typename T> struct Sum {
	T total{};
	inline __attribute__((always_inline)) void add(const T &t) { total += t; }
};
struct Base { virtual ~Base() = default; virtual int go(int x) { return x + 1; } };
struct Other : Base { int go(int x) override { return x * 2; } };
} }
static std::map<std::string, std::vector<int>> table;
__attribute__((noinline)) int work(deep::er::Base &b, int n)
{
	deep::er::Sum<int> s;
	std::vector<int> v;
	for (int i = 0; i < n; i++)
		v.push_back(b.go(i));
	std::sort(v.begin(), v.end(), [](int x, int y) { return x % 7 < y % 7; });
	for (int x : v)
		s.add(x);
	try {
		table[std::to_string(s.total)].push_back(n);
	} catch (const std::exception &e) {
		std::puts(e.what());
	}
	return s.total;
}
int main(int argc, char **argv)
{
	deep::er::Other o;
	struct Local { int x; int twice() const { return x * 2 + std::atoi("1"); } } l{argc};
	return work(o, argc * 100) + l.twice() + (argv[0] == nullptr);
}
"""


def run(*argv, **kw):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, **kw).stdout


def build(name, source, *command):
    if not shutil.which(command[0]):
        skip(f"{command[0]} is not installed")
    src = os.path.join(TMP.name, name + (".c" if source is C else ".cc"))
    with open(src, "w") as f:
        f.write(source)
    out = os.path.join(TMP.name, name)
    # Where two functions are one, each reader may take either for it.
    apart = ["-fno-ipa-icf"] if command[0] in ("gcc", "g++") else []
    run(*command, "-O2", *apart, "-Wl,--build-id", "-o", out, os.path.basename(src), cwd=TMP.name)
    return out


def addresses(path, most=4000, function=None):
    """Where each instruction begins; evenly thinned out where there are very many."""
    text = run("objdump", f"--disassemble={function}" if function else "-d", "--no-show-raw-insn",
               "-j", ".text", path)
    found = re.findall(r"^\s+([0-9a-f]+):", text, re.M)
    return found[::len(found) // most + 1]


def ours(path, at, root=None):
    out = run(FIND, "find", path, *([root] if root else []), input="\n".join(at))
    blocks, frames = [], []
    for line in out.splitlines():
        if line == ".":
            blocks.append(frames)
            frames = []
        else:
            frames.append(tuple(line.rsplit("\t", 1)))
    return blocks


def llvm(path, at, demangle=lambda out: run("c++filt", input=out)):
    """Names go through c++filt: LLVM's own demangler does not know all of gcc's."""
    out = run("llvm-symbolizer", "--inlines", "--no-demangle", "--output-style=LLVM", "-e", path,
              input="\n".join("0x" + a for a in at))
    out = demangle(out)
    blocks = []
    for block in out.strip("\n").split("\n\n"):
        lines = block.split("\n")
        # NAME, then SOURCE:LINE:COLUMN
        blocks.append([(lines[i], lines[i + 1].rsplit(":", 1)[0]) for i in range(0, len(lines), 2)])
    return blocks


def elfutils(path, at):
    out = run("eu-addr2line", "-C", "-i", "-f", "-a", "-A", "-e", path, *("0x" + a for a in at))
    blocks = []
    for line in out.splitlines():
        if re.fullmatch("0x[0-9a-f]{16}", line):
            blocks.append([])
        elif len(blocks[-1]) and len(blocks[-1][-1]) == 1:
            # SOURCE:LINE:COLUMN, or ??:0
            blocks[-1][-1] += (re.sub(r"(:\d+):\d+$", r"\1", line),)
        else:
            # "NAME inlined at SOURCE:LINE:COLUMN in CALLER"
            blocks[-1].append((line.split(" inlined at ")[0],))
    return blocks


def tidy(where):
    """Paths of compilers go through `.` and `..`, each reader's in its own way."""
    source, line = where.rsplit(":", 1)
    return f"{os.path.normpath(source)}:{line}"


def check(path, theirs, least, root=None, debug=None, at=None):
    """Every chain is theirs: the functions that were inlined, by name, and the lines of all. Where
    no function is known they name it by the symbol table, or guess a line."""
    at = at or addresses(path)
    mine, other = ours(path, at, root), theirs(debug or path, at)
    assert len(mine) == len(other) == len(at), (len(mine), len(other), len(at))
    deep = 0
    for a, m, o in zip(at, mine, other):
        if not m:
            assert len(o) == 1 and (o[0][0] == "??" or re.search(":[0?]+$", o[0][1])), \
                f"{a}: nothing, they say {o}"
            continue
        assert [n for n, _ in m[:-1]] == [n for n, _ in o[:-1]], f"{a}: {m}, they say {o}"
        assert [tidy(w) for _, w in m] == [tidy(w) for _, w in o], f"{a}: {m}, they say {o}"
        deep = max(deep, len(m))
    assert deep >= least, f"the deepest chain has {deep} frames"


VARIANTS = [(c, v) for c in ("gcc", "clang") for v in ("-gdwarf-4", "-gdwarf-5")]


def variants(fn):
    for compiler, version in VARIANTS:
        def one(compiler=compiler, version=version):
            fn(compiler, version)
        one.__name__ = f"{fn.__name__}_{compiler}{version}"
        test(one)


@variants
def chains_of_c_are_llvms(compiler, version):
    exe = build(f"c-{compiler}{version}", C, compiler, version)
    check(exe, llvm, 4)


@variants
def chains_of_cxx_are_llvms(compiler, version):
    exe = build(f"cxx-{compiler}{version}", CXX, {"gcc": "g++", "clang": "clang++"}[compiler], version)
    check(exe, llvm, 6)


@test
def chains_of_c_are_elfutils():
    # Not of clang: it needs .debug_aranges, and leaves out calls around code of line 0.
    for compiler, version in VARIANTS[:2]:
        exe = build(f"c-{compiler}{version}", C, compiler, version)
        # For code of other files, which have no debug info, it takes the nearest line it knows.
        check(exe, elfutils, 4, at=[a for f in ("nest", "compare", "main")
                                    for a in addresses(exe, function=f)])


@test
def packed_sections_are_unpacked():
    for how in ("zlib", "zlib-gnu"):
        exe = build(f"packed-{how}", C, "gcc", "-g", f"-gz={how}")
        assert ".zdebug_info" in run("readelf", "-SW", exe) or how == "zlib"
        check(exe, llvm, 4)


@test
def a_separate_debug_file_is_found_by_build_id():
    exe = build("separate", CXX, "g++", "-g")
    root = os.path.join(TMP.name, "root")
    build_id = re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", exe))[1]
    folder = os.path.join(root, "usr/lib/debug/.build-id", build_id[:2])
    os.makedirs(folder, exist_ok=True)
    debug = os.path.join(folder, build_id[2:] + ".debug")
    run("objcopy", "--only-keep-debug", exe, debug)
    run("strip", "-o", exe + ".min", exe)
    check(exe + ".min", llvm, 6, root=root, debug=exe)
    assert not any(ours(exe + ".min", addresses(exe + ".min"))), "found without its root"


@test
def a_separate_debug_file_is_found_by_its_link():
    exe = build("linked", C, "gcc", "-g")
    run("objcopy", "--only-keep-debug", exe, exe + ".debug")
    run("strip", "-o", exe + ".min", exe)
    run("objcopy", f"--add-gnu-debuglink={exe}.debug", exe + ".min")
    check(exe + ".min", llvm, 4, debug=exe)


@test
def what_dwz_shares_between_files_is_found():
    """Names of inlined functions lie in a third file, by a path that leads there in the root only."""
    if not shutil.which("dwz"):
        skip("dwz is not installed")
    root = os.path.join(TMP.name, "dwz-root")
    os.makedirs(os.path.join(root, "shared"), exist_ok=True)
    whole = [build(f"dwz-{n}", CXX, "g++", "-gdwarf-4", f"-D{n}") for n in ("A", "B")]
    files = [shutil.copy(w, w + ".dwz") for w in whole]
    common = os.path.join(root, "shared", "common.debug")
    run("dwz", "-m", common, "-M", "/shared/common.debug", *files)
    assert ".gnu_debugaltlink" in run("readelf", "-SW", files[0])
    check(files[0], llvm, 6, root=root, debug=whole[0])
    # Another file by that name is not it.
    shutil.copy(whole[1], common)
    names = [n for chain in ours(files[0], addresses(files[0]), root) for n, _ in chain]
    assert names and "" in names


@test
def split_dwarf_opens_no_other_file():
    """The .dwo it names is a FIFO: whoever opened it would wait for ever."""
    exe = build("split", C, "gcc", "-g", "-gsplit-dwarf")
    dwo = [f for f in os.listdir(TMP.name) if f.endswith(".dwo")]
    assert dwo, os.listdir(TMP.name)
    for f in dwo:
        os.unlink(os.path.join(TMP.name, f))
        os.mkfifo(os.path.join(TMP.name, f))
    out = subprocess.run([FIND, "find", exe], input="\n".join(addresses(exe)), text=True, timeout=60,
                         check=True, stdout=subprocess.PIPE).stdout
    assert re.search(r"/split\.c:\d+", out), out[:300]


@test
def chains_of_rust_are_llvms():
    def demangle(out):
        # Of the two forms of names LLVM knows the newer alone; older compilers' library has both.
        both = zip(run("c++filt", "--format=rust", input=out).split("\n"),
                   run("llvm-cxxfilt", input=out).split("\n"))
        return "\n".join(re.sub("::h[0-9a-f]{16}$", "", gnu)
                         if re.search(r"::h[0-9a-f]{16}$", by_llvm) else by_llvm
                         for gnu, by_llvm in both)
    check(workloads.path("shares-rs-v0"), functools.partial(llvm, demangle=demangle), 8)


@test
def chains_of_go_are_llvms():
    check(workloads.path("shares-go"), llvm, 3)


# Attributes of crafted DIEs, as (name, form), and the abbreviations that use them.
LOW, HIGH, SIBLING, RANGES, ORIGIN = (0x11, 0x01), (0x12, 0x07), (0x01, 0x13), (0x55, 0x17), (0x31, 0x13)
UNIT, SPACE, FUNCTION, RANGED, INLINED = 1, 2, 3, 4, 5
ABBREVIATIONS = [(UNIT, 0x11, 1, [LOW, HIGH]), (SPACE, 0x39, 1, [SIBLING]),
                 (FUNCTION, 0x2e, 1, [LOW, HIGH, ORIGIN]), (RANGED, 0x2e, 0, [RANGES]),
                 (INLINED, 0x1d, 1, [LOW, HIGH, ORIGIN])]


def craft(name, dies, ranges=b""):
    """A program whose debug info has one unit, over all addresses, with these DIEs."""
    exe = build(name, C, "gcc", "-gdwarf-4")
    abbrev = b"".join(bytes([code, tag, children]) + b"".join(bytes(a) for a in attributes) + b"\0\0"
                      for code, tag, children, attributes in ABBREVIATIONS) + b"\0"
    unit = struct.pack("<HIB", 4, 0, 8) + bytes([UNIT]) + struct.pack("<QQ", 0, 1 << 40) + dies
    for section, data in (("info", struct.pack("<I", len(unit)) + unit), ("abbrev", abbrev),
                          ("ranges", ranges or bytes(16))):
        with open(exe + ".bin", "wb") as f:
            f.write(data)
        subprocess.run(["objcopy", "--remove-section", f".debug_{section}", exe], check=True)
        subprocess.run(["objcopy", "--add-section", f".debug_{section}={exe}.bin", exe], check=True)
    return exe


FIRST = 4 + 7 + 17  # where the first DIE after the unit's lies


def answers(exe):
    """What is said of two addresses; in bounded time."""
    return subprocess.run([FIND, "find", exe], input="1000\n1010\n", text=True, timeout=120,
                          check=True, stdout=subprocess.PIPE).stdout


@test
def dies_that_are_their_own_siblings_end():
    assert answers(craft("self", bytes([SPACE]) + struct.pack("<I", FIRST) + b"\0\0")) == ".\n.\n"


@test
def siblings_that_are_children_end():
    """Each DIE is reached twice as often as the one before."""
    dies = b"".join(bytes([SPACE]) + struct.pack("<I", FIRST + 5 * (i + 1)) for i in range(60))
    assert answers(craft("double", dies + bytes(200))) == ".\n.\n"


@test
def many_functions_with_many_ranges_end():
    dies = b"".join(bytes([RANGED]) + struct.pack("<I", 0) for _ in range(100000))
    ranges = b"".join(struct.pack("<QQ", 1 << 41, (1 << 41) + i + 1) for i in range(100000))
    assert answers(craft("ranges", dies + b"\0", ranges + bytes(16))) == ".\n.\n"


@test
def origins_that_lead_round_end():
    """Two inlined calls, each an instance of the other, in a function that is one of itself."""
    size = 1 + 8 + 8 + 4
    at = [FIRST + i * size for i in range(3)]
    dies = b"".join(bytes([code]) + struct.pack("<QQI", 0, 1 << 40, at[origin])
                    for code, origin in ((FUNCTION, 0), (INLINED, 2), (INLINED, 1)))
    assert re.fullmatch(r"(\t.*\n\t.*\n\t.*\n\.\n){2}", answers(craft("round", dies + bytes(8))))


@test
def nests_deeper_than_any_end():
    dies = b"".join(bytes([INLINED if i else FUNCTION]) + struct.pack("<QQI", 0, 1 << 40, FIRST)
                    for i in range(20000))
    out = answers(craft("deep", dies + bytes(20001)))
    assert 0 < out.count("\n") <= 2 * 65, out.count("\n")


@functools.cache
def libc():
    for line in open("/proc/self/maps"):
        if "/libc.so.6" in line:
            return line.split()[-1]


@test
def chains_of_libc_are_llvms():
    build_id = re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", libc()))[1]
    debug = f"/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
    if not os.path.exists(debug):
        skip("libc6-dbg is not installed")
    check(libc(), llvm, 4, debug=debug)


main()
