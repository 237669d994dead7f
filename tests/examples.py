"""The command lines that README.md and the manual pages show."""
import os
import re

from tap import ROOT


def examples():
    """(document, line) of each with smolder in it."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        for block in re.findall(r"^```sh\n(.*?)^```", f.read(), re.M | re.S):
            yield from (("README.md", line) for line in block.splitlines() if "smolder" in line)
    for page in sorted(os.listdir(os.path.join(ROOT, "man"))):
        with open(os.path.join(ROOT, "man", page), encoding="utf-8") as f:
            for line in re.findall(r"^\.Dl (.*smolder .*)$", f.read(), re.M):
                yield page, line
