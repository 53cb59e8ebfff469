"""Make a fleet: python -m fleet_made acceptance|twenty|small|load FOLDER."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from fleet_made.fleets import acceptance, small, twenty
from fleet_made.load import make_load


def main() -> None:
    """Parse the arguments, make it, say what it is."""
    parser = argparse.ArgumentParser(prog="python -m fleet_made", description=__doc__)
    parser.add_argument("what", choices=["acceptance", "twenty", "small", "load"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", type=int, default=1, metavar="K", help="rotated files of each capture (1)")
    parser.add_argument("--nano", action="store_true", help="stamps in nanoseconds")
    parser.add_argument("--stamped", action="store_true", help="packets have TCP time stamps")
    parser.add_argument("--clients", type=int, default=10, metavar="N", help="of a load (10)")
    parser.add_argument("--ops", type=int, default=20_000, metavar="M", help="of each client of a load (20,000)")
    given = parser.parse_args()
    how = {"files": given.files, "nano": given.nano, "stamped": given.stamped}
    before = time.monotonic()
    if given.what == "load":
        ops = make_load(given.folder, given.clients, given.ops, **how).ops
    else:
        made = {"acceptance": acceptance, "twenty": twenty, "small": small}[given.what]
        ops = made(given.folder, given.seed, **how)["server"]["ops"]
    print(f"{given.folder}: {ops:,} ops in {time.monotonic() - before:.1f} s")


if __name__ == "__main__":
    main()
