#!/usr/bin/env python3
"""What Grafana's Pyroscope data source and Profiles Drilldown send, as their sources have it, answered
such that the published definitions decode it and its sums are those of our own queries."""
import gzip
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from messages import Name, decode, encode, pprof  # noqa: E402
from server import Server  # noqa: E402
from tap import main, test  # noqa: E402
from windows import PERIOD, STORED, Collector, row  # noqa: E402

CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
SPACE = "memory:inuse_space:bytes:space:bytes"
# Two windows of what smolder itself measures: a series with a service, and one without.
SHOP = [("main", "handle", "parse"), ("main", "handle"), ("main", "gc")]


def recent(windows=8):
    return int(time.time()) // 10 * 10000 - windows * 10000


def fill(s, start):
    c = Collector()
    for w in range(4):
        at = start + w * 10000
        assert s.post(c.message(at, [
            row(SHOP[0], 3 + w, comm="node", service="shop", pid="1"),
            row(SHOP[1], 2, comm="node", service="shop", pid="2"),
            row(SHOP[2], 1, comm="nginx", pid="3")])).status == STORED
    body = pprof([("inuse_objects", "count"), ("inuse_space", "bytes")],
                 [(("main", "keep"), (2, 2048), {}), (("main", "cache", "put"), (1, 512), {})],
                 period=("space", "bytes", 524288), start_s=start / 1000, seconds=10)
    assert s.request("POST", "/api/v1/ingest?service=shop&env=prod", body)[0] == 200
    body = pprof([("cpu", "nanoseconds")], [(("main", "pushed"), (7_000_000,), {"span_id": "00000000000000aa"}),
                                            (("main",), (1_000_000,), {})], start_s=start / 1000, seconds=10)
    assert s.request("POST", "/api/v1/ingest?service=pusher", body)[0] == 200


def call(s, method, request, message=None, service="querier.v1.QuerierService", status=200):
    """In JSON, as Drilldown sends it; and in protobuf, as the data source does: both say the same.
    Returns the JSON, and what protoc decodes."""
    path = f"/{service}/{method}"
    got, body, headers = s.request("POST", path, json.dumps(request), {
        "content-type": "application/json", "X-Grafana-Org-Id": "1",
        "accept": "application/json; allow-utf8-labelnames=true"})
    assert got == status, (path, request, got, body[:500])
    content = json.loads(body)
    if status != 200:
        assert content["code"] and content["message"], content
        return content
    assert headers["Content-Type"] == "application/json"
    data = encode("pyroscope", f"{message or method}Request", snake(request))
    got, body, headers = s.request("POST", path, data, {
        "Content-Type": "application/proto", "Connect-Protocol-Version": "1",
        "Accept-Encoding": "gzip", "User-Agent": "connect-go/1.18.1 (go1.24)"})
    assert got == 200 and headers["Content-Type"] == "application/proto", (path, got, body[:300])
    if headers["Content-Encoding"] == "gzip":
        body = gzip.decompress(body)
    answer = ("google", "Profile") if method == "SelectMergeProfile" else ("pyroscope", f"{method}Response")
    return content, decode(*answer, body)


def snake(request):
    names = {"profileTypeID": "profile_typeID"}
    out = {}
    for k, v in request.items():
        k = names.get(k) or "".join("_" + c.lower() if c.isupper() and not k.endswith("typeID") else c for c in k)
        out[k] = snake(v) if isinstance(v, dict) else [snake(x) if isinstance(x, dict) else x for x in v] \
            if isinstance(v, list) else v
    return out


def ours(s, query, start, to):
    status, body, _ = s.get("/api/v1/query", query=query, format="json", **{"from": start, "to": to})
    assert status == 200, body
    return json.loads(body)


def folded(s, query, start, to):
    """Nanoseconds by stack: folded counts samples of our own clock."""
    _, body, _ = s.get("/api/v1/query", query=query, format="folded", **{"from": start, "to": to})
    scale = PERIOD if query.startswith("cpu") else 1
    return {k: int(v) * scale for k, v in (line.rsplit(" ", 1) for line in body.decode().splitlines())}


