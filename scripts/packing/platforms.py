"""A version of Python and a processor in, what PEX has to know of them on Linux with glibc out: one JSON.

platforms.py 3.12 x86_64
"""

from __future__ import annotations

import json
import sys

from packaging.tags import compatible_tags, cpython_tags

_NEWEST_GLIBC = 28  # of RHEL 8: what is older has no Python that is new enough


def complete(version: str, machine: str) -> dict[str, object]:
    """The environment and tags of CPython `version`, as `pex --complete-platform` reads them."""
    major, minor = map(int, version.split("."))
    named = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}
    systems = []
    for glibc in range(_NEWEST_GLIBC, 4, -1):
        systems.append(f"manylinux_2_{glibc}_{machine}")
        if glibc in named:
            systems.append(f"{named[glibc]}_{machine}")
    systems.append(f"linux_{machine}")
    tags = [*cpython_tags((major, minor), platforms=systems)]
    tags += compatible_tags((major, minor), f"cp{major}{minor}", systems)
    return {
        "marker_environment": {
            "implementation_name": "cpython",
            "implementation_version": f"{version}.0",
            "os_name": "posix",
            "platform_machine": machine,
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "platform_release": "",
            "platform_version": "",
            "python_full_version": f"{version}.0",
            "python_version": version,
            "sys_platform": "linux",
        },
        "compatible_tags": list(map(str, tags)),
    }


if __name__ == "__main__":
    print(json.dumps(complete(*sys.argv[1:])))
