"""Two threads that both want the interpreter all the time. Prints "ready PID"."""
import os
import threading


def burn():
    n = 0
    while True:
        n += 1


for _ in range(2):
    threading.Thread(target=burn, daemon=True).start()
print(f"ready {os.getpid()}", flush=True)
threading.Event().wait()
