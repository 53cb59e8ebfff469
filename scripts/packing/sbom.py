"""The locks in, a software bill of materials (CycloneDX 1.5, JSON) on standard output.

    sbom.py CHECKOUT VERSION EPOCH

What tests and builds nfslat is in it as optional, what it runs with and is compiled from as required.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any


def main(root: Path, version: str, epoch: int) -> None:
    """Print it."""
    components = sorted([*_packages(root / "locks"), *_crates(root / "native")], key=lambda one: str(one["bom-ref"]))
    about = {"type": "application", "bom-ref": "nfslat", "name": "nfslat", "version": version}
    made = datetime.datetime.fromtimestamp(epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        # The same contents, the same number.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(components))}",
        "version": 1,
        "metadata": {"timestamp": made, "component": about | {"licenses": [{"license": {"id": "MIT"}}]}},
        "components": components,
    }
    json.dump(document, sys.stdout, indent=1)
    print()


def _packages(locks: Path) -> list[dict[str, Any]]:
    needed = _locked(locks / "run.txt")
    return [
        _component("pypi", name, version, hashes, needed=(name, version) in needed)
        for (name, version), hashes in (_locked(locks / "dev.txt") | needed).items()
    ]


def _locked(lock: Path) -> dict[tuple[str, str], list[str]]:
    """Name and version -> sums of all its files."""
    found = {}
    for entry in re.split(r"\n(?=\S)", lock.read_text().strip()):
        name, version = re.match(r"([^\s=]+)==([^\s;]+)", entry).groups()  # type: ignore[union-attr]
        found[name, version] = re.findall("sha256:([0-9a-f]{64})", entry)
    return found


def _crates(native: Path) -> list[dict[str, Any]]:
    crates = tomllib.loads((native / "crates.lock").read_text())["package"]
    by_name = {f"{one['name']} {one['version']}": one for one in crates} | {one["name"]: one for one in crates}
    ours = next(one for one in crates if "checksum" not in one)
    for_tests = tomllib.loads((native / "Cargo.toml").read_text())["dev-dependencies"]
    needed: set[str] = set()
    open_ends = [name for name in ours["dependencies"] if name not in for_tests]
    while open_ends:
        crate = by_name[open_ends.pop()]
        if (key := f"{crate['name']} {crate['version']}") not in needed:
            needed.add(key)
            open_ends += crate.get("dependencies", [])
    return [
        _component(
            "cargo",
            one["name"],
            one["version"],
            [one["checksum"]],
            needed=f"{one['name']} {one['version']}" in needed,
        )
        for one in crates
        if one is not ours
    ]


def _component(kind: str, name: str, version: str, sums: list[str], *, needed: bool) -> dict[str, Any]:
    purl = f"pkg:{kind}/{name}@{version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "scope": "required" if needed else "optional",
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": one} for one in sorted(sums)],
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
