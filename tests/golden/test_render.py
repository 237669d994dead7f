#!/usr/bin/env python3
"""Every format but pprof, made by `smolder flame` from folded text and read by another's parser."""
import html.parser
import json
import os
import random
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import SMOLDER, main, skip, test  # noqa: E402

FLAMEGRAPH = "/usr/share/perl5/Devel/NYTProf/flamegraph.pl"
SVG = "{http://www.w3.org/2000/svg}"

HOSTILE = [
    b"<img src=x onerror=alert(1)>", b"]]>", b"</script><script>alert(1)</script>", b"</svg>", b"<!--",
    b"\"'&\\", b"&amp &#60 &lt", b"\xe2\x80\xaegnp.exe", b"\xff\xfe\x01\x02", b"\\u003cb\\u003e",
    b"x" * (1 << 20), "größe<T>::operator()".encode(), b"  spaces  inside ", b"%s%n%p",
]

SMALL = b"""main;parse;read_[k] 30
main;parse 10
main;work;parse;scan 20
main;work 15
other;Parser 25
"""


def flame(data, fmt, *options):
    p = subprocess.run([SMOLDER, "flame", "--from", "folded", "-f", fmt, "-o", "-", *options, "-"], input=data,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    assert p.returncode == 0, p.stderr.decode()
    return p.stdout


def hostile():
    return b"".join(b"main;" + name + b";" + name + b" %d\n" % (i + 1) for i, name in enumerate(HOSTILE))


def random_stacks(count, names, depth, seed=1):
    r = random.Random(seed)
    stacks = {}
    while len(stacks) < count:
        stack = tuple(f"f{r.randrange(names)}" for _ in range(r.randrange(1, depth)))
        stacks[stack] = stacks.get(stack, 0) + r.randrange(1, 100)
    return stacks


def fold(stacks):
    return "".join(f"{';'.join(s)} {n}\n" for s, n in stacks.items()).encode()


@test
def folded_gives_back_what_it_was_given():
    stacks = random_stacks(2000, 30, 12)
    out = flame(fold(stacks), "folded").decode().splitlines()
    got = {tuple(l.rsplit(" ", 1)[0].split(";")): int(l.rsplit(" ", 1)[1]) for l in out}
    assert got == stacks
    keys = [tuple(l.rsplit(" ", 1)[0].split(";")) for l in out]
    assert keys == sorted(keys), "not in order"
    assert flame(SMALL, "folded", "--annotations") == b"".join(
        l + b"\n" for l in sorted(SMALL.splitlines(), key=lambda l: l.rsplit(b" ")[0].split(b";")))


@test
def folded_goes_through_flamegraph_pl():
    if not os.path.exists(FLAMEGRAPH):
        skip(f"{FLAMEGRAPH} is not installed")
    for data in (SMALL, hostile(), fold(random_stacks(3000, 20, 20))):
        folded = flame(data, "folded", "--annotations")
        p = subprocess.run(["perl", FLAMEGRAPH], input=folded, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=120)
        assert p.returncode == 0 and p.stderr == b"", p.stderr
        total = sum(int(l.rsplit(b" ", 1)[1]) for l in folded.splitlines())
        shown = re.search(rb"<title>all \(([\d,]+) samples, 100%\)", p.stdout)
        assert int(shown[1].replace(b",", b"")) == total, shown


def svg_data(svg):
    root = ET.fromstring(svg)
    script = [e for e in root.iter(SVG + "script") if e.get("type") == "application/json"]
    assert len(script) == 1
    return root, json.loads(script[0].text)


def check_nesting(depths, totals):
    """Children lie inside of their parents."""
    left = []
    for d, n in zip(depths, totals):
        del left[d:]
        if d:
            assert n <= left[d - 1], "a child is larger than what its parent has left"
            left[d - 1] -= n
        left.append(n)


@test
def svg_is_xml_and_holds_the_tree():
    stacks = random_stacks(2000, 30, 12)
    root, data = svg_data(flame(fold(stacks), "svg"))
    assert root.tag == SVG + "svg"
    assert data["totals"][0] == sum(stacks.values())
    assert len(data["functions"]) == len(data["depths"]) == len(data["totals"])
    assert len(data["classes"]) == 2 * len(data["names"]) == 2 * len(data["modules"])
    assert max(data["functions"]) < len(data["names"])
    check_nesting(data["depths"], data["totals"])
    by_root = {}
    for s, n in stacks.items():
        by_root[s[0]] = by_root.get(s[0], 0) + n
    got = {data["names"][f]: n for f, d, n in zip(data["functions"], data["depths"], data["totals"])
           if d == 1}
    assert got == by_root


@test
def svg_is_drawn_without_its_script():
    root, _ = svg_data(flame(SMALL, "svg", "--width", "800"))
    assert root.get("width") == "800" and root.get("viewBox").startswith("0 0 800 ")
    frames = next(g for g in root.iter(SVG + "g") if g.get("class") == "frames")
    labels, last = {}, None
    for e in frames:
        if e.tag == SVG + "rect":
            last = e
        else:
            labels[e.text] = last
    width = {name: float(r.get("width")) for name, r in labels.items()}
    assert abs(width["all"] - 776) < 1
    assert abs(width["main"] / 776 - 0.75) < 0.01
    assert float(labels["main"].get("y")) < float(labels["all"].get("y"))
    assert labels["read"].get("class")[0] == "k" and labels["main"].get("class")[0] == "u"
    for r in frames.iter(SVG + "rect"):
        assert 12 <= float(r.get("x")) and float(r.get("x")) + float(r.get("width")) <= 788.01
    icicle, _ = svg_data(flame(SMALL, "svg", "--icicle"))
    frames = next(g for g in icicle.iter(SVG + "g") if g.get("class") == "frames")
    ys = [float(r.get("y")) for r in frames.iter(SVG + "rect")]
    assert ys[0] == min(ys)


@test
def svg_needs_no_network():
    for fmt in ("svg", "html"):
        text = flame(SMALL, fmt).decode()
        urls = set(re.findall(r"[a-z]+://[^\s\"'`)<]+", text))
        assert urls <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}, urls
        assert not re.search(r"\bon[a-z]+\s*=\s*[\"']", text), "an inline handler"
        assert "eval(" not in text and "innerHTML" not in text


