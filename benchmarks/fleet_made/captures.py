"""A story -> the captures of its server and its clients, each on the clock of its host, and the truth as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fleet_made.packets import BLOCK_BYTES, SNAPLEN, Shape, address, file_header, filled, handles, macs, shapes, swapped
from fleet_made.plan import EPOCH_NS, LOOKUP, MS, Clock, Plan
from fleet_made.segments import Segments, segments
from fleet_made.story import I64, Story, play
from fleet_made.truth import truth

_CHUNK = 8192  # packets that are put in their places at a time
_NFS_PORT = 2049
_LAST_PORT, _PORTS = 987, 45  # Wireshark takes 988 for Lustre, 925 and others below 1024 for something else, too


def make(
    plan: Plan, folder: Path, *, nano: bool = False, files: int = 1, snaplen: int = SNAPLEN, stamped: bool = False
) -> dict[str, object]:
    """Play the plan; write server/ and clients/NAME/, so many rotated files each, and truth.json, which is returned.
    `stamped`: with TCP time stamps in ticks of 1 ms."""
    story = play(plan)
    kinds = shapes(snaplen, stamped=stamped)
    what = segments(story, kinds)
    facts = _Facts(story, kinds, nano, snaplen)
    client_of = story.conn_client[what.conn]
    _write(folder / "server", "server", facts.capture(what, "server", plan.server.clock), files, facts)
    for number, client in enumerate(plan.clients):
        mine = facts.capture(what.take(client_of == number), "client", client.clock)
        _write(folder / "clients" / client.name, "client", mine, files, facts)
    told = truth(story)
    (folder / "truth.json").write_text(json.dumps(told, indent=1) + "\n")
    return told


class _Facts:
    """What packets hold that depends on their connection, and on their op."""

    def __init__(self, story: Story, kinds: list[Shape], nano: bool, snaplen: int) -> None:
        plan = story.plan
        self.kinds, self.nano, self.snaplen = kinds, nano, snaplen
        rng = np.random.default_rng(plan.seed + 1)
        ways = len(story.conn_client)
        hosts = np.array([address(one.address) for one in plan.clients], dtype=np.int64)
        server = np.full(ways, address(plan.server.address), dtype=np.int64)
        first = np.concatenate(([0], np.cumsum([one.nconnect for one in plan.clients])))
        port = _LAST_PORT - rng.integers(_PORTS, size=len(hosts))[story.conn_client]
        port -= np.arange(ways) - first[story.conn_client]
        self.ends = (hosts[story.conn_client], server)
        self.macs = (macs(hosts)[story.conn_client], macs(server))
        self.ports = (port, np.full(ways, _NFS_PORT))
        self.names = np.array([one.name.encode() for one in plan.clients], dtype="S12")[story.conn_client]
        self.uids = 1000 + story.conn_client
        # XIDs count up on each connection in the order in which its calls leave.
        self.xid = np.zeros(len(story.conn), dtype=np.uint32)
        for ops in story.order[0]:
            self.xid[np.array(ops, dtype=np.int64)] = swapped(int(rng.integers(1 << 32)) + np.arange(len(ops)))
        parents = np.array([file.parent for file in story.files])
        self.of_file = handles(np.arange(len(story.files)))
        self.file_names = np.array([file.name.encode() for file in story.files], dtype="S12")
        self.found = story.file
        self.asked = np.where(story.kind == LOOKUP, parents[story.file], story.file)
        self.at = story.block * BLOCK_BYTES
        # Linux begins the stamps of each connection anywhere; both go by the clocks of their hosts.
        self.stamps = rng.integers(1 << 32, size=(2, ways))
        drifts = np.array([one.clock.drift_ppm for one in plan.clients])[story.conn_client]
        self.drift_ppm = np.array([drifts, np.full(ways, plan.server.clock.drift_ppm)])

    def capture(self, what: Segments, side: str, clock: Clock) -> tuple[I64, npt.NDArray[np.uint8]]:
        """Where each packet begins in the bytes of a capture, and the bytes; packets in the order of their times."""
        at_sender = what.way == (0 if side == "client" else 1)
        true_ns = np.where(at_sender, what.sent, what.seen)
        here = np.flatnonzero(true_ns >= 0)
        here = here[np.lexsort((at_sender[here], true_ns[here]))]  # what comes is seen before what it brings about
        what, true_ns = what.take(here), true_ns[here]
        t_ns = EPOCH_NS + true_ns + round(clock.offset_ms * MS) + (true_ns * clock.drift_ppm / 1e6).astype(np.int64)
        sizes = np.array([kind.bytes for kind in self.kinds])[what.shape]
        begins = np.concatenate(([0], np.cumsum(sizes)))
        out = np.empty(int(begins[-1]), dtype=np.uint8)
        for number, kind in enumerate(self.kinds):
            of_kind = np.flatnonzero(what.shape == number)
            for first in range(0, len(of_kind), _CHUNK):
                rows = of_kind[first : first + _CHUNK]
                packets = filled(kind, self._columns(what.take(rows)), len(rows), t_ns[rows], nano=self.nano)
                places = begins[rows, None] + np.arange(kind.bytes)
                out[places] = packets.view(np.uint8).reshape(len(rows), -1)
        return begins, out

    def _columns(self, what: Segments) -> dict[str, npt.NDArray[np.generic]]:
        conn, back = what.conn, what.way == 1
        columns: dict[str, npt.NDArray[np.generic]] = {"seq": what.seq, "ack": what.ack, "ident": what.ident}
        ticks = (what.sent + (what.sent * self.drift_ppm[what.way, conn] / 1e6).astype(np.int64)) // MS
        columns["ts_val"] = (self.stamps[what.way, conn] + ticks) & 0xFFFFFFFF
        for by, to, (one, other) in (
            ("source", "destination", self.ends),
            ("source_port", "destination_port", self.ports),
            ("by", "to", self.macs),
        ):
            columns[by] = np.where(back, other[conn], one[conn])
            columns[to] = np.where(back, one[conn], other[conn])
        if len(what.op) and what.op[0] >= 0:
            op = what.op
            columns |= {"xid": self.xid[op], "name": self.names[conn], "uid": self.uids[conn], "at": self.at[op]}
            columns |= {"gid": self.uids[conn], "gid_1": self.uids[conn], "stamp": self.uids[conn] * 7919}
            columns |= {"fh": self.of_file[self.asked[op]], "found": self.of_file[self.found[op]]}
            columns |= {"file_name": self.file_names[self.found[op]], "fileid": 128 + self.found[op]}
        return columns


def _write(folder: Path, name: str, capture: tuple[I64, npt.NDArray[np.uint8]], files: int, facts: _Facts) -> None:
    """One file, or several with equally many packets, as tcpdump -C names them."""
    begins, content = capture
    folder.mkdir(parents=True, exist_ok=True)
    cuts = [len(content) and (len(begins) - 1) * part // files for part in range(files + 1)]
    for part in range(files):
        path = folder / (f"{name}.pcap{part or ''}")
        with path.open("wb") as file:
            file.write(file_header(nano=facts.nano, snaplen=facts.snaplen))
            file.write(content[begins[cuts[part]] : begins[cuts[part + 1]]].data)
