"""Parts of the fleet's report -> words that text and page have in common: moments, names, layers, definitions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from nfslat.answer.model import Clock, Verdict
from nfslat.answer.words import ms, percent
from nfslat.fleet.compare.windows import digits_of
from nfslat.fleet.model import Client, Fleet, Pattern, Phase, Problem, Run, Server, ServerWindow, SetApart
from nfslat.report.text_layout import count, count_of, plain, shorten
from nfslat.select import parse_moment

LETTERS = {"server": "S", "network": "N", "client": "C"}
STATES = {
    "server only": "no capture of their own",
    "client only": "no capture of the server",
    "failed": "could not be compared",
}
SCOPES = {"all": "All clients", "group": "Groups of clients", "one": "Single clients"}
_PAIR = 2
_ROUGH = 0.01  # of a smaller chance one digit says enough
_BOTH = ("compared", "inferred")
_INFERRED = (
    "inferred",
    "there is one capture, the server's or the client's: what the other host did is worked out from the clock in its "
    "TCP time stamps (RFC 7323) and from what it acknowledges. +/- ms: how far the means of that client may be off. To "
    "stand out, it must be slower than the typical one by more; what is said of it is of medium confidence at most.",
)
_WHOSE = {"client": "the clients'", "server": "the server's"}
_FRACTION = re.compile(r"[.,]\d+")


def letter(layer: str | None) -> str:
    """``S``, ``N``, ``C``, or ``?``."""
    return LETTERS.get(layer or "", "?")


def moment(at: str | None, day: str | None, digits: int = 0) -> str:
    """A time of day on the server's clock, with `digits` of its fraction; with its date where that is not the day of
    `day`, another moment."""
    if at is None:
        return "?"
    date, _, time = at.partition("T")
    if not time:
        return plain(at)
    fraction = _FRACTION.search(time)
    kept = f".{fraction[0][1:].ljust(digits, '0')[:digits]}" if fraction and digits else ""
    time = _FRACTION.sub(kept, time).removesuffix("Z").removesuffix("+00:00")
    return plain(time if day is not None and day.startswith(f"{date}T") else f"{date} {time}")


def span(begin: str | None, end: str | None, day: str | None) -> str:
    """When: ``09:00:00 to 09:05:00``, or ``all the time``; what is short with fractions of a second."""
    if begin is None and end is None:
        return "all the time"
    if end is None:
        return f"from {moment(begin, day)} on"
    if begin is None:
        return f"until {moment(end, day)}"
    digits = digits_of(parse_moment(end).ns - parse_moment(begin).ns)
    return f"{moment(begin, day, digits)} to {moment(end, day, digits)}"


def seconds(value: float) -> str:
    """Seconds with three digits or more: ``0.21``, ``22.3``, ``1,250``."""
    shown = f"{value:,.{2 if abs(value) < 10 else 1 if abs(value) < 100 else 0}f}"
    return shown.removeprefix("-") if float(shown.replace(",", "")) == 0 else shown


def size(number: int) -> str:
    """Bytes as people say them."""
    for unit, of in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= of:
            return f"{number / of:,.1f} {unit}"
    return f"{number} bytes"


def few_digits(number: int) -> str:
    """A count in at most seven columns: ``123,456``, ``1.34M``."""
    for limit, of, unit in ((10**6, 1, ""), (10**9, 10**6, "M"), (10**12, 10**9, "G"), (10**15, 10**12, "T")):
        if number < limit:
            return count(number) if of == 1 else f"{number / of:.3g}{unit}" if number < limit / 1.01 else f"999{unit}"
    return f"{number:.0e}"


def mean_over(windows: Sequence[ServerWindow], name: str, *, by_ops: bool = True) -> float | None:
    """Mean of a figure over some windows, weighted by their ops, or all alike; None where none of them has it."""
    found = [(value, one.ops if by_ops else 1) for one in windows if (value := getattr(one, name)) is not None]
    weight = sum(one for _, one in found)
    return math.fsum(value * one for value, one in found) / weight if weight else None


# ---- clients ----


def blamed(client: Client) -> SetApart | Verdict | None:
    """What sets it apart; where nothing does, the verdict of its own report."""
    return client.set_apart or client.verdict


def layer_of(client: Client) -> str:
    """The layer that is blamed; ``unknown`` where none is."""
    found = blamed(client)
    return (None if found is None else found.layer) or "unknown"


def cause_of(client: Client) -> str:
    """Layer and code of the cause that are blamed."""
    found = blamed(client)
    if found is None or found.layer is None:
        return "-"
    return f"{letter(found.layer)} {shorten(found.cause or found.layer, 40)}"


def compared(clients: Iterable[Client]) -> list[Client]:
    """Those with figures of both sides, measured or inferred."""
    return [one for one in clients if one.state in _BOTH and one.client_ms is not None]


def not_compared(clients: Iterable[Client]) -> dict[str, list[Client]]:
    """The others, by their state."""
    found: dict[str, list[Client]] = {}
    for one in clients:
        if one.state not in _BOTH:
            found.setdefault(one.state, []).append(one)
        elif one.client_ms is None:
            found.setdefault("compared, no op in both captures", []).append(one)
    return found


def mean_ms(client: Client, part: str) -> float:
    """The mean of the client's, network's or server's part of the response time, ms; 0 where it is not known."""
    summary = getattr(client, f"{part}_ms")
    return 0.0 if summary is None else float(summary.mean)


