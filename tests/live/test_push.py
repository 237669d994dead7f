#!/usr/bin/env python3
"""Profiles that programs push: what is stored is what was sent, under its types and labels; what is
refused says why, and is counted."""
import base64
import gzip
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from always import until  # noqa: E402
from messages import encode, pprof  # noqa: E402
from server import Server, check_metrics  # noqa: E402
from tap import ROOT, main, skip, test  # noqa: E402

CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
GO_CPU = ([("samples", "count"), ("cpu", "nanoseconds")],
          [(("main", "work", "leaf"), (3, 30_000_000), {}),
           (("main", "work"), (1, 10_000_000), {"handler": "/a"}),
           (("main", "idle"), (2, 20_000_000), {"bytes": 4096})])
HEAP_TYPES = [("alloc_objects", "count"), ("alloc_space", "bytes"),
              ("inuse_objects", "count"), ("inuse_space", "bytes")]


def now_s(ago=60):
    return int(time.time()) // 10 * 10 - ago


def folded(server, query, **more):
    status, body, _ = server.get("/api/v1/query", query=query, format="folded", **{
        "from": "now-2h", "to": "now+1h", **more})
    assert status == 200, (status, body)
    return {k: int(v) for k, v in (line.rsplit(" ", 1) for line in body.decode().splitlines())}


def values(server, label, query):
    return server.json(f"/api/v1/labels/{label}/values", query=query, **{
        "from": "now-2h", "to": "now+1h"})["values"]


def metric(server, name, **labels):
    text = server.get("/metrics")[1].decode()
    check_metrics(text)
    wanted = "".join(f'{k}="{v}"' for k, v in labels.items())
    found = re.search(rf"^smolder_{name}{re.escape('{' + wanted + '}') if wanted else ''} (\S+)$", text, re.M)
    return float(found[1]) if found else 0


def said(answer):
    status, body, headers = answer
    content = json.loads(body)
    return status, content.get("error") or content.get("message")


@test
def a_pprof_is_stored_under_each_of_its_types_with_the_labels_that_were_asked_for():
    start = now_s()
    with Server() as s:
        body = pprof(*GO_CPU, period=("cpu", "nanoseconds", 10_000_000), start_s=start, seconds=10)
        status, answer, _ = s.request("POST", "/api/v1/ingest?service=shop&env=prod", body)
        assert (status, answer) == (200, b"{}\n"), (status, answer)
        types = s.json("/api/v1/types", **{"from": "now-2h"})["types"]
        assert types == [CPU, "process_cpu:samples:count:cpu:nanoseconds"], types
        assert folded(s, CPU + '{service="shop",env="prod"}') == {
            "main;work;leaf": 30_000_000, "main;work": 10_000_000, "main;idle": 20_000_000}
        assert folded(s, "process_cpu:samples:count:cpu:nanoseconds") == {
            "main;work;leaf": 3, "main;work": 1, "main;idle": 2}
        # A sample's own word is a label; its own number would be a series for each value.
        assert folded(s, CPU + '{handler="/a"}') == {"main;work": 10_000_000}
        assert s.json("/api/v1/labels", query=CPU, **{"from": "now-2h"})["labels"] == [
            "env", "handler", "service"]
        # It is in the store at the time that it says, in the file that a restart reads.
        line = s.json("/api/v1/series", query=CPU, step="10s", **{"from": start, "to": start + 20})
        assert line["lines"][0]["values"][0] == 60_000_000 and line["covered"][0] == 1, line
        s.stop()
        s.start()
        assert sum(folded(s, CPU).values()) == 60_000_000


@test
def what_was_taken_is_stored_or_lost_exactly():
    with Server() as s:
        sent = 0
        for i in range(5):
            samples = [(("main", f"f{n}"), (n + 1, (n + 1) * 1000), {}) for n in range(i * 20 + 1)]
            sent += 2 * sum(v[0] for _, v, _ in samples)  # of both types
            status, _, _ = s.request("POST", "/api/v1/ingest?service=a", pprof(GO_CPU[0], samples))
            assert status == 200
        assert metric(s, "samples_taken_total") == metric(s, "samples_stored_total") == sent
        assert metric(s, "pushed_samples_total") == sent
        assert metric(s, "pushed_profiles_total") == 10 and metric(s, "pushes_stored_total") == 5
        # Refused as a whole: not taken.
        status, why = said(s.request("POST", "/api/v1/ingest?service=a&from=2001-01-01",
                                     pprof(*GO_CPU)))
        assert status == 400 and "older than the retention" in why, why
        assert metric(s, "samples_taken_total") == sent
        assert metric(s, "pushes_refused_total", reason="time") == 1


