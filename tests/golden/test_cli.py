#!/usr/bin/env python3
"""The command line as people use it: help, slips, pipes, terminals, exit codes, what is installed."""
import contextlib
import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import ROOT, SMOLDER, main, skip, test  # noqa: E402

STACKS = "".join(f"app;main;a_function_with_a_long_name_{i:03d}_{'x' * 5 * i} {1000 - i}\n" for i in range(60))


def run(*args, **kw):
    return subprocess.run([SMOLDER, *args], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, **kw)


@contextlib.contextmanager
def folder(**files):
    with tempfile.TemporaryDirectory() as d:
        for name, text in files.items():
            with open(os.path.join(d, name.replace("_", ".")), "w", encoding="utf-8") as f:
                f.write(text)
        yield d


def on_terminal(columns, *args, **kw):
    """What a command prints on a terminal of so many columns: (output of both kinds, exit code)."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    p = subprocess.Popen([SMOLDER, *args], stdin=slave, stdout=slave, stderr=slave, **kw)
    os.close(slave)
    out = b""
    with contextlib.suppress(OSError):  # EIO: the other end is closed
        while chunk := os.read(master, 65536):
            out += chunk
    os.close(master)
    return out.decode().replace("\r\n", "\n"), p.wait(timeout=20)


def commands():
    return re.findall(r"^  (\w+) ", run("--help").stdout, re.M)


@test
def help_is_where_it_is_looked_for():
    for command in commands():
        plain = run(command, "--help")
        assert plain.returncode == 0 and f"smolder {command}" in plain.stdout, plain
        for args in (("help", command), ("--help", command)):
            assert run(*args).stdout == plain.stdout, args
    assert run("help").stdout == run("--help").stdout


@test
def slips_get_a_suggestion_and_exit_2():
    for word, meant in (("recrod", "record"), ("recod", "record"), ("rec", "record"), ("qeury", "query"),
                        ("flames", "flame"), ("label", "labels"), ("docter", "doctor"), ("sever", "serve")):
        for args in ((word,), ("help", word)):
            p = run(*args)
            assert p.returncode == 2 and f"did you mean 'smolder {meant}'" in p.stderr, p
            assert p.stderr.count("\n") == 1 and not p.stdout, p
    p = run("frobnicate")
    assert p.returncode == 2 and "did you mean" not in p.stderr and "smolder --help" in p.stderr, p
    p = run("-p", "1")
    assert p.returncode == 2 and "smolder record -p" in p.stderr, p
    assert run().returncode == 2
    for command in commands():
        p = run(command, "--no-such-option")
        assert p.returncode == 2, (command, p)
        assert f"smolder {command}: unrecognized option" in p.stderr, p
        assert f"Try 'smolder {command} --help'" in p.stderr, p


@test
def usual_mistakes_are_told_what_was_meant():
    with folder() as d:
        for args, words in (
                (("record", "-p", "nginx"), "--comm nginx"),
                (("record", "sleep", "1"), "smolder record -- sleep"),
                (("record", "5x"), "not '5x'"),
                (("query", "nosuch.folded"), "there is no file nosuch.folded"),
                (("query", "./nosuch"), "there is no file ./nosuch"),
                (("diff", "a.pb.gz", "b.pb.gz"), "there is no file a.pb.gz"),
                # What makes no sense is said before any store or server is looked for.
                (("query", 'cpu{comm="x"', "--store", d + "/none"), "expected"),
                (("labels", "--query", "cpu{", "--store", d + "/none"), "expected"),
                (("query", "--from", "1y"), "5m (so long ago)")):
            p = run(*args, cwd=d)
            assert p.returncode == 2 and words in p.stderr and not p.stdout, (args, p)
            assert len([x for x in p.stderr.splitlines() if x.startswith("smolder: ")]) == 1, p.stderr


@test
def what_excludes_each_other_off_the_cpu_is_said():
    for args, words in (
            (["offcpu", "--state", "runable"], "did you mean runnable?"),
            (["offcpu", "--state", ","], "--state needs at least one state"),
            (["offcpu", "-u", "-k"], "-u and -k exclude each other"),
            (["offcpu", "-m", "20", "-M", "10"], "-m is more than -M"),
            (["offcpu", "-m", "x"], "-m"),
            (["offcpu", "-p", "nginx"], "--comm nginx"),
            (["offcpu", "make"], "smolder offcpu -- make"),
            (["offcpu", "-U", "-K"], "-U and -K exclude each other"),
            (["offcputime", "-p", "1", "-t", "2"], "-p, -t, -u and -k exclude each other"),
            (["offcputime", "--state", "x"], "--state"),
            (["offcputime", "1", "2"], "one argument too many")):
        p = run(*args)
        assert p.returncode == 2 and words in p.stderr and not p.stdout, (args, p)


@test
def a_port_that_there_is_not_is_wrong_usage_everywhere():
    """getaddrinfo() makes another port of it: 99999 would be 34463."""
    with folder() as d:
        for port in ("99999", "65536", "70x", "-1"):
            for args in (("run", "--listen", f"127.0.0.1:{port}", "--store", d + "/s"),
                         ("serve", "--listen", f"127.0.0.1:{port}", "--store", d + "/s"),
                         ("serve", "--listen", f"[::1]:{port}", "--store", d + "/s"),
                         ("agent", "--to", f"http://127.0.0.1:{port}"),
                         ("agent", "--to", f"https://[::1]:{port}/"),
                         ("query", "--server", f"127.0.0.1:{port}"),
                         ("query", "--server", f"https://localhost:{port}"),
                         ("diff", "--server", f"http://127.0.0.1:{port}/"),
                         ("labels", "--server", f"http://127.0.0.1:{port}"),
                         ("doctor", "--server", f"http://127.0.0.1:{port}")):
                p = run(*args)
                first, *rest = p.stderr.splitlines()
                assert p.returncode == 2 and not p.stdout, (args, p)
                assert first.startswith(f"smolder: {args[1]} takes ") and f"not '{args[2]}'" in first, p
                assert rest == [f"Try 'smolder {args[0]} --help'."], p
        assert not os.listdir(d)  # nothing is made before that is seen
        with open(d + "/c.yaml", "w") as f:
            f.write("listen: 127.0.0.1:99999\n")
        p = run("serve", "--config", d + "/c.yaml", "--store", d + "/s")
        assert p.returncode == 1 and "line 1: listen takes ADDRESS:PORT" in p.stderr, p
        assert os.listdir(d) == ["c.yaml"]


@test
def a_wrong_format_is_wrong_usage_everywhere():
    with folder(a_folded="a;b 1\n") as d:
        file = os.path.join(d, "a.folded")
        for args in (("flame", file), ("query", file), ("diff", file, file), ("record", "-d", "0.1")):
            for wrong in (("-f", "svgg"), ("-o", os.path.join(d, "x.gif"))):
                p = run(*args, *wrong)
                assert p.returncode == 2 and "unknown" in p.stderr, (args, wrong, p)
                assert "svg, html, pprof" in p.stderr and p.stdout == "", p
            assert "did you mean svg?" in run(*args, "-f", "svgg").stderr
        assert os.listdir(d) == ["a.folded"]


@test
def a_reader_that_has_had_enough_is_no_failure():
    many = "".join(f"a;b{i};c{i} 1\n" for i in range(200000))
    with folder(many_folded=many) as d:
        file = os.path.join(d, "many.folded")
        for command in (f"flame {file} -f folded", f"flame {file} -f text", f"query {file} -f tree",
                        f"flame {file} -f svg", f"diff {file} {file} -f folded", "doctor", "--help",
                        "record --help", f"flame {file} -f top --top 100000"):
            # The reader takes a byte and goes; what is written is far more than a pipe holds.
            p = subprocess.run(["bash", "-c", f"{SMOLDER} {command} | head -c 1 >/dev/null; "
                                              "echo ${PIPESTATUS[0]}"],
                               capture_output=True, text=True, timeout=60)
            code = p.stdout.strip()
            assert code == "0" or command == "doctor" and code == "1", (command, p)
            assert "cannot write" not in p.stderr and "Broken pipe" not in p.stderr, (command, p.stderr)
    # What cannot be written for another reason still is one.
    p = subprocess.run(f"{SMOLDER} --help >/dev/full", shell=True, capture_output=True, text=True)
    assert p.returncode == 1 and "No space left" in p.stderr, p


@test
def tables_are_as_wide_as_the_terminal():
    with folder(in_folded=STACKS) as d:
        for columns in (60, 80, 100, 173):
            out, code = on_terminal(columns, "flame", "in.folded", "-f", "top", cwd=d)
            assert code == 0
            lines = [line for line in out.split("\n") if "a_function_with" in line]
            assert len(lines) > 20
            assert max(len(line) for line in lines) == min(columns, max(len(line) for line in lines)), out
            # Long names are cut there, and only there.
            cut = [line for line in lines if "…" in line]
            assert cut and all(len(line) == columns for line in cut), (columns, cut)
        piped = run("flame", "in.folded", "-f", "top", cwd=d).stdout
        assert max(len(line) for line in piped.split("\n")) == 100


@test
def output_goes_by_one_rule():
    """Without -o: what people read, and all in a pipe, to standard output; else a file, which is named."""
    with folder(in_folded="a;b 3\na;c 4\n") as d:
        diff, query, flame = ("diff", "in.folded", "in.folded"), ("query", "in.folded"), ("flame", "in.folded")
        for args in (diff, query, flame):
            for form in ("svg", "html", "json", "top", "tree", "folded"):
                p = run(*args, "-f", form, cwd=d)
                assert p.returncode == 0 and p.stdout and not p.stderr, (args, form, p)
                assert os.listdir(d) == ["in.folded"]
            for form in ("top", "tree", "text", "folded"):
                out, code = on_terminal(100, *args, "-f", form, cwd=d)
                assert code == 0 and "a" in out and os.listdir(d) == ["in.folded"], (args, form, out)
            for form in ("svg", "html", "json"):
                out, code = on_terminal(100, *args, "-f", form, cwd=d)
                assert code == 0, out
                made = [f for f in os.listdir(d) if f != "in.folded"]
                assert len(made) == 1 and made[0].endswith(f".{form}"), made
                assert out == f"wrote {made[0]}\n", out
                os.unlink(os.path.join(d, made[0]))


@test
def pictures_are_not_taken_for_stacks():
    with folder(in_folded="a;b 3\na;c 4\n", other_svg="<svg xmlns='x'><g>a 1</g></svg>\n") as d:
        for name in ("mine.svg", "mine.html"):
            assert run("flame", "in.folded", "-o", name, cwd=d).returncode == 0
        for name, what in (("mine.svg", "a picture"), ("mine.html", "an HTML page"),
                           ("other.svg", "a picture")):
            for command in ("flame", "query"):
                p = run(command, name, cwd=d)
                assert p.returncode == 1 and f"cannot read {name}: it is {what}" in p.stderr, p
                assert "made from" in p.stderr and p.stderr.count("\n") == 1 and not p.stdout, p


    # Names may begin like that, too: PHP's and Rust's.
    with folder(in_folded="{main};<T as X>::f 3\n<T as X>::f;{closure} 4\n") as d:
        assert run("flame", "in.folded", "-f", "folded", cwd=d).stdout.count("\n") == 2


@test
def callers_are_ranked_by_what_they_take():
    text = "main;one;f 30\nmain;two;f;g 50\nmain;one;f;h 5\nother;two;f 1\nf 4\nmain;two;x 99\n"
    with folder(in_folded=text) as d:
        p = run("query", "in.folded", "--callers", "f", "-f", "top", cwd=d)
        rows = [line.split() for line in p.stdout.split("\n")[3:] if line]
        assert [(r[4], r[0]) for r in rows[:3]] == [("two", "51"), ("one", "35"), ("f", "4")], p.stdout
        assert not any("main" in r or "other" in r for r in rows), p.stdout
        # A graph still has all of them.
        assert "f;one;main 35\n" in run("query", "in.folded", "--callers", "f", "-f", "folded", cwd=d).stdout


@test
def the_tree_is_a_call_graph_in_text():
    text = "a;b;c;d 60\na;b;c;e 25\na;x 14\na;tiny 1\nz 900\n"
    with folder(in_folded=text) as d:
        out = run("flame", "in.folded", "-f", "tree", cwd=d).stdout.split("\n")
        assert out[2].split() == ["TOTAL", "%", "CALLS"], out
        assert out[3:] == [
            "      1,000 100.00%  all",
            "        900  90.00%  ├─ z",
            "        100  10.00%  └─ a",
            "         85   8.50%     ├─ b › c",
            "         60   6.00%     │  ├─ d",
            "         25   2.50%     │  └─ e",
            "         14   1.40%     └─ x",
            ""], out
        assert "tiny" in run("flame", "in.folded", "-f", "tree", "--min-fraction", "0.0001", cwd=d).stdout
        changed = run("diff", "in.folded", "in.folded", "-f", "tree", cwd=d).stdout
        assert re.search(r"^ +1,000 +0  all$", changed, re.M), changed
    # Long chains keep both ends, and stay within the terminal.
    chain = ";".join(f"function_{i:02d}" for i in range(40))
    with folder(in_folded=f"{chain} 5\nother 5\n") as d:
        out, code = on_terminal(80, "flame", "in.folded", "-f", "tree", cwd=d)
        assert code == 0 and "function_00 › … 38 more › function_39" in out, out
        assert max(map(len, out.split("\n"))) <= 80, out


@test
def a_title_says_whose_and_when():
    with folder(stacks_folded="a;b 3\n") as d:
        run("flame", "stacks.folded", "-o", "a.svg", cwd=d)
        run("flame", "stacks.folded", "-o", "b.svg", "--title", "mine", cwd=d)
        title = [re.search("<title>(.*)</title>", open(os.path.join(d, f)).read())[1]
                 for f in ("a.svg", "b.svg")]
        assert title == ["stacks.folded", "mine"], title


# ---- what is installed --------------------------------------------------------------------------

OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")


def help_options(command):
    found = set()
    for line in run(command, "--help").stdout.splitlines():
        m = re.match(r" {2,6}(-.*?)(?:\s{2,}|$)", line)
        if m:
            found |= set(OPTION.findall(m[1]))
    return found


def completions(shell):
    return subprocess.run([os.path.join(ROOT, "tools", "completions"), shell, SMOLDER], check=True,
                          capture_output=True, text=True).stdout


@test
def completions_know_every_option():
    texts = {shell: completions(shell) for shell in ("bash", "zsh", "fish")}
    for command in commands():
        wanted = help_options(command)
        bash = re.search(rf'^\t{command}\) words="(.*)" ;;$', texts["bash"], re.M)[1].split()
        assert set(bash) == wanted, (command, set(bash) ^ wanted)
        zsh = re.search(rf"^\t{command}\) _arguments(.*?);;$", texts["zsh"], re.M | re.S)[1]
        assert set(re.findall(r"^\t\t'(--?[\w-]+)\[", zsh, re.M)) == wanted, command
        fish = set()
        for line in texts["fish"].splitlines():
            if f"from {command}'" in line:
                words = line.split(" -d ")[0]
                fish |= {f"-{s}" for s in re.findall(r" -s (\w)", words)}
                fish |= {f"--{s}" for s in re.findall(r" -l ([\w-]+)", words)}
        assert fish == wanted, (command, fish ^ wanted)


@test
def completions_are_taken_by_their_shells():
    with folder() as d:
        for shell in ("bash", "zsh", "fish"):
            file = os.path.join(d, shell)
            with open(file, "w", encoding="utf-8") as f:
                f.write(completions(shell))
            if not shutil.which(shell):
                skip(f"no {shell}")
            p = subprocess.run([shell, "-n", file], capture_output=True, text=True)
            assert p.returncode == 0 and not p.stderr, p
        # And bash finds what is meant.
        for words, wanted in ((("smolder", "rec"), ["record"]), (("smolder", "help", "fl"), ["flame"]),
                              (("smolder", "record", "--anno"), ["--annotations"]),
                              (("smolder", "query", "-f", "sp"), ["speedscope"])):
            line = f". {d}/bash; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; " \
                   "_smolder; printf '%s\\n' \"${COMPREPLY[@]}\""
            p = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=d)
            assert p.stdout.split() == wanted, (words, p)


@test
def mistakes_in_rules_for_labels_are_said():
    for args, words in ((["--label", "a-b=c"], "takes NAME=VALUE"), (["--label", "a"], "takes NAME=VALUE"),
                        (["--drop", "{a=}"], "takes a selector"), (["--keep", '{a=~"("}'], "takes a selector"),
                        (["--kubelet", "node-1"], "takes a URL")):
        p = run("run", *args)
        assert p.returncode == 2 and words in p.stderr, p
    for rule, words in (("- target_label: a-b", "line 2: this target_label is no label name: 'a-b'"),
                        ("- regex: '('\n  target_label: a", "line 2: the regex '(' is invalid"),
                        ("- {target_label: a}\n- colour: red", "line 3: a relabelling rule has no 'colour'"),
                        ("- {action: explode}", "line 2: there is no action 'explode'"),
                        ("  a: b", "line 2: relabel_configs takes a list of rules")):
        with folder(smolder_yaml=f"relabel_configs:\n{rule}\n") as d:
            p = run("run", "--config", os.path.join(d, "smolder.yaml"))
            assert p.returncode == 1 and words in p.stderr, (rule, p)


main()
