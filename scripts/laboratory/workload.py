"""Words such as "oltp workers=20 seconds=8" -> that load in the current folder, and a line of JSON: what it measured.

It runs in a guest: standard library alone, nothing of nfslat. `calls` are the program's own calls or transactions, in
ms; `app_ms` has the means by NFS operation where each call is one operation (direct I/O), and nothing else.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import random
import shutil
import sqlite3
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable

_BLOCK = 8192
_DATA = "data.bin"
_NS_PER_MS = 1e6


class Load:
    """The options, the times that were measured, and when to end."""

    def __init__(self, words: list[str]) -> None:
        """``words``: NAME=NUMBER ..."""
        self._options = {name: float(value) for name, value in (word.split("=", 1) for word in words)}
        self._end_s = time.monotonic() + self["seconds"]
        self._taken_ns: dict[str, list[int]] = defaultdict(list)
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> float:
        """An option; 0 where it is not given."""
        return self._options.get(name, 0.0)

    @property
    def goes_on(self) -> bool:
        """Until its time is over."""
        return time.monotonic() < self._end_s

    def timed(self, name: str, call: Callable[[], object]) -> None:
        """Does it, and keeps how long it took."""
        begun_ns = time.perf_counter_ns()
        call()
        taken_ns = time.perf_counter_ns() - begun_ns
        with self._lock:
            self._taken_ns[name].append(taken_ns)

    def think(self, choice: random.Random) -> None:
        """Between two transactions: `think_ms` on average, exponential."""
        if self["think_ms"]:
            time.sleep(choice.expovariate(1e3 / self["think_ms"]))

    def workers(self, work: Callable[[int, random.Random], None]) -> None:
        """So many threads, each with a number and a choice of its own; the first error of one ends the program."""
        errors: list[BaseException] = []

        def one(number: int) -> None:
            try:
                work(number, random.Random(number))  # noqa: S311 - a load, no secret
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=one, args=(number,)) for number in range(int(self["workers"] or 1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def processes(self, work: Callable[[int, random.Random], None]) -> None:
        """The same in processes: POSIX locks are theirs, and threads of one never wait for one another."""
        pipes = []
        for number in range(int(self["workers"] or 1)):
            reads, writes = os.pipe()
            if os.fork() == 0:
                work(number, random.Random(number))  # noqa: S311
                with open(writes, "w") as out:
                    json.dump(self._taken_ns, out)
                os._exit(0)
            os.close(writes)
            pipes.append(reads)
        for reads in pipes:
            with open(reads) as text:
                for name, taken_ns in json.load(text).items():  # what has ended early has written nothing: an error
                    self._taken_ns[name] += taken_ns

    def result(self, *, are_ops: bool) -> dict[str, object]:
        """What truth.json gets."""
        calls = {
            name: {
                "count": len(taken),
                "mean_ms": round(sum(taken) / len(taken) / _NS_PER_MS, 3),
                "max_ms": round(max(taken) / _NS_PER_MS, 3),
            }
            for name, taken in self._taken_ns.items()
        }
        means = {name: one["mean_ms"] for name, one in calls.items() if name in ("READ", "WRITE")}
        return {"calls": calls} | ({"app_ms": means} if are_ops else {})


def oltp(load: Load) -> None:
    """Reads and writes of 8 KB at random places of one file, `write_pct` of them writes, past the cache if `direct`;
    of the first `mb` of it."""
    direct = os.O_DIRECT if load["direct"] else 0

    def work(_: int, choice: random.Random) -> None:
        file = os.open(_DATA, os.O_RDWR | direct)
        blocks = int(load["mb"] * (1 << 20) or os.fstat(file).st_size) // _BLOCK
        buffer = mmap.mmap(-1, _BLOCK)  # aligned, as direct I/O wants it
        while load.goes_on:
            place = choice.randrange(blocks) * _BLOCK
            if choice.random() * 100 < load["write_pct"]:
                load.timed("WRITE", lambda place=place: os.pwritev(file, [buffer], place))  # type: ignore[misc]
            else:
                load.timed("READ", lambda place=place: os.preadv(file, [buffer], place))  # type: ignore[misc]
            load.think(choice)
        os.close(file)

    load.workers(work)


def metadata(load: Load) -> None:
    """Files made, looked at, renamed and removed, each worker in a folder of its own."""

    def work(number: int, choice: random.Random) -> None:
        folder = f"meta{number}"
        os.mkdir(folder)
        made = 0
        while load.goes_on:
            name, other = f"{folder}/a{made}", f"{folder}/b{made}"
            load.timed("create", lambda name=name: os.close(os.open(name, os.O_CREAT | os.O_WRONLY)))  # type: ignore[misc]
            load.timed("stat", lambda name=name: os.stat(name))  # type: ignore[misc]
            load.timed("rename", lambda name=name, other=other: os.rename(name, other))  # type: ignore[misc]
            load.timed("unlink", lambda other=other: os.unlink(other))  # type: ignore[misc]
            made += 1
            load.think(choice)

    load.workers(work)


def maildir(load: Load) -> None:
    """Mails delivered as qmail does it: written and synced in tmp, renamed into new; then read and removed."""
    for folder in ("tmp", "new"):
        os.makedirs(folder, exist_ok=True)

    def deliver(name: str) -> None:
        file = os.open(f"tmp/{name}", os.O_CREAT | os.O_WRONLY)
        os.write(file, b"x" * 6000)
        os.fsync(file)
        os.close(file)
        os.rename(f"tmp/{name}", f"new/{name}")

    def fetch(name: str) -> None:
        with open(f"new/{name}", "rb") as file:
            file.read()
        os.unlink(f"new/{name}")

    def work(number: int, choice: random.Random) -> None:
        made = 0
        while load.goes_on:
            name = f"{number}.{made}"
            load.timed("deliver", lambda name=name: deliver(name))  # type: ignore[misc]
            if choice.random() < 0.5:
                load.timed("fetch", lambda name=name: fetch(name))  # type: ignore[misc]
            made += 1
            load.think(choice)

    load.workers(work)


def database(load: Load) -> None:
    """Transactions of SQLite with its rollback journal; a database for each worker, or one for all if `shared`."""

    def work(number: int, choice: random.Random) -> None:
        name = "shared.db" if load["shared"] else f"own{number}.db"
        made = sqlite3.connect(name, timeout=60, isolation_level=None)
        made.execute("PRAGMA journal_mode=DELETE")
        made.execute("CREATE TABLE IF NOT EXISTS t (k INTEGER, v BLOB)")

        def transaction() -> None:
            made.execute("BEGIN IMMEDIATE")
            for _ in range(5):
                made.execute("INSERT INTO t VALUES (?, ?)", (choice.randrange(10**6), b"x" * 200))
            made.execute("COMMIT")

        while load.goes_on:
            load.timed("transaction", transaction)
            load.think(choice)
        made.close()

    load.processes(work)


def write_back(load: Load) -> None:
    """Each worker writes 256 KB of a file of its own into the page cache, and syncs it."""

    def work(number: int, choice: random.Random) -> None:
        file = os.open(f"back{number}", os.O_CREAT | os.O_WRONLY)
        while load.goes_on:
            os.lseek(file, 0, os.SEEK_SET)
            for _ in range(16):
                os.write(file, b"x" * 16384)
            load.timed("fsync", lambda: os.fsync(file))
            load.think(choice)
        os.close(file)

    load.workers(work)


def locks(load: Load) -> None:
    """One file for each pair of workers: locked, written, synced, held for `hold_ms`, unlocked by closing it."""

    def transaction(name: str) -> None:
        file = os.open(name, os.O_CREAT | os.O_RDWR)
        fcntl.lockf(file, fcntl.LOCK_EX)
        os.pwrite(file, b"x" * 4096, 0)
        os.fsync(file)
        time.sleep(load["hold_ms"] / 1e3)
        os.close(file)

    def work(number: int, choice: random.Random) -> None:
        while load.goes_on:
            load.timed("transaction", lambda: transaction(f"lock{number // 2}"))
            load.think(choice)

    load.processes(work)


def listing(load: Load) -> None:
    """`ls -l` of a folder that the server has made (`many`), again and again, and of each of its files."""

    def look() -> None:
        for name in os.listdir("many"):
            os.stat(f"many/{name}")

    def work(_: int, choice: random.Random) -> None:
        while load.goes_on:
            load.timed("listing", look)
            load.think(choice)

    load.workers(work)


_KINDS = {one.__name__: one for one in (oltp, metadata, maildir, database, write_back, locks, listing)}


def main(words: list[str]) -> None:
    """Runs the load of the first word; what it leaves behind is removed, so that a load can run again."""
    load = Load(words[1:])
    before = set(os.listdir())
    _KINDS[words[0]](load)
    for name in set(os.listdir()) - before:
        if os.path.isdir(name):
            shutil.rmtree(name, ignore_errors=True)
        else:
            os.unlink(name)
    sys.stdout.write(json.dumps(load.result(are_ops=words[0] == "oltp" and bool(load["direct"]))) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
