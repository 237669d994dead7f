#!/usr/bin/env python3
"""The page's flame graph of 100,000 frames in Chromium, beside d3-flame-graph on the same data.

bench/page.mjs does it; this finds node and the packages, so that bench/run can start it like the others.
"""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

if __name__ == "__main__":
    sys.exit(subprocess.run(["node", os.path.join(ROOT, "bench", "page.mjs")]).returncode)
