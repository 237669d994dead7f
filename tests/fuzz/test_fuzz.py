#!/usr/bin/env python3
"""Runs every fuzzer of $BUILD/fuzz for a few seconds: tests/fuzz/test_fuzz.py [--seconds N] [name…]

Seeds are made here, from small real files; the input that broke something is printed as base64.
"""
import base64
import glob
import gzip
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
from messages import encode, pprof
from tap import BUILD, main, skip, test
from windows import Collector, row

PROGRAM = r"""
int puts(const char *);
int weak(void) __attribute__((weak));
int weak(void) { return 3; }
static int local(int x) { return x * 7 + weak(); }
int global(int x) { return local(x) + puts("x"); }
int main(int argc, char **argv) { (void)argv; return global(argc); }
"""
# Functions that have neither sizes nor frame information.
UNSIZED = """
.globl _start
_start: jmp 1f
.p2align 4
nop
1: ret
.p2align 4
.globl next
next: jmp _start
.p2align 4
nop
jmp *%rax
.section .note.GNU-stack,"",@progbits
"""


def seconds():
    if "--seconds" not in sys.argv:
        return 5
    at = sys.argv.index("--seconds")
    n = int(sys.argv[at + 1])
    del sys.argv[at:at + 2]
    return n


def elf_seeds(tmp):
    """Small programs: with symbols, stripped with packed ones, linked to a debug file, without
    section headers."""
    src, exe = os.path.join(tmp, "p.c"), os.path.join(tmp, "p")
    with open(src, "w") as f:
        f.write(PROGRAM)

    def run(*argv):
        subprocess.run(argv, check=True, cwd=tmp)

    run("gcc", "-O0", "-Wl,--build-id", "-Wl,-z,noseparate-code", "-o", exe, src)
    run("objcopy", "--only-keep-debug", exe, exe + ".debug")
    run("strip", "-o", exe + ".min", exe)
    with open(exe + ".debug", "rb") as f, open(exe + ".xz", "wb") as out:
        out.write(lzma.compress(f.read()))
    run("objcopy", "--add-section", f".gnu_debugdata={exe}.xz", exe + ".min", exe + ".packed")
    run("objcopy", f"--add-gnu-debuglink={exe}.debug", exe + ".min", exe + ".linked")
    run("gcc", "-m32", "-O0", "-Wl,-z,noseparate-code", "-o", exe + ".narrow", src)
    with open(src + ".s", "w") as f:
        f.write(UNSIZED)
    run("gcc", "-nostdlib", "-static", "-o", exe + ".unsized", src + ".s")
    for name in ("", ".min", ".packed", ".linked", ".debug", ".narrow", ".unsized"):
        with open(exe + name, "rb") as f:
            yield f.read()
    with open(exe, "rb") as f:
        bare = bytearray(f.read())
    bare[40:48] = bytes(8)
    bare[60:64] = bytes(4)
    yield bytes(bare)
    text = next(int(line.split()[0], 16) for line in
                subprocess.check_output(["nm", exe], text=True).splitlines()
                if line.endswith(" main"))
    for magic in (GO_1_2, GO_1_16, GO_1_18, GO_1_20):
        with open(exe + ".go", "wb") as f:
            f.write(go_table(magic, text))
        run("objcopy", "--add-section", f".gopclntab={exe}.go", exe + ".min", exe + ".gobin")
        with open(exe + ".gobin", "rb") as f:
            yield f.read()


def table_seeds(tmp):
    """The .eh_frame, and the .debug_frame, of a small program; the first byte says which it is."""
    src, exe = os.path.join(tmp, "t.c"), os.path.join(tmp, "t")
    with open(src, "w") as f:
        f.write(PROGRAM)
    for table, first, flags in ((".eh_frame", 255, ["-O2"]), (".eh_frame", 255, ["-O0"]),
                                (".debug_frame", 0, ["-g", "-fno-asynchronous-unwind-tables"])):
        # Where the fuzzer puts the code and the table.
        subprocess.run(["gcc", *flags, "-no-pie", "-nostdlib", "-Wl,-e,main", "-Wl,-Ttext=0x10000",
                        "-Wl,--unresolved-symbols=ignore-all", "-Wl,--no-eh-frame-hdr",
                        "-Wl,--section-start=.eh_frame=0x20000000", "-o", exe, src], check=True)
        subprocess.run(["objcopy", "--dump-section", f"{table}={exe}.bin", exe], check=True)
        with open(exe + ".bin", "rb") as f:
            yield bytes([first]) + f.read()


