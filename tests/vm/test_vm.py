#!/usr/bin/env python3
"""smolder on other kernels than this machine's, in a virtual machine (see guest.py).

In `make test` on Debian 12's kernel; in `make test-vm` and `make soak` on the oldest that smolder
supports and the newest that Debian ships as well. SMOLDER_KERNELS="/path/to/vmlinuz ..." names
others.
"""
import collections
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import folded
import guest
import kernels
from always import nothing_refused
from tap import SOAK, main, skip, test

SUITES = {"bookworm": "6.1", "bullseye": "5.10", "trixie": "6.12"} if SOAK else {"bookworm": "6.1"}
KERNEL = re.compile(r".*_\[k\]\Z")
EDGES = { # what the functions of chain.c call, of its own
    "main": {"a"},
    "a": {"b"},
    "b": {"c"},
    "c": {"spin", "read_zeros", "ask_time", "sort"},
    "compare": {"spin"},
    "on_signal": {"spin"},
}
LEAVES = {"spin", "read_zeros", "ask_time", "compare", "on_signal"}
RAID6 = re.compile(r"raid6_.*_\[k\]\Z")
TCRYPT = re.compile(r"(tcrypt_|test_ahash_speed).*_\[k\]\Z")
OURS = set(EDGES) | LEAVES | {"sort"}


def chains(report, name):
    """The samples of chain in a recording that went well."""
    assert report.code(name) == 0, f"ended with {report.code(name)}: {report.err(name)}"
    stacks = folded.parse(report[name]).of("chain")
    assert stacks.total >= 50, f"only {stacks.total} samples: {report.err(name)}"
    return stacks


def check_whole(stacks, least):
    rest = {f: n for f, n in stacks if "[incomplete]" in f or "[truncated]" in f}
    share = 1 - sum(rest.values()) / stacks.total
    worst = sorted(rest.items(), key=lambda kv: -kv[1])[:8]
    assert share >= least, f"{share:.4f} of {stacks.total} are whole; others: {worst}"


def version_of(report):
    version = re.search(r"Linux version (\d+)\.(\d+)", report.console)
    return int(version[1]), int(version[2])


def check_edges(stacks):
    """No function of chain.c stands above one that it does not call."""
    for frames, _ in stacks:
        for caller, callee in zip(frames, frames[1:]):
            if callee in OURS and caller in OURS:
                assert callee in EDGES.get(caller, ()), f"{caller} does not call {callee}: {frames}"


def doctor_finds_nothing_wrong(report):
    assert report.code("doctor") == 0, report["doctor"]
    # The guest has no modules: inet_diag, which would say who asks a server, is one.
    wrong = [line for line in report["doctor"].splitlines()
             if re.search(" (warn|FAIL) ", line) and " access " not in line]
    assert not wrong, report["doctor"]


def ticks_that_an_idle_machine_skips_are_not_missed(report):
    m = re.search(r"(\d+) of (\d+) ticks did not come", report.err("idle"))
    missed, due = map(int, m.groups())
    print(f"# {due} ticks were due, {missed} of them missed")
    # Its clock runs on while the guest waits for a CPU of ours, and its timers do not.
    assert due > 0.75 * 499 * 3 * 2, report.err("idle")
    assert folded.parse(report["idle"]).total < 0.5 * due, "this machine does not idle"
    assert missed < 0.1 * due, m[0]


def stacks_of_a_process_are_whole(report):
    stacks = chains(report, "process")
    words = report.err("process")
    assert re.search(r"^\d+ samples in \S+ s, 0 lost\b", words, re.M), words
    assert re.search(r"\b[1-9]\d* walked in the kernel", words), words
    check_whole(stacks, 0.99)
    check_edges(stacks)
    for frames, _ in stacks:
        user = [f for f in frames[1:] if not KERNEL.match(f)]
        assert user[0] in ("_start", "[incomplete]"), frames
    missing = {leaf for leaf in LEAVES if not stacks.count(leaf)}
    assert not missing, f"never seen: {missing}"
    assert any("read_zeros" in f and KERNEL.match(f[-1]) for f, _ in stacks), "no kernel frames"