def stacks(names, levels, width=4, value=1):
    """Self by stack of a flamebearer, with a check that each node lies within its parent, and is the
    sum of its own and its children's."""
    out, parents = {}, []
    for depth, level in enumerate(levels):
        at, here = 0, []
        assert len(level) % width == 0
        for i in range(0, len(level), width):
            offset, total, own = level[i + value - 1:i + value + 2]
            name = names[level[i + width - 1]]
            at += offset
            path, parent = (), None
            if depth:
                parent = next(p for p in parents if p["at"] <= at and at + total <= p["end"] and
                              p["left"] >= total)
                parent["left"] -= total
                path = parent["path"] + (name,)
            here.append({"at": at, "end": at + total, "path": path, "left": total - own})
            if own:
                out[";".join(path)] = out.get(";".join(path), 0) + own
            at += total
        assert not any(p["left"] for p in parents), parents
        parents = here
    return out


@test
def drilldown_lists_services_and_their_types():
    start = recent()
    with Server() as s:
        fill(s, start)
        both = {"start": start, "end": start + 40000}
        content, decoded = call(s, "Series", {**both, "labelNames": ["service_name", "__profile_type__"],
                                              "matchers": []})
        pairs = {tuple(p["value"] for p in ls["labels"]) for ls in content["labelsSet"]}
        assert pairs == {("shop", CPU), ("nginx", CPU), ("pusher", CPU), ("shop", SPACE),
                         ("shop", "memory:inuse_objects:count:space:bytes")}, pairs
        assert all([p["name"] for p in ls["labels"]] == ["service_name", "__profile_type__"]
                   for ls in content["labelsSet"])
        assert {tuple(p["value"][0] for p in ls["labels"]) for ls in decoded["labels_set"]} == pairs
        content, decoded = call(s, "ProfileTypes", both)
        assert sorted(t["ID"] for t in content["profileTypes"]) == sorted({t for _, t in pairs})
        cpu = next(t for t in decoded["profile_types"] if t["ID"] == [CPU])
        assert (cpu["name"], cpu["sample_type"], cpu["sample_unit"], cpu["period_type"], cpu["period_unit"]) == \
            (["process_cpu"], ["cpu"], ["nanoseconds"], ["cpu"], ["nanoseconds"])
        only = {"matchers": [f'{{__profile_type__="{CPU}", service_name="shop"}}'], **both}
        assert call(s, "LabelNames", only)[0]["names"] == \
            ["__profile_type__", "comm", "pid", "service", "service_name"]
        assert call(s, "LabelValues", {"name": "pid", **only})[0]["names"] == ["1", "2"]
        for selector, wanted in (("{}", ["nginx", "pusher", "shop"]),
                                 (f'{{__profile_type__="{SPACE}"}}', ["shop"]),
                                 ('{service_name=~"n.*|shop"}', ["nginx", "shop"]),
                                 ('{service_name!="shop"}', ["nginx", "pusher"]),
                                 ('{service_name="nobody"}', [])):
            content, decoded = call(s, "LabelValues", {"name": "service_name", "matchers": [selector], **both})
            assert content["names"] == wanted == decoded.get("names", []), (selector, content)
        # Without names of labels: whole series.
        content, _ = call(s, "Series", {**both, "matchers": ['{service_name="nginx"}']})
        assert [{p["name"]: p["value"] for p in ls["labels"]} for ls in content["labelsSet"]] == [
            {"__profile_type__": CPU, "comm": "nginx", "pid": "3", "service_name": "nginx"}], content
        stats, _ = call(s, "GetProfileStats", {})
        assert stats["dataIngested"] is True and int(stats["newestProfileTime"]) >= start + 30000, stats
        status, body, _ = s.get("/pyroscope/label-values", label="service_name", **{"from": "now-1h"})
        assert status == 200 and json.loads(body) == ["nginx", "pusher", "shop"], body


@test
def nothing_is_an_empty_list_and_not_an_error():
    with Server() as s:
        for method, request, field in (
                ("ProfileTypes", {"start": 1, "end": 2}, "profileTypes"),
                ("Series", {"labelNames": ["service_name", "__profile_type__"], "matchers": []}, "labelsSet"),
                ("LabelNames", {"matchers": ["{}"]}, "names"),
                ("LabelValues", {"name": "service_name", "matchers": []}, "names"),
                ("SelectSeries", {"profileTypeID": CPU, "labelSelector": "{}", "step": 15}, "series")):
            content, decoded = call(s, method, request)
            assert content == {field: []} and decoded == {}, (method, content, decoded)
        assert call(s, "GetProfileStats", {})[0]["dataIngested"] is False
        content, _ = call(s, "SelectMergeStacktraces", {"profileTypeID": CPU, "labelSelector": "{}"})
        assert content["flamegraph"]["total"] == "0", content
        content, _ = call(s, "SelectMergeProfile", {"profileTypeID": CPU, "labelSelector": "{}"})
        assert content["sample"] == [], content


