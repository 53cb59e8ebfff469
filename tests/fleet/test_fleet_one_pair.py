"""A fleet of one client says what `nfslat SERVER CLIENT` says, to the last digit, however its captures are cut."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from apart_captures import cut, records
from captures import SAMPLES, SHARED
from one_pair import plain, through_fleet

_FOLDERS = [path.parent for path in SAMPLES if path.name.startswith("server.")]
_OF_LAB = "d4_v3_loss2_full f_v41_session_slots2 g_clock_step3s i_v3_any_sll2 i_v41_callback_recall n_v3_nfsd_restart"
PAIRS = [
    *(pytest.param(folder, id=folder.name) for folder in _FOLDERS),
    *(
        pytest.param(SHARED / "lab" / name, id=name, marks=pytest.mark.long)
        for name in _OF_LAB.split()
        if (SHARED / "lab" / name).is_dir()
    ),
]


@pytest.mark.parametrize("folder", PAIRS)
def test_one_pair_is_what_the_plain_report_says(folder: Path) -> None:
    """Every figure of the JSON, audit included, is the same; only names of files are not compared."""
    server, client = (str(next(folder.glob(f"{side}.*cap.gz"))) for side in ("server", "client"))
    assert through_fleet([client, server]) == plain(server, client)


@pytest.mark.parametrize("files", [7, *(pytest.param(count, marks=pytest.mark.long) for count in (1, 2, 50))])
def test_cut_into_rotated_files_it_says_the_same(files: int, tmp_path: Path) -> None:
    """Both captures in so many files of unequal lengths, given in no order, are the captures in one."""
    folder = _FOLDERS[0]
    names: list[str] = []
    for side in ("server", "client"):
        (tmp_path / side).mkdir()
        names += map(str, reversed(_rotated(folder / f"{side}.pcap.gz", files, tmp_path / side)))
    server, client = (str(folder / f"{side}.pcap.gz") for side in ("server", "client"))
    assert through_fleet(names) == plain(server, client)


def _rotated(capture: Path, files: int, folder: Path) -> list[Path]:
    pcap = gzip.decompress(capture.read_bytes())
    packets = len(records(pcap))
    return cut(pcap, [packets * at * at // (files * files) for at in range(1, files)], folder)
