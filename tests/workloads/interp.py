"""Python that calls much of its own C: sorting with a key, regular expressions, JSON, generators."""
import hashlib
import json
import os
import re

print("ready", os.getpid(), flush=True)


def recurse(n):
    return n if n == 0 else recurse(n - 1) + 1


def key(x):
    return -x


while True:
    sorted(range(2000), key=key)
    json.loads(json.dumps({str(i): [i] * 5 for i in range(200)}))
    re.sub(r"(\w+) (\w+)", lambda m: m[2] + m[1], "some words " * 200)
    hashlib.sha256(b"x" * 100000).hexdigest()
    sum(recurse(i % 50) for i in range(200))
