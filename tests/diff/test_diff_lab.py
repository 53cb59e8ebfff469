"""Real pairs with known causes: what was injected is named, and a pair has no change between its halves."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from captures import SHARED, Decoder, needs_captures
from runs_by_hand import cut

from nfslat.diff import compare, read, verdict
from nfslat.diff.answer import answer
from nfslat.diff.read import of_correlation
from nfslat.diff.runs import Run
from nfslat.select import Filters

pytestmark = needs_captures
LAB = SHARED / "lab"
# A warm-up, one pause, a restart, a clock that is set, lost packets, too few threads; these are compared below, too.
_BY_DAY = """
    a_v3_baseline b_v3_nfsd_threads2 c_v3_slots2 d3_v3_loss1 g_clock_step3s j_v3_client_stall n_v3_nfsd_restart
""".split()
PAIRS = sorted(path.parent.name for path in LAB.glob("*/truth.json"))


@pytest.fixture(scope="module")
def run_of(decoder: Decoder) -> Callable[[str], Run]:
    """A pair of the lab as a run; once each."""
    return cache(lambda name: of_correlation(decoder.pair(name), Filters(), name))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in _BY_DAY else pytest.mark.long) for name in PAIRS]
)
def test_halves_of_a_pair_do_not_differ(name: str, run_of: Callable[[str], Run]) -> None:
    """Warm-up, one pause, a restart, phases of other work: none of it is called slower or faster."""
    whole = run_of(name).single
    assert whole is not None
    half = len(whole) // 2
    found = compare.compare(cut(whole, slice(0, half)), cut(whole, slice(half, None)))
    assert verdict.verdict(found, [], "slices").change in ("none", "unknown", "load", "not relevant")
    assert not {row.verdict for row in found.rows} & {"slower", "faster"}
    assert sum(row.count_a + row.count_b for row in found.rows) == len(whole)


@pytest.mark.parametrize(
    ("name", "change", "layer", "cause", "said"),
    [
        ("b4_v3_rpc_retransmit", "slower", "server", "server-threads", "WRITE 8 KB is 50 % of the ops of A"),
        ("b_v3_nfsd_threads2", "slower", "server", "server-threads", "The wait for a server thread adds"),
        ("f_v42_nfsd_threads2", "slower", "server", "server-threads", "The wait for a server thread adds"),
        ("c_v3_slots2", "slower", "server", "server-storage", "New in B: client-slots (likely)"),
        ("f_v41_session_slots2", "slower", "server", "server-storage", "New in B: session-slots (likely)"),
        ("m_v3_slots16", "slower", "server", "server-storage", "New in B: client-slots (likely)"),
        ("c2_v3_slots2_fast", "unknown", None, None, "Only in B: client-slots (likely"),
        ("d_v3_netdelay5", "slower", "network", "net-delay", "The network adds 11."),
        ("g_clock_offset7s", "slower", "network", "net-delay", "The network adds 8."),
        ("g_clock_drift5000ppm", "slower", "network", "net-delay", "The network adds 7."),
        ("g_clock_step3s", "none", None, None, "Only in B, of the captures: clock-step"),
        ("d3_v3_loss1", "slower", "network", "net-loss", "the wait for lost data"),
        ("d4_v3_loss2_full", "none", None, None, "Only in B: segments lost between the captures: "),
        ("e_v3_slow_storage", "slower", "server", "server-storage", "The server adds"),
        ("n_v3_nfsd_restart", "none", None, None, "Only in B: reconnect"),
        ("j_v3_capture_drops", "load", None, None, "3.1 -> 9.9 calls in flight"),
        ("j_v3_client_stall", "slower", "network", None, "Only in B: host-pause (likely): the client neither received"),
        ("k_v3_dup", "none", None, None, "Only in B: packets that the network duplicated: "),
        ("h_v3_metadata", "unknown", None, None, "SETATTR is 52 % of the ops of B and not in A"),
        ("i_v3_full_1M", "unknown", None, None, "No kind of operation is frequent in both A and B"),
        ("a_v3_baseline", "none", None, None, "No evidence of a change"),
    ],
)
def test_what_was_injected_is_named(
    name: str, change: str, layer: str | None, cause: str | None, said: str, run_of: Callable[[str], Run]
) -> None:
    """The healthy pair against each other one: the first lines say what the lab did, as far as packets tell."""
    found = answer(run_of("a_v3_baseline"), run_of(name), [])
    assert (found.verdict.change, found.verdict.layer, found.verdict.cause) == (change, layer, cause)
    assert said in " ".join([*found.load.differs, found.verdict.text, *found.events])


@pytest.mark.parametrize("side", ["client", "server"])
def test_one_capture_of_each_run_is_enough(side: str) -> None:
    """The server that got slow, and the path that got long, are found in the captures of one host; and the same run,
    seen from there and from both hosts, has not changed."""

    def run(name: str, *sides: str) -> Run:
        return read.from_captures(
            [str(LAB / name / f"{one}.pcap.gz") for one in sides], Filters(), engine=None, quiet=True
        )

    calm = run("a_v3_baseline", side)
    for name, change, layer in (("b_v3_nfsd_threads2", "slower", "server"), ("d_v3_netdelay5", "slower", "network")):
        found = answer(calm, run(name, side), [])
        assert (found.verdict.change, found.verdict.layer) == (change, layer), found.verdict.text
        assert [note for note in found.notes if f"is a capture of the {side} alone" in note]
    same = answer(run("a_v3_baseline", "server", "client"), calm, [])
    assert same.verdict.change == "none", same.verdict.text
    assert not [one for one in same.layers if one.change.certain]
