"""Files of a fleet in, its report out: the graph of tasks, in the order in which they depend on each other.

look      head of each file -> who talks to whom in it          points are made of these, here
decode    files of a point -> shards, one a pair of hosts        one task a point, the server's first; kept in the store
threads   the server's shards -> its threads, by time            a few tasks a stretch of some million calls
compare   a client's shards of both sides -> its summary         one task a client, and its report in the store
merge     all summaries -> what they have in common, and what not           here

Of a client that has no capture, and of all where the server has none, the segments of the other capture are kept when
it is decoded; `compare` infers from them what is missing. Without a capture of the server there is no `wide`.

What fails is a `Problem` of the report; the others go on. What was decoded is found again by the next run.
"""

from __future__ import annotations

import dataclasses
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from nfslat import __version__
from nfslat.answer.model import Tool
from nfslat.decode import native
from nfslat.errors import InputError
from nfslat.fleet import model
from nfslat.fleet.compare import compare as comparison
from nfslat.fleet.compare.summary import BOTH, INFERRED, ClientSummary
from nfslat.fleet.compare.windows import Windows, plan
from nfslat.fleet.run.callers import Callers, callers_of
from nfslat.fleet.run.drill import RUN, to_keep
from nfslat.fleet.run.pair import Request, compare_client, kept_names
from nfslat.fleet.run.points import Point, Points
from nfslat.fleet.run.pool import Pool, SchedulerGone, TaskFailed
from nfslat.fleet.run.remarks import lost, not_compared, warned
from nfslat.fleet.run.server_slices import decode_in_slices
from nfslat.fleet.run.server_threads import Shares, find_threads
from nfslat.fleet.run.shards import Decode, decode_point
from nfslat.fleet.run.sliced import WHOLE_BYTES
from nfslat.fleet.run.store import Store
from nfslat.fleet.run.totals import captures_of, parts_of
from nfslat.model.units import to_s
from nfslat.tally.sketch import RELATIVE_ERROR

_LONG_COMMAND = 300
_SERVER_FIRST = 10  # its capture is the largest, and everything waits for it


@dataclass(frozen=True)
class Asked:
    """What the user wants to know of each client, beside the captures; by name of the client."""

    application_ms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # by operation; "": all data ops
    sessions: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of a client's name: label -> value
    threads: int | None = None
    keep_reports: bool = False
    whole_bytes: int = WHOLE_BYTES  # of a server's capture that one task decodes
    out: str | None = None  # that the user named; the store may be a temporary one
    command: str = ""