def kernel_stacks_are_what_the_kernel_says(report):
    m = re.search(r"kernel stacks: (\d+) walked, (\d+) by the kernel itself; (\d+) compared, "
                  r"(\d+) different", report.err("process"))
    walked, asked, compared, different = map(int, m.groups())
    assert different == 0, m[0]
    if version_of(report) >= (6, 4):  # since then its tables are as we know them
        assert compared > 0 and walked > asked, m[0]
    else:
        assert walked == 0 and asked > 0, m[0]


def a_control_group_is_told_from_others(report):
    chains(report, "cgroup")
    comms = folded.parse(report["cgroup"]).comms()
    assert comms == {"chain"}, f"samples of {comms}"


def a_pid_of_a_namespace_is_that_process(report):
    check_whole(chains(report, "namespace"), 0.95)
    comms = folded.parse(report["namespace"]).comms()
    assert comms == {"chain"}, f"samples of {comms}"


def samples_have_spans(report):
    assert report.code("spans") == 0, report.err("spans")
    found = collections.Counter()
    for s, n in folded.parse(report["spans"]):
        for f in {"checkout", "payment", "idle_work"} & set(s):
            found[s[0], f] += n
    right = found["a1a2a3a4a5a6a7a8", "checkout"] + found["b1b2b3b4b5b6b7b8", "payment"]
    wrong = sum(n for (span, f), n in found.items() if span[0] in "ab" and (f == "idle_work" or (span[0] == "a") != (f == "checkout")))
    named = "named" in report.err("spans").split()
    print(f"# {right} samples with spans; the context is {'named memory' if named else 'a memfd'}")
    assert right >= 50 and wrong <= 0.05 * right, found


def waits_have_their_lengths(report):
    for name, seconds in (("blocked", 2), ("waits", 1.5)):
        assert report.code(name) == 0, f"ended with {report.code(name)}: {report.err(name)}"
        assert ", 0 lost" in report.err(name), report.err(name)
        # Blocked, in the kernel's sleep; the emulated machine takes its time for all else.
        ns = sum(n for s, n in folded.parse(report[name]).of("sleep")
                 if "hrtimer_nanosleep_[k]" in s and "[runnable]" not in s)
        assert 0.95 * seconds < ns / 1e9 < 1.5 * seconds, (name, ns, report[name], report.err(name))
    assert "(1 unfinished)" in report.err("blocked"), report.err("blocked")
    assert ";[waker];[timer];" in report["waits"], report["waits"]


def all_the_time_has_its_parts(report):
    assert report.code("whole") == 0, f"ended with {report.code('whole')}: {report.err('whole')}"
    assert ", 0 lost" in report.err("whole"), report.err("whole")
    parts = collections.Counter()
    for s, n in folded.parse(report["whole"]):
        if s != ("[idle]",):
            parts[s[0], s[1]] += n
    assert 0.95e9 < parts["sleep", "[blocked: timer]"] < 1.5e9, parts
    assert parts["sh", "[blocked: child]"] > 0.9e9, parts
    assert sum(n for (comm, part), n in parts.items() if comm == "sh" and part.startswith("[running: ")) > 1e6, parts


def system_calls_are_counted(report):
    for name in ("counted", "timed", "grouped"):
        # That of sh: it found no directory.
        assert report.code(name) == (2 if name == "counted" else 0), report.err(name)
        assert re.search(r"^\s+(5|6)\s+\d .*\bchdir\b", report[name], re.M), report[name]
    assert re.search(r"^\s+6\s+1 .*\bchdir$", report["counted"], re.M), report["counted"]
    assert "exit_group" in report["counted"] and "exit_group" in report["timed"], report["counted"]
    assert re.search(r"\d ms .*nanosleep$", report["timed"], re.M), report["timed"]


