"""Protobuf messages by the published definitions (tests/protocols), through `protoc`: nothing of the
program's own code is in what encodes and decodes them.

    encode("pyroscope", "SeriesRequest", {"label_names": ["a", "b"], "start": 1})
    decode("pyroscope", "SeriesResponse", answer) -> {"labels_set": [{"labels": [...]}]}

A message is a dict; what a field is given more than once is a list. Decoded, every field is a list.
"""
import gzip
import json
import os
import re
import subprocess

from tap import ROOT

PROTOCOLS = os.path.join(ROOT, "tests", "protocols")
PACKAGES = {"google": "google.v1"}


class Name(str):
    """A value of an enum, by its name."""


def text_of(message, indent=""):
    out = []
    for name, values in message.items():
        for v in values if isinstance(values, list) else [values]:
            if isinstance(v, dict):
                out.append(f"{indent}{name} {{\n{text_of(v, indent + ' ')}{indent}}}\n")
            elif isinstance(v, bytes):
                quoted = "".join(f"\\{b:03o}" for b in v)
                out.append(f'{indent}{name}: "{quoted}"\n')
            elif isinstance(v, Name):
                out.append(f"{indent}{name}: {v}\n")
            elif isinstance(v, bool):
                out.append(f"{indent}{name}: {str(v).lower()}\n")
            else:
                out.append(f"{indent}{name}: {json.dumps(v, ensure_ascii=True) if isinstance(v, str) else v}\n")
    return "".join(out)


def protoc(how, file, message, given):
    name = f"{PACKAGES.get(file, file)}.{message}"
    p = subprocess.run(["protoc", f"-I{PROTOCOLS}", f"--{how}={name}", f"{PROTOCOLS}/{file}.proto"],
                       input=given, capture_output=True, timeout=60)
    assert p.returncode == 0, p.stderr.decode()
    return p.stdout


def encode(file, message, content):
    return protoc("encode", file, message, text_of(content).encode())


def unquote(s):
    raw = re.sub(rb"\\([0-7]{1,3}|[nrt\"'\\])", lambda m: {b"n": b"\n", b"r": b"\r", b"t": b"\t"}.get(
        m[1], bytes([int(m[1], 8)]) if m[1].isdigit() else m[1]), s)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def decode(file, message, data):
    """Fields that the definition does not have would be numbers: then the test fails."""
    root, stack = {}, []
    at = root
    for line in protoc("decode", file, message, data).splitlines():
        line = line.strip()
        if line == b"}":
            at = stack.pop()
        elif line.endswith(b" {"):
            name = line[:-2].decode()
            assert not name.isdigit(), f"{message} has no field {name}"
            stack.append(at)
            at.setdefault(name, []).append({})
            at = at[name][-1]
        else:
            name, value = line.split(b": ", 1)
            assert not name.isdigit(), f"{message} has no field {name}"
            name = name.decode()
            if value.startswith(b'"'):
                v = unquote(value[1:-1])
            else:
                v = value.decode()
                v = v == "true" if v in ("true", "false") else \
                    float(v) if re.search(r"[.e]|inf|nan", v) and not v.isidentifier() else \
                    int(v) if re.fullmatch(r"-?\d+", v) else v
            at.setdefault(name, []).append(v)
    assert not stack
    return root


def pprof(types, samples, period=None, start_s=None, seconds=0, packed=True):
    """types: [("cpu", "nanoseconds"), ...]; samples: [(("main", "leaf"), (1, 2), {label: value}), ...],
    stacks root first. A label that is a number is one in the file, too."""
    strings = [""]

    def s(word):
        if word not in strings:
            strings.append(word)
        return strings.index(word)

    functions, out = {}, []
    for stack, values, labels in samples:
        ids = [functions.setdefault(f, len(functions) + 1) for f in stack]
        out.append({"location_id": ids[::-1], "value": list(values), "label": [
            {"key": s(k), "num": v} if isinstance(v, int) else {"key": s(k), "str": s(v)}
            for k, v in labels.items()]})
    message = {
        "sample_type": [{"type": s(t), "unit": s(u)} for t, u in types],
        "sample": out,
        "location": [{"id": i, "line": {"function_id": i}} for i in functions.values()],
        "function": [{"id": i, "name": s(f)} for f, i in functions.items()],
    }
    if period:
        message["period_type"] = {"type": s(period[0]), "unit": s(period[1])}
        message["period"] = period[2]
    if start_s:
        message["time_nanos"] = int(start_s * 1e9)
        message["duration_nanos"] = int(seconds * 1e9)
    message["string_table"] = strings
    data = encode("google", "Profile", message)
    return gzip.compress(data) if packed else data
