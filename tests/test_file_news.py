"""Calls and replies written by hand, and real ones, in; who called, and which file handle is which name, out."""

from __future__ import annotations

import subprocess
import zlib
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("nfslat._native", reason="the native decoder is not compiled")

import wire
from captures import CAPTURES, Decoder, id_of, name_of
from wire import AUTH_NONE, FH, MOUNT, NFS, OTHER_FH, Tcp, Udp, write_pcap

from nfslat.constants import NULL32
from nfslat.decode import Tools, choose
from nfslat.decode.decoded import Decoded
from nfslat.details import FileEvent