def accounts_of_threads_are_read(report):
    assert report.code("top") == 0 and report.code("top_wall") == 0, report.err("top") + report.err("top_wall")
    rows = [list(map(float, m)) for m in re.findall(r"^ +\d+ +([\d.]+) +([\d.]+) +([\d.]+) +\d+  chain", report["top"], re.M)]
    # It never waits for anything but a CPU.
    assert len(rows) == 2 and rows[1][0] > 20 and rows[1][0] + rows[1][1] > 90, report["top"]
    assert re.search(r"[\d.]+  (spin|compare|read_zeros|ask_time)  chain$", report["top"], re.M), report["top"]
    assert "IDLE%" in report["top_wall"] and "[running: user]" in report["top_wall"], report["top_wall"]


def waits_are_kept_always(report):
    assert report.code("always") == 0, report.err("always")
    assert "is not recorded" not in report.err("always"), report.err("always")
    ns = sum(n for s, n in folded.parse(report["always"]).of("sleep") if "hrtimer_nanosleep_[k]" in s)
    assert ns > 5e9, (ns, report["always"][:3000], report.err("always"))


def suspects_can_be_looked_at(report):
    """What findings are confirmed by is accepted by this kernel."""
    assert "few findings are made" not in report.err("always"), report.err("always")
    assert "is not looked at" not in report.err("always"), report.err("always")


def system_calls_are_traced(report):
    assert report.code("traced") == 0, report.err("traced")
    said = report["traced"] + report.err("traced")
    for line in (r'chdir\("/proc"\) += 0$', r'chdir\("/nonexistent"\) += -1 ENOENT \(No such file or directory\)$',
                 r'open.*"version", O_RDONLY.*\) += \d+</proc/version>$', r'read\(\d+</proc/version>, "',
                 r'execve\("/bin/true", \["/bin/true"\]', r'^(\d+ +)?\+\+\+ exited with 0 \+\+\+$', r'calls? in .* s, 0 lost$'):
        assert re.search(line, said, re.M), f"{line} in {said}"


def traced_calls_have_stacks(report):
    assert report.code("traced_stacks") in (1, 2), report.err("traced_stacks")  # the shell's
    said = report["traced_stacks"] + report.err("traced_stacks")
    assert re.search(r'chdir\("/nonexistent"\) .*\n > \S+\(.*\)$', said, re.M), said
    assert re.search(r"calls? in .* s, 0 lost$", said, re.M), said


def a_module_is_not_named_by_another_that_was_in_its_place(report):
    if "modules" not in report:
        skip("no modules of this kernel are at hand")
    assert report.code("modules") == 0, report.err("modules")
    places = re.findall(r"^raid6_pq .* (0x\w+)", report.err("modules"), re.M)
    assert len(places) == 2, report.err("modules")
    stacks = folded.parse(report["modules"])
    live = version_of(report) >= (5, 13)  # before, names are read from a file, and not at once
    for comm, own, other in (("insmod", RAID6, TCRYPT), ("busybox", TCRYPT, RAID6)):
        named = sum(n for s, n in stacks.of(comm) if any(own.match(f) for f in s))
        wrong = [s for s, _ in stacks.of(comm) if any(other.match(f) for f in s)]
        print(f"# {named} samples of {comm} named by its module, at {places}")
        assert not wrong, (comm, wrong[:3], report.err("modules"))
        assert named >= 20 or comm == "insmod" and not live, (comm, named, report.err("modules"))


def memory_is_by_the_cpus_that_are_there(report):
    maps = [int(n) for n in re.findall(r"^memlock:\s*(\d+)", report["memory"], re.M)]
    assert maps, report["memory"]
    assert max(maps) < 8 << 20, f"{max(maps) >> 10} KB in one map, where 128 CPUs are possible"