@test
def a_heap_profile_has_four_types_with_bytes_and_counts():
    with Server() as s:
        samples = [(("main", "make"), (10, 10240, 2, 2048), {"bytes": 1024}),
                   (("main", "keep"), (1, 4096, 1, 4096), {"bytes": 4096}),
                   (("main", "gone"), (7, 700, 0, 0), {"bytes": 100})]
        body = pprof(HEAP_TYPES, samples, period=("space", "bytes", 524288))
        assert s.request("POST", "/api/v1/ingest?service=a", body)[0] == 200
        for kind, unit, column in (("alloc_objects", "count", 0), ("alloc_space", "bytes", 1),
                                   ("inuse_objects", "count", 2), ("inuse_space", "bytes", 3)):
            got = folded(s, f"memory:{kind}:{unit}:space:bytes")
            assert got == {";".join(st): v[column] for st, v, _ in samples if v[column]}, (kind, got)


@test
def states_of_two_programs_add_up():
    start, kind = now_s(120), "goroutine:goroutine:count:goroutine:count"
    with Server() as s:
        for service, count, until_s in (("a", 10, 60), ("b", 20, 60), ("c", 30, 30)):
            body = pprof([("goroutine", "count")], [(("main", "wait"), (count,), {})], period=("goroutine", "count", 1))
            answer = s.request("POST", f"/api/v1/ingest?service={service}&from={start}&to={start + until_s}", body)
            assert answer[0] == 200, answer
        when = {"from": start, "to": start + 60}
        # Half of the minute it was 60, then 30.
        assert folded(s, kind, **when) == {"main;wait": 45}
        assert folded(s, kind + '{service!="c"}', **when) == {"main;wait": 30}
        assert folded(s, kind, **{"from": start, "to": start + 30}) == {"main;wait": 60}
        line = s.json("/api/v1/series", query=kind, step="10s", **when)
        assert [one["values"] for one in line["lines"]] == [[60] * 3 + [30] * 3], line
        lines = s.json("/api/v1/series", query=kind, step="10s", by="service", **when)["lines"]
        assert sorted(one["values"] for one in lines) == [[10] * 6, [20] * 6, [30] * 3 + [0] * 3], lines


