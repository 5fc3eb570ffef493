#!/usr/bin/env bash
# Linux 6.18, CPython 3.11 (subprocess, os.wait4), numpy 2.4.6 as an ordinary user of memory: ru_maxrss of a child is not the peak of
# the program that it runs. exec keeps what the process had before, and a child that vfork made has the memory of its parent until
# then. So /bin/true "takes" half a gigabyte if the harness that starts it has once held as much, even when all of it is freed:
# the parent's own peak counts. With preexec_fn, which makes subprocess call fork instead, the freed memory does not count, but
# memory that is still held does. A harness that makes its input in its own process, and then compares the peaks of small
# programs by wait4 or getrusage(RUSAGE_CHILDREN), compares itself with itself. VmHWM of /proc/PID/status begins anew at exec.
#
# Prints what it saw; fails if it is otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import os
import platform
import subprocess
import sys

import numpy


def peak(**how):
    """Of /bin/true, in MB, as wait4 has it."""
    child = subprocess.Popen(["/bin/true"], **how)
    _, _, usage = os.wait4(child.pid, 0)
    child.returncode = 0
    return usage.ru_maxrss // 1024


def own_peak():
    """Of a program after exec, in MB, as it reads it itself."""
    line = subprocess.run(["grep", "VmHWM", "/proc/self/status"], capture_output=True, text=True, check=True)
    return int(line.stdout.split()[1]) // 1024


def both():
    return peak(), peak(preexec_fn=lambda: None), own_peak()


before = both()
held = numpy.ones(64 << 20)
while_held = both()
del held
freed = both()
print(f"Linux {platform.release()}, Python {platform.python_version()}, numpy {numpy.__version__}")
print("a child's peak in MB: by wait4, by wait4 with preexec_fn, VmHWM of the child itself")
print("parent small:         ", *before)
print("parent holds 512 MB:  ", *while_held)
print("parent has freed them:", *freed)
small, large = 100, 500
expected = all(value < small for value in before)
expected &= while_held[0] > large and while_held[1] > large and while_held[2] < small
expected &= freed[0] > large and freed[1] < small and freed[2] < small
sys.exit(0 if expected else "this is not what was seen before")
PYTHON
