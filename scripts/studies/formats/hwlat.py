"""Runs hwlatdetect on the files of a tracer that does not exist.   hwlat.py HWLATDETECT LAYOUT [ARGUMENTS]

Few kernels have the tracer. A pipe plays the file that hwlatdetect reads it from, and has lines as the kernel prints them: LAYOUT is
"old", or "new" with the number of gaps in a window (Linux 5.14). Needs root, as hwlatdetect does.
"""
import builtins
import os
import runpy
import sys
import tempfile
import threading
import time

program, layout, *arguments = sys.argv[1:]
GAPS = [(1503508231.541325, 16, 0, 3), (1503508240.041325, 12, 345, 1), (1503508255.941326, 0, 22, 2), (1503508256.5, 17, 18, 1)]
home = tempfile.mkdtemp()
tracing = os.path.join(home, "tracing")
os.makedirs(os.path.join(tracing, "hwlat_detector"))
for name, content in (("hwlat_detector/width", "500000"), ("hwlat_detector/window", "1000000"), ("tracing_on", "0"),
                      ("tracing_thresh", "10"), ("current_tracer", "nop"), ("tracing_cpumask", "3")):
    with open(os.path.join(tracing, name), "w") as file:
        file.write(content + "\n")
pipe = os.path.join(tracing, "trace_pipe")
os.mkfifo(pipe)


def write_gaps():
    # A reader takes one line and drops the rest of what it has read. The pipe is open for reading as well, so that it always has a reader.
    with os.fdopen(os.open(pipe, os.O_RDWR), "wb", buffering=0) as file:
        for i, (at, inner, outer, count) in enumerate(GAPS):
            time.sleep(0.3)
            more = f" count:{count}" if layout == "new" else ""
            file.write((f"           <...>-1638    [00{i % 2}] d...   300.{i:06}: #{i + 1}    inner/outer(us): {inner:4}/{outer:<5} ts:{at:.9f}{more}\n").encode())
        time.sleep(2)


real_open = builtins.open


def open_file(file, *rest, **more):
    if file == "/proc/mounts":
        file = os.path.join(home, "mounts")
    return real_open(file, *rest, **more)


with open(os.path.join(home, "mounts"), "w") as file:
    file.write(f"debugfs {home} debugfs rw 0 0\n")
builtins.open = open_file
threading.Thread(target=write_gaps, daemon=True).start()
sys.argv = [program, *arguments]
runpy.run_path(program, run_name="__main__")
