#!/usr/bin/env python3
"""What is written about the program is true of it."""
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from examples import examples  # noqa: E402
from tap import ROOT, SMOLDER, main, skip, test  # noqa: E402

OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def tracked():
    """Files that are in git, or would be; (path, text) of those that are text."""
    if not os.path.isdir(os.path.join(ROOT, ".git")) and not os.path.isfile(
            os.path.join(ROOT, ".git")):
        skip("not a git checkout")
    names = subprocess.check_output(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
    for name in filter(None, names.decode().split("\0")):
        try:
            yield name, read(name)
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue


def smolder(*args):
    p = subprocess.run([SMOLDER, *args], capture_output=True, text=True)
    assert p.returncode == 0, f"smolder {args}: {p.returncode}, {p.stderr}"
    return p.stdout


def commands():
    names = re.findall(r"^  (\w+) ", smolder("--help"), re.M)
    assert names, "smolder --help lists no command"
    return names


def help_options(command):
    """The options that begin a line of the help, '  -o, --output FILE   where to write', and whether they
    take an argument."""
    found = {}
    for line in smolder(command, "--help").splitlines():
        m = re.match(r"\s+(-.*?)(?:\s{2,}|$)", line)
        if m:
            takes = bool(OPTION.sub("", m[1]).strip(", "))
            found |= {name: takes for name in OPTION.findall(m[1])}
    return found


def man_options(page):
    found = {}
    for line in re.findall(r"^\.It (Fl .*)$", page, re.M):
        names = re.findall(r"\bFl (-?[A-Za-z][\w-]*)", line)
        takes = bool(re.search(r"\b(Ar|Cm) ", line))
        found |= {"-" + name: takes for name in names}
    return found


def tools_deps():
    packages = set()
    for words in re.findall(r'^(?:libraries|build|package|test|bench)="([^"]*)"', read("tools/deps"), re.M):
        packages |= set(words.split()) - {"$libraries", "$package"}
    for words in re.findall(r'missing="\$missing ([^"$]+)"', read("tools/deps")):
        packages |= set(words.split())
    return packages


@test
def every_command_has_a_manual_page_and_every_page_a_command():
    pages = {f for f in os.listdir(os.path.join(ROOT, "man"))}
    assert pages == {"smolder.1"} | {f"smolder-{c}.1" for c in commands()}, pages
    for page in pages:
        assert f".Dt {page[:-2].upper()} 1" in read(f"man/{page}"), page
    listed = set(re.findall(r"^\.Xr smolder-(\w+) 1", read("man/smolder.1"), re.M))
    assert listed == set(commands()), listed


@test
def options_and_manual_pages_agree():
    for command in commands():
        said, written = help_options(command), man_options(read(f"man/smolder-{command}.1"))
        assert said == written, \
            f"{command}: only in --help {sorted(said.items() - written.items())}, " \
            f"only in man {sorted(written.items() - said.items())}"
        assert {"-h", "--help"} <= said.keys(), command


@test
def the_manual_page_tells_every_format():
    listed = re.search(r"^\.Sh FORMATS$(.*?)^\.Sh", read("man/smolder.1"), re.M | re.S)[1]
    written = set(re.findall(r"^\.It Cm (\w+)$", listed, re.M))
    said = smolder("flame", "--help").split("Formats:\n")[1].split("\n\n")[0]
    assert set(re.findall(r"^  (\w+) ", said, re.M)) == written, written


@test
def manual_pages_are_well_formed():
    if not shutil.which("mandoc"):
        skip("no mandoc")
    for page in sorted(os.listdir(os.path.join(ROOT, "man"))):
        p = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", f"man/{page}"], cwd=ROOT,
                           capture_output=True, text=True)
        assert p.stdout == "" and p.returncode == 0, p.stdout


@test
def the_readme_tours_every_folder_in_the_order_of_data():
    toured = re.findall(r"^\| `src/(\w+)/` \|", read("README.md"), re.M)
    there = {d for d in os.listdir(os.path.join(ROOT, "src"))
             if any(os.scandir(os.path.join(ROOT, "src", d)))}
    assert set(toured) == there, f"toured {toured}, there {sorted(there)}"
    order = re.search(r'split\("([a-z ]+)", order\)', read("tools/lint"))[1].split()
    assert toured == [d for d in order if d in toured], toured