@test
def pyroscopes_old_way_takes_folded_lines_pprof_and_forms():
    start = now_s()
    common = f"from={start}&until={start + 10}"
    with Server() as s:
        def ingest(query, body, content_type=None, path="/ingest"):
            headers = {"Content-Type": content_type} if content_type else {}
            answer = s.request("POST", f"{path}?{common}&{query}", body, headers)
            assert answer[0] == 200, answer
        ingest("name=one.cpu{env=prod,zone=a}&sampleRate=100", b"main;a;b 3\nmain;a 1\n")
        assert folded(s, CPU + '{service="one",env="prod",zone="a"}') == {
            "main;a;b": 30_000_000, "main;a": 10_000_000}
        ingest("name=two&format=lines&sampleRate=50", b"main;a\nmain;a\nmain;b",
               path="/pyroscope/ingest")
        assert folded(s, CPU + '{service_name="two"}') == {"main;a": 40_000_000, "main;b": 20_000_000}
        ingest("name=three.alloc_space", b"main;a 4096\n")
        assert folded(s, 'memory:alloc_space:bytes:space:bytes{service="three"}') == {"main;a": 4096}
        ingest("name=four&units=objects", b"main;a 7\n")
        assert folded(s, 'memory:alloc_objects:count:space:bytes{service="four"}') == {"main;a": 7}
        ingest("name=five{k=v}&format=pprof", pprof(*GO_CPU))
        assert sum(folded(s, CPU + '{service="five",k="v"}').values()) == 60_000_000
        ingest("name=six.wall&aggregationType=average&units=samples", b"main;a 2\n")
        assert folded(s, 'wall:wall:nanoseconds:wall:nanoseconds{service="six"}') == {
            "main;a": 20_000_000}

        def form(**parts):
            out = b""
            for name, data in parts.items():
                out += (f'--xYz\r\nContent-Disposition: form-data; name="{name}"; '
                        f'filename="{name}"\r\nContent-Type: text/json\r\n\r\n').encode() + data + b"\r\n"
            return out + b"--xYz--\r\n"
        kind = "multipart/form-data; boundary=xYz"
        lock = pprof([("contentions", "count"), ("delay", "nanoseconds")],
                     [(("main", "lock"), (2, 500), {})], period=("contentions", "count", 1))
        ingest("name=seven", form(profile=lock, sample_type_config=json.dumps({
            "contentions": {"display-name": "mutex_count", "units": "lock_samples"},
            "delay": {"display-name": "mutex_duration", "units": "lock_nanoseconds"}}).encode()), kind)
        assert folded(s, "mutex:delay:nanoseconds:contentions:count") == {"main;lock": 500}
        # What only ever grows would be counted again and again: it is left out, and that is told.
        heap = pprof(HEAP_TYPES, [(("main",), (1, 2, 3, 4), {})], period=("space", "bytes", 1))
        grows = {k: {"cumulative": k.startswith("alloc")} for k, _ in HEAP_TYPES}
        ingest("name=eight", form(sample_type_config=json.dumps(grows).encode(), profile=heap), kind)
        assert folded(s, 'memory:inuse_space:bytes:space:bytes{service="eight"}') == {"main": 4}
        assert folded(s, 'memory:alloc_space:bytes:space:bytes{service="eight"}') == {}
        assert metric(s, "pushed_types_accumulated_total") == 2
        # All of them at their time.
        line = s.json("/api/v1/series", query=CPU, step="10s", **{"from": start, "to": start + 10})
        assert line["lines"][0]["values"] == [40_000_000 + 60_000_000 + 60_000_000], line


@test
def pyroscopes_new_way_takes_protobuf_and_json_plain_and_packed():
    path = "/push.v1.PusherService/Push"
    with Server() as s:
        def message(name, profile):
            return {"series": [{"labels": [{"name": "__name__", "value": "process_cpu"},
                                           {"name": "service_name", "value": name},
                                           {"name": "__session_id__", "value": "1"}],
                                "samples": [{"raw_profile": profile, "ID": "x"}]}]}
        body = encode("pyroscope", "PushRequest", message("proto", pprof(*GO_CPU)))
        for name, data, headers in (
                ("proto", body, {"Content-Type": "application/proto", "Connect-Protocol-Version": "1"}),
                ("packed", gzip.compress(encode("pyroscope", "PushRequest",
                                                message("packed", pprof(*GO_CPU, packed=False)))),
                 {"Content-Type": "application/proto", "Content-Encoding": "gzip"}),
                ("json", json.dumps({"series": [{"labels": [{"name": "service_name", "value": "json"}],
                                                 "samples": [{"rawProfile": base64.b64encode(
                                                     pprof(*GO_CPU)).decode(), "ID": "y"}]}]}),
                 {"Content-Type": "application/json"})):
            status, answer, got = s.request("POST", path, data, headers)
            assert status == 200 and got["Content-Type"] == headers["Content-Type"], (name, status, answer)
            assert answer in (b"", b"{}\n"), answer
            assert sum(folded(s, CPU + f'{{service="{name}"}}').values()) == 60_000_000, name
        # Its errors are Connect's.
        for data, headers, code in (
                (b"\xff\xff", {"Content-Type": "application/proto"}, "invalid_argument"),
                (b"{", {"Content-Type": "application/json"}, "invalid_argument"),
                (body, {"Content-Type": "text/plain"}, "unimplemented")):
            status, answer, _ = s.request("POST", path, data, headers)
            assert status in (400, 415) and json.loads(answer)["code"] == code and \
                json.loads(answer)["message"], (status, answer)