@test
def flame_graphs_have_the_sums_of_our_own_query():
    start = recent()
    with Server() as s:
        fill(s, start)
        both = {"start": start, "end": start + 40000}
        for selector, own in (("{}", ["cpu", CPU]), ('{service_name="shop"}', ['cpu{service="shop"}']),
                              ('{service_name="nginx"}', ['cpu{comm="nginx"}']),
                              ('{service_name!="nginx"}', ['cpu{comm!="nginx"}', CPU]),
                              ('{service_name="pusher"}', [CPU + '{service="pusher"}']),
                              ('{service_name="shop", pid="2"}', ['cpu{pid="2"}']),
                              ('{service_name=~".*o.*"}', ['cpu{service="shop"}'])):
            wanted = {}
            for query in own:
                for k, v in folded(s, query, start, start + 40000).items():
                    wanted[k] = wanted.get(k, 0) + v
            content, decoded = call(s, "SelectMergeStacktraces", {
                "profileTypeID": CPU, "labelSelector": selector, "maxNodes": 16384, **both})
            flame = content["flamegraph"]
            levels = [[int(v) for v in level["values"]] for level in flame["levels"]]
            assert stacks(flame["names"], levels) == wanted, (selector, wanted)
            assert flame["names"][0] == "total" and int(flame["total"]) == sum(wanted.values())
            assert int(flame["maxSelf"]) == max(wanted.values())
            got = decoded["flamegraph"][0]
            assert stacks(got["names"], [level["values"] for level in got["levels"]]) == wanted
        # What was left out is one node, and sums stay.
        flame = call(s, "SelectMergeStacktraces", {"profileTypeID": CPU, "labelSelector": "{}", "maxNodes": 2,
                                                   **both})[0]["flamegraph"]
        levels = [[int(v) for v in level["values"]] for level in flame["levels"]]
        assert "other" in flame["names"] and sum(stacks(flame["names"], levels).values()) == int(flame["total"])
        # A call site: only the stacks that begin so.
        flame = call(s, "SelectMergeStacktraces", {
            "profileTypeID": CPU, "labelSelector": "{}", **both,
            "stackTraceSelector": {"call_site": [{"name": "main"}, {"name": "handle"}]}})[0]["flamegraph"]
        assert int(flame["total"]) == PERIOD * (3 + 4 + 5 + 6 + 4 * 2), flame["total"]
        span = call(s, "SelectMergeSpanProfile", {"profileTypeID": CPU, "labelSelector": "{}", **both,
                                                  "spanSelector": ["00000000000000aa", "00000000000000bb"]})[0]
        assert int(span["flamegraph"]["total"]) == 7_000_000
        assert call(s, "SelectMergeSpanProfile", {"profileTypeID": CPU, "labelSelector": "{}", **both,
                                                  "spanSelector": ["x|.*"]}, status=400)["code"] == "invalid_argument"


@test
def lines_honour_step_and_limit_and_lose_nothing():
    start = recent(40) // 60000 * 60000
    with Server() as s:
        c, total = Collector(), 0
        for w in range(24):
            rows = [row(("main",), w + 1, service="a", comm="x"), row(("main",), 100, service="b", comm="x"),
                    row(("main",), 1, comm="c")]
            total += w + 102
            assert s.post(c.message(start + w * 10000, rows)).status == STORED
        both = {"profileTypeID": CPU, "labelSelector": "{}", "start": start, "end": start + 240000}
        for step in (10, 15, 20, 30, 60, 86.4):
            content, decoded = call(s, "SelectSeries", {**both, "step": step, "groupBy": ["service_name"]})
            assert [ls["labels"][0]["value"] for ls in content["series"]] == ["b", "a", "c"], content
            points = [p for line in content["series"] for p in line["points"]]
            assert abs(sum(p["value"] for p in points) - total * PERIOD) < 10, step
            times = sorted({int(p["timestamp"]) for p in points})
            assert {b - a for a, b in zip(times, times[1:])} <= {int(step * 1000)}, (step, times)
            assert decoded["series"][0]["labels"] == [{"name": ["service_name"], "value": ["b"]}]
            got = [p["value"][0] for p in decoded["series"][0]["points"]]
            assert got == [p["value"] for p in content["series"][0]["points"]]
        # Steps of 15 s halve each second window: 10 s and half of the next, and the other half.
        line = call(s, "SelectSeries", {**both, "step": 15, "groupBy": ["service_name"]})[0]["series"][0]
        assert [p["value"] for p in line["points"]] == [150 * PERIOD] * 16, line
        content, _ = call(s, "SelectSeries", {**both, "step": 15, "groupBy": ["service_name"], "limit": 1})
        assert [ls["labels"][0]["value"] for ls in content["series"]] == ["b"]
        content, _ = call(s, "SelectSeries", {**both, "step": 60})
        assert len(content["series"]) == 1 and content["series"][0]["labels"] == []
        assert sum(p["value"] for p in content["series"][0]["points"]) == total * PERIOD
        content, _ = call(s, "SelectSeries", {**both, "step": 60, "aggregation":
                                              Name("TIME_SERIES_AGGREGATION_TYPE_AVERAGE"),
                                              "labelSelector": '{service_name="b"}'})
        assert [p["value"] for p in content["series"][0]["points"]] == [100 * PERIOD] * 4, content
        assert "steps" in call(s, "SelectSeries", {**both, "start": 1, "step": 10}, status=400)["message"]


