"""Arguments of `nfslat live` -> a row for each stretch of time, as it ends, and JSON lines on another stream."""

from __future__ import annotations

import argparse
import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from nfslat.cli import live_hosts, live_moments
from nfslat.cli.outputs import Run
from nfslat.errors import UsageError
from nfslat.export.output import Kind, lines_output

if TYPE_CHECKING:
    from nfslat.live.metrics import Metrics
    from nfslat.live.screen import Screen
    from nfslat.live.sources.feeds import Feeds, View
    from nfslat.live.together import Whole
    from nfslat.live.watch import Stretch

DESCRIPTION = """What happens, stretch by stretch, while both captures are being made, or in
captures of any length: a line for each, as vmstat and nfsiostat print them,
with where the time goes and what is at fault. It keeps no more than a few
stretches in memory."""

EXAMPLES = """examples:
  nfslat live server.pcap client.pcap --interval 60
  mkfifo s c; ssh nfs1 tcpdump -U -s 512 -w - port 2049 >s &
    ssh db1 tcpdump -U -s 512 -w - port 2049 >c & nfslat live s c
  nfslat live s c --json - | jq 'select(.outcome == "fault")'
  nfslat live client.pcap
  nfslat live s c --when 'READ.p99>20ms for 30s' --when fault --out /var/lib/nfslat

exit status: 0 done, 2 usage, 3 a capture cannot be read, or the two have nothing
in common, 130 interrupted"""

_LEAVE_S = 10.0  # what is being judged is soon
_BEGINS = b"# HELP nfslat_"  # a file of metrics


def _metrics(options: argparse.Namespace, clients: Sequence[str]) -> Metrics | None:
    """Where they were asked for. Raises ``UsageError`` where they cannot be had."""
    if options.metrics is None and options.metrics_port is None:
        return None
    try:
        from nfslat.live.metrics import Metrics
    except ImportError as problem:
        raise UsageError("--metrics needs prometheus_client: pip install 'nfslat[live]'") from problem
    metrics = Metrics(clients)
    try:
        if options.metrics is not None:
            refuse_other_file(options.metrics)
            metrics.write(options.metrics)
        if options.metrics_port is not None:
            metrics.serve(options.metrics_port)
    except OSError as problem:
        asked = (
            f"--metrics {options.metrics}" if options.metrics_port is None else f"--metrics-port {options.metrics_port}"
        )
        raise UsageError(f"{asked}: {problem.strerror}") from problem
    return metrics


def _screen(options: argparse.Namespace, out: TextIO) -> type[Screen] | None:
    """Where it was asked for. Raises ``UsageError`` where it cannot be had."""
    if not options.screen:
        return None
    # It draws on the last.
    streams = {"standard input": sys.stdin, "standard output": out, "standard error": sys.stderr}
    if elsewhere := [name for name, stream in streams.items() if not stream.isatty()]:
        raise UsageError(f"--screen needs a terminal, and {elsewhere[0]} is none; without it there are lines")
    if options.json == "-":
        raise UsageError("--screen and --json - are both for the terminal; give --json a file")
    try:
        from nfslat.live.screen import Screen
    except ImportError as problem:
        raise UsageError("--screen needs textual: pip install 'nfslat[live]'") from problem
    return Screen


def _show(screen: Screen, feeds: Feeds, left: threading.Event) -> None:
    """Until it is `left`. Raises what the captures end with."""
    before, feeds.speaker.to = feeds.speaker.to, screen.tell
    screen.run()
    left.set()
    screen.join(_LEAVE_S)
    feeds.speaker.to = before
    if screen.failed is not None:
        raise screen.failed


def refuse_other_file(name: str) -> None:
    """Raise ``UsageError`` where there is something of that name that holds no metrics."""
    path = Path(name)
    if not path.exists():
        return
    if not path.is_file() or path.read_bytes()[: len(_BEGINS)] not in (b"", _BEGINS):
        raise UsageError(f"--metrics {name}: this is there, and no file of metrics; it would be overwritten")


def run(options: argparse.Namespace, where: Run, out: TextIO) -> int:
    """Print rows until the captures end, and add them to files, which are of use as they grow."""
    with lines_output(options.json, Kind.LINES, options.captures, overwrite=options.overwrite) as json_out:
        return _run(options, out, json_out, where.width)