class Run:
    """One run; `fleet` is what came of it, also where it ended early."""

    def __init__(self, pool: Pool, store: Store, points: Points, asked: Asked, step: Callable[[str], None]) -> None:
        """`step` is told of each thing that is done."""
        self._pool, self._store, self._points, self._asked, self._step = pool, store, points, asked, step
        self._began = time.monotonic()
        self._server: Decode | None = None
        self._callers: Callers = callers_of((), ())
        self._clients: dict[str, Decode] = {}
        self._captured = [one for one in points.clients if one.files]
        self._kept = kept_names([one.name for one in points.clients])
        self._windows: Windows | None = None
        self._shares: Shares | None = None  # of what the server's threads did
        self._server_model: model.Server | None = None
        self._requests: dict[str, Request] = {}
        self._comparing: dict[str, Future[ClientSummary]] = {}
        self._failed: dict[str, tuple[model.Problem, str]] = {}  # with the state of the client
        self._problems = [model.Problem(one.name, one.why, "it is not used", one.fatal) for one in points.unused]
        self._tasks = {"done": 0, "cached": 0, "failed": 0}

    def fleet(self) -> model.Fleet:
        """Do it. Raises ``InputError`` where nothing can be said at all."""
        gone = None
        try:
            self._do()
        except SchedulerGone as problem:
            gone = problem
        summaries = self._summaries()
        if gone is not None:
            if not summaries:
                raise gone
            self._problem("scheduler", str(gone), "what was not done by then")
            done = {one.name for one in summaries} | self._failed.keys()
            for name in self._names():
                if name not in done:
                    self._failed[name] = model.Problem(name, str(gone), "this client is not compared"), "failed"
        if not summaries or self._windows is None:
            raise InputError(_first(self._problems) or "no client could be compared")
        return self._merged(self._windows, summaries)

    def _do(self) -> None:
        """All tasks, each as soon as what it needs is there."""
        server = self._points.server
        decoding = {self._decode(point): point for point in self._captured}
        for future, point in decoding.items():
            self._tell(future, f"decoded {point.name}")
        if server is None:
            self._pool.finish(decoding)
            found = [one.result() for one in decoding if one.exception() is None]
            if found:
                begin_ns, end_ns = min(one.first_ns for one in found), max(one.last_ns for one in found)
                self._windows = plan(begin_ns, end_ns, sum(one.ops for one in found))
            self._compare_all(decoding)
        elif self._decode_server(server):
            if self._is_alone():
                self._compare_all(decoding)  # its own report tells of the threads
                self._find_threads(server)
            else:
                self._find_threads(server)
                self._compare_all(decoding)
        self._pool.finish(self._comparing.values())

    def _decode(self, client: Point) -> Future[Decode]:
        """The segments of a client are kept where the server's half is to be inferred from them."""
        captured = None if self._points.server is not None else ()
        if client.decode is None or captured is not None:
            return self._pool.submit(decode_point, self._store, client.name, client.files, captured)
        done: Future[Decode] = Future()
        done.set_result(client.decode)
        return done

    def _tell(self, future: Future[Any], what: str) -> None:
        future.add_done_callback(lambda done: None if done.exception() else self._step(what))

    def _decode_server(self, server: Point) -> bool:
        store, pool = self._store, self._pool
        captured = sorted({address for point in self._captured for address in point.addresses})
        what = f"server {server.name}"
        try:
            if sum(one.size_bytes for one in server.files) < self._asked.whole_bytes:
                told = store, server.name, server.files, captured
                decode = pool.result(pool.submit(decode_point, *told, priority=_SERVER_FIRST))
            else:
                decode = decode_in_slices(pool, store, server, self._problem, self._step, captured, _SERVER_FIRST)
        except TaskFailed as problem:
            self._problem(what, str(problem), "the whole comparison")
            return False
        self._decoded(decode)
        self._step(f"decoded {what}")
        self._server = decode
        self._callers = callers_of(decode.shards, server.addresses)
        self._kept = kept_names(self._names())
        self._windows = plan(decode.first_ns, decode.last_ns, decode.ops)
        if not decode.shards:
            self._problem(what, "no NFS operation is in its capture", "the whole comparison")
        return bool(decode.shards)

    def _find_threads(self, server: Point) -> None:
        if self._server is None or self._windows is None:
            return
        told = self._pool, self._store, self._server, self._windows, server.addresses, _SERVER_FIRST
        try:
            found, self._shares = find_threads(*told)
        except TaskFailed as problem:
            self._problem("threads of the server", str(problem), "waits for a thread over all clients")
            return
        self._tasks["done"] += 1
        self._server_model = model.Server(
            name=server.name,
            addresses=list(server.addresses),
            clients=len(self._callers.names),
            clients_not_captured=self._not_captured(),
            ops=sum(one.ops for one in found.windows),
            inflight=found.inflight,
            windows=found.windows,
            phases=found.phases,
        )
        self._step("found the server's threads")

    def _decoded(self, decode: Decode) -> None:
        self._tasks["cached" if decode.cached else "done"] += 1
        self._problems += decode.problems

    def _compare_all(self, decoding: Mapping[Future[Decode], Point]) -> None:
        """Those without a capture of their own, and each of the others when it is decoded."""
        if self._server is not None:
            for name, addresses in self._others():
                self._compare(name, addresses, None)
        for future in self._pool.as_done(decoding):
            point = decoding[future]
            if (problem := future.exception()) is not None:
                self._client_failed(point.name, str(problem))
                continue
            self._clients[point.name] = future.result()
            self._decoded(future.result())
            self._compare(point.name, point.addresses, future.result())

    def _client_failed(self, name: str, why: str, state: str = "failed") -> None:
        self._failed[name] = self._problem(name, why, "this client is not compared"), state

    def _compare(self, name: str, addresses: Sequence[str], client: Decode | None) -> None:
        server, windows = self._server, self._windows
        if windows is None:
            return
        alone, rows = self._is_alone(), []
        if server is not None:
            # A capture with one client is compared as a whole, as `nfslat SERVER CLIENT` does.
            rows = list(range(len(server.shards))) if alone else self._callers.rows(addresses)
            if not rows:
                self._client_failed(name, "the server's capture shows nothing of it")
                return
        asked = self._asked
        request = Request(
            name=name,
            addresses=tuple(addresses),
            server=None if server is None else parts_of(server, rows, self._points.server),
            client=None if client is None else parts_of(client, range(len(client.shards)), self._point(name)),
            groups=asked.groups.get(name, {}),
            application_ms=asked.application_ms.get(name, {}),
            sessions=asked.sessions.get(name),
            threads=asked.threads,
            is_shared=not alone,
            command=asked.command,
            kept=self._kept[name] if asked.keep_reports else None,
        )
        self._requests[name] = request
        shares = None if alone else self._shares
        self._comparing[name] = self._pool.submit(compare_client, self._store, request, windows, shares, rows)
        self._tell(self._comparing[name], f"compared {name}")

    def _summaries(self) -> list[ClientSummary]:
        """Of those that are compared by now; the others have failed."""
        found = []
        for name, future in sorted(self._comparing.items()):
            if not future.done():
                continue
            if (problem := future.exception()) is None:
                found.append(future.result())
            else:
                self._client_failed(name, str(problem), "client only" if self._server is None else "failed")
        self._tasks["done"] += len(found)
        return found

    def _names(self) -> list[str]:
        return [*(one.name for one in self._captured), *(name for name, _ in self._others())]

    def _others(self) -> list[tuple[str, Sequence[str]]]:
        """Clients without a capture of their own, with their addresses; a manifest may name them."""
        named = [(one.name, one.addresses) for one in self._points.clients if not one.files]
        known = {address for _, addresses in named for address in addresses}
        return [*((name, (name,)) for name in self._not_captured() if name not in known), *named]

    def _not_captured(self) -> list[str]:
        """Addresses that call the server, and have no capture of their own."""
        captured = {address for point in self._captured for address in point.addresses}
        return [name for name in self._callers.names if name not in captured]

    def _is_alone(self) -> bool:
        """Does nobody else call the server, as far as that is known?"""
        return len(self._captured if self._server is None else self._callers.names) == 1

    def _problem(self, what: str, why: str, cost: str) -> model.Problem:
        self._tasks["failed"] += 1
        self._problems.append(model.Problem(what, why.removeprefix(f"{what.rpartition(' ')[2]}: "), cost))
        return self._problems[-1]

    def _point(self, name: str) -> Point | None:
        return next((one for one in self._captured if one.name == name), None)

    def _command(self, client: model.Client) -> str:
        """That shows it by itself; empty where that would take a page."""
        if client.state not in (BOTH, INFERRED):
            return ""
        if self._asked.out is not None:
            return shlex.join(["nfslat", "fleet", "--out", self._asked.out, "--show", client.name])
        own = self._point(client.name)
        names = [",".join(file.name for file in one.files) for one in (self._points.server, own) if one is not None]
        only = [] if own is not None else [word for one in client.addresses for word in ("--client-addr", one)]
        return shlex.join(["nfslat", *names, *only]) if len("".join(names)) <= _LONG_COMMAND else ""

    # --- The report ---

    def _merged(self, windows: Windows, summaries: Sequence[ClientSummary]) -> model.Fleet:
        server, at = self._server, self._points.server
        found = comparison.compare(summaries, self._server_model, windows)
        compared = [dataclasses.replace(one, command=self._command(one)) for one in found.clients]
        clients = [*compared, *(not_compared(name, *self._failed[name]) for name in sorted(self._failed))]
        if self._asked.keep_reports:
            kept = to_keep(self._requests, server, windows, () if at is None else at.addresses, alone=self._is_alone())
            try:
                self._store.write_json(RUN, kept)
            except OSError as problem:
                self._problem(self._store.place(RUN), problem.strerror or str(problem), "nfslat fleet --show")
        pool = self._pool
        return model.Fleet(
            schema=model.SCHEMA,
            nfslat=Tool(__version__, native.NAME, self._asked.command, "nfslat"),
            run=model.Run(
                scheduler=pool.address,
                dashboard=pool.dashboard,
                workers=sorted(pool.workers.values(), key=lambda one: one.address),
                wall_s=time.monotonic() - self._began,
                tasks={**self._tasks, "again": pool.again},
                out=self._asked.out,
            ),
            captures=captures_of(server, list(self._clients.values()), found.total),
            relative_error=RELATIVE_ERROR,
            window_s=to_s(windows.step_ns),
            server=self._server_model,
            by_op=found.by_op,
            total=found.total,
            clients=clients,
            patterns=found.patterns,
            problems=self._problems,
            notes=[*self._points.notes, *lost(pool.lost, pool.again), *warned(compared)],
            verdict=found.verdict,
        )


def _first(problems: Sequence[model.Problem]) -> str:
    return next((f"{one.what}: {one.why}" for one in problems if one.fatal), "")