def error(client: Client) -> str:
    """How far the mean of what is inferred may be off, ms; ``-`` where all is measured."""
    return "-" if client.inferred is None else ms(client.inferred.mean_error_ms, 2)


def inferred_line(fleet: Fleet) -> str:
    """Clients of whom there is one capture, and how well the other host is inferred; "" where all is measured."""
    inferred = [client.inferred for client in compared(fleet.clients) if client.inferred is not None]
    if not inferred:
        return ""
    errors = sorted(half.mean_error_ms for half in inferred)
    low, high = ms(errors[0]), ms(errors[-1])
    sides = {half.side for half in inferred}
    whose = _WHOSE[sides.pop()] if len(sides) == 1 else "the other host's"
    of = count_of(len(fleet.clients), "client")
    who = of if len(inferred) == len(fleet.clients) else f"{count(len(inferred))} of {of}"
    return (
        f"For {who} there is one capture each, not two: {whose} times are inferred from TCP time stamps, means to +/- "
        f"{low if low == high else f'{low} to {high}'} ms."
    )


def why_not_inferred(clients: Sequence[Client]) -> str:
    """Why, of the first of them; "" where nothing was tried."""
    first = next((one for one in clients if one.why_not_inferred), None)
    return "" if first is None else f"{shorten(first.name, 40)}: {first.why_not_inferred}"


def common_prefix(names: Sequence[str]) -> str:
    """What all names begin with, up to a separator, so that no number is cut; "" of fewer than two names."""
    if len(set(names)) < 2:
        return ""
    low, high = min(names), max(names)
    same = next((i for i, (one, other) in enumerate(zip(low, high, strict=False)) if one != other), len(low))
    found = re.match(r".*[.:_/-]", low[:same], re.DOTALL)
    return found[0] if found else ""


def clock_error(clock: Clock | None) -> str:
    """How far one-way figures of a client may be off, ms; with a mark where its clock was set or fits nothing."""
    if clock is None:
        return "-"
    if not clock.fits or clock.bound_ms is None:
        return "no fit"
    return ms((clock.bound_ms[1] - clock.bound_ms[0]) / 2, 2) + ("!" if clock.steps else "")


def lost(client: Client) -> str:
    """Segments that were lost, or what share of the bytes was sent again where only that is known."""
    if client.lost_segments is not None:
        return few_digits(client.lost_segments)
    return "-" if client.sent_again_share is None else percent(client.sent_again_share).replace(" ", "")


def slots_of(client: Client) -> str:
    """The slots that hold it; ``no`` where nothing does, ``?`` where that cannot be told."""
    if client.slots is not None:
        return count(client.slots)
    return {"nothing": "no", "workers": "no"}.get(client.slots_held, "?")


# ---- patterns ----


def who(pattern: Pattern) -> str:
    """``all 100 clients``, ``7 of 7 clients with subnet 10.9.3.0/24``, ``10.9.1.18``."""
    hit = len(pattern.clients)
    if pattern.scope == "all":
        everybody = "the only client" if hit == 1 else "both clients" if hit == _PAIR else f"all {count(hit)} clients"
        return everybody if hit == pattern.of else f"{count(hit)} of {count_of(pattern.of, 'client')}"
    if hit == 1 and (pattern.scope == "one" or pattern.dimension is None):
        return plain(pattern.clients[0])
    if pattern.dimension is None:
        return f"{count_of(hit, 'client')}, which no attribute tells from the others"
    named = f"{plain(pattern.dimension)} {plain(pattern.value or '')}".strip()
    return f"{count(hit)} of {count_of(pattern.of, 'client')} with {named}"


