"""Helpers for the tours of the vendors' Python SDKs. Each step has a name, which a failure prints."""

import sys
import time
import traceback

failed = []


class step:
    """`with step("name"):` prints `ok name` or the error, and continues with the next step."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is None:
            print(f"ok {self.name}", flush=True)
            return True
        if not isinstance(error, Exception):
            return False
        failed.append(self.name)
        print(f"FAILED {self.name}: {type(error).__name__}: {error}", flush=True)
        traceback.print_exception(kind, error, trace, file=sys.stdout)
        return True


def equal(actual, expected):
    if actual != expected:
        raise AssertionError(f"{actual!r} is not {expected!r}")


def raises(work, kind=Exception):
    try:
        work()
    except kind as error:
        return error
    raise AssertionError(f"it did not raise {kind}")


def eventually(work, seconds=10):
    """Waits until `work` returns something true."""
    end = time.monotonic() + seconds
    while True:
        value = work()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"it did not happen in {seconds} s")
        time.sleep(0.05)


def ended_on_time(gone, lifetime, started):
    """A sandbox lives at least its lifetime, and at most a second (and a request) longer."""
    eventually(gone, lifetime + 5)
    lived = time.monotonic() - started
    if not lifetime - 0.5 <= lived <= lifetime + 2:
        raise AssertionError(f"it lived {lived:.2f} s, not {lifetime}")


def finish():
    sys.exit(1 if failed else 0)