def costs_of_bpf_programs_are_told(report):
    for name in ("bpf", "bpf_table", "bpf_one"):
        assert report.code(name) == 0, report.err(name)
    tables = [json.loads(line) for line in report["bpf"].splitlines()]
    (row,) = [row for row in tables[-1]["programs"] if row["type"] == "perf_event"]
    assert len(tables) == 2 and row["name"].startswith("sample") and row["runs"] > 20 and row["ns_per_run"] > 100, row
    assert row["owners"][0]["comm"] == "smolder" and row["map_bytes"] > 4096, row
    assert re.search(r"^ +%d +[\d.]+ .* perf_event +sample" % row["id"], report["bpf_table"], re.M), report["bpf_table"]
    one = json.loads(report["bpf_one"])
    times = one["times"]
    assert one["id"] == row["id"] and one["runs"] > 50 and "not_each" not in one, (one, report.err("bpf_one"))
    assert times["of"] == "runs" and times["runs"] == sum(b["runs"] for b in times["buckets"]) > 50, times
    # Samples are taken by the clock that it is attached to: they cannot see it, and that is said.
    assert one["samples"]["seen"] < one["samples"]["due"] or one["samples"]["due"] < 20, one["samples"]
    assert one["samples"].get("unseen"), one["samples"]


def stacks_of_short_lived_processes_are_whole(report):
    stacks = chains(report, "machine")
    check_whole(stacks, 0.95)
    check_edges(stacks)


def a_cpu_that_comes_online_is_sampled(report):
    stacks = chains(report, "hotplug")
    check_whole(stacks, 0.95)
    check_edges(stacks)


def a_cpu_that_is_added_later_is_said_and_sampled_by_the_next(report):
    assert report.code("added") == 0, report.err("added")
    assert "1 CPUs came online during the recording and could not be sampled" in report.err("added"), report.err("added")
    assert not folded.parse(report["added"]).of("chain").count("spin"), report["added"]
    check_edges(chains(report, "present"))


def a_cpu_that_is_added_later_is_sampled_by_run(report):
    check_edges(chains(report, "renewed"))
    assert "could not be sampled" not in report.err("renewed"), report.err("renewed")


def no_system_call_of_ours_is_refused(report):
    """Other kernels take other ways: what a collector's filter lacks shows here."""
    assert "sampling every process" in report.err("always"), report.err("always")
    nothing_refused(report.words())


def the_kernel_has_no_complaint(report):
    after = report.console.split("Run /init", 1)[1]
    found = re.search(r"WARNING: |BUG: |Oops|general protection fault|Call Trace", after)
    assert not found, after[max(0, found.start() - 200):][:4000]


CHECKS = [doctor_finds_nothing_wrong, ticks_that_an_idle_machine_skips_are_not_missed,
          stacks_of_a_process_are_whole,
          kernel_stacks_are_what_the_kernel_says,
          a_control_group_is_told_from_others, a_pid_of_a_namespace_is_that_process,
          samples_have_spans, waits_have_their_lengths, all_the_time_has_its_parts, system_calls_are_counted, accounts_of_threads_are_read,
          system_calls_are_traced, traced_calls_have_stacks, waits_are_kept_always,
          suspects_can_be_looked_at,
          a_module_is_not_named_by_another_that_was_in_its_place,
          memory_is_by_the_cpus_that_are_there, costs_of_bpf_programs_are_told,
          stacks_of_short_lived_processes_are_whole,
          a_cpu_that_comes_online_is_sampled, a_cpu_that_is_added_later_is_said_and_sampled_by_the_next,
          *[a_cpu_that_is_added_later_is_sampled_by_run] * SOAK, no_system_call_of_ours_is_refused,
          the_kernel_has_no_complaint]


def machine(name, find):
    """Tests of one kernel, which boots once, for the first of them."""
    made = []

    def report():
        if not made:
            try:
                kernel = find()
                got = guest.boot(kernel, os.path.join(guest.CACHE, "run-" + name))
                print(f"# {os.path.basename(kernel)}: {got.seconds:.1f} s", flush=True)
            except Exception as why:
                got = why
            made.append(got)
        if isinstance(made[0], Exception):
            raise made[0].with_traceback(None)
        return made[0]

    for check in CHECKS:
        def run(check=check):
            check(report())
        run.__name__ = f"Linux {name}: {check.__name__}"
        test(run)


given = os.environ.get("SMOLDER_KERNELS", "").split()
for path in given:
    machine(os.path.basename(path).removeprefix("vmlinuz-"), lambda path=path: path)
for suite, version in {} if given else SUITES.items():
    machine(version, lambda suite=suite: kernels.kernel(suite))
main()