def otlp(service, samples, start_s):
    """samples: [(stack, values, thread)]; as OpenTelemetry's profiler sends them, 100 a second."""
    strings = ["", "samples", "count", "cpu", "nanoseconds", "thread.name", "app", "profile.frame.type", "go"]
    functions, stacks, attributes, out = {}, [], [{}, {"key_strindex": 7, "value": {"string_value_strindex": 8}}], []
    for stack, values, thread in samples:
        for f in stack:
            if f not in functions:
                strings.append(f)
                functions[f] = (len(functions) + 1, len(strings) - 1)
        stacks.append({"location_indices": [functions[f][0] for f in stack][::-1]})
        attributes.append({"key_strindex": 5, "value": {"string_value": thread}})
        out.append({"stack_index": len(stacks), "attribute_indices": [len(attributes) - 1],
                    "link_index": 1, "values": values})
    return {"resource_profiles": [{
        "resource": {"attributes": [{"key": "service.name", "value": {"string_value": service}},
                                    {"key": "process.pid", "value": {"int_value": 42}}]},
        "scope_profiles": [{"profiles": [{
            "sample_type": {"type_strindex": 1, "unit_strindex": 2}, "samples": out,
            "time_unix_nano": int(start_s * 1e9), "duration_nano": 5_000_000_000,
            "period_type": {"type_strindex": 3, "unit_strindex": 4}, "period": 10_000_000}]}]}],
        "dictionary": {
            "mapping_table": [{}, {"memory_start": 4096, "filename_strindex": 6}],
            "location_table": [{}] + [{"mapping_index": 1, "address": 4096 + 16 * i,
                                       "lines": [{"function_index": i, "line": 7}], "attribute_indices": [1]}
                                      for i, _ in functions.values()],
            "function_table": [{}] + [{"name_strindex": n} for _, n in functions.values()],
            "link_table": [{}, {"trace_id": bytes(range(16)), "span_id": bytes(range(8))}],
            "string_table": strings, "attribute_table": attributes, "stack_table": [{}] + stacks}}


def camel(message):
    """A message as OTLP's JSON has it: ids in hex, numbers of 64 bits as strings."""
    if isinstance(message, list):
        return [camel(m) for m in message]
    if isinstance(message, bytes):
        return message.hex()
    if not isinstance(message, dict):
        return message
    return {re.sub("_(.)", lambda m: m[1].upper(), k):
            str(v) if k in ("time_unix_nano", "duration_nano", "period", "int_value") else camel(v)
            for k, v in message.items()}


@test
def opentelemetrys_profiles_come_as_protobuf_and_json():
    start = now_s()
    samples = [(("main", "handle"), [3], "io"), (("main", "handle", "parse"), [2], "io"),
               (("main",), [1, 1], "gc")]
    with Server() as s:
        for name, data, kind, packed in (
                ("proto", encode("otlp", "ExportProfilesServiceRequest", otlp("proto", samples, start)),
                 "application/x-protobuf", False),
                ("packed", encode("otlp", "ExportProfilesServiceRequest", otlp("packed", samples, start)),
                 "application/x-protobuf", True),
                ("json", json.dumps(camel(otlp("json", samples, start))).encode(),
                 "application/json", False)):
            headers = {"Content-Type": kind, **({"Content-Encoding": "gzip"} if packed else {})}
            status, answer, got = s.request("POST", "/v1development/profiles",
                                            gzip.compress(data) if packed else data, headers)
            assert status == 200 and got["Content-Type"] == kind, (name, status, answer)
            query = CPU + f'{{service="{name}",pid="42"}}'
            # Samples of a clock are time: their number, times the period.
            assert folded(s, query) == {"main;handle": 30_000_000, "main;handle;parse": 20_000_000,
                                        "main": 20_000_000}, folded(s, query)
            assert folded(s, CPU + f'{{service="{name}",thread="gc"}}') == {"main": 20_000_000}
            # A span is no label of its series; samples are found by it, and by its trace.
            assert values(s, "span_id", query) == []
            for one in ('span_id="0001020304050607"', f'trace_id="{bytes(range(16)).hex()}"'):
                in_span = CPU + f'{{service="{name}",{one}}}'
                assert folded(s, in_span) == folded(s, query), folded(s, in_span)
            assert folded(s, CPU + f'{{service="{name}",span_id="ff01020304050607"}}') == {}
            line = s.json("/api/v1/series", query=query, step="10s", **{"from": start, "to": start + 10})
            assert sum(line["lines"][0]["values"]) == 70_000_000, line
        for data in (b"\x0a\x05hello", b"\x12\x02\x3a\x09", b"\xff" * 40):
            status, why = said(s.request("POST", "/v1development/profiles", data,
                                         {"Content-Type": "application/x-protobuf"}))
            assert status == 400 and "1.11" in why, (status, why)
        bad = otlp("bad", samples, start)
        bad["dictionary"]["stack_table"] = [{}]
        status, why = said(s.request("POST", "/v1development/profiles", encode(
            "otlp", "ExportProfilesServiceRequest", bad), {"Content-Type": "application/x-protobuf"}))
        assert status == 400 and "stack" in why, (status, why)


