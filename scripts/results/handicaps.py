"""Handicaps for a machine: known disturbances that osjitter must find."""

import contextlib
import ctypes
import os
import pathlib
import subprocess
import sys
import time

HOG = [sys.executable, "-c", "while True: pass"]
# Busy for 2 ms out of every 4 ms.
HALF_A_HOG = [sys.executable, "-c", """
import time
while True:
    end = time.perf_counter() + 0.002
    while time.perf_counter() < end: pass
    time.sleep(0.002)
"""]
PR_SET_TIMERSLACK = 29


@contextlib.contextmanager
def hogs(count, nice=0, cpu=None, real_time=False):
    """Runs busy loops on any CPU or on one. In a real-time class, they are busy for half of the time."""
    def prepare():
        os.nice(nice)
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})
        if real_time:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(20))
    command = HALF_A_HOG if real_time else HOG
    processes = [subprocess.Popen(command, preexec_fn=prepare) for _ in range(count)]
    time.sleep(0.2)
    try:
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


@contextlib.contextmanager
def quota(share):
    """Creates a control group with a CPU quota (v1 or v2) and yields a function that moves the process into it."""
    v1, v2 = pathlib.Path("/sys/fs/cgroup/cpu"), pathlib.Path("/sys/fs/cgroup")
    root = v1 if v1.is_dir() else v2
    group = root / f"osjitter-handicap-{os.getpid()}"
    group.mkdir()
    period_us = 100_000
    try:
        if root == v1:
            (group / "cpu.cfs_period_us").write_text(str(period_us))
            (group / "cpu.cfs_quota_us").write_text(str(int(share * period_us)))
        else:
            (group / "cpu.max").write_text(f"{int(share * period_us)} {period_us}")
        yield lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
    finally:
        group.rmdir()


def set_timer_slack(ns):
    """Sets the timer slack of this process and of the program that it executes."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(ns)) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
