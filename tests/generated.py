"""Builds the programs of callgraph.py, by several compilers."""
import hashlib
import os

import callgraph
import workloads

GCC = ["gcc", "-std=gnu17", "-O2", "-g", "-w", "-fomit-frame-pointer", *callgraph.EXACT_GCC]
CLANG = ["clang", "-std=gnu17", "-O2", "-g", "-w", "-fomit-frame-pointer", *callgraph.EXACT]
VARIANTS = {
    "gcc": GCC,
    "gcc-static": GCC + ["-static"],
    "gcc-os": GCC + ["-Os", "-fstack-protector-all", "-fcf-protection=full"],
    "gcc-o3": GCC + ["-O3", "-march=native", "-fstack-clash-protection", "-Wl,-z,lazy"],
    "gcc-fp": [a for a in GCC if a != "-fomit-frame-pointer"] + ["-fno-omit-frame-pointer"],
    "clang": CLANG,
}
# Programs that the tables of .eh_frame do not reach into everywhere: another libc, another machine.
OTHERS = {
    "musl": ["musl-gcc", *GCC[1:]],
    "musl-static": ["musl-gcc", *GCC[1:], "-static"],
    "gcc-32": GCC + ["-m32", "-msse2"],
    "gcc-32-static": GCC + ["-m32", "-msse2", "-static"],
}


def build(name, source, command):
    out = os.path.join(workloads.OUT, name)
    workloads.build_text(out, source, command + ["-I", workloads.SRC, "-pthread"])
    return out


def program(tag, seed, variant="gcc", rows=0):
    g = callgraph.Graph(tag, seed)
    return g, build(f"edges-{tag}-{variant}{'-large' * bool(rows)}", g.program(rows),
                    {**VARIANTS, **OTHERS}[variant])


def distinct(path, to, number):
    """A copy of a program that is another by its build id, the same one for the same number."""
    with open(path, "rb") as f:
        data = f.read()
    note = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0"
    assert data.count(note) == 1, f"{path} has no build id"
    at = data.index(note) + len(note)
    other = hashlib.sha1(f"{os.path.basename(path)} {number}".encode()).digest()
    with open(to, "wb") as f:
        f.write(data[:at] + other + data[at + 20:])
    os.chmod(to, 0o755)


def library(tag, seed, variant="gcc", rows=0):
    g = callgraph.Graph(tag, seed)
    return g, build(f"edges-{tag}-{variant}{'-large' * bool(rows)}.so", g.library(rows),
                    VARIANTS[variant] + ["-shared", "-fPIC"])