@test
def what_is_refused_says_why_and_is_counted():
    good = pprof(*GO_CPU)
    with Server() as s:
        cases = (
            ("/api/v1/ingest?service=a", b"", 400, "empty", "malformed"),
            ("/api/v1/ingest?service=a", b"not a profile", 400, "cannot be read", "malformed"),
            ("/api/v1/ingest?service=a", good[:-20], 400, "cannot be read", "malformed"),
            ("/api/v1/ingest?service=a&from=never", good, 400, "from: ", "malformed"),
            ("/api/v1/ingest?" + "&".join(f"l{i}=x" for i in range(40)), good, 400,
             "more than 32 labels", "labels"),
            ("/api/v1/ingest?a=" + "x" * 2000, good, 400, "too long", "labels"),
            ("/ingest", b"a 1", 400, "name", "malformed"),
            ("/ingest?name=x&format=jfr", b"FLR\0", 415, "jfr", "malformed"),
            ("/ingest?name=x&units=furlongs", b"a 1", 400, "furlongs", "malformed"),
            ("/ingest?name=x&sampleRate=0", b"a 1", 400, "sampleRate", "malformed"),
            ("/ingest?name=x{a", b"a 1", 400, "{", "malformed"),
            ("/ingest?name=x", b"no numbers here\n", 400, "number", "malformed"),
            ("/ingest?name=x&from=123abc", b"a 1", 400, "from", "malformed"),
            ("/api/v1/ingest?service=a", gzip.compress(b"\x32\x00" * (40 << 20)), 413, "64 MB", "too_large"),
        )
        counted = {}
        for path, body, status, words, reason in cases:
            got, why = said(s.request("POST", path, body))
            assert got == status and words in why, (path, got, why)
            counted[reason] = counted.get(reason, 0) + 1
        for reason, count in counted.items():
            assert metric(s, "pushes_refused_total", reason=reason) == count, reason
        assert metric(s, "samples_taken_total") == 0
        # A body that says it is larger than any may be is not even read.
        assert s.request("POST", "/api/v1/ingest", None, {"Content-Length": str(1 << 30)})[0] == 413
        status, why = said(s.request("POST", "/api/v1/ingest?a=b", good, {"Content-Encoding": "br"}))
        assert status == 415 and "gzip" in why, why


@test
def large_bodies_share_a_limited_memory():
    with Server() as s:
        mine = []
        head = b"POST /ingest?name=x HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
        for _ in range(6):
            c = socket.create_connection((s.host, s.port), timeout=30)
            c.sendall(head % (16 << 20) + b"a;b 1\n" * (2 << 20))
            mine.append(c)
        body = b"main;work 1\n" * 100_000
        until("the memory to be full", lambda: s.request("POST", "/ingest?name=y", body)[0] == 503)
        assert metric(s, "http_crowded_out_total") >= 1
        with open(f"/proc/{s.process.pid}/status", encoding="utf-8") as f:
            assert int(re.search(r"VmRSS:\s*(\d+)", f.read())[1]) < 160 << 10
        assert s.request("POST", "/api/v1/windows", b"x")[0] == 400  # windows are not held up
        for c in mine:
            c.close()
        until("the memory to be free", lambda: s.request("POST", "/ingest?name=y", body)[0] == 200)