@test
def a_pprof_has_the_type_that_was_asked_for_and_nothing_else():
    start = recent()
    with Server() as s:
        fill(s, start)
        # As Drilldown's function details ask, in the .proto's own names; and its export, in protobuf.
        content, decoded = call(s, "SelectMergeProfile", {
            "profile_typeID": CPU, "label_selector": '{service_name="shop"}', "start": start,
            "end": start + 40000, "stackTraceSelector": {"call_site": [{"name": "main"}, {"name": "handle"}]},
            "maxNodes": 500})
        strings = content["stringTable"]
        assert [(strings[int(t["type"])], strings[int(t["unit"])]) for t in content["sampleType"]] == \
            [("cpu", "nanoseconds")]
        assert sum(int(v["value"][0]) for v in content["sample"]) == PERIOD * (3 + 4 + 5 + 6 + 8)
        names = {strings[int(f["name"])] for f in content["function"]}
        assert names == {"main", "handle", "parse"}, names
        assert sum(sum(v["value"]) for v in decoded["sample"]) == PERIOD * (3 + 4 + 5 + 6 + 8)
        assert len(decoded["sample_type"]) == 1
        content, _ = call(s, "SelectMergeProfile", {"profileTypeID": SPACE, "labelSelector": "{}",
                                                    "start": start, "end": start + 40000})
        assert sorted(int(v["value"][0]) for v in content["sample"]) == [512, 2048]


@test
def two_profiles_are_compared():
    start = recent()
    with Server() as s:
        fill(s, start)
        left = {"profileTypeID": CPU, "labelSelector": '{service_name="shop"}', "start": start, "end": start + 10000}
        right = {**left, "start": start + 30000, "end": start + 40000}
        content, decoded = call(s, "Diff", {"left": left, "right": right})
        flame = content["flamegraph"]
        assert (int(flame["leftTicks"]), int(flame["rightTicks"])) == (5 * PERIOD, 8 * PERIOD)
        levels = [[int(v) for v in level["values"]] for level in flame["levels"]]
        assert stacks(flame["names"], levels, 7, 1) == {
            "main;handle;parse": 3 * PERIOD, "main;handle": 2 * PERIOD}
        assert stacks(flame["names"], levels, 7, 4) == {
            "main;handle;parse": 6 * PERIOD, "main;handle": 2 * PERIOD}
        assert [level["values"] for level in decoded["flamegraph"][0]["levels"]] == levels
        query = CPU + '{service_name="shop"}'
        status, body, _ = s.get("/pyroscope/render-diff", leftQuery=query, leftFrom=start,
                                leftUntil=start + 10000, rightQuery=query, rightFrom=start + 30000,
                                rightUntil=start + 40000, **{"max-nodes": 100})
        old = json.loads(body)
        assert status == 200 and old["flamebearer"]["levels"] == levels, body[:300]
        assert (old["leftTicks"], old["rightTicks"], old["metadata"]["format"]) == (
            5 * PERIOD, 8 * PERIOD, "double")


