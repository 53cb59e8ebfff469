"""Report -> its pairs of hosts, where there are several: what passes between each, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nfslat.answer.model import HostPair
from nfslat.answer.words import adding_up, percent
from nfslat.report.blocks import Block, Prose, Table, Title
from nfslat.report.text_layout import count, count_of

_MOST = 10  # that a screen has


def pairs_section(pairs: Sequence[HostPair], *, brief: bool = False) -> Iterator[Block]:
    """A row each; nothing where there is only one."""
    if not pairs:
        return
    yield Title("Pair by pair: who calls whom")
    rows = []
    for one in pairs[: _MOST if brief else None]:
        (network, server), client = adding_up([one.network_ms, one.server_ms])
        hosts = one.client, one.server
        rows.append([*hosts, count(one.ops), percent(one.time_share), client, server, network, _said(one)])
    yield Table("llrrdddl", ["from", "to", "ops", "time", "client", "server", "network", "mostly"], rows)
    if len(pairs) > len(rows):
        yield Prose(f"{count_of(len(pairs) - len(rows), 'pair')} more: --sections pairs", style="dim")
    if not brief:
        yield Prose(
            "Means in ms; time is the share of all response times. Each pair is judged by itself, with a clock of its "
            "own, the threads of its server (whoever takes them) and the slots of its connections. --client-addr and "
            "--server-addr show one by itself."
        )


def _said(one: HostPair) -> str:
    said = one.cause or one.layer or one.largest_layer or one.outcome or "not judged alone"
    return said if one.threads_estimate is None else f"{said}; {count(one.threads_estimate)} at once"
