"""Ops, loose messages and TCP details of a side -> the ops that were sent again on a new connection."""

from __future__ import annotations

import numpy as np

from nfslat.details import Details
from nfslat.tables import Bool, Loose, Ops, State


def sent_on_a_new_connection(ops: Ops, loose: Loose, details: Details) -> Bool:
    """Mask of the ops whose call came again where a connection had ended: from the same port (NFSv3) or another."""
    again = np.flatnonzero((loose.state == State.RETRANSMITTED) & (loose.is_reply == 0) & (loose.op >= 0))
    row = loose.op[again]
    made_anew = np.isin(loose.conn[again], details.tcp.conn[details.tcp.reconnect > 0])
    moved = loose.conn[again] != ops.conn[row]
    out = np.zeros(len(ops), dtype=np.bool_)
    out[row[made_anew | moved]] = True
    return out & (ops.transmissions > 1)