@test
def render_answers_json_with_a_timeline_and_a_graph():
    start = recent()
    with Server() as s:
        fill(s, start)
        params = {"query": CPU + '{service_name=~"shop|nginx"}', "from": start, "until": start + 40000}
        status, body, _ = s.get("/pyroscope/render", format="json", groupBy="service_name", **params)
        content = json.loads(body)
        assert status == 200 and content["version"] == 1
        flame = content["flamebearer"]
        wanted = folded(s, "cpu", start, start + 40000)
        assert stacks(flame["names"], flame["levels"]) == wanted
        assert flame["numTicks"] == sum(wanted.values()) == sum(content["timeline"]["samples"])
        assert content["metadata"] == {"format": "single", "spyName": "", "sampleRate": 1000000000,
                                       "units": "samples", "name": "cpu"}, content["metadata"]
        assert content["timeline"]["durationDelta"] == 15
        assert {k: sum(v["samples"]) for k, v in content["groups"].items()} == {
            "shop": PERIOD * (3 + 4 + 5 + 6 + 8), "nginx": 4 * PERIOD}
        status, body, headers = s.get("/pyroscope/render", format="dot", **params)
        text = body.decode()
        assert status == 200 and headers["Content-Type"].startswith("text/plain")
        assert text.startswith("digraph") and "parse\\n" in text and " -> " in text, text
        for bad in ({"format": "png"}, {"query": "cpu{"}, {"query": "a:b:c"}, {"from": "never"}, {"query": ""}):
            status, body, _ = s.get("/pyroscope/render", **{**params, **bad})
            assert status == 400 and json.loads(body)["error"], (bad, status, body)


@test
def a_query_is_analysed_and_settings_are_kept():
    start = recent()
    with Server() as s:
        fill(s, start)
        content, decoded = call(s, "AnalyzeQuery", {"start": start, "end": start + 40000,
                                                    "query": CPU + '{service_name="shop"}'})
        assert int(content["queryScopes"][0]["sampleCount"]) == 3 + 4 + 5 + 6 + 8, content
        assert int(content["queryImpact"]["totalQueriedSeries"]) == 2, content
        assert decoded["query_impact"][0]["total_bytes_in_time_range"][0] > 0
        service = "settings.v1.SettingsService"
        status, body, _ = s.request("POST", f"/{service}/Get", "{}", {"content-type": "application/json"})
        assert (status, json.loads(body)) == (200, {"settings": []}), body
        words = '{"collapsedFlamegraphs":true,\n"maxNodes":16384, "x":"ä<&"}'
        status, body, _ = s.request("POST", f"/{service}/Set", json.dumps(
            {"setting": {"name": "pluginSettings", "value": words}}), {"content-type": "application/json"})
        assert status == 200, body
        for _ in range(2):
            status, body, _ = s.request("POST", f"/{service}/Get", b"", {"Content-Type": "application/proto"})
            got = decode("pyroscope", "GetSettingsResponse", body)["settings"]
            assert [(g["name"], g["value"]) for g in got] == [(["pluginSettings"], [words])], got
            s.stop()
            s.start()
        for i in range(70):
            status, body, _ = s.request("POST", f"/{service}/Set", json.dumps(
                {"setting": {"name": f"n{i}", "value": "v"}}), {"content-type": "application/json"})
        assert status == 429 and "64" in json.loads(body)["message"], body


@test
def what_is_wrong_is_said_as_connect_says_it():
    with Server() as s:
        for method, request, words in (
                ("SelectSeries", {"profileTypeID": "cpu", "labelSelector": "{}"}, "type"),
                ("SelectSeries", {"profileTypeID": CPU, "labelSelector": "{a="}, "selector"),
                ("SelectSeries", {"profileTypeID": CPU, "start": "yesterday"}, "start"),
                ("LabelValues", {}, "name"), ("Diff", {}, "left"),
                ("Series", {"matchers": "{}"}, "list")):
            content = call(s, method, request, status=400)
            assert content["code"] == "invalid_argument" and words in content["message"], content
        for method, body, kind, status, code in (
                ("Nothing", b"{}", "application/json", 501, "unimplemented"),
                ("Series", b"{}", "text/plain", 415, "unimplemented"),
                ("Series", b"\xff\xff\xff", "application/proto", 400, "invalid_argument"),
                ("Series", b"[" * 30000, "application/json", 400, "invalid_argument"),
                ("Series", b" " * 70000, "application/json", 413, "resource_exhausted")):
            got, answer, _ = s.request("POST", f"/querier.v1.QuerierService/{method}", body, {"Content-Type": kind})
            assert (got, json.loads(answer)["code"]) == (status, code), (method, got, answer)
        # Through Grafana's proxy it is not the proxy's user who asks.
        got, answer, _ = s.request("POST", "/querier.v1.QuerierService/Series", b"{}", {
            "Content-Type": "application/json", "X-Forwarded-For": "10.0.0.1"})
        assert (got, json.loads(answer)["code"]) == (403, "permission_denied"), answer


if __name__ == "__main__":
    main()
