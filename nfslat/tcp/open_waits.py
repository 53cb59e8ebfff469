"""A conversation -> what its ends still waited for when the capture ended, or a reset, or the next connection.

Nothing that came ends such a wait, so it is none of the silences. Only who asked again is taken to wait: with a probe,
a keep-alive, another SYN, or bytes that it had sent before. An idle connection asks for nothing, nor does a transfer in
whose middle the capture ends.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from nfslat.model.protocol import NULL
from nfslat.model.record import Record
from nfslat.model.tables import I64, Bool
from nfslat.tcp.packets import ACK, FIN, RST, SYN, Kind, Packets, Talk
from nfslat.wire.hanging import OFTEN, asks_on, is_long, is_shut_for_long

_ASKS = (Kind.KEEP_ALIVE, Kind.ZERO_WINDOW_PROBE)


class Hang(StrEnum):
    """What an end waits for, or what became of its connection."""

    WINDOW = "shut-window"  # the other end's window is shut, and it probes it
    ACK = "no-ack"  # what it sent again and again is not acknowledged
    SYN = "no-answer-to-syn"
    HALF_OPEN = "half-open"  # its SYN-ACK is not acknowledged
    KEEP_ALIVE = "no-answer-to-keep-alive"
    RESET = "reset"  # instead of an answer to its last data or keep-alive came a RST
    REFUSED = "refused"  # the same, to its SYN


class OpenWait(Record, eq=False):
    """What one end waits for. Rows are those of `Talk.packets`."""

    hang: Hang
    waiter: int  # the direction in which it sends
    since: int  # row of what began it: what shut the window, the first transmission, the RST of one that was reset
    tries: I64  # rows of its SYNs, transmissions, probes or keep-alives; of a reset the RSTs of the other end
    answers: int  # packets of the other end meanwhile
    bytes: int  # of the waiter that are not acknowledged
    reset: int | None  # row of the RST that ended it


def open_waits(talk: Talk) -> tuple[OpenWait, ...]:
    """One for each end that waits, or for the one that was reset; none as a rule."""
    if not _may_wait(talk.packets):
        return ()
    reset = _reset(talk.packets)
    found = [one for way in (0, 1) if (one := _Side(talk, way, reset).waits()) is not None]
    if found or reset is None:
        return tuple(found)
    cut = _Side(talk, 1 - int(talk.packets.direction[reset]), reset).was_reset(reset)
    return () if cut is None else (cut,)


def _may_wait(packets: Packets) -> bool:
    """Was anything sent again, or a FIN behind which more may come, or did an end never get beyond its SYN?"""
    if (packets.kind > Kind.AHEAD).any() or (packets.flags & (FIN | RST) != 0).any():
        return True
    is_syn = packets.flags & SYN != 0
    return bool(is_syn.any()) and not all((packets.direction[~is_syn] == way).any() for way in (0, 1))


def is_unanswered(talk: Talk, waits: tuple[OpenWait, ...]) -> bool:
    """Does a capture of one end alone show that the other one is silent? Not what goes on, or covers more and more:
    that is a mirror of one direction, or another way back."""
    packets = talk.packets
    if not any(one.hang in (Hang.ACK, Hang.SYN, Hang.HALF_OPEN) for one in waits):
        return False
    data = packets.size > 0
    begins_it = data.any() and packets.seq[waits[0].tries[0]] > packets.seq[data].min()
    return not begins_it and bool((packets.ack == packets.ack[0]).all())


def _reset(packets: Packets) -> int | None:
    """Row of the RST that ended the connection: its sender says nothing more, but for others."""
    is_reset = packets.flags & RST != 0
    if not is_reset.any():
        return None
    found = []
    for way in (0, 1):
        own = packets.direction == way
        other = np.flatnonzero(own & ~is_reset)
        resets = np.flatnonzero(own & is_reset)
        found += resets[resets > (other[-1] if len(other) else -1)][:1].tolist()
    return min(found, default=None)


class _Side:
    """One end, and what it heard, up to a reset."""

    def __init__(self, talk: Talk, way: int, reset: int | None) -> None:
        self.packets, self.way, self.reset, self.level = talk.packets, way, reset, talk.level
        self.until_ns = talk.until_ns if reset is None else int(talk.packets.t_ns[reset])
        p = self.packets
        lives = p.flags & RST == 0
        if reset is not None:
            lives[reset:] = False
        self.own: I64 = np.flatnonzero(lives & (p.direction == way))
        self.heard: I64 = np.flatnonzero(lives & (p.direction != way))

    def waits(self) -> OpenWait | None:
        """What it waits for; None: nothing that shows."""
        if not len(self.own):
            return None
        opening = self.packets.flags[self.own] & (SYN | ACK)
        if opening[0] & SYN and (opening == opening[0]).all():
            return self._for_handshake(is_answer=bool(opening[0] & ACK))
        return self._for_window() or self._for_ack() or self._for_keep_alive()

    def _for_handshake(self, *, is_answer: bool) -> OpenWait | None:
        p, tries = self.packets, self.own
        if (p.flags[self.heard[self.heard > tries[0]]] & SYN == 0).any() or (not is_answer and len(self.heard)):
            return None
        is_refused = not is_answer and self.reset is not None and p.direction[self.reset] != self.way
        hang = Hang.REFUSED if is_refused else Hang.HALF_OPEN if is_answer else Hang.SYN
        if not is_refused and not self._is_long(tries, 2):
            return None
        return self._open(hang, int(tries[0]), tries)

    def _for_window(self) -> OpenWait | None:
        p = self.packets
        current = self.heard[(p.ack[self.heard] != NULL) & (p.flags[self.heard] & SYN == 0)]
        if self.level is None:
            current = current[p.ack[current] == np.maximum.accumulate(p.ack[current])]  # the others were overtaken
            is_shut = p.window[current] == 0
        else:
            current = current[self.level.is_current[current]]
            is_shut = self.level.is_shut[current]
        if not len(current) or not is_shut[-1]:
            return None
        if self.level is not None and (self.level.opened_frame[self.way] > p.frame[current[-1]]).any():
            return None
        opened = np.flatnonzero(~is_shut)
        shut = int(current[opened[-1] + 1 if len(opened) else 0])
        behind = self.own[self.own > shut]
        asks = behind[np.isin(p.kind[behind], (*_ASKS, Kind.RETRANSMISSION))]
        if not len(asks) or not is_shut_for_long(int(p.t_ns[shut]), self.until_ns):
            return None
        return self._open(Hang.WINDOW, shut, asks)

    def _for_ack(self) -> OpenWait | None:
        p, data = self.packets, self._data()
        wanted = self._acked(data)
        tries = data[(p.seq[data] <= wanted) & (self._reach(data) > wanted)]
        if not self._is_long(tries, OFTEN) or len(tries) < 2:
            return None
        before_ns, last_ns = p.t_ns[tries[-2:]].tolist()
        if self.reset is None and not asks_on(before_ns, last_ns, len(tries), self.until_ns):
            return None
        # Who goes on hears answers that the capture does not show.
        goes_on = np.isin(p.kind[data[data > tries[1]]], (Kind.NEW, Kind.AHEAD)).any()
        return None if goes_on and not len(self.heard) else self._open(Hang.ACK, int(tries[0]), tries)

    def _for_keep_alive(self) -> OpenWait | None:
        if not len(self.heard):
            return None  # near a mirror of one direction keep-alives look the same, answered or not
        behind = self.own[self.own > self.heard[-1]]
        if not self._is_long(behind, 2) or (self.packets.kind[behind] != Kind.KEEP_ALIVE).any():
            return None
        return self._open(Hang.KEEP_ALIVE, int(behind[0]), behind)

    def was_reset(self, reset: int) -> OpenWait | None:
        """Did the RST in row `reset` come instead of an answer, to who opened the connection, or instead of an ACK?
        Behind a FIN, and behind what it had answered already, the other end only closes in a hurry."""
        p = self.packets
        if (p.flags[: reset + 1] & FIN).any():
            return None
        asked = self.own[(p.size[self.own] > 0) | np.isin(p.kind[self.own], _ASKS)]
        answered = self.heard[p.size[self.heard] > 0]
        if not len(asked) or (len(answered) and answered[-1] > asked[-1]):
            return None
        resets = np.flatnonzero((p.flags & RST != 0) & (p.direction != self.way))
        found = self._open(Hang.RESET, reset, resets)
        has_opened = (p.flags[self.own] & (SYN | ACK) == SYN).any()
        is_asking = np.isin(p.kind[asked[-1]], _ASKS)
        return found if found.bytes or has_opened or is_asking else None

    def _open(self, hang: Hang, since: int, tries: I64) -> OpenWait:
        data = self._data()
        sent = self.packets.seq[data] + self.packets.size[data]
        return OpenWait(
            hang=hang,
            waiter=self.way,
            since=since,
            tries=tries,
            answers=int(np.count_nonzero(self.heard > since)),
            bytes=max(int(sent.max()) - self._acked(data), 0) if len(data) else 0,
            reset=self.reset,
        )

    def _is_long(self, tries: I64, enough: int) -> bool:
        """Was so often asked that nobody had to wait for long, or less often, and then nothing came for long?"""
        if not len(tries):
            return False
        return is_long(int(self.packets.t_ns[tries[0]]), self.until_ns, is_often=len(tries) >= enough)

    def _data(self) -> I64:
        """Rows with some of the stream, a FIN included."""
        p, own = self.packets, self.own
        brings: Bool = (p.size[own] > 0) | (p.flags[own] & FIN != 0)
        return np.asarray(own[brings & ~np.isin(p.kind[own], _ASKS)])

    def _reach(self, data: I64) -> I64:
        return np.asarray(self.packets.seq[data] + self.packets.size[data] + (self.packets.flags[data] & FIN != 0))

    def _acked(self, data: I64) -> int:
        """The first position that is not acknowledged; of one that hears nothing the first that it sent."""
        acks = self.packets.ack[self.heard]
        acks = acks[acks != NULL]
        if len(acks):
            return int(acks.max())
        return int(self.packets.seq[data].min()) if len(data) else 0
