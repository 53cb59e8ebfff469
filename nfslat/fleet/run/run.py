"""Files of a fleet in, its report out.

look      head of each file -> who talks to whom in it                  points are made of these
server    the server's files -> who calls it, its threads, its clients' parts          here, once
compare   a client's files and its part of the server's -> its summary        one task a client
merge     all summaries -> what they have in common, and what not                          here

Of a client that has no capture, and of all where the server has none, what is missing is inferred from the other
capture. What fails is a `Problem` of the report; the others go on. A client that is done is kept in ``--out``, and the
next run finds it there; so is what is known of the server, whose capture is decoded only where a client needs it.
"""

from __future__ import annotations

import dataclasses
import shlex
import time
from collections.abc import Callable, Iterator, Sequence

from nfslat import __version__
from nfslat.answer.model import Tool
from nfslat.answer.words import some_of
from nfslat.decode import native
from nfslat.errors import InputError, NfslatError
from nfslat.fleet import model
from nfslat.fleet.compare import compare as comparison
from nfslat.fleet.compare.summary import BOTH, INFERRED, ClientSummary
from nfslat.fleet.compare.windows import Windows, plan
from nfslat.fleet.run.capture import CaptureFacts
from nfslat.fleet.run.client import ClientDone, Half, Request, compare_client, measure
from nfslat.fleet.run.executor import Done, Workers, WorkersGone, in_words
from nfslat.fleet.run.finished import RunFolder, key_of, report_names
from nfslat.fleet.run.manifest import Manifest
from nfslat.fleet.run.points import Point, Points
from nfslat.fleet.run.server import ServerBrief, ServerCapture
from nfslat.inflight.all_clients import ServerWide
from nfslat.model.units import iso, to_s
from nfslat.tally.sketch import RELATIVE_ERROR

_LONG_COMMAND = 300
_NOT_COMPARED = "this client is not compared"


