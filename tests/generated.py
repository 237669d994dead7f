"""Builds the programs of callgraph.py, by several compilers."""
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


def build(name, source, command):
    out = os.path.join(workloads.OUT, name)
    workloads.build_text(out, source, command + ["-I", workloads.SRC, "-pthread"])
    return out


def program(tag, seed, variant="gcc"):
    g = callgraph.Graph(tag, seed)
    return g, build(f"edges-{tag}-{variant}", g.program(), VARIANTS[variant])


def library(tag, seed, variant="gcc"):
    g = callgraph.Graph(tag, seed)
    return g, build(f"edges-{tag}-{variant}.so", g.library(),
                    VARIANTS[variant] + ["-shared", "-fPIC"])
