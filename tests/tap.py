"""Tests in Python that print TAP. A test file:

    from tap import test, main, skip
    @test
    def a_thing_works(): assert ..., "what was seen"
    main()
"""
import contextlib
import os
import signal
import sys
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
SMOLDER = os.path.join(BUILD, "smolder")
SOAK = bool(os.environ.get("SMOLDER_SOAK"))

_tests = []


class Skip(Exception):
    pass


def skip(why):
    raise Skip(why)


def test(fn):
    _tests.append(fn)
    return fn


def hurry():
    """Whatever else runs on this machine makes no test longer, nor its samples fewer. Needs root."""
    os.setpriority(os.PRIO_PROCESS, 0, -15)
    # Where the kernel shares out the CPU by session, that counts within this one only.
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as f:
        f.write("-15")


def hurry_along():
    """At the beginning of a session: like who began it."""
    if os.getpriority(os.PRIO_PROCESS, 0) < 0:
        hurry()


def main():
    # What the caller ignores (nohup, a job in the background) is not ignored by what is tested.
    for s in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(s) == signal.SIG_IGN:
            signal.signal(s, signal.default_int_handler if s == signal.SIGINT else signal.SIG_DFL)
    wanted = [a for a in sys.argv[1:] if not a.startswith("-")]
    failed = 0
    tests = [t for t in _tests if not wanted or any(w in t.__name__ for w in wanted)]
    print(f"1..{len(tests)}", flush=True)
    for n, fn in enumerate(tests, 1):
        name = fn.__name__.replace("_", " ")
        try:
            fn()
            print(f"ok {n} - {name}", flush=True)
        except Skip as e:
            print(f"ok {n} - {name} # SKIP {e}", flush=True)
        except BaseException as e:
            failed += 1
            print(f"not ok {n} - {name}", flush=True)
            for line in traceback.format_exc().splitlines():
                print(f"# {line}", flush=True)
            if isinstance(e, KeyboardInterrupt):
                raise
    sys.exit(1 if failed else 0)
