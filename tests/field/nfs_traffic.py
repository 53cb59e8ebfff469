"""NFS by real TCP: `python nfs_traffic.py serve ADDRESS` answers what `... call ADDRESS` asks, READ by READ."""

from __future__ import annotations

import socket
import struct
import sys
import threading
import time

import wire

PAUSE_S = 0.01  # between two calls
SERVICE_S = 0.002  # of the server


def _message(stream: socket.socket) -> bytes:
    """One record of a single fragment; nothing at the end."""
    head = stream.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        return b""
    return stream.recv(struct.unpack(">I", head)[0] & 0x7FFFFFFF, socket.MSG_WAITALL)


def _serve_one(stream: socket.socket) -> None:
    while call := _message(stream):
        time.sleep(SERVICE_S)
        stream.sendall(wire.record(wire.reply(struct.unpack(">I", call[:4])[0], wire.read3(4096))))


def serve(address: str) -> None:
    listening = socket.create_server((address, 2049), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    while True:
        stream, _ = listening.accept()
        threading.Thread(target=_serve_one, args=(stream,), daemon=True).start()


def call(address: str) -> None:
    while True:
        try:
            with socket.create_connection((address, 2049)) as stream:
                xid = 1000
                while True:
                    xid += 1
                    stream.sendall(wire.record(wire.read(xid, offset=4096 * xid, count=4096)))
                    _message(stream)
                    time.sleep(PAUSE_S)
        except OSError:
            time.sleep(0.05)  # the server is not up yet


if __name__ == "__main__":
    {"serve": serve, "call": call}[sys.argv[1]](sys.argv[2])
