#!/usr/bin/env python3
"""Differences of two profiles in each format, from files."""
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import SMOLDER, main, skip, test  # noqa: E402

FLAMEGRAPH = "/usr/share/perl5/Devel/NYTProf/flamegraph.pl"
SVG = "{http://www.w3.org/2000/svg}"

BEFORE = b"main;a 10\nmain;b 5\nmain;gone;x_[k] 7\n"
AFTER = b"main;a 20\nmain;b 5\nmain;new;y 3\n"
HOSTILE = [b"<img src=x onerror=alert(1)>", b"</script><script>alert(1)</script>", b"]]>", b"\"'&\\",
           b"\xe2\x80\xaegnp", b"\xff\xfe"]


def diff(before, after, *options):
    with tempfile.TemporaryDirectory() as d:
        for name, data in (("before.folded", before), ("after.folded", after)):
            with open(os.path.join(d, name), "wb") as f:
                f.write(data)
        p = subprocess.run([SMOLDER, "diff", "before.folded", "after.folded", *options], cwd=d,
                           capture_output=True, timeout=120)
    assert p.returncode == 0, p.stderr.decode()
    return p.stdout.decode()


@test
def the_table_tells_what_changed():
    assert diff(BEFORE, AFTER) == """\
28 samples; base: 22 samples

       SELF     CHANGE  POINTS      TOTAL     CHANGE  FUNCTION
         20        +10  +25.97         20        +10  a
          0         -7  -31.82          0         -7  x (gone)
          3         +3  +10.71          3         +3  y (new)
          0          0   +0.00          0         -7  gone (gone)
          0          0   +0.00         28         +6  main
          0          0   +0.00          3         +3  new (new)
          5          0   -4.87          5          0  b
"""


@test
def stacks_in_full():
    assert diff(BEFORE, AFTER, "-f", "text") == """\
    b
    main
        5 (+0, base 5)

    y
    new
    main
        3 (+3, base 0)

    x
    gone
    main
        0 (-7, base 7)

    a
    main
        20 (+10, base 10)

"""


@test
def two_counts_a_line():
    assert diff(BEFORE, AFTER, "-f", "folded") == \
        "main;a 10 20\nmain;b 5 5\nmain;gone;x 7 0\nmain;new;y 0 3\n"
    assert diff(BEFORE, AFTER, "-f", "folded", "--annotations").split("\n")[2] == \
        "main;gone;x_[k] 7 0"
    assert diff(BEFORE, AFTER, "-f", "folded", "--reverse") == \
        "a;main 10 20\nb;main 5 5\nx;gone;main 7 0\ny;new;main 0 3\n"
    # 22 to 28: each is rounded by itself.
    assert diff(BEFORE, AFTER, "-f", "folded", "--normalise") == \
        "main;a 13 20\nmain;b 6 5\nmain;gone;x 9 0\nmain;new;y 0 3\n"


@test
def flamegraph_pl_reads_the_two_counts():
    if not os.path.exists(FLAMEGRAPH):
        skip("no flamegraph.pl")
    p = subprocess.run(["perl", FLAMEGRAPH], input=diff(BEFORE, AFTER, "-f", "folded").encode(),
                       capture_output=True, timeout=60)
    out = p.stdout.decode()
    assert p.returncode == 0 and "<title>a (20 samples, 71.43%; +" in out, out[:2000]


@test
def trees_have_both_numbers():
    t = json.loads(diff(BEFORE, AFTER, "-f", "json"))
    names = [f["name"] for f in t["functions"]]
    nodes = {names[n["function"]]: n for n in t["nodes"]}
    assert nodes["a"]["base_self"] == 10 and nodes["a"]["self"] == 20
    assert nodes["gone"]["base_total"] == 7 and nodes["gone"]["total"] == 0
    assert t["nodes"][0]["base_total"] == 22 and t["base"]["normalised"] is False
    t = json.loads(diff(BEFORE, AFTER, "-f", "columns", "--normalise"))
    assert t["nodes"]["base_total"][0] == 28 and t["base"]["normalised"] is True
    assert "base_total" not in json.loads(subprocess.run(
        [SMOLDER, "flame", "-f", "columns", "-"], input=BEFORE, capture_output=True).stdout)["nodes"]


