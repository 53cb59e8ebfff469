"""Requests of the host -> commands run in this guest and what they print: the process that a guest runs as its init.

One line of JSON for each request and answer, over TCP on the control network. Standard library alone, nothing of
nfslat: what a guest does must not depend on what is being tried.
"""

from __future__ import annotations

import json
import os
import signal
import socketserver
import subprocess
import threading
import time
from typing import Any

PORT = 900
_started: dict[int, subprocess.Popen[bytes]] = {}
_lock = threading.Lock()


def _text(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape").encode(errors="replace").decode()


def _start(script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes], timeout_s: float) -> dict[str, Any]:
    """What a process printed; one that takes too long is killed, and its status is None."""
    try:
        out, err = process.communicate(timeout=timeout_s)
        status: int | None = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        status = None
    return {"status": status, "out": _text(out), "err": _text(err)}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Does one request; ``do`` names it."""
    match request["do"]:
        case "clock":
            return {"ns": time.time_ns()}
        case "run":
            return _end(_start(request["script"]), request["timeout_s"])
        case "start":
            process = _start(request["script"])
            with _lock:
                _started[process.pid] = process
            return {"pid": process.pid}
        case "finish":
            with _lock:
                process = _started.pop(request["pid"])
            if request["signal"] is not None and process.poll() is None:
                os.killpg(process.pid, request["signal"])
            return _end(process, request["timeout_s"])
        case other:
            return {"error": f"unknown request {other}"}


class Handler(socketserver.StreamRequestHandler):
    """One connection: requests one after the other."""

    def handle(self) -> None:
        """Answers until the host hangs up."""
        self.connection.setsockopt(6, 1, 1)  # IPPROTO_TCP, TCP_NODELAY: the clock is asked for over this connection
        for line in self.rfile:
            try:
                reply = answer(json.loads(line))
            except Exception as error:
                reply = {"error": repr(error)}
            self.wfile.write(json.dumps(reply).encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    """A thread for each connection, so that the clock can be asked while something runs."""

    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    # What daemons leave behind is not reaped: a guest lives for a minute.
    Server(("", PORT), Handler).serve_forever()
