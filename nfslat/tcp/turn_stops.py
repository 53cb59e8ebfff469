"""Turns and the silences of both senders -> those inside requests and responses, each with what it waited for."""

from __future__ import annotations

import numpy as np

from nfslat.model.tables import I8, I32, I64, Table
from nfslat.tcp.silences import Silences
from nfslat.tcp.turn_rows import TurnRows
from nfslat.wire.stalls import DELAYED_ACK_NS, silence_ns

STALL_NS = DELAYED_ACK_NS[0]  # below the shortest delayed ACK there is by more than a clock tick (Linux: 40 ms)


class Stops(Table):
    """Silences of `STALL_NS` or more between two packets of one request or response: requests first, each in order."""

    turn: I32  # row of `TurnRows`
    in_response: I8  # 1; 0: in the request
    ns: I64
    held_ns: I64  # of that the time for which the receiver held its ACK back; 0 where it is no delayed ACK
    cause: I8  # `causes.code`


def find_stops(rows: TurnRows, silences: tuple[Silences, Silences], asker: int) -> Stops:
    """Silences within requests and responses."""
    parts = [
        _inside(rows.request_row, rows.request_last_row, silences[asker], in_response=0),
        _inside(rows.response_row, rows.response_last_row, silences[1 - asker], in_response=1),
    ]
    return Stops.from_columns({name: np.concatenate([part[name] for part in parts]) for name in Stops.columns()})


def _inside(begins: I32, ends: I32, silences: Silences, *, in_response: int) -> dict[str, I64 | I8]:
    """Columns of `Stops`, of the messages of one sender, each from one row to another, with what it sent again."""
    ns = silence_ns(silences.pauses)
    long = np.flatnonzero(ns >= STALL_NS)
    before, after = silences.data[silences.at[long] - 1], silences.data[silences.at[long]]
    turn = np.searchsorted(begins, before, side="right") - 1
    inside = (turn >= 0) & (after <= np.append(ends, -1)[turn])
    long, turn = long[inside], turn[inside]
    return {
        "turn": turn,
        "in_response": np.full(len(turn), in_response),
        "ns": ns[long],
        "held_ns": silences.held_ns[long],
        "cause": silences.causes[long],
    }
