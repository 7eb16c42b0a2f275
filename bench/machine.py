"""What a reader needs to know about the machine and the code a result comes from."""

import datetime
import os
import platform
import subprocess


def first_value(path, key):
    """The value of the first "key : value" line of a /proc file, or "unknown"."""
    try:
        with open(path) as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() == key:
                    return value.strip()
    except OSError:
        pass
    return "unknown"


def memory_gb():
    size = first_value("/proc/meminfo", "MemTotal").split()[0]
    return round(int(size) / 1024 ** 2, 1) if size.isdigit() else None


def git_commit():
    """The commit measured, marked "+changes" when the tree differs from it."""
    here = os.path.dirname(os.path.abspath(__file__))

    def git(*arguments):
        return subprocess.run(["git", "-C", here, *arguments], capture_output=True, text=True)

    try:
        head = git("rev-parse", "--short", "HEAD")
        if head.returncode != 0:
            return "unknown"
        changed = git("status", "--porcelain").stdout.strip()
    except OSError:
        return "unknown"
    return head.stdout.strip() + ("+changes" if changed else "")


def describe():
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpu": first_value("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": memory_gb(),
        "kernel": platform.release(),
        "load_average_at_start": os.getloadavg()[0],
        "commit": git_commit(),
    }
