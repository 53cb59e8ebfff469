"""The native decoder (native/): capture files -> columns. Absent where it was not compiled; then tshark decodes."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt

VERSION: str

class NotACapture(ValueError):
    """(text, index of the file): its bytes are of no format that the decoder reads."""

@final
class Job:
    """A running `decode` or `packets`, seen from another thread."""

    def __init__(self) -> None: ...
    @property
    def bytes(self) -> int:
        """Bytes of the files read so far, compressed as they are."""
    @property
    def packets(self) -> int:
        """Packets read so far."""
    def stop(self) -> None:
        """Make it end with ``InterruptedError``, soon."""

def peek(path: str | PathLike[str]) -> tuple[str, int | None]:
    """Format of a capture and the time of its first packet (int ns since 1970), None where it has no packet.

    Raises ``NotACapture``, ``OSError``, or ``ValueError`` where the file is damaged before its first packet.
    """

def decode(
    paths: Sequence[str | PathLike[str]], nfs_ranks: bytes, callback_ranks: bytes, action_rank: int, job: Job
) -> dict[str, Any]:
    """Decode capture files, one after the other, as one capture; runs without the GIL. "-" is standard input.

    The ranks of the operations of a COMPOUND (`nfslat.model.protocol.op_ranks`) find the one that names it. The result
    holds "ops", "loose", "slots", "names", "failures", "resent", "tcp", "tcp_events", "pauses", "blocked", "loads",
    "callers", "file_news" (dicts of arrays, as `nfslat.model.tables` and `nfslat.model.details` say), "kinds",
    "connections", "sessions", "created_sessions", "name_list" (of "names" and "file_news"), "file_handles", "files" and
    counters; what ends in "_dropped" counts rows beyond those that are kept. Raises ``NotACapture``,
    ``OSError`` (errno, text, index of the file), ``ValueError`` (text, index of the file) for what cannot be read at
    all, ``InterruptedError`` after `Job.stop`.
    """

def decode_apart(
    paths: Sequence[str | PathLike[str]], nfs_ranks: bytes, callback_ranks: bytes, action_rank: int, job: Job
) -> dict[str, Any]:
    """As `decode`, apart by the IP addresses of the packets; frames are those of the whole set.

    The result holds "hosts", a list of (address, address, found) of the pairs with RPC in the order in which they
    show it; "rest", what is found in all other packets; "files" as `decode`, and of all packets
    "busiest_second_packets", "backward_times" and "largest_backward_ns". What is found of a part is what `decode`
    finds, without "files", with "first_ns" and "last_ns", and with "turns" (`nfslat.model.details.Turns`).
    """

def split(
    paths: Sequence[str | PathLike[str]], outs: Sequence[str | PathLike[str]], since_ns: int, job: Job
) -> dict[str, Any]:
    """Write the packets of capture files, one after the other, into `outs`, each pair of addresses into one of them.

    The result holds "seconds" and "counts" (packets in each second with any, from `since_ns` on), "ends_ns" (times of
    the first and of the last packet; None without one), "backward_times", "largest_backward_ns" and "files" as
    `decode`. Raises what `decode` raises, ``OSError`` without a file where a slice
    cannot be written, and ``ValueError`` where there is no slice.
    """

def decode_slices(
    paths: Sequence[str | PathLike[str]],
    offsets: Sequence[int],
    is_cut: bool,
    nfs_ranks: bytes,
    callback_ranks: bytes,
    action_rank: int,
    job: Job,
) -> dict[str, Any]:
    """As `decode_apart`, of slices that `split` made of one capture.

    `offsets`: of each, how many packets of the capture are in front of those that were split there. `is_cut`: some
    packet of the capture is cut by a snaplen.
    """

def packets(paths: Sequence[str | PathLike[str]], ports: Sequence[int], stream: int | None, job: Job) -> dict[str, Any]:
    """The TCP packets of capture files, one after the other, as one; runs without the GIL. "-" is standard input.

    Only those from or to one of `ports` (none: all), and only those of conversation `stream` (numbered from 0 in the
    order of their first packets, among those of `ports`). The result holds "packets" (a dict of arrays, as
    `nfslat.tcp.packets.Packets` describes them), "conversations" (a list of ends, reconnect, and both ways as dicts of
    what `nfslat.tcp.packets.Way` names), "files" and counters. Raises what `decode` raises.
    """

_I32: TypeAlias = npt.NDArray[np.int32]
_JoinSide: TypeAlias = tuple[_I32, npt.NDArray[np.int16], npt.NDArray[np.uint32], _I32, _I32]

def join(server: _JoinSide, client: _JoinSide, places: int) -> tuple[_I32, _I32, _I32]:
    """`nfslat.kernels.join`: the partner of each of the client's rows (NULL: none alone has its key), the rows of the
    keys that several rows share, and how many of these are the server's and the client's, for each such key in turn.
    """

_Calls: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], _I32, _I32]

def starts(calls: _Calls, threads: int, by_answer: bool) -> npt.NDArray[np.int64]:
    """`nfslat.inflight.dispatch.starts`: when each call got a thread, NULL where the model has none for it."""

def bound(calls: _Calls) -> tuple[int, int]:
    """`nfslat.inflight.threads.lower_bound`: so many threads must exist, and how often so many were at work."""

_I64: TypeAlias = npt.NDArray[np.int64]
_F64: TypeAlias = npt.NDArray[np.float64]

def levels(starts: _I64, ends: _I64) -> tuple[_I64, _I64]:
    """`nfslat.inflight.levels.levels_of`: time and ends by the number in flight; both columns ascend."""

def windows(starts: _I64, ends: _I64, width_ns: int, count: int) -> list[_F64]:
    """Of each window of time: ends, time, and time multiplied with the ops in flight."""

def turnarounds(starts: _I64, ends: _I64, low: int, top: int) -> _I64:
    """From an end to the start right behind it, where that makes more than `low` and at most `top` in flight."""
