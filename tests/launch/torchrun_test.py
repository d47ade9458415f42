#!/usr/bin/env python3
"""Under torchrun, its own summary tells why a job failed, and whose fault it was.

Usage: torchrun_test.py TORCHRUN LAUNCH_MEMBER
"""

import re
import subprocess
import sys

torchrun, member = sys.argv[1:]
for how, status, text in ("bad-input", 2, "there is no data in 'x'"), ("error", 1, "no sample 7"):
    # Standalone: on a port that is free, not on one that is the same for all.
    done = subprocess.run([torchrun, "--standalone", "--no-python", "--nproc-per-node", "3", member,
                           "fail", "1", how],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode != 0, done.stdout
    root = done.stdout[done.stdout.index("Root Cause"):]
    assert re.search(r"rank +: 1 ", root), root
    assert re.search(rf"exitcode +: {status} ", root), root
    assert text in root, root
print("torchrun: passed")