def boxes(svg):
    """What is drawn: {name: (class, width)}, by the label that stands on it."""
    out, rect = {}, None
    frames = ET.fromstring(svg).find(f"{SVG}g[@class='frames']")
    for e in frames:
        if e.tag == f"{SVG}rect":
            rect = e
        elif e.tag == f"{SVG}text":
            out[e.text] = (rect.get("class"), float(rect.get("width")))
    return out


@test
def the_graph_is_as_wide_as_both_and_coloured_by_the_change():
    svg = diff(BEFORE, AFTER, "-f", "svg")
    got = boxes(svg)
    assert {k: v[0] for k, v in got.items()} == {
        "all": "d5", "main": "d5", "a": "d6", "b": "d4", "gone": "d0", "x": "d0", "new": "d8",
        "y": "d8"}, got
    whole = got["all"][1]
    for name, both in (("a", 30), ("b", 10), ("gone", 7), ("new", 3)):
        assert abs(got[name][1] / whole - both / 50) < 0.01, (name, got[name], whole)
    assert '"bases":[22,22,10,5,7,7,0,0]' in svg.replace("\n", "")
    assert ".d0{fill:" in svg and ">gone; width: both together</text>" in svg
    plain = subprocess.run([SMOLDER, "flame", "-f", "svg", "-"], input=BEFORE,
                           capture_output=True).stdout.decode()
    assert '"bases"' not in plain and 'class="d' not in plain.split("</style>")[1]


@test
def the_page_has_the_changes_in_its_table():
    page = diff(BEFORE, AFTER, "-f", "html")
    assert re.search(r'<td class="n" data-n="20">20</td><td class="n" data-n="10">\+10</td>', page)
    assert page.count(">Change</th>") == 2


@test
def hostile_names_stay_text():
    lines = [b"main;" + n + b" %d\n" % (i + 1) for i, n in enumerate(HOSTILE)]
    before, after = b"".join(lines[::2]), b"".join(lines[1:])
    for fmt in ("svg", "html"):
        out = diff(before, after, "-f", fmt)
        assert "<img" not in out and "<script>alert" not in out
        if fmt == "svg":
            ET.fromstring(out)
    for fmt in ("json", "columns"):
        names = json.dumps(json.loads(diff(before, after, "-f", fmt))["functions"])
        assert "onerror" in names


@test
def random_profiles_add_up():
    r = random.Random(7)
    for _ in range(5):
        sides = []
        for _ in range(2):
            stacks = {}
            for _ in range(500):
                key = ";".join(f"f{r.randrange(12)}" for _ in range(r.randrange(1, 8)))
                stacks[key] = stacks.get(key, 0) + r.randrange(1, 50)
            sides.append(stacks)
        before, after = ("".join(f"{k} {n}\n" for k, n in s.items()).encode() for s in sides)
        got = {}
        for line in diff(before, after, "-f", "folded").splitlines():
            stack, x, y = line.rsplit(" ", 2)
            got[stack] = (int(x), int(y))
        assert got == {k: (sides[0].get(k, 0), sides[1].get(k, 0)) for k in {**sides[0], **sides[1]}}
        t = json.loads(diff(before, after, "-f", "json", "--min-fraction", "0.01"))
        assert t["nodes"][0]["total"] == sum(sides[1].values())
        for column in ("", "base_"):
            left = [n[column + "total"] - n[column + "self"] for n in t["nodes"]]
            for i, n in enumerate(t["nodes"][1:], 1):
                left[n["parent"]] -= n[column + "total"]
            assert not any(left), column


main()
