"""Options of `nfslat live` that say where packets come from -> feeds."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nfslat.cli import capture as capture_command
from nfslat.errors import InputError, UsageError

if TYPE_CHECKING:
    from nfslat.live.sources.feeds import Feeds

_MAX_CPU = 25  # per cent of a processor
_OF_HOSTS = ("max_cpu", "force", "only_client", "server_addr", "client_addr", "server_interface", "client_interface")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What it takes."""
    parser.add_argument(
        "--server", metavar="HOST", help="capture there by ssh, user@host; iface:eth0 is an interface of this machine"
    )
    parser.add_argument("--client", metavar="HOST", help="the NFS client, in the same way")
    parser.add_argument(
        "--follow", action="store_true", help="the captures grow: files, or folders and patterns of rotated sets"
    )
    parser.add_argument(
        "--max-cpu",
        type=_a_percentage,
        metavar="N",
        help=f"per cent of a host's processor to capture with ({_MAX_CPU})",
    )
    capture_command.add_ways(parser)


def are_hosts(options: argparse.Namespace) -> bool:
    """Is anything to be captured?"""
    return options.server is not None or options.client is not None


def refuse(options: argparse.Namespace) -> None:
    """Raise ``UsageError`` for what does not go together."""
    if are_hosts(options):
        if options.captures or options.follow:
            raise UsageError("give captures, or --server and --client to capture there, not both")
        for name in ("server_addr", "client_addr"):
            capture_command.refuse_no_address(options, name)
        return
    for name in _OF_HOSTS:
        if getattr(options, name):
            raise UsageError(f"--{name.replace('_', '-')} is about hosts to capture on: --server HOST, --client HOST")
    if options.follow and not options.captures:
        raise UsageError("--follow takes captures that grow")


@contextlib.contextmanager
def opened(options: argparse.Namespace) -> Iterator[Feeds]:
    """What is asked for, as long as the block lasts. Raises ``InputError`` and ``UsageError``."""
    from nfslat.live.sources.feeds import Feeds

    if are_hosts(options):
        feeds = _streams(options)
    elif options.follow:
        feeds = _followers(options.captures)
    else:
        feeds = Feeds({}, lambda: None, options.captures)
    try:
        yield feeds
    except InputError:  # of a capture that ends, and there may be a reason
        feeds.refuse_failed()
        raise
    else:
        feeds.refuse_failed()
    finally:
        feeds.close()


def _streams(options: argparse.Namespace) -> Feeds:
    from nfslat.field.plan import Wanted
    from nfslat.field.ssh import LOCAL
    from nfslat.live.sources.feeds import Feeds, Speaker
    from nfslat.live.sources.hosts import Streams

    hosts = {side: name for side in ("server", "client") if (name := getattr(options, side)) is not None}
    interfaces = {
        side: name.removeprefix(LOCAL) or None if name.startswith(LOCAL) else getattr(options, f"{side}_interface")
        for side, name in hosts.items()
    }
    wanted = Wanted(
        hosts=hosts,
        seconds=0,
        port=options.port,
        ssh=options.ssh,
        snaplen=options.snaplen,
        server_address=options.server_addr,
        client_address=options.client_addr,
        interfaces=interfaces,
        only_client=options.only_client,
        force=options.force,
    )
    asked = argparse.Namespace(yes=True, quiet=False)
    voice = capture_command.voice_of(asked)
    speaker = Speaker(voice.say)
    streams = Streams(wanted, options.max_cpu or _MAX_CPU, dataclasses.replace(voice, say=speaker))
    feeds = Feeds(streams.feeds, streams.close)
    feeds.speaker = speaker
    return feeds


def _followers(captures: list[str]) -> Feeds:
    from nfslat.live.sources.feeds import Feeds
    from nfslat.live.sources.follow import Follower

    sides = ("server", "client")[: len(captures)]
    with contextlib.ExitStack() as stack:
        followers = []
        for side, name in zip(sides, captures, strict=False):
            followers.append(Follower(side, name))
            stack.callback(followers[-1].close)
        ends = stack.pop_all()
    return Feeds({one.feed.side: one.feed for one in followers}, ends.close)


def _a_percentage(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:6]) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r}: give a whole number, 1 or more")
    return int(text)
