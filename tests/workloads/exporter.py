"""Reads the state of every process each second, as exporters of metrics do: "exporter" by name."""
import os
import time

with open("/proc/self/comm", "w") as f:
    f.write("tr-exporter")
print("ready", os.getpid(), flush=True)
while True:
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("stat", "status", "io"):
            try:
                with open(f"/proc/{pid}/{name}") as f:
                    found[pid, name] = f.read()
            except OSError:
                pass  # it has ended meanwhile
    time.sleep(1)
