"""One thread computes, and three others want the interpreter's lock a thousand times a second. "calm": twenty times."""
import os
import sys
import threading
import time

pause = 0.05 if sys.argv[1:] == ["calm"] else 0.001
with open("/proc/self/comm", "w") as f:
    f.write("tr-calm-gil" if sys.argv[1:] else "tr-gil")


def ask():
    while True:
        time.sleep(pause)


def compute():
    n = 0
    while True:
        n = (n * 31 + 7) % 1000003


for _ in range(3):
    threading.Thread(target=ask, daemon=True).start()
print("ready", os.getpid(), flush=True)
compute()
