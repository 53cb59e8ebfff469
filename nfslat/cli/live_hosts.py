"""Options of `nfslat live` that say where packets come from -> feeds."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nfslat.cli import capture as capture_command
from nfslat.errors import InputError, UsageError

if TYPE_CHECKING:
    from nfslat.live.sources.feeds import Feeds, View

_MAX_CPU = 25  # per cent of a processor
_OF_HOSTS = ("max_cpu", "force", "only_client", "server_addr", "client_addr", "server_interface", "client_interface")


def are_hosts(options: argparse.Namespace) -> bool:
    """Is anything to be captured?"""
    return options.server is not None or bool(options.client)


def refuse(options: argparse.Namespace) -> None:
    """Raise ``UsageError`` for what does not go together."""
    if are_hosts(options):
        if options.captures or options.follow:
            raise UsageError("give captures, or --server and --client to capture there, not both")
        if "" in options.client:
            raise UsageError(f"--client {','.join(options.client)}: a host has no name")
        if len(options.client) > 1 and options.client_addr:
            raise UsageError("--client-addr is the address of one client; there are several")
        return
    for name in _OF_HOSTS:
        if getattr(options, name):
            raise UsageError(f"--{name.replace('_', '-')} is about hosts to capture on: --server HOST, --client HOST")
    if options.follow and not options.captures:
        raise UsageError("--follow takes captures that grow")


def several(options: argparse.Namespace) -> list[str]:
    """The clients, where there is more than one. Raises ``UsageError`` for what shows only one."""
    from nfslat.field.ssh import LOCAL

    hosts = [one.removeprefix(LOCAL) for one in options.client]
    clients = hosts if are_hosts(options) else options.captures[1:]
    if len(clients) < 2:
        return []
    if len(set(clients)) < len(clients):
        raise UsageError(f"{', '.join(clients)}: each client is given once")
    for name in ("screen", "html", "json_report"):
        if getattr(options, name):
            raise UsageError(f"--{name.replace('_', '-')} is about one client; of several, --out has a folder for each")
    return list(clients)


@contextlib.contextmanager
def opened(options: argparse.Namespace) -> Iterator[Feeds]:
    """What is asked for, as long as the block lasts. Raises ``InputError`` and ``UsageError``."""
    from nfslat.live.sources.feeds import Feeds

    if are_hosts(options):
        feeds = _streams(options)
    elif options.follow:
        feeds = _followers(options.captures)
    else:
        feeds = Feeds(_views(options.captures))
    try:
        yield feeds
    except InputError:  # of a capture that ends, and there may be a reason
        feeds.refuse_failed()
        raise
    else:
        feeds.refuse_failed()
    finally:
        feeds.close()


def _views(captures: list[str]) -> list[View]:
    """Of captures that are read as they are."""
    from nfslat.live.sources.feeds import View

    server, *clients = captures
    if len(clients) < 2:
        return [View({}, captures)]
    if not Path(server).is_file():
        raise UsageError(f"{server}: with several clients it is read more than once: give a file, or use --follow")
    return [View({}, [server, one], client=one) for one in clients]


def _streams(options: argparse.Namespace) -> Feeds:
    from nfslat.field.ssh import LOCAL
    from nfslat.live.sources.feeds import Feeds, Speaker, views_of
    from nfslat.live.sources.hosts import Streams

    hosts = {} if options.server is None else {"server": options.server}
    hosts |= {f"client{number if number > 1 else ''}": name for number, name in enumerate(options.client, 1)}
    interfaces = {
        side: name.removeprefix(LOCAL) or None
        if name.startswith(LOCAL)
        else getattr(options, f"{'server' if side == 'server' else 'client'}_interface")
        for side, name in hosts.items()
    }
    wanted = capture_command.wanted(options, hosts, interfaces, seconds=0)
    asked = argparse.Namespace(yes=True, quiet=False)
    voice = capture_command.voice_of(asked)
    speaker = Speaker(voice.say)
    streams = Streams(wanted, options.max_cpu or _MAX_CPU, dataclasses.replace(voice, say=speaker))
    names = {side: hosts[side].removeprefix(LOCAL) for side in wanted.clients}
    return Feeds(views_of(streams.feeds, names), list(streams.feeds.values()), streams.close, speaker)


def _followers(captures: list[str]) -> Feeds:
    from nfslat.live.sources.feeds import Feeds, views_of
    from nfslat.live.sources.follow import Follower

    server, *clients = captures
    with contextlib.ExitStack() as stack:
        followers = []

        def follow(side: str, name: str, readers: int = 1) -> None:
            followers.append(Follower(side, name, readers))
            stack.callback(followers[-1].close)

        follow("server", server, max(len(clients), 1))
        for one in clients:
            follow("client", one)
        ends = stack.pop_all()
    feeds = [one.feed for one in followers]
    names = {f"client{number}": one for number, one in enumerate(clients)}
    by_side = dict(zip(["server", *names], feeds, strict=True))
    return Feeds(views_of(by_side, names), feeds, ends.close)