@test
def svg_escapes_what_comes_from_outside():
    root, data = svg_data(flame(hostile(), "svg", "--title", "</title><script>alert(1)</script>&"))
    tags = {e.tag.replace(SVG, "") for e in root.iter()}
    assert tags == {"svg", "style", "title", "rect", "text", "g", "script"}, tags
    assert len(list(root.iter(SVG + "script"))) == 2
    for name in HOSTILE[:7]:
        assert name.decode() in data["names"], name
    assert root.find(SVG + "title").text == "</title><script>alert(1)</script>&"
    assert all(len(n.encode()) <= 1024 for n in data["names"])
    assert not any("\u202e" in n for n in data["names"])


@test
def svg_of_100_000_stacks_is_small():
    r = random.Random(3)
    shared = ["main"] + [f"module{i % 17}::function{i}" for i in range(12)]
    lines = []
    for i in range(100000):
        tail = [f"call{r.randrange(50)}" for _ in range(4)] + [f"leaf{i}"]
        lines.append(f"{';'.join(shared + tail)} {r.randrange(1, 9)}\n")
    svg = flame("".join(lines).encode(), "svg")
    root, data = svg_data(svg)
    assert len(svg) < 6 << 20, len(svg)
    assert len(list(root.iter(SVG + "rect"))) < 6000
    check_nesting(data["depths"], data["totals"])
    subtitle = next(e.text for e in root.iter(SVG + "text") if e.get("class") == "subtitle")
    assert re.search(r"frames under \d+ samples are merged \([\d,]+ of them\)", subtitle), subtitle
    assert data["names"][data["merged"]] == "[merged]"


@test
def svg_of_very_deep_stacks():
    deep = ";".join(f"f{i}" for i in range(5000))
    root, data = svg_data(flame(f"{deep} 3\nf0;g 1\n".encode(), "svg"))
    assert max(data["depths"]) < 1500
    subtitle = next(e.text for e in root.iter(SVG + "text") if e.get("class") == "subtitle")
    assert "cut at 1499 of 5000 frames" in subtitle, subtitle


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.cells, self.inside = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.inside = tag == "td" and ("class", "name") in attrs
        if self.inside:
            self.cells.append("")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.cells[-1] += data


