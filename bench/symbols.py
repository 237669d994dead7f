#!/usr/bin/env python3
"""bench/symbols.py: names of addresses per CPU second, beside its peers.

Ours is build/bench/symbols. The peers name random addresses of the same files; what loading costs
them is taken off by asking for one address first. perf script, which has names cached, is measured
on its own recording: its rate is for addresses that repeat.
"""
import glob
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests")]
import cost
import peers
import workloads

BAR_RANDOM, BAR_REPEATED = 0.5e6, 5e6
BENCH = os.path.join(cost.BUILD, "bench", "symbols")


def files():
    """(what, path or None)"""
    sysroot = ""
    if shutil.which("rustc"):
        sysroot = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True,
                                 text=True).stdout.strip()
    wanted = {
        "node": [os.path.realpath(shutil.which("node") or "/nowhere")],
        "libLLVM": glob.glob("/usr/lib/*-linux-gnu/libLLVM-*.so*"),
        "a Rust library": glob.glob(os.path.join(sysroot, "lib", "librustc_driver*.so"))
        + glob.glob("/usr/lib/*-linux-gnu/librustc_driver*.so"),
    }
    for what, found in wanted.items():
        yield what, next((os.path.realpath(f) for f in sorted(found) if os.path.isfile(f)), None)


def text_section(path):
    out = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True).stdout
    m = re.search(r"\] \.text +\w+ +([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+)", out)
    return int(m[1], 16), int(m[2], 16)


def cpu(argv, addresses):
    with tempfile.NamedTemporaryFile("w") as given:
        given.write("".join(f"{a:#x}\n" for a in addresses))
        given.flush()
        c = cost.Cost(["sh", "-c", 'exec "$@" <"$0"', given.name, *argv]).wait()
    assert c.code == 0, f"{argv[0]} ended with {c.code}"
    return c.user + c.system


def peer_rate(argv, path, count):
    start, size = text_section(path)
    pick = random.Random(1)
    addresses = [start + pick.randrange(size) for _ in range(count)]
    load = cpu(argv, addresses[:1])
    return count / max(1e-6, cpu(argv, addresses) - load), load


def show(name, rate, load, note=""):
    print(f"  {name:18} {rate / 1e6:9.4f} M/s   load {load * 1e3:8.1f} ms CPU{note}", flush=True)


def perf_script():
    if not peers.perf():
        return print("SKIPPED perf script: linux-perf is not installed")
    with workloads.start("shares") as w, tempfile.TemporaryDirectory() as d:
        data = os.path.join(d, "perf.data")
        subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", "9999", "-g", "-p",
                        str(w.pid), "-o", data, "--", "sleep", "4"], check=True,
                       stderr=subprocess.DEVNULL)
        out = os.path.join(d, "out")
        with open(out, "w") as o:
            c = cost.Cost(["perf", "script", "-i", data, "-F", "ip,sym"], stdout=o).wait()
        with open(out) as f:
            frames = sum(1 for line in f if line.strip())
    print(f"perf script, addresses that repeat: {frames / (c.user + c.system) / 1e6:.2f} M/s "
          f"({frames} frames)")


def main():
    if not os.path.exists(BENCH):
        sys.exit("bench/symbols.py: build/bench/symbols is not built; make bench builds it")
    bad = []
    for what, path in files():
        if not path:
            print(f"SKIPPED {what}: not on this machine")
            continue
        said = subprocess.run([BENCH, path], capture_output=True, text=True, check=True).stdout
        rates = {k: float(v) * 1e6 for k, v in re.findall(r"^ +(\w+) +([\d.]+) M/s", said, re.M)}
        load = float(re.search(r"load +([\d.]+) ms", said)[1]) / 1e3
        print(f"{what}: {path} ({os.stat(path).st_size / 1e6:.0f} MB)")
        show("smolder, first", rates["first"], load, "   20,000 random ones, no name known yet")
        show("smolder, random", rates["random"], load, "   a million")
        show("smolder, repeated", rates["repeated"], load)
        if rates["random"] < BAR_RANDOM:
            bad.append(f"{what}, random")
        if rates["repeated"] < BAR_REPEATED:
            bad.append(f"{what}, repeated")
        for name, argv, count in (
                ("llvm-symbolizer", ["--no-inlines", "--functions=linkage", "--demangle", "-e"],
                 20000),
                ("addr2line", ["-f", "-C", "-e"], 300)):
            if not shutil.which(name):
                print(f"  SKIPPED {name}: not installed")
                continue
            show(name, *peer_rate([name, *argv, path], path, count))
    perf_script()
    print("bar: 0.5 M/s random, 5 M/s repeated: " + ("met" if not bad else
                                                   "NOT MET: " + "; ".join(bad)))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