class Run:
    """One run; `fleet` is what came of it, also where it ended early."""

    def __init__(
        self, workers: Workers, folder: RunFolder | None, points: Points, manifest: Manifest, command: str,
        step: Callable[[str], None],
    ) -> None:  # fmt: skip
        """`folder` is ``--out``; `command` is what the report says it was made by; `step` is told of each thing that is
        done."""
        self._workers, self._folder, self._points, self._step = workers, folder, points, step
        self._manifest, self._made_by = manifest, command
        self._began = time.monotonic()
        self._own = {one.name: one for one in points.clients if one.files}
        self._captured = sorted({address for one in self._own.values() for address in one.addresses})
        self._server: ServerCapture | None = None  # decoded when a client needs it
        self._brief: ServerBrief | None = None
        self._windows: Windows | None = None
        self._names: dict[str, tuple[str, ...]] = {}  # clients, with their addresses
        self._reports: dict[str, str] = {}  # of each client: the name of its report
        self._summaries: list[ClientSummary] = []
        self._facts: dict[str, CaptureFacts] = {}  # of the clients' own captures
        self._failed: dict[str, tuple[model.Problem, str]] = {}  # with the state of the client
        self._problems = [model.Problem(one.name, one.why, "it is not used", one.fatal) for one in points.unused]
        self._tasks = {"done": 0, "cached": 0, "failed": 0}

    def fleet(self) -> model.Fleet:
        """Do it. Raises ``InputError`` where nothing can be said at all."""
        gone = None
        try:
            self._do()
        except WorkersGone as problem:
            gone = problem
        if gone is not None:
            if not self._summaries:
                raise gone
            self._problem("scheduler", str(gone), "what was not done by then")
            done = {one.name for one in self._summaries} | self._failed.keys()
            for name in self._names.keys() - done:
                self._failed[name] = model.Problem(name, str(gone), _NOT_COMPARED), "failed"
        if not self._summaries or self._windows is None:
            raise InputError(_first(self._problems) or "no client could be compared")
        return self._merged(self._windows, sorted(self._summaries, key=lambda one: one.name))

    def _do(self) -> None:
        self._windows = self._planned() if self._points.server is None else self._windows_of_server(self._points.server)
        if self._windows is None:
            return
        self._names = {name: one.addresses for name, one in self._own.items()} | dict(self._others())
        self._reports = report_names(list(self._names)) if self._folder is not None else {}
        left: dict[str, str | None] = {}
        for name in self._names:
            key = self._key(name)
            if not self._is_done(name, key):
                left[name] = key
        if not left:
            return
        asked: list[str] = []
        for number, done in self._workers.each(compare_client, self._requests(self._windows, list(left), asked)):
            self._take(asked[number], left[asked[number]], done)

    # --- The server, or the time that clients' captures are of ---

    def _windows_of_server(self, server: Point) -> Windows | None:
        key = key_of(server.files, "server", server.addresses, self._captured)
        self._brief = None if self._folder is None else self._folder.get(key, ServerBrief)
        what = f"server {server.name}"
        if self._brief is not None:
            self._tasks["cached"] += 1
        else:
            try:
                self._brief = self._decoded(server).brief(self._captured)
            except NfslatError as problem:
                self._problem(what, str(problem), "the whole comparison")
                return None
            self._keep(lambda folder: folder.put(key, self._brief))
            self._tasks["done"] += 1
        self._problems += self._brief.facts.problems
        self._step(f"decoded {what}")
        return self._brief.windows

    def _decoded(self, point: Point) -> ServerCapture:
        if self._server is None:
            # Nothing is inferred of clients that were captured, and the segments of many would take much memory.
            is_only = len(self._points.clients) == 1
            self._server = ServerCapture(point, without=() if is_only else self._captured)
        return self._server

    def _planned(self) -> Windows | None:
        """By what the clients' captures hold; those that were not read to their end as they were looked at are read."""
        known = [one.facts for one in self._own.values() if one.facts is not None]
        unknown, why = [one for one in self._own.values() if one.facts is None], ""
        for _, done in self._workers.each(measure, (one.files for one in unknown)):
            if isinstance(done.value, CaptureFacts):  # else the comparison says why not
                known.append(done.value)
            else:
                why = why or done.why_not
        if not known:
            for name, point in self._own.items():
                self._client_failed(name, why or f"{point.name}: none of its files can be read")
            return None
        begin_ns, end_ns = min(one.first_ns for one in known), max(one.last_ns for one in known)
        return plan(begin_ns, end_ns, sum(one.ops for one in known))

    # --- Clients ---

    def _key(self, name: str) -> str | None:
        server, own = self._points.server, self._own.get(name)
        files = [*(server.files if server else ()), *(own.files if own else ())]
        asked = sorted(self._manifest.asked(name, self._names[name]).items())
        whose = name, self._names[name], self._reports.get(name), server.addresses if server else ()
        return key_of(files, whose, asked, self._captured if own is None else (), self._windows, self._is_alone())

    def _is_done(self, name: str, key: str | None) -> bool:
        """Was it done by an earlier run?"""
        if self._folder is None:
            return False
        done = self._folder.get(key, ClientDone)
        if done is None or done.summary is None:
            return False
        report = self._reports.get(name)
        if report is not None and done.report_hash and not self._folder.holds(report, done.report_hash):
            return False
        self._done(name, done)
        self._tasks["cached"] += 1
        return True

    def _requests(self, windows: Windows, names: Sequence[str], asked: list[str]) -> Iterator[Request]:
        """Each made when its turn comes; `asked` gets the names of those that are made."""
        server = self._points.server
        for name in names:
            own, addresses = self._own.get(name), self._names[name]
            shown: tuple[Half | None, ServerWide | None] = None, None
            if server is not None:
                try:
                    half = self._decoded(server).half(addresses)
                except NfslatError as problem:
                    self._client_failed(name, str(problem))
                    continue
                if half is None:
                    self._client_failed(name, "the server's capture shows nothing of it")
                    continue
                shown = half
            asked.append(name)
            yield Request(
                name=name,
                addresses=tuple(addresses),
                own=() if own is None else own.files,
                server=shown[0],
                wide=shown[1],
                windows=windows,
                is_shared=not self._is_alone(),
                command=self._made_by,
                report_name=self._reports.get(name),
                **self._manifest.asked(name, addresses),
            )

    def _take(self, name: str, key: str | None, done: Done) -> None:
        client = done.value
        if not isinstance(client, ClientDone):
            self._client_failed(name, done.why_not)
        elif client.summary is None:
            self._note_facts(name, client.facts)
            self._client_failed(name, client.why, "client only" if self._points.server is None else "failed")
        else:
            self._done(name, client)
            self._keep(lambda folder: self._keep_client(folder, key, client))
            self._tasks["done"] += 1

    def _done(self, name: str, done: ClientDone) -> None:
        self._note_facts(name, done.facts)
        if done.summary is not None:
            self._summaries.append(done.summary)
        self._step(f"compared {name}")

    def _note_facts(self, name: str, facts: CaptureFacts | None) -> None:
        if facts is not None:
            self._facts[name] = facts
            self._problems += facts.problems

    def _keep_client(self, folder: RunFolder, key: str | None, done: ClientDone) -> None:
        if done.report is not None and done.summary is not None and done.summary.report is not None:
            folder.write(done.summary.report, done.report)
        folder.put(key, dataclasses.replace(done, report=None))

    def _keep(self, write: Callable[[RunFolder], object]) -> None:
        """Where that is not possible the report says so, once; the run goes on."""
        if self._folder is None:
            return
        try:
            write(self._folder)
        except OSError as problem:
            self._problem(self._folder.url, in_words(problem), "what a later run could go on with, and --show")
            self._folder = None

    def _others(self) -> list[tuple[str, tuple[str, ...]]]:
        """Clients without a capture of their own, with their addresses; a manifest may name them."""
        named = [(one.name, one.addresses) for one in self._points.clients if not one.files]
        known = {address for _, addresses in named for address in addresses}
        hidden = [] if self._brief is None else self._brief.figures.clients_not_captured
        return [*((name, (name,)) for name in hidden if name not in known), *named]

    def _is_alone(self) -> bool:
        """Does nobody else call the server, as far as that is known?"""
        return len(self._own if self._brief is None else self._brief.callers) == 1

    def _client_failed(self, name: str, why: str, state: str = "failed") -> None:
        self._failed[name] = self._problem(name, why, _NOT_COMPARED), state

    def _problem(self, what: str, why: str, cost: str) -> model.Problem:
        self._tasks["failed"] += 1
        self._problems.append(model.Problem(what, why.removeprefix(f"{what.rpartition(' ')[2]}: "), cost))
        return self._problems[-1]

    def _command(self, client: model.Client) -> str:
        """The command that shows it by itself; empty where that would take a page."""
        if client.state not in (BOTH, INFERRED):
            return ""
        if self._folder is not None:
            return shlex.join(["nfslat", "fleet", "--out", self._folder.url, "--show", client.name])
        own = self._own.get(client.name)
        names = [",".join(file.name for file in one.files) for one in (self._points.server, own) if one is not None]
        only = [] if own is not None else [word for one in client.addresses for word in ("--client-addr", one)]
        return shlex.join(["nfslat", *names, *only]) if len("".join(names)) <= _LONG_COMMAND else ""

    # --- The report ---

    def _merged(self, windows: Windows, summaries: Sequence[ClientSummary]) -> model.Fleet:
        server = None if self._brief is None else self._brief.figures
        outcome = comparison.compare(summaries, server, windows, untold=len(self._failed))
        self._keep(
            lambda folder: folder.write_reports({one.name: one.report for one in summaries if one.report is not None})
        )
        compared = [dataclasses.replace(one, command=self._command(one)) for one in outcome.clients]
        failed = [
            model.Client(
                name=name,
                addresses=[],
                state=state,
                source="none",
                why=problem.why,
                why_not_inferred="" if state == "failed" else problem.why,
            )
            for name, (problem, state) in sorted(self._failed.items())
        ]
        workers = self._workers
        return model.Fleet(
            schema=model.SCHEMA,
            nfslat=Tool(__version__, native.NAME, self._made_by, "nfslat"),
            run=model.Run(
                scheduler=workers.address,
                dashboard=workers.dashboard,
                workers=sorted(workers.known.values(), key=lambda one: one.address),
                wall_s=time.monotonic() - self._began,
                tasks={**self._tasks, "again": workers.again},
                out=None if self._folder is None else self._folder.url,
            ),
            captures=self._captures(outcome.total),
            relative_error=RELATIVE_ERROR,
            window_s=to_s(windows.step_ns),
            server=server,
            by_op=outcome.by_op,
            total=outcome.total,
            clients=[*compared, *failed],
            patterns=outcome.patterns,
            problems=self._problems,
            notes=[*self._points.notes, *_notes(workers, [one.name for one in compared if one.audit])],
            verdict=outcome.verdict,
        )

    def _captures(self, total: model.OpRow | None) -> model.Captures:
        """`total`: the ops of which there are times of both sides."""
        server = [] if self._brief is None else [self._brief.facts]
        clients = [self._facts[name] for name in sorted(self._facts)]
        every, at = [*server, *clients], server or clients  # whose clock it is
        inferred = 0 if total is None else total.inferred
        return model.Captures(
            files=sum(one.files for one in every),
            bytes=sum(one.bytes for one in every),
            packets=sum(one.packets for one in every),
            server_ops=sum(one.ops for one in server),
            client_ops=sum(one.ops for one in clients),
            matched_ops=0 if total is None else total.count - inferred,
            inferred_ops=inferred,
            begin=iso(min(one.first_ns for one in at)),
            end=iso(max(one.last_ns for one in at)),
        )


def _notes(workers: Workers, faulty: Sequence[str]) -> Iterator[str]:
    """On workers that are gone, and on clients whose captures are `faulty`."""
    if workers.lost:
        yield (
            f"{len(workers.lost)} worker{'s were' if len(workers.lost) > 1 else ' was'} lost "
            f"({', '.join(sorted(set(workers.lost)))}); {workers.again or 'none'} of their tasks had to be done again"
        )
    if faulty:
        yield f"the captures of {some_of(faulty)} have faults that their own reports tell (JSON: clients[].audit)"


def _first(problems: Sequence[model.Problem]) -> str:
    return next((f"{one.what}: {one.why}" for one in problems if one.fatal), "")
