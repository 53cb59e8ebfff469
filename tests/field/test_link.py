"""What a host may do with the connection that nfslat has to it: its agent may be anybody's."""

from __future__ import annotations

import queue
import shutil
import time
from pathlib import Path

import pytest

from nfslat.errors import InputError
from nfslat.field.link import Event, Link, wait_for

# In place of ssh: learns the token, as the agent that it is sent does, and then says what it likes.
_RUDE = """#!/bin/sh
while read -r line; do
    case $line in *token=*) token=${{line##*token=}} token=${{token%% *}} && break ;; esac
done
exec 2>/dev/null
echo "$token hello"
{says}
"""


def _link(tmp_path: Path, says: str, tar: Path | None = None) -> tuple[Link, queue.SimpleQueue[Event]]:
    program = tmp_path / "ssh"
    program.write_text(_RUDE.format(says=says))
    program.chmod(0o755)
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    link = Link("server", "host", str(program), events, batch=True)
    link.tar = tar  # before it hears anything, for it answers at once
    link.send_agent("/tmp", 60)  # noqa: S108
    return link, events


def _gone(events: queue.SimpleQueue[Event]) -> list[str]:
    found = []
    while (event := wait_for(events, time.monotonic() + 30)) is not None:
        found.append(event.what)
        if event.what == "gone":
            break
    return found


def test_packets_that_nobody_asked_for(tmp_path: Path) -> None:
    """A host that sends its tar early is hung up on, in a line that names it, and nothing is written."""
    link, events = _link(tmp_path, 'echo "$token tar"; exec cat /dev/zero')
    assert _gone(events) == ["hello", "gone"]
    with pytest.raises(InputError, match=r"host \(server\): the connection was lost \(it sends packets that nobody"):
        link.refuse_gone()
    assert [path.name for path in tmp_path.iterdir()] == ["ssh"]
    link.close()


def test_a_tar_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that sends more than there is room for is hung up on before the disk is full; the tar is for its owner."""
    free, tar = shutil.disk_usage(tmp_path), tmp_path / "server.tar"
    room = [free._replace(free=one << 20) for one in (100, 50, 17, 16)]
    monkeypatch.setattr("shutil.disk_usage", lambda _: room.pop(0) if room[1:] else room[0])
    link, events = _link(tmp_path, 'echo "$token tar"; exec cat /dev/zero', tar)
    assert _gone(events) == ["hello", "gone"]
    assert not link.complete
    assert tar.stat().st_mode & 0o777 == 0o600
    with pytest.raises(
        InputError, match=r"server\.tar: No space left on device; free some space, or give another --out"
    ):
        link.refuse_gone()
    link.close()