def sentence(pattern: Pattern) -> str:
    """Its text with a capital in front and a full stop behind; the name of a client stays as it is."""
    text = pattern.text
    if not any(text.startswith(name) for name in pattern.clients):
        text = f"{text[:1].upper()}{text[1:]}"
    return text.rstrip(".") + "."


def no_pattern(fleet: Fleet) -> str:
    """What to say where there is none."""
    if len(fleet.clients) == 1:
        return "There is one client: its own report says what adds time (see below), and there is nothing to compare."
    return "No pattern is found: nothing that lasts in all clients, in a group, or in one."


def how_much(pattern: Pattern) -> str:
    """``21.0 ms an op, 1,250 s, 72.0 % of the time of all ops``; "" where nothing is known."""
    found = []
    if pattern.effect_ms is not None:
        found.append(f"{ms(pattern.effect_ms)} ms an op")
    if pattern.excess_s is not None:
        found.append(f"{seconds(pattern.excess_s)} s")
    if pattern.share is not None:
        found.append(f"{percent(pattern.share)} of the time of all ops")
    return ", ".join(found)


def how_sure(pattern: Pattern) -> str:
    """``high``, ``high (p = 0.0003)``."""
    p_value = pattern.p_value
    chance = "" if p_value is None else f" (p = {p_value:.{1 if p_value < _ROUGH else 2}g})"
    return plain(pattern.confidence) + (" (p < 1e-6)" if (p_value or 1) < 1e-6 else chance)


# ---- the server, the run ----


def threads(estimate: int | None, bounds: tuple[int, int] | None) -> str:
    """``8 threads (7 to 9)``; "" where nothing shows how many there are."""
    if estimate is None:
        return ""
    return count_of(estimate, "thread") + (
        f" ({bounds[0]} to {bounds[1]})" if bounds is not None and bounds[0] != bounds[1] else ""
    )


def server_line(server: Server) -> str:
    """The server in a sentence or two."""
    other = [plain(one) for one in server.addresses if one != server.name]
    also = f" (also {', '.join(other[:4])}{', ...' if len(other) > 4 else ''})" if other else ""
    unseen = len(server.clients_not_captured)
    flying = server.inflight
    limit = threads(flying.threads_estimate, flying.threads_range)
    told = f"{limit}{', all busy at times' if flying.limited else ''}" if limit else (
        f"at least {count_of(flying.threads_lower_bound, 'thread')}; nothing shows how many there are"
    )  # fmt: skip
    wait = "" if flying.queue_ms is None or not limit else f"; a call waits {ms(flying.queue_ms)} ms for one on average"
    return (
        f"{plain(server.name)}{also}: {count_of(server.clients, 'client')}"
        f"{f', {count(unseen)} of them not captured' if unseen else ''}, {count_of(server.ops, 'op')}; "
        f"at most {count(flying.max)} in flight, {ms(flying.mean, 1)} on average; {told}{wait}."
    )


def phase_line(phase: Phase, day: str | None) -> str:
    """``09:05:00 to 09:10:00: limited by 8 threads (8 to 9), calls wait 21.0 ms; server SRT 24.1 ms; 1,000 ops``."""
    limit = threads(phase.threads, phase.threads_range) or "its threads"
    state = f"limited by {limit}" if phase.limited else "not limited by threads"
    if phase.cannot:
        state = f"whether threads limit it cannot be told ({phase.cannot})"
    wait = "" if phase.queue_ms is None or not phase.limited else f", calls wait {ms(phase.queue_ms)} ms"
    server = "" if phase.server_ms is None else f"; server SRT {ms(phase.server_ms)} ms"
    return f"{span(phase.begin, phase.end, day)}: {state}{wait}{server}; {count_of(phase.ops, 'op')}"


