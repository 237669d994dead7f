"""spin: busy Python, in the interpreter's own C functions."""
import os
import signal
import sys

signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print(f"ready {os.getpid()}", flush=True)
table = {}
n = 0
while True:
    n = (n * 31 + 7) % 65521
    table[n] = sorted([n, n ^ 5, n ^ 9])[0] + len(str(n))
