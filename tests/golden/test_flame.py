#!/usr/bin/env python3
"""smolder flame: what other tools wrote goes in, and what comes out agrees with those tools."""
import collections
import gzip
import os
import pty
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import SMOLDER, main, skip, test  # noqa: E402

TEMP = tempfile.mkdtemp(prefix="smolder-flame-")
LIMIT = 120


def path(name):
    return os.path.join(TEMP, name)


def write(name, data):
    with open(path(name), "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())
    return path(name)


def run(argv, stdin=subprocess.DEVNULL, **more):
    return subprocess.run(argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=LIMIT, **more)


def flame(*args, data=None):
    p = subprocess.run([SMOLDER, "flame", *args], input=data if data is not None else b"",
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT)
    return p.returncode, p.stdout, p.stderr.decode()


def folded(*args):
    """The folded output of a run that must work, as {stack: value}."""
    code, out, err = flame("-f", "folded", *args)
    assert code == 0, err
    stacks = collections.Counter()
    for line in out.decode().splitlines():
        stack, n = line.rsplit(" ", 1)
        stacks[stack] += int(n)
    return stacks


def pprof_top(file, *args):
    """{function: flat} of go tool pprof -top, and the total it names."""
    if not shutil.which("go"):
        skip("there is no go")
    p = run(["go", "tool", "pprof", "-top", "-nodefraction=0", "-edgefraction=0",
             "-nodecount=1000000", "-symbolize=none", *args, file])
    assert p.returncode == 0, p.stderr.decode()
    text = p.stdout.decode()
    total = re.search(r"of (\S+) total", text)
    assert total, text
    flat = {}
    for line in text.split("cum%\n", 1)[1].splitlines():
        cols = line.split(None, 5)
        name = cols[5].replace(" (inline)", "").replace(" (partial-inline)", "")
        if number(cols[0]):
            flat[name] = flat.get(name, 0) + number(cols[0])
    return flat, number(total[1])


def number(text):
    m = re.match(r"([\d.]+)", text)
    return round(float(m[1]))


def leaves(stacks):
    flat = collections.Counter()
    for stack, n in stacks.items():
        flat[stack.rsplit(";", 1)[-1]] += n
    return dict(flat)


def random_stacks(count):
    r = random.Random(5)
    names = [f"ns{r.randrange(9)}::f{i}(int, char const*)" for i in range(200)] + ["über", "a b"]
    stacks = collections.Counter()
    for _ in range(count):
        stacks[";".join(r.choice(names) for _ in range(r.randrange(1, 30)))] += r.randrange(1, 99)
    return stacks


def lines_of(stacks):
    return "".join(f"{s} {n}\n" for s, n in stacks.items())


@test
def folded_to_pprof_and_back_is_the_same():
    stacks = random_stacks(3000)
    source = write("trip.folded", lines_of(stacks))
    for form in ("pb.gz", "pprof"):
        code, _, err = flame(source, "-o", path(f"trip.{form}"))
        assert code == 0, err
        assert folded(path(f"trip.{form}")) == stacks
    assert folded(source) == stacks


@test
def marks_become_kinds_and_come_back():
    source = write("marks.folded", "a;b_[k];c_[k] 3\na;d_[i] 4\na;e_[j] 5\na;f_[w] 6\n")
    code, _, err = flame(source, "-o", path("marks.pb.gz"))
    assert code == 0, err
    want = {"a;b_[k];c_[k]": 3, "a;d_[i]": 4, "a;e_[j]": 5, "a;f_[w]": 6}
    assert folded(source, "--annotations") == want
    assert folded(path("marks.pb.gz"), "--annotations") == want
    assert folded(source) == {"a;b;c": 3, "a;d": 4, "a;e": 5, "a;f_[w]": 6}


@test
def go_tool_pprof_agrees_with_the_folded_sum():
    stacks = random_stacks(2000)
    code, _, err = flame(write("sum.folded", lines_of(stacks)), "-o", path("sum.pb.gz"))
    assert code == 0, err
    flat, total = pprof_top(path("sum.pb.gz"))
    assert total == sum(stacks.values())
    assert flat == leaves(stacks)
    for view in ("-traces", "-raw", "-tags"):
        p = run(["go", "tool", "pprof", view, path("sum.pb.gz")])
        assert p.returncode == 0, p.stderr.decode()


GO = r"""
package main

import (
	"context"
	"os"
	"runtime"
	"runtime/pprof"
	"syscall"
)

var kept [][]byte
var n uint32

func spin() {
	for i := 0; i < 1000000; i++ {
		n = n*1103515245 + 12345
	}
}

func busy(ns int64) {
	for start := cpu(); cpu()-start < ns; {
		spin()
	}
}

func cpu() int64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano()
}

func keep() {
	for i := 0; i < 500; i++ {
		kept = append(kept, make([]byte, 4096))
	}
}

func main() {
	runtime.MemProfileRate = 1
	f, _ := os.Create(os.Args[1])
	pprof.StartCPUProfile(f)
	for _, name := range []string{"one two", "three"} {
		pprof.Do(context.Background(), pprof.Labels("request", name), func(context.Context) {
			busy(400000000)
		})
	}
	pprof.StopCPUProfile()
	f.Close()
	keep()
	runtime.GC()
	h, _ := os.Create(os.Args[2])
	pprof.Lookup("heap").WriteTo(h, 0)
	h.Close()
}
"""


def go_profiles():
    """A CPU and a heap profile by Go's own runtime, made once."""
    if not shutil.which("go"):
        skip("there is no go")
    cpu, heap = path("go-cpu.pb.gz"), path("go-heap.pb.gz")
    if not os.path.exists(heap):
        os.makedirs(path("go"), exist_ok=True)
        write("go/main.go", GO)
        env = dict(os.environ, GO111MODULE="off", GOFLAGS="", GOCACHE=path("go-cache"),
                   GOPATH=path("go-path"))
        p = run(["go", "build", "-o", path("go/prog"), path("go/main.go")], env=env)
        assert p.returncode == 0, p.stderr.decode()
        p = run([path("go/prog"), cpu, heap])
        assert p.returncode == 0, p.stderr.decode()
    return cpu, heap


@test
def a_go_cpu_profile_reads_as_go_reads_it():
    cpu, _ = go_profiles()
    for kind, unit in (("cpu", "-unit=ns"), ("samples", "-unit=count")):
        flat, total = pprof_top(cpu, f"-sample_index={kind}", unit)
        stacks = folded(cpu, "--sample-type", kind)
        assert sum(stacks.values()) == total > 0
        assert leaves(stacks) == flat
    # Without a choice it is samples, as what record writes itself.
    assert sum(folded(cpu).values()) == pprof_top(cpu, "-sample_index=samples", "-unit=count")[1]
    assert any("main.busy" in s for s in folded(cpu))


@test
def the_first_mapping_is_the_program():
    if not shutil.which("go"):
        skip("no go")
    text = write("mappings.perf", """app 7 1.000000: 10101010 cpu-clock:
\tffffffff81000010 do_it ([kernel.kallsyms])
\t00007f0000000010 read (/usr/lib/libc.so.6)
\t0000000000001010 main (/usr/bin/app)

other 8 1.000001: 10101010 cpu-clock:
\t0000000000001010 main (/usr/bin/other)
\t00007f0000000010 start (/usr/lib/libc.so.6)

app 7 1.000002: 10101010 cpu-clock:
\t00007f0000000010 read (/usr/lib/libc.so.6)
\t0000000000001010 main (/usr/bin/app)

""")
    code, _, err = flame(text, "-o", path("mappings.pb.gz"))
    assert code == 0, err
    raw = run(["go", "tool", "pprof", "-raw", path("mappings.pb.gz")]).stdout.decode()
    first = raw.split("Mappings\n")[1].splitlines()[0]
    assert "app" in first and ".so" not in first, raw


@test
def a_go_heap_profile_reads_as_go_reads_it():
    _, heap = go_profiles()
    for kind, unit in (("inuse_space", "-unit=B"), ("alloc_objects", "-unit=count"),
                       ("alloc_space", "-unit=B"), ("inuse_objects", "-unit=count")):
        flat, total = pprof_top(heap, f"-sample_index={kind}", unit)
        stacks = folded(heap, "--sample-type", kind)
        assert sum(stacks.values()) == total, (kind, sum(stacks.values()), total)
        assert leaves(stacks) == flat
    code, _, err = flame(heap, "-f", "folded", "--sample-type", "nothing")
    assert code == 1 and "inuse_space" in err, err


@test
def a_go_profile_written_again_keeps_what_it_had():
    cpu, _ = go_profiles()
    code, _, err = flame(cpu, "-o", path("again.pb.gz"))
    assert code == 0, err
    assert pprof_top(path("again.pb.gz"), "-unit=ns") == pprof_top(cpu, "-unit=ns")

    def show(file, what):
        p = run(["go", "tool", "pprof", "-symbolize=none", what, file])
        assert p.returncode == 0, p.stderr.decode()
        return p.stdout.decode()

    assert show(path("again.pb.gz"), "-tags") == show(cpu, "-tags")
    assert show(path("again.pb.gz"), "-traces") == show(cpu, "-traces")


BUSY = r"""
#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

volatile unsigned sink;

static double cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

__attribute__((noinline)) void spin(void)
{
	for (int i = 0; i < 100000; i++)
		sink = sink * 1103515245u + 12345u;
}

static void *work(void *arg)
{
	char buf[4096];
	int fd = open("/dev/zero", O_RDONLY);
	if (arg)
		prctl(PR_SET_NAME, arg);
	while (cpu() < 0.3) {
		spin();
		for (int i = 0; i < 100; i++)
			if (read(fd, buf, sizeof(buf)) < 0)
				return 0;
	}
	return 0;
}

int main(void)
{
	pthread_t t;
	pthread_create(&t, 0, work, "Web Content 3");
	work(0);
	return pthread_join(t, 0);
}
"""


def perf_record(name, *options):
    data, prog = path(f"{name}.data"), path("busy")
    if not shutil.which("perf"):
        skip("there is no perf")
    if not os.path.exists(prog):
        p = run(["gcc", "-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "-o", prog,
                 write("busy.c", BUSY)])
        assert p.returncode == 0, p.stderr.decode()
    # While anyone on the machine listens to mappings with build ids, the kernel marks all mapping
    # records so, and perf script dies of those that have none; with --buildid-mmap all have one.
    p = run(["perf", "record", "-q", "--buildid-mmap", "-e", "cpu-clock", "-F", "499", *options,
             "-o", data, prog])
    if p.returncode or not os.path.exists(data):
        skip("perf record does not work here: " + p.stderr.decode().strip()[-100:])
    return data


def perf_script(data, *options):
    p = run(["perf", "script", "-i", data, *options])
    assert p.returncode == 0, p.stderr.decode()
    return p.stdout


def perf_count(data):
    return sum(1 for line in perf_script(data, "-F", "time").splitlines() if line.strip())


@test
def perf_script_reads_in_all_its_shapes():
    data = perf_record("chains", "-g")
    count = perf_count(data)
    assert count > 50, count
    for fields in ((), ("-F", "comm,pid,tid,time,event,ip,sym,dso"), ("-F", "comm,tid,ip,sym"),
                   ("-F", "comm,ip,sym"), ("-F", "ip,sym"), ("-F", "comm,tid,time,ip,sym,dso"),
                   ("-F", "+srcline"), ("-F", "-period"), ("--header",), ("--ns",)):
        text = write("chains.txt", perf_script(data, *fields))
        code, _, err = flame("-f", "folded", text, "-o", path("chains.folded"))
        assert code == 0 and err == "", (fields, err)
        stacks = folded(text)
        assert sum(stacks.values()) == count, (fields, sum(stacks.values()), count)
        assert any(s.endswith("spin") for s in stacks), fields
        if "comm" in " ".join(fields) or not fields:
            roots = {s.split(";")[0] for s in stacks}
            assert roots == {"busy", "Web Content 3"}, (fields, roots)


@test
def perf_script_without_chains_and_with_other_lines():
    data = perf_record("flat")
    count = perf_count(data)
    text = write("flat.txt", perf_script(data))
    assert sum(folded(text).values()) == count
    text = write("flat2.txt", perf_script(data, "--show-mmap-events"))
    code, out, err = flame("-f", "folded", text)
    assert code == 0 and "not understood" in err, err
    assert sum(int(line.rsplit(" ", 1)[1]) for line in out.decode().splitlines()) == count


@test
def perf_labels_show_in_go_tool_pprof():
    data = perf_record("labels", "-g")
    text = write("labels.txt", perf_script(data, "-F", "+pid"))
    code, _, err = flame(text, "-o", path("labels.pb.gz"))
    assert code == 0, err
    _, total = pprof_top(path("labels.pb.gz"))
    assert total == perf_count(data)
    p = run(["go", "tool", "pprof", "-tags", path("labels.pb.gz")])
    tags = p.stdout.decode()
    for key in ("comm:", "thread:", "pid:", "tid:", "Web Content 3"):
        assert key in tags, tags


@test
def several_files_and_gzip_and_stdin_add_up():
    a, b = write("a.folded", "m;x 1\nm;y 2\n"), write("b.folded.gz", gzip.compress(b"m;x 10\n"))
    assert folded(a, b, a) == {"m;x": 12, "m;y": 4}
    for args in ((), ("-",)):
        code, out, err = flame("-f", "folded", *args, data=b"m;x 1\r\nm;x 2\r\n")
        assert code == 0 and out == b"m;x 3\n", (out, err)
    joined = gzip.compress(b"m;x 1\n") + gzip.compress(b"m;x 2\n")
    assert folded(write("joined.gz", joined)) == {"m;x": 3}
    code, _, err = flame("-f", "pprof", "-o", path("c.pb.gz"), a)
    assert code == 0, err
    assert folded(path("c.pb.gz"), a) == {"m;x": 2, "m;y": 4}


# ---- malformed input: one sentence that says where, and exit 1 ----------------------------------


def varint(n):
    out = b""
    n &= (1 << 64) - 1
    while n >= 0x80:
        out += bytes([n & 0x7f | 0x80])
        n >>= 7
    return out + bytes([n])


def num(field, n):
    return varint(field << 3) + varint(n)


def sub(field, data):
    data = data if isinstance(data, bytes) else data.encode()
    return varint(field << 3 | 2) + varint(len(data)) + data


def profile(sample=None, location=None, function=None, mapping=None, types=1, more=b""):
    """A pprof of one sample; each part may be replaced by a broken one."""
    strings = ["", "samples", "count", "main", "/bin/app"]
    return (b"".join(sub(1, num(1, 1) + num(2, 2)) for _ in range(types))
            + sub(2, num(1, 1) + num(2, 7) if sample is None else sample)
            + sub(3, num(1, 1) + num(5, 4) if mapping is None else mapping)
            + sub(4, num(1, 1) + num(2, 1) + sub(4, num(1, 1)) if location is None else location)
            + sub(5, num(1, 1) + num(2, 3) if function is None else function)
            + b"".join(sub(6, s) for s in strings) + more)


BOMB = gzip.compress(sub(6, b"\0" * (300 << 20)))

MALFORMED = [
    # name, from, bytes, what the sentence must hold
    ("empty", None, b"", ["empty"]),
    ("nothing known", None, b"hello\nworld\n", ["neither folded"]),
    ("an svg", None, b"<?xml version='1.0'?>\n<svg>\n</svg>\n", ["it is a picture"]),
    ("perf.data", None, b"PERFILE2" + b"\0" * 100, ["perf script"]),
    ("no count", None, b"a;b 1\na;c\n", ["line 2", "no count", "a;c"]),
    ("negative count", None, b"a;b 1\na;c -5\n", ["line 2", "no count"]),
    ("no stack", None, b"a;b 1\n 5\n", ["line 2", "no stack"]),
    ("a count too large", None, b"a;b 1\na;c 99999999999999999999\n", ["line 2", "63 bits"]),
    ("sums too large", None, b"a 9000000000000000000\nb 9000000000000000000\n",
     ["line 2", "63 bits"]),
    ("two counts", None, b"a;b 1 2\na;c 3 4\n", ["line 1", "two counts"]),
    ("only comments", "folded", b"# a\n\n# b\n", ["no stacks"]),
    ("a line too long", None, b"a;b 1\n" + b"x" * (5 << 20) + b" 1\n", ["line 2", "4 MB"]),
    ("bytes of all kinds", "folded", bytes(range(256)) * 20, ["line"]),
    ("no perf script", "perf", b"hello\nworld\n", ["line 1", "perf script"]),
    ("gzip cut", None, gzip.compress(os.urandom(5000))[:2000], ["gzip", "early"]),
    ("gzip damaged", None, b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + b"\xff" * 100, ["gzip", "damaged"]),
    ("gzip of a wrong sum", None, gzip.compress(b"a;b 1\n")[:-8] + b"\0" * 8,
     ["gzip", "damaged"]),
    ("a bomb", None, BOMB, ["256 MB"]),
    ("a bomb of one line", None, gzip.compress(b"a" * (64 << 20)), ["neither folded"]),
    ("pprof cut", "pprof", profile()[:-3], ["byte", "truncated or damaged"]),
    ("absurd varint", "pprof", b"\xff" * 20, ["byte 0"]),
    ("absurd length", "pprof", b"\x0a" + varint((1 << 64) - 1) + b"xx", ["byte 0"]),
    ("absurd length inside", "pprof", profile(sample=b"\x0a" + varint((1 << 63) + 5) + b"x"),
     ["Sample", "malformed"]),
    ("no sample type", "pprof", profile(types=0), ["sample_type"]),
    ("too few values", "pprof", profile(types=2), ["sample 1", "values"]),
    ("negative value", "pprof", profile(sample=num(1, 1) + num(2, -5)), ["sample 1", "negative"]),
    ("unknown location", "pprof", profile(sample=num(1, 99) + num(2, 7)),
     ["sample 1", "location_id is 99"]),
    ("location 0", "pprof", profile(sample=num(1, 0) + num(2, 7)), ["sample 1", "location_id"]),
    ("id 0", "pprof", profile(location=num(2, 1)), ["location 0"]),
    ("id twice", "pprof", profile(more=sub(5, num(1, 1))), ["function 1", "twice"]),
    ("unknown mapping", "pprof", profile(location=num(1, 1) + num(2, 8)),
     ["location 1", "mapping_id is 8"]),
    ("unknown function", "pprof", profile(location=num(1, 1) + sub(4, num(1, 77))),
     ["location 1", "function_id is 77"]),
    ("unknown name", "pprof", profile(function=num(1, 1) + num(2, 1 << 40)),
     ["function 1", "name is"]),
    ("negative string", "pprof", profile(function=num(1, 1) + num(2, -1)),
     ["function 1", "name is"]),
    ("unknown file", "pprof", profile(mapping=num(1, 1) + num(5, 500)), ["mapping 1", "filename"]),
    ("unknown label", "pprof", profile(sample=num(1, 1) + num(2, 7) + sub(3, num(1, 60))),
     ["sample 1", "label.key is 60"]),
    ("many labels", "pprof", profile(sample=num(1, 1) + num(2, 7) + sub(3, b"") * 5000),
     ["sample 1", "labels"]),
    ("a huge sample", "pprof", profile(sample=num(2, 7) + num(1, 1) * (1 << 20)),
     ["Sample", "larger"]),
]


@test
def malformed_input_gets_one_sentence_and_exit_1():
    code, out, err = flame("-f", "folded", write("good.pb", profile()))
    assert (code, out) == (0, b"main 7\n"), err
    for name, form, data, wanted in MALFORMED:
        file = write("bad.in", data)
        args = ["--from", form] if form else []
        code, out, err = flame("-f", "folded", *args, file)
        assert code == 1, (name, code, err)
        assert out == b"", (name, out)
        assert err.count("\n") == 1 and len(err) < 400, (name, err)
        assert err.startswith("smolder: cannot read "), (name, err)
        assert err[:-1].isprintable(), (name, err)
        for words in [file, *wanted]:
            assert words in err, (name, words, err)


@test
def missing_and_unreadable_files_are_said():
    for file, why in ((path("not-there"), "No such file"), (TEMP, "Is a directory")):
        code, _, err = flame(file)
        assert code == 1 and file in err and why in err, err


@test
def files_of_two_types_do_not_add_up():
    cpu, _ = go_profiles()
    code, _, err = flame("-f", "folded", write("one.folded", "a 1\n"), cpu)
    assert code == 1 and "cannot be added up" in err, err


@test
def unknown_formats_list_the_known():
    good = write("good.folded", "a;b 1\n")
    for args, code_wanted in ((["-f", "png"], 2), (["-o", path("x.png")], 2),
                              (["--from", "png"], 2), (["--width", "0"], 2), (["--nope"], 2),
                              (["--min-fraction", "2"], 2)):
        code, out, err = flame(good, *args)
        assert code == code_wanted and out == b"", (args, code, err)
        assert not os.path.exists(path("x.png"))
        known = ("svg", "pprof", "folded") if "png" in str(args[1:]) and "--from" not in args else ()
        for word in known:
            assert word in err, err


@test
def a_full_disk_leaves_the_old_file():
    source = write("big.folded", lines_of(random_stacks(5000)))
    old = write("full.svg", "the old one")

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    for form in ("svg", "pprof", "folded"):
        p = run([SMOLDER, "flame", source, "-f", form, "-o", old], preexec_fn=small_files)
        assert p.returncode == 1, p.stderr
        assert p.stderr.decode().count("\n") == 1 and old in p.stderr.decode(), p.stderr
        with open(old) as f:
            assert f.read() == "the old one"
        assert [n for n in os.listdir(TEMP) if n.startswith("full.svg.")] == []
        p = run([SMOLDER, "flame", source, "-f", form, "-o", "/dev/full"])
        assert p.returncode == 1 and b"No space left" in p.stderr, p.stderr

    if os.geteuid() != 0:
        return
    os.makedirs(path("small"), exist_ok=True)
    if run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", path("small")]).returncode:
        return
    try:
        old = write("small/out.svg", "the old one")
        p = run([SMOLDER, "flame", source, "-o", old])
        assert p.returncode == 1 and b"No space left" in p.stderr, p.stderr
        assert os.listdir(path("small")) == ["out.svg"]
        with open(old) as f:
            assert f.read() == "the old one"
    finally:
        run(["umount", path("small")])


@test
def on_a_terminal_it_neither_hangs_nor_prints_svg():
    here = path("tty")
    os.makedirs(here, exist_ok=True)
    write("tty/in.folded", "a;b 1\n")
    master, slave = pty.openpty()
    try:
        p = subprocess.run([SMOLDER, "flame"], stdin=slave, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=LIMIT)
        assert p.returncode == 2 and b"FILE" in p.stderr, p.stderr
        p = subprocess.run([SMOLDER, "flame", "in.folded"], cwd=here, stdin=slave, stdout=slave,
                           stderr=subprocess.PIPE, timeout=LIMIT)
        assert p.returncode == 0 and b"in.svg" in p.stderr, p.stderr
        with open(os.path.join(here, "in.svg")) as f:
            assert "<svg" in f.read()
    finally:
        os.close(master)
        os.close(slave)


@test
def help_is_exact():
    code, out, err = flame("--help")
    assert code == 0 and err == ""
    text = out.decode()
    assert max(len(line) for line in text.splitlines()) <= 100
    for option in re.findall(r"--[a-z-]+", text):
        code, _, err = flame(option, "x", path("not-there"))
        assert "unrecognized" not in err, (option, err)


try:
    main()
finally:
    shutil.rmtree(TEMP, ignore_errors=True)
