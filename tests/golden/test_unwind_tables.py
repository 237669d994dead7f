#!/usr/bin/env python3
"""Unwind tables of programs made here for what the usual files lack, against elfutils'."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import BUILD, main, skip, test  # noqa: E402

CHECK = os.path.join(BUILD, "tests/unit/test_cfi_files")
GOROWS = os.path.join(BUILD, "tests/unit/test_gorows")

C = r"""
#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int less(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
__attribute__((noinline)) static int aligned(int n, char *p)
{
	double v[8] __attribute__((aligned(64)));
	char *q = alloca(n);
	memset(v, n, sizeof(v));
	memcpy(q, p, n);
	return puts(q) + (int)v[n & 7];
}
int main(int argc, char **argv)
{
	int *x = calloc(100, 4);
	qsort(x, 100, 4, less);
	return aligned(argc, argv[0]) + x[argc];
}
"""

GO = r"""
package main

import (
	"crypto/sha256"
	"fmt"
)

func main() { fmt.Printf("%x\n", sha256.Sum256(make([]byte, 1000))) }
"""


def build(tmp, source, name, *argv):
    path = os.path.join(tmp, name)
    with open(path, "w") as f:
        f.write(source)
    exe = os.path.join(tmp, "program")
    subprocess.run([*argv, "-o", exe, path], check=True, cwd=tmp,
                   env=dict(os.environ, GOFLAGS="-buildvcs=false", GO111MODULE="off",
                            GOCACHE=os.path.join(tmp, "cache")))
    return exe


def check(exe):
    """The number of rows and functions, all of which elfutils agrees with."""
    p = subprocess.run([CHECK, exe], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert p.returncode == 0, p.stdout
    m = re.search(r": (\d+) rows of (\d+) functions", p.stdout)
    return int(m[1]), int(m[2])


def section(exe, name):
    out = subprocess.run(["readelf", "-SW", exe], capture_output=True, text=True, check=True).stdout
    return next((line for line in out.splitlines() if f" {name} " in line), None)


@test
def code_built_without_unwind_tables_has_debug_frame():
    for packed in ([], ["-gz"]):
        with tempfile.TemporaryDirectory() as tmp:
            plain = check(build(tmp, C, "p.c", "gcc", "-O2", *packed, "-g"))
            exe = build(tmp, C, "p.c", "gcc", "-O2", "-g", *packed,
                        "-fno-asynchronous-unwind-tables", "-fno-unwind-tables")
            assert section(exe, ".debug_frame"), "gcc wrote none"
            assert check(exe)[1] >= plain[1], (check(exe), plain)


@test
def frames_of_every_kind_of_compiler_option():
    for flags in (["-O0"], ["-O2"], ["-O2", "-fno-omit-frame-pointer"], ["-O3", "-static"],
                  ["-Os", "-mno-red-zone"], ["-O2", "-Wl,-z,lazy", "-fcf-protection"]):
        with tempfile.TemporaryDirectory() as tmp:
            rows, functions = check(build(tmp, C, "p.c", "gcc", *flags))
            assert rows > functions > 3, (flags, rows, functions)
    if shutil.which("clang"):
        with tempfile.TemporaryDirectory() as tmp:
            check(build(tmp, C, "p.c", "clang", "-O2"))


@test
def a_program_without_section_headers():
    with tempfile.TemporaryDirectory() as tmp:
        exe = build(tmp, C, "p.c", "gcc", "-O2")
        rows = check(exe)
        without_sections(exe)
        assert check(exe) == rows


@test
def go_tells_of_its_functions_itself():
    if not shutil.which("go"):
        skip("no go")
    with tempfile.TemporaryDirectory() as tmp:
        exe = build(tmp, GO, "p.go", "go", "build")
        rows, functions = check(exe)
        assert functions > 1000, functions
        exe = build(tmp, GO.replace('import (', 'import "C"\n\nimport ('), "p.go", "go", "build")
        assert check(exe)[1] > functions


def without_sections(exe):
    with open(exe, "r+b") as f:
        f.seek(40)
        f.write(bytes(8))
        f.seek(60)
        f.write(bytes(4))


def go_rows(exe):
    """A hash of the rows of a Go program, and how many there are of each kind of rule."""
    out = subprocess.run([GOROWS, exe], stdout=subprocess.PIPE, text=True, check=True).stdout
    m = re.fullmatch(r"\d+ functions, 0 broken, hash (\w+), kinds (.*)\n", out)
    assert m, out
    return m[1], [int(n) for n in m[2].split()]


@test
def a_go_program_has_the_same_rows_stripped_and_without_sections():
    if not shutil.which("go"):
        skip("no go")
    for mode in ("exe", "pie"):
        with tempfile.TemporaryDirectory() as tmp:
            exe = build(tmp, GO, "p.go", "go", "build", "-buildmode=" + mode)
            rows, kinds = go_rows(exe)
            subprocess.run(["strip", exe], check=True)
            assert go_rows(exe)[0] == rows, mode
            if mode == "exe":  # with sections the loader's relocations are known, without not
                without_sections(exe)
                assert go_rows(exe)[0] == rows, mode
            # Each way from the scheduler's stack to the goroutine's, and signals, in both modes.
            end, signal, *go = kinds[1], kinds[8], *kinds[12:15]
            assert end >= 5 and signal == 1 and all(n == 1 for n in go), kinds


main()