@test
def who_may_write_is_who_may_send_windows():
    with Server("--token-file", "/dev/stdin", stdin=open_token()) as s:
        for path in ("/api/v1/ingest?a=b", "/ingest?name=x", "/pyroscope/ingest?name=x"):
            behind = {"X-Forwarded-For": "10.0.0.1"}  # whoever it is, it is not who owns the connection
            assert s.request("POST", path, b"main 1", behind)[0] == 401
            assert s.request("GET", path)[0] == 405
            headers = {**behind, "Authorization": "Bearer " + TOKEN}
            assert s.request("POST", path, pprof(*GO_CPU) if "api" in path else b"main 1",
                             headers)[0] == 200
        status, body, _ = s.request("POST", "/push.v1.PusherService/Push", b"", {
            "X-Forwarded-For": "10.0.0.1", "Content-Type": "application/proto"})
        assert status == 401 and json.loads(body)["code"] == "unauthenticated", (status, body)


@test
def pyroscopes_client_for_node_pushes_to_it():
    if not os.path.isdir(os.path.join(ROOT, "tests/browser/node_modules/@pyroscope/nodejs")):
        skip("@pyroscope/nodejs is not installed: 'tools/deps test' does that")
    with Server() as s:
        p = subprocess.run(["node", os.path.join(ROOT, "tests/browser/pusher.mjs"), s.url, "4"],
                           capture_output=True, text=True, timeout=120)
        assert p.returncode == 0, p.stderr
        assert metric(s, "pushes_stored_total") >= 1, (p.stderr, s.get("/metrics")[1].decode()[:3000])
        refused = [line for line in s.get("/metrics")[1].decode().splitlines()
                   if line.startswith("smolder_pushes_refused_total{")]
        assert not refused, refused
        types = s.json("/api/v1/types", **{"from": "now-2h", "to": "now+1h"})["types"]
        wall = next((t for t in types if t.startswith("wall:wall:nanoseconds:")), None)
        assert wall, types
        stacks = folded(s, wall + '{service="primes",region="here"}')
        # It takes far more than anything else that the program does.
        assert "busyWithPrimes" in max(stacks, key=stacks.get), stacks
        busy = sum(v for k, v in stacks.items() if "busyWithPrimes" in k)
        assert 1e9 < busy < 60e9, stacks


TOKEN = "0123456789abcdef0123456789abcdef"


def open_token():
    read, write = os.pipe()
    os.write(write, TOKEN.encode() + b"\n")
    os.close(write)
    return read


@test
def a_flood_of_labels_is_refused_beyond_the_cap_and_takes_no_memory():
    body = pprof([("cpu", "nanoseconds")], [(("main", "work"), (1000,), {})])
    with Server() as s:
        def resident():
            with open(f"/proc/{s.process.pid}/status", encoding="utf-8") as f:
                return int(re.search(r"VmRSS:\s*(\d+)", f.read())[1])
        c = http.client.HTTPConnection(s.host, s.port, timeout=60)
        answers, at = {}, {}
        for i in range(10_000):
            c.request("POST", f"/api/v1/ingest?service=flood&request={i}", body)
            r = c.getresponse()
            words = r.read()
            answers[r.status] = answers.get(r.status, 0) + 1
            if r.status == 429:
                assert b"sets of labels" in words, words
            if i in (5_500, 9_999):
                at[i] = resident()
        assert answers == {200: 5000, 429: 5000}, answers
        assert at[9_999] < at[5_500] + 2048, at
        assert at[9_999] < 128 << 10, at
        assert metric(s, "pushes_refused_total", reason="series") == 5000
        assert metric(s, "pushed_series") == 5000
        # Whoever was there before is still taken, and loses none of its own.
        c.request("POST", "/api/v1/ingest?service=flood&request=7", body)
        assert c.getresponse().status == 200
        c.close()
        assert folded(s, 'cpu:x') == {} and sum(folded(s, CPU).values()) == 5001 * 1000


@test
def labels_of_samples_never_keep_a_program_out():
    with Server() as s:
        for i in range(4):
            samples = [(("main", "work"), (1,), {"span_id": f"{i}-{n}"}) for n in range(1000)]
            assert s.request("POST", "/api/v1/ingest?service=a",
                             pprof([("cpu", "nanoseconds")], samples))[0] == 200
        assert folded(s, CPU) == {"main;work": 4000}
        assert metric(s, "pushed_samples_without_labels_total") == 1500
        assert metric(s, "pushed_series") == 2501, metric(s, "pushed_series")
        assert s.request("POST", "/api/v1/ingest?service=b", pprof(*GO_CPU))[0] == 200


if __name__ == "__main__":
    main()