@test
def links_and_paths_in_documents_lead_somewhere():
    for name, text in tracked():
        if not name.endswith(".md"):
            continue
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            path = os.path.join(ROOT, os.path.dirname(name), target)
            assert os.path.exists(path), f"{name}: there is no {target}"
        for target in re.findall(r"`((?:src|tests|tools|man|docs|bench|web)/[\w./-]+)`", text):
            if "NAME" not in target:
                assert os.path.exists(os.path.join(ROOT, target)), f"{name}: there is no {target}"


@test
def every_package_has_its_reason():
    reasons = read("docs/dependencies.md")
    rows = {p.strip() for row in re.findall(r"^\| ([\w+., -]+) \|", reasons, re.M)
            for p in row.split(",")} - {"package"}
    packages = tools_deps()
    assert rows == packages, f"no reason {sorted(packages - rows)}, no use {sorted(rows - packages)}"


@test
def examples_use_options_that_exist():
    seen = 0
    for where, line in examples():
        words = shlex.split(re.search(r"\bsmolder (.*)", re.split(r"[|>]| -- ", line[line.index(
            "smolder"):])[0])[1])
        command, known = words[0], help_options(words[0])
        for word in words[1:]:
            if word.startswith("--") or (word.startswith("-") and len(word) == 2 and word != "-"):
                assert word in known, f"{where}: {line}: {command} has no {word}"
        seen += 1
    assert seen > 5, seen


@test
def examples_without_privileges_run():
    with tempfile.TemporaryDirectory() as folder:
        def shell(line):
            p = subprocess.run(["sh", "-ec", line], cwd=folder, capture_output=True, text=True,
                               env=dict(os.environ, PATH=f"{os.path.dirname(SMOLDER)}:"
                                        f"{folder}:{os.environ['PATH']}"))
            assert p.returncode == 0, f"{line}: {p.stderr}"

        with open(os.path.join(folder, "stacks.folded"), "w") as f:
            f.write("main;work;inner 7\nmain;rest 3\n")
        with open(os.path.join(folder, "perf"), "w") as f:  # stands in for perf script
            f.write("#!/bin/sh\nprintf 'a 1 1.0: 10 cpu-clock:\\n\\t 55 f+0x1 (/bin/a)\\n\\n'\n")
        os.chmod(os.path.join(folder, "perf"), 0o755)
        shell("smolder flame stacks.folded -o cpu.pb.gz")
        ran = 0
        for _, line in examples():
            if "smolder flame" in line:
                shell(line)
                ran += 1
        assert ran > 2, ran
        assert os.path.getsize(os.path.join(folder, "perf.svg")) > 500


@test
def the_rules_of_waiting_are_those_of_the_program():
    written = re.search(r"<!-- wait-rules -->\n(.*?)<!-- /wait-rules -->", read("docs/waiting.md"), re.S)[1]
    assert written.strip() == smolder("doctor", "--wait-rules").strip(), \
        "docs/waiting.md differs from what 'smolder doctor --wait-rules' prints"
    for reason in re.findall(r"\| (\w+) \| (?:idle)? *\|$", written, re.M):
        assert f"`{reason}`" in read("docs/waiting.md").split("<!--")[0], f"{reason} is not explained"


@test
def licenses_are_in_place():
    assert "Apache License" in read("LICENSE") and "END OF TERMS" in read("LICENSE")
    for name, text in tracked():
        if name.endswith(".bpf.c"):
            assert text.startswith("// SPDX-License-Identifier: GPL-2.0"), name


@test
def no_path_of_a_machine_and_no_leftovers_are_in_the_tree():
    # Written in pieces, so that this file is not one of the findings.
    machine = re.compile("/wo" + r"rk/\w|/tmp/w" + r"t\b|/ho" + r"me/\w|(?<![\w}])/ro" + r"ot/\w")
    registry = re.compile(r"regi" + r"stry\.\w+\.\w|npm" + r"js\.|pyp" + r"i\.org|crates\.i" + "o")
    leftover = re.compile(r"\b(TO" + "DO|FIX" + "ME|XX" + r"X)\b(?!X)")
    for name, text in tracked():
        for n, line in enumerate(text.splitlines(), 1):
            assert not machine.search(line), f"{name}:{n}: {line.strip()}"
            assert not registry.search(line), f"{name}:{n}: {line.strip()}"
            if name.startswith(("src/", "tools/")):
                assert not leftover.search(line), f"{name}:{n}: {line.strip()}"


main()