@test
def html_escapes_what_comes_from_outside():
    page = Page(flame(hostile(), "html").decode())
    assert page.tags.count("script") == 3 and "img" not in page.tags
    for name in HOSTILE[:7]:
        assert name.decode() in page.cells, name


@test
def json_holds_the_tree():
    stacks = random_stacks(2000, 30, 12)
    tree = json.loads(flame(fold(stacks), "json"))
    assert tree["version"] == 1 and tree["unit"] == "samples" and tree["lost"] == 0
    functions, nodes = tree["functions"], tree["nodes"]
    paths, got = [], {}
    for n in nodes:
        del paths[n["depth"]:]
        paths.append(functions[n["function"]]["name"])
        if n["self"]:
            got[tuple(paths[1:])] = n["self"]
    assert got == stacks
    for i, n in enumerate(nodes[1:], 1):
        assert n["parent"] < i and nodes[n["parent"]]["depth"] == n["depth"] - 1
    kinds = {f["name"]: f["kind"] for f in json.loads(flame(SMALL, "json"))["functions"]}
    assert kinds["read"] == "kernel" and kinds["main"] == "user"
    names = {f["name"] for f in json.loads(flame(hostile(), "json"))["functions"]}
    assert {n.decode() for n in HOSTILE[:7]} <= names


@test
def merged_frames_keep_every_format_exact():
    stacks = random_stacks(3000, 30, 10)
    total = sum(stacks.values())
    tree = json.loads(flame(fold(stacks), "json", "--min-fraction", "0.01"))
    assert tree["pruned"] > 0
    assert sum(n["self"] for n in tree["nodes"]) == total
    assert all(n["total"] >= total * 0.01 for n in tree["nodes"]
               if tree["functions"][n["function"]]["name"] != "[merged]")
    folded = flame(fold(stacks), "folded", "--min-fraction", "0.01").decode()
    assert sum(int(l.rsplit(" ", 1)[1]) for l in folded.splitlines()) == total


def check_speedscope(f):
    """The parts of the schema that a "sampled" profile uses."""
    assert f["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert isinstance(f["shared"]["frames"], list)
    for frame in f["shared"]["frames"]:
        assert isinstance(frame["name"], str)
        assert set(frame) <= {"name", "file", "line", "col"}
    assert f["profiles"] and 0 <= f["activeProfileIndex"] < len(f["profiles"])
    for p in f["profiles"]:
        assert set(p) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert p["type"] == "sampled" and isinstance(p["name"], str)
        assert p["unit"] in ("none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes")
        assert len(p["samples"]) == len(p["weights"])
        assert p["endValue"] - p["startValue"] == sum(p["weights"])
        assert all(0 <= i < len(f["shared"]["frames"]) for s in p["samples"] for i in s)


@test
def speedscope_follows_its_schema():
    stacks = random_stacks(2000, 30, 12)
    f = json.loads(flame(fold(stacks), "speedscope"))
    check_speedscope(f)
    names = [x["name"] for x in f["shared"]["frames"]]
    p = f["profiles"][0]
    assert {tuple(names[i] for i in s): w for s, w in zip(p["samples"], p["weights"])} == stacks
    check_speedscope(json.loads(flame(hostile(), "speedscope", "--title", "a\"\\\n")))


@test
def top_and_text_print_what_is_there():
    top = flame(SMALL, "top").decode().splitlines()
    assert top[0] == "100 samples"
    rows = [l.split() for l in top[3:]]
    assert rows[0] == ["30", "30.00%", "30", "30.00%", "read"], rows[0]
    assert ["10", "10.00%", "60", "60.00%", "parse"] in rows
    text = flame(b"a;b;c_[k] 2\na 1\n", "text").decode()
    assert text == "    a\n        1\n\n    c\n    b\n    a\n        2\n\n", text
    assert all(len(l) <= 100 for l in flame(hostile(), "top").decode().splitlines())


main()
