"""What was found of SQL*Net -> text."""

from __future__ import annotations

from collections.abc import Iterator

from nfslat.answer.words import ms, percent
from nfslat.report.blocks import Block, Gap, Prose, Table, Title
from nfslat.report.columns import columns, table
from nfslat.report.text_layout import count, count_of
from nfslat.tcp.sqlnet.conversation import NEARLY, Compared, Sent, Sqlnet, Turns

_GUIDE = "Oracle Net Services Administrator's Guide, Configuring Session Data Unit"
_FEW_FULL = 0.01  # of the data packets: then a larger SDU has nothing to win
_DEFAULT_BEFORE_11, _DEFAULT = 2048, 8192  # Administrator's Guide 10.2 and 11.2
_MOST_SIZES, _ROOM = 4, 30  # as many as fit so many columns


def sqlnet_section(found: Sqlnet | None) -> Iterator[Block]:
    """SDU, whether it is filled, connect time and query time; nothing where the conversation is not SQL*Net."""
    if found is None:
        return
    yield Title("SQL*Net")
    yield Prose(_sdu(found))
    for line in _turned_away(found):
        yield Prose(line)
    yield Gap()
    yield from _table(found)
    yield Prose(_filled(found))
    yield Gap()
    for line in _times(found):
        yield Prose(line)


def trace_section(compared: Compared) -> Iterator[Block]:
    """The SQL*Net trace beside the packets."""
    yield Title("SQL*Net trace against the packets")
    yield Prose(_sdu_of_both(compared))
    whose = f"the {compared.side}'s" if compared.side else "of one of the two sides; the lengths do not reveal which"
    yield Prose(f"The trace is {whose}. TNS packets by their lengths:")
    yield table([("sent", compared.sent), ("received", compared.received)], _BOTH)


_BOTH = (
    *columns("text", "0 "),
    *columns("count", "1.both in both", "1.only_trace only in the trace", "1.only_packets only in the capture"),
)


def _sdu(found: Sqlnet) -> str:
    connect, accept = found.connect, found.accept
    service = f", service {connect.service}" if connect and connect.service else ""
    if found.sdu_bytes is None:
        if connect is not None:
            return (
                f"The client asks for an SDU of {connect.sdu_bytes} bytes (TDU {connect.tdu_bytes}){service}; no "
                "accept packet was captured, so the agreed size is not known."
            )
        least = f"; data packets have up to {found.sdu_at_least} bytes, so it is at least that" * bool(
            found.sdu_at_least
        )
        return f"SDU not known: neither connect nor accept packet was captured{least}."
    limit = {
        "client": "The client asked for no more, and the smaller side wins",
        "server": f"The client asked for {connect.sdu_bytes if connect else '-'}, but the smaller side wins",
        None: "What the client asked for was not captured",
    }[found.sdu_limited_by]
    agreed = f" (TDU {accept.tdu_bytes}, version {accept.version})" if accept else ""
    return f"SDU {found.sdu_bytes} bytes{agreed}{service}. {limit}."


def _turned_away(found: Sqlnet) -> list[str]:
    lines = []
    if found.client is None:
        lines.append("It is not known which side is the client; the side that sent first is called the client here.")
    if found.connects > 1:
        lines.append(f"{found.connects} connect packets: the server asked for it again (resend), one round trip each.")
    if found.refused is not None:
        number = f" with error {found.refused}" if found.refused else ""
        lines.append(f"The server refused the connection{number}.")
    if found.redirected_to is not None:
        lines.append(f"The client was redirected to {found.redirected_to}: that is another connection.")
    return lines