def go_seeds():
    """Go's table in each layout, with the code of a function that changes stacks, or with none."""
    switch = bytes.fromhex("4889dcffd764488b0425f8ffffff488b5830488b83c0000000488b6038c3") + bytes(8)
    for magic in (GO_1_2, GO_1_16, GO_1_18, GO_1_20):
        for code in (b"", switch):
            yield struct.pack("<H", len(code)) + code + go_table(magic, 0x10000) + bytes(64)
    # One function, systemstack, that is 40 bytes long and 0 bytes deep.
    head = struct.pack("<IBBBB", GO_1_20, 0, 0, 1, 8) + \
        struct.pack("<8Q", 1, 0, 0x10000, 72, 72, 72, 92, 96)
    table = head + b"runtime.systemstack\0" + b"\0\2\x28\0" + struct.pack("<III", 0, 12, 40) + \
        struct.pack("<11I", 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 6 << 8)
    yield struct.pack("<H", len(switch)) + switch + table + bytes(64)


def trace_seeds():
    """Records of calls of each number, with a chunk for each of their arguments, at entry and at exit."""
    for call in range(0, 260, 4):
        for size in (8, 64, 200):
            head = struct.pack("<QQq6Q4IHHI16s", 1, 2, 3, *[0x1000] * 6, 0, 7, 7, 0, 0, 0, 0, b"comm")
            chunks = b"".join(struct.pack("<HBBB3x", size, arg, part, entry) + bytes([1, 2, 0, 65] * (size // 4))
                              for arg in range(7) for part in (0, 2, 5) for entry in (0, 1))
            yield struct.pack("<HB", call, call % 3) + head + chunks


def unwind_table_seed():
    """A table of two pages with three rows (src/unwind/unwind_table_file.h)."""
    head = struct.pack("<8sQIIIIQ7QIIII", b"smolder\1", 0, 4, 2, 2, 3, 1, *[0] * 7, 1, 2, 0, 0)
    return head + struct.pack("<BBhih6x", 0, 0, 0, 0, 0) + struct.pack("<BBhih6x", 2, 1, -16, 16, -24) + \
        struct.pack("<II", 2, 1) + struct.pack("<6H", 0, 0, 16, 1, 0, 1)


def varints(*values):
    out = bytearray()
    for v in values:
        while v >= 0x80:
            out.append(v & 0x7f | 0x80)
            v >>= 7
        out.append(v)
    return bytes(out)


def text(s):
    return varints(len(s)) + s


def entries_seed():
    """A dictionary of two frames, three stacks and a series (src/profile/entries.h)."""
    strings = [b"main", b"leaf", b"prog", b"comm", b"x"]
    return varints(1, 1, len(strings)) + b"".join(map(text, strings)) + \
        varints(1, 1, 3, 0, 0, 0, 4096, 0) + varints(1, 2, 1, 1, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0) + \
        varints(1, 3, 1, 1, 1, 2, 3, 2) + varints(1, 1, 1, 4, 5)


def window_seeds():
    """Two messages (src/profile/window.h) and a reply."""
    def message(sequence, entries, times):
        head = b"SMW\1" + bytes(range(16)) + varints(sequence, 0, 1, 1_700_000_000_000, 10000) + \
            text(b"cpu") + text(b"nanoseconds") + varints(100, 0, 4, 0, 0, 0, 0)
        rows = varints(2, 0, 2, 1, 0, 1, 4, 2, 3)
        steps = varints(1, 5, 7, 9) if times else varints(0)
        metrics = varints(1) + text(b"x_total") + struct.pack("<d", 1.5)
        m = head + varints(len(entries)) + entries + rows + steps + metrics
        return struct.pack("<H", len(m)) + m
    nothing_new = varints(1, 6, 0, 2, 0, 3, 0, 4, 0, 2, 0)
    yield message(1, entries_seed(), True) + message(2, nothing_new, False)
    # Findings: none; spans: two, and three rows of them.
    spans = varints(0, 2) + bytes(range(48)) + varints(3, 1, 2, 0, 1, 0, 0, 0, 1, 2, 4, 0, 2, 1, 1, 3)
    head = message(3, nothing_new, False)[2:].replace(varints(2, 0, 2, 1, 0, 1, 4, 2, 3, 0), varints(0, 0))
    yield struct.pack("<H", len(head + spans)) + head + spans
    yield b"SMR\1" + bytes(16) + varints(1, 0, 4, 0, 1, 77) + text(b"no")


def send_seeds():
    """Windows that a collector sends, and answers of those they are sent on to."""
    c = Collector(bytes(range(16)))
    deep = tuple(f"f{n}@lib{n % 3}.so /src/{n}.c:{n}" for n in range(40))
    rows = [row(("main@app /a.c:1", "[i]in@app /b.h:2", "[k]call@[kernel]"), 3, times=[0, 1, 499], comm="a", service="s"),
            row(deep, 1, times=[7], comm="b", container_id="0123"), row((), 2, times=[3, 3])]
    yield b"\0" + c.message(1_794_733_200_000, rows)
    yield b"\0" + Collector(bytes(16)).message(1_794_733_200_000, [row(("[g]x", "y"), 2, value=9, state="idle")],
                                               kind="offcpu", period=0)
    yield b"\0" + Collector(bytes(16)).message(1_794_733_200_000, [row(("x",), 2, value=200, comm="z")],
                                               kind="page_faults", unit="faults", period=100)
    yield b"\1" + b"\x0a\x06\x08\x09\x12\x02no"
    yield b"\7Wed, 19 Nov 2026 07:28:00 GMT\nlater"
    yield b"\3SMR\1" + bytes(16) + varints(1, 0, 4, 0, 1, 0) + text(b"no")


def blob_seeds():
    """What src/store/columns.h and dict.h read, each behind the byte that says which it is."""
    columns = [varints(1, 2), varints(2, 1), varints(3, 4, 9), varints(2, 0, 1, 1, 1, 1, 0),
               varints(1, 2, 3, 4), varints(0, 2, 1, 0)]
    windows = varints(1, 1, 2, 3_400_000_000_000, 10000, 1, 0, 1, 20000, 10000, 1, 5, 0)
    yield b"\0" + windows + varints(*map(len, columns)) + b"".join(columns)
    yield b"\1" + varints(1, 2, 3, 0, 3, 3) + b"\1\2\3\0\1\0"
    yield b"\2" + entries_seed()


LINES_PROGRAM = r"""
static volatile int sink;
namespace a { struct S { int get(int x) const { if (x) { int y = x * sink; return y; } return 1; } }; }
static inline __attribute__((always_inline)) int b(int x) { return a::S().get(x) + sink; }
extern "C" int _start(int x) { int s = 0; for (int i = 0; i < x; i++) s += b(i) + b(s); return s; }
"""


def lines_seeds(tmp):
    """Small programs of both compilers with debug info of each version, plain and packed."""
    src, exe = os.path.join(tmp, "l.cc"), os.path.join(tmp, "l")
    with open(src, "w") as f:
        f.write(LINES_PROGRAM)
    for compiler in ("g++", "clang++"):
        for extra in (["-gdwarf-4"], ["-gdwarf-5"], ["-gdwarf-5", "-gz"], ["-gdwarf-4", "-gz"]):
            if shutil.which(compiler) is None:
                continue
            subprocess.run([compiler, "-O2", "-nostdlib", "-static", "-Wl,-z,noseparate-code",
                            "-Wl,--build-id=none", "-o", exe, "l.cc", *extra], check=True, cwd=tmp)
            subprocess.run(["objcopy", "-R", ".eh_frame", "-R", ".comment", "-R", ".debug_loclists",
                            "-R", ".debug_loc", "-R", ".debug_aranges", exe], check=True)
            with open(exe, "rb") as f:
                yield f.read()


def clickhouse_seeds():
    """A question, its form, and the answers to all that a store asks a server then."""
    def answer(*parts):
        whole = b"".join(parts)
        return struct.pack("<H", len(whole)) + whole

    def number(*n):
        return struct.pack(f"<{len(n)}Q", *n)

    def text(s):
        return bytes([len(s)]) + s.encode()

    series, stack, frame, start = bytes([1]) * 16, bytes([2]) * 16, bytes([3]) * 16, 1794733200000
    listed = answer(series, b"\2", text("comm"), text("pid"), b"\2", text("abc"), text("12"))
    heads = answer(number(1, 1, start, start + 10000, 0, 0, 1), text("nanoseconds"), number(10, 10))
    meant = (answer(stack, b"\2", frame, frame) +
             answer(frame, text("main"), b"\0", number(0), text(""), bytes(8), text("app"), text(""), text("/app"),
                    number(0, 0, 0)))
    sums = answer(series, bytes(4), stack, number(3, 30))
    cut = answer(series, number(start, 10), b"\1", stack, b"\1", number(2), b"\1", number(0), b"\2\1\0\2\0")
    for form in (8, 8 | 4, 8 | 16):
        yield bytes([0, form]) + listed + sums + heads + meant
    yield bytes([0, 8 | 32]) + listed + answer(number(0)) + sums + cut + heads + meant
    yield bytes([0, 8 | 4 | 1]) + listed + answer(bytes(24), series, stack, number(1, 2)) + heads + meant
    yield (bytes([3, 8]) + listed + answer(series, bytes(4), number(5, 1)) + heads + answer(series, number(start)) +
           answer(struct.pack("<II", 0, 1)) + answer(number(start)))
    yield bytes([4, 0]) + answer(number(1, 0)) + answer(number(3, 1)) + heads
    yield bytes([5, 8]) + listed
    yield bytes([6, 0]) + answer(series, text("body"))
    yield (bytes([7, 0]) + answer(number(start, start)) + answer(number(7)) +
           answer(text("cpu"), series, number(start, 0, 5), b"\5", number(0, 0, 0, 0, 0, 5)))


def label_seeds():
    """A state file of each container runtime, a control group's path, and labels for rules."""
    ident = b"3f4b1c2d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809"
    yield b'\0{"Name":"/web-1","Config":{"Image":"registry:5000/web:2.4.1"}}'
    yield b'\1{"annotations":{"io.kubernetes.cri.container-name":"app","io.kubernetes.cri.sandbox-name":' \
        b'"web-7d9f8b6c54-x2x4z","io.kubernetes.cri.image-name":"web@sha256:fedc"}}'
    yield b'\5[{"id":"' + ident + b'","names":["a"],"metadata":"{\\"name\\":\\"b\\",\\"image-name\\":\\"c:1\\"}"}]'
    yield b"p/kubepods.slice/kubepods-pod0a1b2c3d_4e5f_6071_8293_a4b5c6d7e8f9.slice/cri-containerd-" + ident + b".scope"
    yield b"p/machine.slice/machine-libpod_pod_" + ident + b".slice/libpod-" + ident + b".scope/container"
    yield b'k{"items":[{"metadata":{"name":"a-0","namespace":"n","uid":"0a1b","labels":{"app":"x"}},"status":{' \
        b'"containerStatuses":[{"name":"c","image":"i:1","containerID":"cri-o://' + ident + b'"}]}}]}'
    yield b"mSMN\1" + varints(1) + text(b"0a1b") + text(b"n") + text(b"a-0") + \
        varints(1) + text(ident) + text(b"c") + text(b"i:1") + varints(1) + text(b"app") + text(b"x")
    yield b"rxx;y\nb\nname\nzz"


def context_seeds():
    """A process context as programs publish it, and a list of mappings with one."""
    def field(number, data):
        return varints(number << 3 | 2, len(data)) + data

    def attribute(key, value):
        return field(1, key) + field(2, field(1, value))
    resource = b"".join(field(1, attribute(k, v)) for k, v in (
        (b"service.name", b"shop"), (b"service.version", b"2.4.1"),
        (b"deployment.environment.name", b"staging"), (b"process.pid", b"")))
    yield b"p" + field(1, resource) + field(2, attribute(b"threadlocal.schema_version", b"tlsdesc_v1_dev"))
    yield b"m7f0000001000-7f0000003000 rw-p 00000000 00:01 7      /memfd:OTEL_CTX (deleted)\n" \
          b"7f0000007000-7f0000008000 r--p 00000000 00:00 0      [anon:OTEL_CTX]\n"


def push_seeds():
    """One of each way to push, behind the byte that says which it is."""
    profile = pprof([("samples", "count"), ("cpu", "nanoseconds")],
                    [(("main", "leaf"), (1, 10), {"k": "v", "bytes": 7})], period=("cpu", "nanoseconds", 10),
                    start_s=1_700_000_000, seconds=10, packed=False)
    series = {"labels": [{"name": "__name__", "value": "process_cpu"}, {"name": "a", "value": "b"}],
              "samples": [{"raw_profile": profile}]}
    otlp = {"dictionary": {
        "mapping_table": [{}, {"filename_strindex": 1}], "function_table": [{}, {"name_strindex": 1}],
        "location_table": [{}, {"mapping_index": 1, "address": 16, "lines": [{"function_index": 1}]}],
        "link_table": [{}, {"span_id": bytes(8)}], "string_table": ["", "samples", "count"],
        "attribute_table": [{}, {"key_strindex": 1, "value": {"string_value": "x"}}],
        "stack_table": [{}, {"location_indices": [1, 1]}]},
        "resource_profiles": [{"resource": {"attributes": [{"key": "service.name", "value": {"string_value": "s"}}]},
                               "scope_profiles": [{"profiles": [{
                                   "sample_type": {"type_strindex": 1, "unit_strindex": 2},
                                   "samples": [{"stack_index": 1, "values": [3], "attribute_indices": [1],
                                                "link_index": 1}], "time_unix_nano": 1}]}]}]}
    form = b'--xYz\r\nContent-Disposition: form-data; name="profile"\r\n\r\n' + profile + \
        b'\r\n--xYz\r\nContent-Disposition: form-data; name="sample_type_config"\r\n\r\n' \
        b'{"cpu":{"display-name":"cpu","cumulative":true}}\r\n--xYz--\r\n'
    yield b"\0" + profile
    yield b"\1" + encode("pyroscope", "PushRequest", {"series": [series]})
    yield b'\2{"series":[{"labels":[{"name":"a","value":"b"}],"samples":[{"rawProfile":"' + \
        base64.b64encode(profile) + b'"}]}]}'
    yield b"\3" + encode("otlp", "ExportProfilesServiceRequest", otlp)
    yield b'\4{"dictionary":{"stringTable":["","samples","count"],"stackTable":[{},{"locationIndices":[]}],' \
        b'"linkTable":[{},{"spanId":"0011223344556677"}]},"resourceProfiles":[{"scopeProfiles":[{"profiles":[' \
        b'{"sampleType":{"typeStrindex":1,"unitStrindex":2},"samples":[{"stackIndex":1,"linkIndex":1,' \
        b'"values":["7"]}]}]}]}]}'
    yield b"\5" + form
    yield b"\6shop.alloc_space{a=b,c=\"d\"}#1700000000\nmain;a 1\nmain;b 2\n"


def scrape_seeds():
    """Lists of targets, and a heap, behind the byte that says which it is."""
    heap = pprof([("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"),
                  ("inuse_space", "bytes")],
                 [(("main", "leaf"), (3, 30, 1, 10), {"bytes": 10}), (("main",), (1, 7, 1, 7), {"k": "v"})],
                 period=("space", "bytes", 512), packed=False)
    yield b'\0[{"targets":["10.0.0.1:6060","[::1]"],"labels":{"a":"b","__path__":"/x?y","__scheme__":"https"}}]'
    yield b"\1- targets: ['10.0.0.1:6060', localhost]\n  labels: {a: b, __meta_x: y, __param_z: '%&'}\n- targets: []\n"
    yield b"\2" + heap


def names():
    return [b"Z3fooiPKc", b"ZN4node14CallbackScopeC2EPN2v87IsolateE", b"ZNSt6vectorIiSaIiEE9push_backEOi",
            b"ZN4core3fmt9Formatter3pad17h0123456789abcdefE", b"NvNtCs1234_7mycrate3foo3bar",
            b"INvNtC3std3mem8align_ofjE", b"ZN1AIS_IS_IS_S_ES_ES_E1fEv"]


def seeds(name, tmp):
    stack = b"main;a;b 3\nmain;a;c d 4\nmain 1\n"
    if name == "elf":
        return list(elf_seeds(tmp))
    if name == "debug_lines":
        return list(lines_seeds(tmp))
    if name == "perfmap":
        return [b"400 20 LazyCompile:~f /x.js:1\n420 8 g\n400 8 newer\nzz\n", b"0x1000 0x10 h\n"]
    if name == "kallsyms":
        return [b"ffffffff81000000 T _text\nffffffff81000010 t f\nffffffffc0000000 t g\t[ext4]\n"
                b"ffffffffc0001000 t bpf_prog_0123456789abcdef_x\t[bpf]\n",
                b"0000000000000000 T _text\n", b"do_it+0x1f/0x2a0 [ext4]"]
    if name == "cfi":
        return list(table_seeds(tmp))
    if name == "gorows":
        return list(go_seeds())
    if name == "trace":
        return list(trace_seeds())
    if name == "unwind_table_file":
        return [unwind_table_seed()]
    if name == "window":
        return list(window_seeds())
    if name == "send":
        return list(send_seeds())
    if name == "store_blob":
        return list(blob_seeds())
    if name == "demangle":
        return names()
    if name == "perfscript":
        return [b"cc 12 [001] 1.5: 10101010 cpu-clock:\n\tffffffff81000000 f+0x1 ([kernel])\n"
                b"\t     55d0 main (/bin/cc)\n\n"]
    if name == "selector":
        return [b'cpu{comm="nginx",a=~"(a+)+",b!~`x|y`}', b"heap:x{'a.b'!='\\x41\\u00e4'}",
                b"now-1d12h+5m", b"yesterday 14:02:05", b"2026-11-15T14:02:05.25+01:00"]
    if name == "clickhouse":
        return list(clickhouse_seeds())
    if name == "labels":
        return list(label_seeds())
    if name == "context":
        return list(context_seeds())
    if name == "push":
        return list(push_seeds())
    if name == "scrape":
        return list(scrape_seeds())
    if name == "protojson":
        return [b'\0{"matchers":["{}"],"label_names":["a"],"start":"1","end":2}',
                b'\1{"profileTypeID":"x","step":1.5,"limit":"9","aggregation":"TIME_SERIES_AGGREGATION_TYPE_AVERAGE"}',
                b'\2{"left":{"stackTraceSelector":{"callSite":[{"name":"a"}]}},"right":{}}',
                b'\4{"series":[{"labels":[{"name":"n","value":"v"}],"points":[{"value":"NaN","timestamp":"-3"}]}]}']
    if name == "pprof":
        return [gzip.compress(b"\x0a\x04\x08\x01\x10\x02\x32\x00", mtime=0), b"\x32\x00"]
    return [stack]


def fuzz(program, secs):
    name = os.path.basename(program)[len("fuzz_"):]
    with tempfile.TemporaryDirectory() as tmp:
        corpus, found = os.path.join(tmp, "corpus"), os.path.join(tmp, "found") + "/"
        os.mkdir(corpus)
        os.mkdir(found)
        for i, data in enumerate(seeds(name, tmp)):
            with open(os.path.join(corpus, str(i)), "wb") as f:
                f.write(data)
        p = subprocess.run([program, f"-max_total_time={secs}", "-timeout=20",
                            "-rss_limit_mb=2048", f"-artifact_prefix={found}",
                            "-print_final_stats=1", corpus], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=secs + 300)
        out = p.stdout.decode("utf-8", "replace")
        for path in glob.glob(found + "*"):
            with open(path, "rb") as f:
                print(f"# {os.path.basename(path)}: {base64.b64encode(f.read()).decode()}")
        if p.returncode != 0:
            for line in out.splitlines()[-60:]:
                print(f"# {line}")
        assert p.returncode == 0, f"ended with {p.returncode}"
        runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", out)
        assert runs and int(runs[1]) > 100, "hardly ran"
        print(f"# {name}: {runs[1]} inputs in {secs} s")


def register(program, secs):
    def run():
        fuzz(program, secs)
    run.__name__ = os.path.basename(program)
    test(run)


SECONDS = seconds()
PROGRAMS = [p for p in sorted(glob.glob(os.path.join(BUILD, "fuzz", "fuzz_*")))
            if os.access(p, os.X_OK) and not p.endswith((".d", ".o"))]
for path in PROGRAMS:
    register(path, SECONDS)
if not PROGRAMS:
    @test
    def fuzzers():
        skip("none are built; the build with SAN has them in its place")
if __name__ == "__main__":
    if not shutil.which("gcc"):
        sys.exit("gcc is needed to make the seeds")
    main()
