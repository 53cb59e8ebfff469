"""One host or two -> a tar of scripts/capture.sh from each, of the same seconds; nothing stays on the hosts.

Both are asked at once, and whatever goes wrong with one ends the work on the other as well.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from nfslat.errors import InputError
from nfslat.field import cost
from nfslat.field.hosts import Hosts, Voice, connect
from nfslat.field.link import Link
from nfslat.field.plan import Wanted, plans

_READY_S = 90.0  # capture.sh takes a snapshot before, and looks at the traffic once more where there is much
_STALL_S = 60.0  # nothing came of a tar for so long
_AFTER_S = 120.0  # snapshot, clock and counters once more
_ENDED_EARLY = "nfslat: ended early"  # says capture.sh
_LATE_S = 15.0  # after its time a capture that does not say that it has ended is asked for its tar all the same


def capture(wanted: Wanted, into: Path, voice: Voice) -> dict[str, Path]:
    """The tar of each side, in the folder `into`.

    Ctrl-C while it captures ends it early, with what there is; at any other moment, and the second one, it gives up.
    Raises ``InputError`` for all that can go wrong with a host, ``UsageError`` for hosts that make no sense.
    """
    with contextlib.ExitStack() as stack:
        links = connect(wanted.hosts, wanted.ssh, wanted.folder or "", wanted.seconds, voice, stack)
        hosts = Hosts(links, voice)
        planned = plans(hosts, wanted)
        _refuse_full_home([plan.cost for plan in planned.values()], into)
        if not voice.confirm():
            raise InputError("nothing was captured")
        for side, link in links.items():
            link.tar = into / f"{side}.tar"
            plan = planned[side]
            limits = ["--seconds", wanted.seconds, "--snaplen", plan.cost.snaplen]
            limits += ["--keep-free-mb", wanted.keep_free_mb]
            limits += ["--max-mb", wanted.max_mb] if wanted.max_mb else []
            link.ask("start", plan.folder, *plan.arguments, *map(str, limits), "--yes")
        hosts.echo = True
        try:
            _record(hosts, wanted, voice)
            _bring_home(hosts, voice)
        except BaseException:
            voice.progress("")
            _drop_unfinished(links.values(), voice)
            raise
        voice.progress("")
        return {side: link.tar for side, link in links.items() if link.tar is not None}


def _refuse_full_home(costs: Sequence[cost.Cost], into: Path) -> None:
    needed_mb, free_mb = sum(one.file_mb or 0 for one in costs), shutil.disk_usage(into).free >> 20
    if needed_mb > free_mb:
        raise InputError(
            f"{into}: the captures may take {needed_mb:,} MB, and {free_mb:,} are free; give another --out"
        )


def _record(hosts: Hosts, wanted: Wanted, voice: Voice) -> None:
    """Until the captures have ended on both hosts."""
    ready = [when for when, _ in hosts.gather("ready", _READY_S, "starting the capture").values()]
    is_alone = len(ready) == 1
    apart = "" if is_alone else f"; they started {max(ready) - min(ready):.2f} s apart"
    voice.say(
        f"{'it captures' if is_alone else 'both capture'} now, for {wanted.seconds} s{apart}. Ctrl-C ends it early"
    )
    begin, end = max(ready), max(ready) + wanted.seconds + _LATE_S
    running, why = set(hosts.links), ""
    try:
        while running and not why and (now := time.monotonic()) < end:
            voice.progress(f"capturing: {min(now - begin, wanted.seconds):.0f} of {wanted.seconds} s")
            event = hosts.next(min(end, now + 1))
            if event is not None and event.what == "captured":
                running.discard(event.link.side)
            if event is not None and event.what == "said" and event.text.startswith(_ENDED_EARLY) and not is_alone:
                why = "stopping the other one as well, for only what both captured can be compared"
    except KeyboardInterrupt:
        why = f"stopping{'' if is_alone else ' both'}; what was captured is brought home (Ctrl-C again gives up)"
    if why:
        voice.say(why)
        for link in hosts.links.values():
            link.ask("stop")
        end = time.monotonic() + _LATE_S
        while running and time.monotonic() < end:
            event = hosts.next(end)
            if event is not None and event.what == "captured":
                running.discard(event.link.side)


def _bring_home(hosts: Hosts, voice: Voice) -> None:
    links = hosts.links.values()
    for link in links:
        link.ask("go")
    started = moved = time.monotonic()
    came = 0
    while not all(link.complete for link in links):
        now = time.monotonic()
        event = hosts.next(now + 1)
        if event is not None and event.what == "sent":
            event.link.finished = True
            event.link.ask("bye")
        total = sum(link.received_bytes for link in links)
        if total > came or event is not None:
            moved, came = time.monotonic(), total
        elif now - moved > (_STALL_S if came else _AFTER_S) and now - started > _STALL_S:
            late = next(link for link in links if not link.complete)
            raise InputError(f"{late.name}: its capture does not arrive; the connection hangs. Try again")
        voice.progress(f"bringing home: {came / 1e6:,.1f} MB")


def _drop_unfinished(links: Iterable[Link], voice: Voice) -> None:
    for link in links:
        if link.complete:
            voice.say(f"{link.tar} is complete, and kept")
        elif link.tar is not None:
            link.tar.unlink(missing_ok=True)