def _table(found: Sqlnet) -> Iterator[Block]:
    headers = ["sent by", "data packets", "bytes", "largest", "full", "most frequent lengths", "others"]
    rows = []
    for name, sent in (("client", found.from_client), ("server", found.from_server)):
        shown = [f"{size.bytes} ({count(size.count)})" for size in sent.sizes]
        often = next(text for few in range(_MOST_SIZES, -1, -1) if len(text := ", ".join(shown[:few])) <= _ROOM)
        others = ", ".join(f"{kind} {number}" for kind, number in sent.types.items() if kind != "data")
        largest = "-" if sent.largest_bytes is None else count(sent.largest_bytes)
        full = "-" if sent.full is None else count(sent.full)
        rows.append([name, count(sent.types.get("data", 0)), count(sent.data_bytes), largest, full, often, others])
    yield Table("lrrrrl", headers[:-1], [row[:-1] for row in rows])
    for row in rows:
        if row[-1]:
            yield Prose(f"The {row[0]} also sent: {row[-1]}.")
    unseen = found.from_client.unseen_bytes + found.from_server.unseen_bytes
    whole = unseen + found.from_client.seen_bytes + found.from_server.seen_bytes
    if unseen:
        yield Prose(
            f"Counted are TNS packets that begin a TCP packet; {count_of(unseen, 'byte')} of {count(whole)} "
            f"({percent(unseen / whole)}) lie outside of them."
        )


def _filled(found: Sqlnet) -> str:
    if found.sdu_bytes is None:
        return ""
    parts = [(name, sent) for name, sent in (("client", found.from_client), ("server", found.from_server))]
    fuller = [(name, sent) for name, sent in parts if _share(sent) > _FEW_FULL]
    if not any(sent.types.get("data") for _, sent in parts):
        return ""
    if not fuller:
        return "The SDU is hardly ever full: a larger one would change nothing here."
    shares = " and ".join(f"{percent(_share(sent))} of the {name}'s" for name, sent in fuller)
    text = f"{shares} data packets are full (at most {NEARLY} bytes free): units of the application are cut there."
    if found.sdu_bytes <= _DEFAULT:
        default = " (the default of 10.2)" if found.sdu_bytes == _DEFAULT_BEFORE_11 else ""
        text += (
            f" {count(found.sdu_bytes)}{default} can be raised with DEFAULT_SDU_SIZE in sqlnet.ora at both sides, or "
            "SDU in the connect descriptor: 512 to 65535 bytes in 11.2, up to 2 MB in 23ai; best 70 bytes more than "
            f"the messages that are sent most ({_GUIDE}). New connections only; it takes memory for each."
        )
    return text


def _share(sent: Sent) -> float:
    data = sent.types.get("data", 0)
    return (sent.full or 0) / data if data else 0.0


def _times(found: Sqlnet) -> list[str]:
    phases = found.phases
    parts = []
    if phases.connect_ms is not None:
        parts.append(f"connect {ms(phases.connect_ms)} ms (SYN to accept)")
    if phases.logon_ms is not None:
        parts.append(f"logon {ms(phases.logon_ms)} ms (to the answer to the last logon call)")
    parts.append(f"queries {ms(phases.query_ms)} ms (to the last data)")
    lines = [f"Time: {', '.join(parts)}."]
    if found.accept is not None and phases.logon_ms is None:
        lines[0] += " The logon could not be separated; it is included in the time of the queries."
    if phases.turns.count:
        lines.append(_turns(phases.turns))
    return lines


def _turns(turns: Turns) -> str:
    return (
        f"In the time of the queries {count_of(turns.count, 'turn')}: {ms(turns.waited_ms)} ms from requests to the "
        f"end of their answers ({ms(turns.waited_ms / turns.count)} ms each), {ms(turns.between_ms)} ms in between, "
        "when the client had no request outstanding."
    )


def _sdu_of_both(compared: Compared) -> str:
    trace, packets = compared.trace_sdu_bytes, compared.packets_sdu_bytes
    if trace is None or packets is None:
        known = [
            f"the {name} says {size}" for name, size in (("trace", trace), ("capture", packets)) if size is not None
        ]
        return f"SDU: {', '.join(known) or 'neither trace nor capture says it'}; nothing to compare it with."
    if trace == packets:
        return f"Both say that the SDU is {packets} bytes."
    return (
        f"The trace says SDU {trace}, the packets {packets} bytes: the packets are believed. The trace may be of "
        "another connection, or state what its side asked for."
    )