def _run(options: argparse.Namespace, out: TextIO, json_out: TextIO | None, width: int) -> int:
    live_hosts.refuse(options)
    if not live_hosts.are_hosts(options) and not options.captures:
        raise UsageError("live takes captures, SERVER and CLIENT, or one of either host; none given")
    from nfslat.live.turns import Turns

    clients = live_hosts.several(options)
    screen = _screen(options, out)
    asked = live_moments.asked(options)
    output = _Output(options, out, json_out, clients, width)
    turns, left = Turns(), threading.Event()

    def leave() -> None:
        if left.is_set():
            raise SystemExit  # of the thread that asks for stretches

    def in_turn(stretches: Iterator[Stretch]) -> None:
        for _ in output.printed(stretches):
            turns.wait()  # or all rows of a file would come in front of those of the next one

    with live_hosts.opened(options) as feeds, contextlib.ExitStack() as stack:
        tell = output.note if screen is None else feeds.speaker
        wait = turns.wait if clients else leave if screen is not None else None
        opened = [_opened(asked, view, tell, wait, stack) for view in feeds.views]
        iterators = [output.handed_on(view, each, asked) for view, each in zip(feeds.views, opened, strict=True)]
        live_moments.on_signal(options, opened)

        def end() -> None:
            output.end()
            for each in opened:
                each.end()

        try:
            if screen is not None:
                counted = output.counted(iterators[0], leave)
                _show(screen(counted, feeds.views[0].name, opened[0].ask), feeds, left)
            elif clients:
                turns.run([functools.partial(in_turn, stretches) for stretches in iterators])
            else:
                for _ in output.printed(iterators[0]):
                    pass
        except KeyboardInterrupt:  # as captures that are being made are left
            end()
            raise
        end()
    return 0


def _opened(
    asked: live_moments.Asked,
    view: View,
    tell: Callable[[str], None],
    wait: Callable[[], None] | None,
    stack: contextlib.ExitStack,
) -> live_moments.Kept:
    """What is read of a view, as long as the stack has not ended."""
    from nfslat.decode.workspace import open_workspace

    work = stack.enter_context(open_workspace(view.paths, engine="native", quiet=True))
    tell = tell if view.client is None else _named(tell, view.client)
    opened = live_moments.opened(asked, view.named(work.sources), work.engine.tools, tell, view.client, wait)
    stack.callback(opened.watch.close)
    return opened


class _Output:
    """Where lines, JSON and metrics of a run go."""

    def __init__(
        self, options: argparse.Namespace, out: TextIO, json_out: TextIO | None, clients: Sequence[str], width: int
    ) -> None:
        from nfslat.live.text import Lines
        from nfslat.live.together import Together

        self._options, self._out, self._json_out = options, out, json_out
        self._metrics = _metrics(options, clients)
        self._lines, self._tried = Lines(width, clients), _Tried(self.note)
        self._together = Together(clients) if clients else None

    def _say(self, lines: Iterator[str]) -> None:
        if self._options.json != "-":
            self._out.writelines(f"{line}\n" for line in lines)
            self._out.flush()

    def note(self, text: str) -> None:
        """Something between two rows."""
        if self._options.json == "-":
            sys.stderr.write(f"nfslat: {text}\n")
        self._say(self._lines.note(text))

    def _add_json(self, line: str) -> None:
        def add(to: TextIO) -> None:
            to.write(line + "\n")
            to.flush()

        if self._json_out is not None:
            self._tried(f"--json {self._options.json}", functools.partial(add, self._json_out))

    def handed_on(self, view: View, opened: live_moments.Kept, asked: live_moments.Asked) -> Iterator[Stretch]:
        """The stretches of a view, with what they show together, as metrics and JSON, and to its moments."""
        from nfslat.live.course import followed
        from nfslat.live.lag import timed

        for stretch in followed(timed(map(view.judged, opened.watch)), asked.baseline, opened.watch):
            if self._metrics is not None:
                self._metrics.add(stretch.row, stretch.analysis)
                if (name := self._options.metrics) is not None:
                    self._tried(f"--metrics {name}", functools.partial(self._metrics.write, name))
            self._add_json(stretch.as_json())
            yield stretch
            opened.moments.add(stretch)
            del stretch  # before the next one is made

    def printed(self, stretches: Iterator[Stretch]) -> Iterator[None]:
        """Print each, and what is said of all clients."""
        for stretch in stretches:
            self._say(self._lines.of(stretch))
            self._say_of_all([] if self._together is None else self._together.add(stretch.row))
            del stretch
            yield

    def counted(self, stretches: Iterator[Stretch], leave: Callable[[], None]) -> Iterator[Stretch]:
        """The same stretches, counted for the end."""
        for stretch in stretches:
            self._lines.add(stretch.row)
            yield stretch
            del stretch
            leave()

    def _say_of_all(self, wholes: list[Whole]) -> None:
        from nfslat.live.text import words_of

        for whole in wholes:
            self._say(self._lines.note(words_of(whole)))
            self._add_json(whole.as_json())

    def end(self) -> None:
        """Say what there was."""
        self._say_of_all([] if self._together is None else self._together.end())
        self._say(self._lines.end())


class _Tried:
    """Files of a run of days: a disk that is full does not end it. What goes wrong is said once, until it is well."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._failed: set[str] = set()

    def __call__(self, name: str, write: Callable[[], None]) -> None:
        try:
            write()
        except BrokenPipeError:  # nobody reads any more
            raise
        except OSError as problem:
            if name not in self._failed:
                self._failed.add(name)
                self._tell(f"{name}: not written: {problem.strerror}; nfslat goes on")
        else:
            if name in self._failed:
                self._failed.remove(name)
                self._tell(f"{name}: written again")


def _named(tell: Callable[[str], None], client: str) -> Callable[[str], None]:
    return lambda text: tell(f"{client}: {text}")