def facts_line(fleet: Fleet) -> str:
    """What the answer rests on."""
    of, captures = len(fleet.clients), fleet.captures
    clock = "the server's clock" if captures.server_ops else "the clients' clocks"
    when = f"{moment(captures.begin, None)} to {moment(captures.end, captures.begin)} by {clock}"
    if captures.begin is None and captures.end is None:
        when = "at a time that is not known"
    one_capture = (
        f" and {count(captures.inferred_ops)} in one, the other side inferred" if captures.inferred_ops else ""
    )
    shown = f"server's: {count(captures.server_ops)}, clients': {count(captures.client_ops)}"
    return (
        f"{count(len(compared(fleet.clients)))} of {count_of(of, 'client')} compared, "
        f"{count_of(captures.matched_ops, 'op')} in both captures{one_capture} ({shown}); "
        f"{count_of(captures.files, 'file')}, {size(captures.bytes)}, {when}."
    )


def problem_line(problem: Problem) -> str:
    """What, why, and what the report lacks for it."""
    return f"{problem.what}: {problem.why}" + (f". Missing: {problem.cost}" if problem.cost else "")


def run_lines(run: Run) -> list[str]:
    """How the report was made."""
    hosts = sorted({one.host for one in run.workers})
    on = f" on {', '.join(hosts[:4])}{', ...' if len(hosts) > 4 else ''}" if hosts else ""
    peaks = [one.peak_rss_bytes for one in run.workers if one.peak_rss_bytes is not None]
    limits = [one.memory_limit_bytes for one in run.workers if one.memory_limit_bytes is not None]
    memory = f", at most {size(max(peaks))} of memory each" if peaks else ""
    memory += f" (limit {size(min(limits))})" if peaks and limits else ""
    tasks = ", ".join(f"{count(number)} {name}" for name, number in run.tasks.items()) or "none"
    where = "This machine" if run.scheduler == "local" else f"Scheduler {run.scheduler}"
    lines = [f"{where}: {count_of(len(run.workers), 'worker')}{on}{memory}; {run.wall_s:,.1f} s. Tasks: {tasks}."]
    if run.dashboard is not None:
        lines.append(f"Dashboard: {run.dashboard}")
    if run.out is not None:
        lines.append(f"The parts are in {run.out}: a run with the same --out takes from there what has not changed.")
    return lines


def definitions(fleet: Fleet) -> list[tuple[str, str]]:
    """Every figure of the report explained: (word, meaning)."""
    return [
        ("client SRT", "of a matched op, from the first byte of the call to the last byte of the reply at the client's "
         "wire = network + server SRT. Each is of the same op on one host's clock; the difference needs no clock."),
        ("server SRT", "from the last byte of the call to the first byte of the reply at the server's wire. queue: of "
         "it, the wait for a server thread, which is worked out from all clients' calls together."),
        ("typical client", "the median over the clients, operation by operation, of the mean time of such ops."),
        ("excess", "what the ops of a client took beyond what the same operations take at the typical client, summed "
         "over its ops, in seconds: network, server and queue parts sum to it. Negative: it is better off than most. "
         "In a stretch of time it is against the typical client in calm times (the lower quartile of all stretches)."),
        ("p50, p95, p99", "so many percent of the ops took at most this long. Of one client exact; over several "
         f"clients from histograms that can be added, with a relative error of at most {percent(fleet.relative_error)}."
         " Means are exact everywhere."),
        ("lost", "TCP segments that were sent and did not arrive between the two capture points, both ways; - where "
         "that is not known. Loss costs time only where the cause says so."),
        ("clock", "+/- ms by which one-way figures of the client may be off; ! where a clock was set. Client SRT, "
         "network and server are right whatever the clocks show."),
        ("slots", "the number of slots that is likely to hold the client (more calls wait above its wire, where no "
         "packet shows them); no: nothing holds it, or its own workers do; ?: cannot be told."),
        ("layer and cause", "what sets the client apart; where nothing does, what its own two-sided report blames: "
         "S server, N network, C client, ? not "
         "known. sure: how sure that is."),
        ("all, groups, single clients", "what adds time is looked for in all clients together, then in those that "
         "share an attribute (subnet, server address, NFS version, the manifest's own), then in each one. p: that "
         "chance makes such a group, corrected for the number of groups that were looked at."),
        ("windows", f"stretches of {fleet.window_s:.4g} s by the server's clock; an op counts where its call "
         "came."),
        ("matched op", "the same op in the server's and in the client's capture; only these are compared"
         + (", and those of which one host's times are inferred." if fleet.captures.inferred_ops else ".")),
        *([_INFERRED] if fleet.captures.inferred_ops else []),
    ]  # fmt: skip
