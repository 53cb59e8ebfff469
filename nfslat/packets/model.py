"""The answer of `nfslat show --json` as dataclasses (``nfslat.show/1``, packets/schema.json).

Durations are float ms, instants ISO 8601 with zone, None is "not known".
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from nfslat.answer.contract import BothSides, Count, Document, Must, NotNegative, Positive
from nfslat.answer.figures import PARTS
from nfslat.answer.model import Tool
from nfslat.answer.pictures import Moment
from nfslat.model.record import Record

SCHEMA = "nfslat.show/1"


class ShownLine(Record):
    """One line of a dissection."""

    depth: Count  # how deep it stands
    name: str  # Wireshark's name of the field
    text: str  # what Wireshark shows


class ShownMessage(Record):
    """A call or a reply at one side, as Wireshark shows it."""

    side: Annotated[str, Must(enum=["client", "server"])]  # whose capture
    message: Annotated[str, Must(enum=["call", "reply"])]  # which of the two
    frame: Positive  # as Wireshark counts in the file
    file: str  # of the capture, as it was given
    summary: list[str]  # what carried it; empty where Wireshark does not show the message
    lines: list[ShownLine]  # RPC and NFS
    captured_bytes: Count | None  # of the frame, where the dissection ends early for it; None: it does not
    frame_bytes: Count | None  # likewise: of the frame on the wire


class ShownOp(Record):
    """One op in full."""

    xid: str  # 0x and eight hexadecimal digits
    op: str  # program, version and operation: NFSv3 READ
    client: str  # address and port, as the client's capture shows them
    server: str  # likewise
    transport: str  # tcp, udp
    path: str | None  # of the file; None: not known
    to_path: str | None  # where RENAME or LINK puts it; None: none, or not known
    offset: Count | None  # in the file, bytes; None: none, or not captured
    bytes: Count | None  # asked for, or written; None: none, or not captured
    at: str  # call's first byte at the client
    client_ms: float  # client SRT
    server_ms: float  # server SRT
    network_ms: float  # their difference
    parts_ms: Annotated[dict[str, float], Must(propertyNames={"enum": PARTS})]  # the five parts of the client SRT
    theta_ms: float  # the server's clock minus the client's, when the op began
    theta_error_ms: NotNegative  # how far that, and so call_net and reply_net, may be off
    theta_of_all: bool  # all ops say so; else this op alone
    transmissions: BothSides[Count]  # how often the call was seen
    packets: list[Moment]  # on both sides, by time
    wireshark: dict[str, str]  # side -> display filter; "side, file" where several files hold its packets
    messages: list[ShownMessage]  # call, then reply; each at the client, then at the server


class ShownCall(Record):
    """A call that has no reply in one of the captures, or in both."""

    xid: str  # 0x and eight hexadecimal digits
    op: str  # program, version and operation: NFSv3 READ
    client: str  # address and port
    server: str
    transport: str  # tcp, udp
    at: str  # when the client sent it first
    waits_ms: NotNegative  # from then until the captures end
    packets: list[Moment]  # on both sides, by time: the call, each time, and a reply that one capture alone has
    lines: list[ShownLine]  # RPC and NFS of the call; empty where Wireshark does not show it


class Shown(Document):
    """What nfslat show --json writes."""

    made_by: ClassVar[str] = "nfslat show --json"

    schema: Annotated[str, Must(const=SCHEMA)]  # name and version of this contract
    nfslat: Tool  # what made it
    swapped: bool  # the captures were given client first
    ops: list[ShownOp]  # those asked for
    calls: list[ShownCall]  # those asked for that have no reply
