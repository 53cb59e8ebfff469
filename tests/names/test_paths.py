"""Handles become the paths that files had when they were used."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from zlib import crc32

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from told import Story, renamed_to, shown

from nfslat.errors import UsageError
from nfslat.model.details import FileEvent
from nfslat.model.protocol import MOUNT
from nfslat.model.tables import Connection
from nfslat.names.paths import paths_of_side
from nfslat.names.tree import LONGEST

FOUND, ROOT, RENAMED, REMOVED = list(FileEvent)[:4]


def _mounted() -> Story:
    return Story().ask(0, "MNT", None, b"/export", program=MOUNT).tell(ROOT, None, b"/export", b"root")


def _of(story: Story, encoding: str | None = None) -> list[str | None]:
    return shown(paths_of_side(story.side(), encoding))


def test_reads_are_of_files_and_lookups_of_names() -> None:
    """A READ shows the path of its file; a LOOKUP that of its directory, and the name, found or not."""
    story = _mounted()
    story.ask(2, "LOOKUP", b"root", b"db").tell(FOUND, b"root", b"db", b"D")
    story.ask(4, "CREATE", b"D", b"a.dbf").tell(FOUND, b"D", b"a.dbf", b"A")
    story.ask(6, "WRITE", b"A").ask(8, "LOOKUP", b"D", b"none").ask(10, "GETATTR", b"D").ask(12, "GETATTR", b"root")
    assert _of(story) == [
        "/export",
        "/export/db",
        "/export/db/a.dbf",
        "/export/db/a.dbf",
        "/export/db/none",
        "/export/db",
        "/export",
    ]


def test_names_that_come_late_hold_backwards() -> None:
    """A file that was in use before a READDIRPLUS named it had that name all the time."""
    story = Story().ask(0, "READ", b"A")
    story.ask(2, "READDIRPLUS", b"D").tell(FOUND, b"D", b".", b"D").tell(FOUND, b"D", b"..", b"root")
    story.tell(FOUND, b"D", b"a", b"A")
    story.ask(4, "MNT", None, b"/", program=MOUNT).tell(ROOT, None, b"/", b"D")
    assert _of(story) == ["/a", "/", "/"]


def test_what_is_no_name_names_nothing() -> None:
    """A slash in a name, or nothing, is not taken for directories, nor for another file's name."""
    story = _mounted().ask(2, "LOOKUP", b"root", b"d").tell(FOUND, b"root", b"d", b"D")
    story.ask(4, "LOOKUP", b"root", b"d/x").tell(FOUND, b"root", b"d/x", b"X").ask(6, "READ", b"X")
    story.ask(8, "LOOKUP", b"D", b"").tell(FOUND, b"D", b"", b"Y").ask(10, "READ", b"Y")
    story.ask(12, "LOOKUP", b"D", b"../../etc").ask(14, "RENAME", b"root", b"d")
    story.tell(RENAMED, b"root", b"d", None, b"root", b"a/b").ask(16, "READ", b"D")
    story.ask(18, "MNT", None, b"...", program=MOUNT).tell(ROOT, None, b"...", b"R").ask(20, "LOOKUP", b"R", b"d")
    assert _of(story)[2:] == [None, None, None, None, None, "/export/d", None, r"\x2e..", r"\x2e../d"]


def test_a_directory_itself_and_the_one_above_are_shown_as_what_they_are() -> None:
    """LOOKUPs of ``.`` and ``..`` have the path of what they lead to; above what is known the dots stay."""
    story = _mounted()
    story.ask(2, "LOOKUP", b"root", b"d").tell(FOUND, b"root", b"d", b"D")
    story.ask(4, "LOOKUP", b"D", b"e").tell(FOUND, b"D", b"e", b"E")
    story.ask(6, "LOOKUP", b"E", b"..").tell(FOUND, b"E", b"..", b"D").ask(8, "LOOKUP", b"E", b".")
    story.ask(10, "RENAME", b"root", b"d").tell(RENAMED, b"root", b"d", None, b"root", b"f")
    story.ask(12, "LOOKUP", b"E", b"..").ask(14, "LOOKUP", b"root", b"..").ask(16, "LOOKUP", b"other", b".")
    story.ask(18, "LOOKUP", b"S", b"x").tell(FOUND, b"S", b"x", b"X").ask(20, "LOOKUP", b"X", b"..")
    assert _of(story)[3:] == [
        "/export/d",
        "/export/d/e",
        "/export/d",
        "/export/f",
        "/export/..",
        ".../.",
        ".../x",
        ".../x/..",
    ]


def test_what_is_not_known_to_the_top_is_partial() -> None:
    """The part that is known stands behind three dots; of a handle that nothing names there is nothing."""
    story = Story().ask(0, "LOOKUP", b"D", b"a").tell(FOUND, b"D", b"a", b"A")
    story.ask(2, "LOOKUP", b"A", b"b").tell(FOUND, b"A", b"b", b"B").ask(4, "READ", b"B").ask(6, "READ", b"other")
    story.ask(8, "READ", b"D").ask(10, "REMOVE", None, b"c").ask(12, "READ")
    assert _of(story) == [".../a", ".../a/b", ".../a/b", None, None, ".../c", None]


def test_a_rename_holds_from_then_on() -> None:
    """Before it the old name, behind it the new one, also of what is in a directory that is renamed; both are shown."""
    story = _mounted()
    story.ask(2, "LOOKUP", b"root", b"d").tell(FOUND, b"root", b"d", b"D")
    story.ask(4, "LOOKUP", b"D", b"a").tell(FOUND, b"D", b"a", b"A").ask(6, "READ", b"A")
    story.ask(8, "RENAME", b"D", b"a").tell(RENAMED, b"D", b"a", None, b"root", b"b").ask(10, "READ", b"A")
    story.ask(12, "RENAME", b"root", b"b").tell(RENAMED, b"root", b"b", None, b"D", b"c").ask(14, "READ", b"A")
    story.ask(16, "RENAME", b"root", b"d").tell(RENAMED, b"root", b"d", None, b"root", b"e").ask(18, "READ", b"A")
    assert _of(story)[3:] == [
        "/export/d/a",
        "/export/d/a",
        "/export/b",
        "/export/b",
        "/export/d/c",
        "/export/d",
        "/export/e/c",
    ]
    assert renamed_to(paths_of_side(story.side()))[4::2] == ["/export/b", "/export/d/c", "/export/e"]


def test_a_rename_of_a_file_that_is_found_later_holds_backwards_too() -> None:
    """A name that is known only behind the RENAME tells what the file was called in front of it."""
    story = _mounted().ask(2, "READ", b"A")
    story.ask(4, "RENAME", b"root", b"tmp").tell(RENAMED, b"root", b"tmp", None, b"root", b"a").ask(6, "READ", b"A")
    story.ask(8, "LOOKUP", b"root", b"a").tell(FOUND, b"root", b"a", b"A")
    assert _of(story)[1:] == ["/export/tmp", "/export/tmp", "/export/a", "/export/a"]


def test_a_rename_to_where_nobody_saw_ends_a_name() -> None:
    """What is cut off is not known; the file has no name then."""
    story = _mounted().ask(2, "LOOKUP", b"root", b"a").tell(FOUND, b"root", b"a", b"A")
    story.ask(4, "RENAME", b"root", b"a").tell(RENAMED, b"root", b"a").ask(6, "READ", b"A")
    story.ask(8, "LOOKUP", b"root", b"b").tell(FOUND, b"root", b"b", b"B")
    story.ask(10, "RENAME", b"root", b"b").tell(RENAMED, b"root", b"b", None, None, b"c").ask(12, "READ", b"B")
    assert _of(story)[1:] == ["/export/a", "/export/a", None, "/export/b", "/export/b", ".../c"]


def test_a_handle_that_is_used_again_is_another_file() -> None:
    """Behind the REMOVE of its file a handle has the name by which it is found next; else it keeps the last one."""
    story = _mounted().ask(2, "CREATE", b"root", b"a").tell(FOUND, b"root", b"a", b"A").ask(4, "WRITE", b"A")
    story.ask(6, "REMOVE", b"root", b"a").tell(REMOVED, b"root", b"a").ask(8, "WRITE", b"A")
    story.ask(10, "CREATE", b"root", b"b").tell(FOUND, b"root", b"b", b"A").ask(12, "WRITE", b"A")
    story.ask(14, "REMOVE", b"root", b"b").tell(REMOVED, b"root", b"b").ask(16, "WRITE", b"A")
    names = ["a", "a", "a", "b", "b", "b", "b", "b"]
    assert _of(story)[1:] == [f"/export/{name}" for name in names]


def test_a_file_with_two_names_has_the_one_by_which_it_was_found_last() -> None:
    """And where that is removed, the other one."""
    story = _mounted().ask(2, "CREATE", b"root", b"a").tell(FOUND, b"root", b"a", b"A").ask(4, "READ", b"A")
    story.ask(6, "LINK", b"A", b"b").tell(FOUND, b"root", b"b", b"A").ask(8, "READ", b"A")
    story.ask(10, "REMOVE", b"root", b"b").tell(REMOVED, b"root", b"b").ask(12, "READ", b"A")
    assert _of(story)[1:] == [f"/export/{name}" for name in ("a", "a", "a", "b", "b", "a")]


def test_a_link_shows_both_names() -> None:
    """The name that the file had, and the new one, as RENAME does; of a COMPOUND too, whose handle is another one."""
    story = _mounted().ask(2, "CREATE", b"root", b"a").tell(FOUND, b"root", b"a", b"A")
    story.ask(4, "LINK", b"A", b"b").tell(FOUND, b"root", b"b", b"A")
    story.ask(6, "LINK", b"root", b"c", version=4, before="PUTFH SAVEFH PUTFH").tell(FOUND, b"root", b"c", b"A")
    story.ask(8, "LOOKUP", b"root", b"d").tell(FOUND, b"root", b"d", b"D")
    story.ask(10, "LINK", b"root", b"c", version=4, before="PUTFH LOOKUP GETFH SAVEFH PUTFH LOOKUP")
    story.tell(FOUND, b"root", b"a", b"A").tell(FOUND, b"root", b"d/c", b"A").tell(FOUND, b"root", b"d", b"D")
    paths = paths_of_side(story.side())
    both = list(zip(shown(paths), renamed_to(paths), strict=True))
    assert both[2:4] == [("/export/a", "/export/b"), ("/export/b", "/export/c")]
    assert both[5] == ("/export/c", "/export/d/c")
    assert [new for _, new in both[:2]] == [None, None]


def test_of_a_link_that_failed_what_its_call_says_is_shown() -> None:
    """NFSv3 names the file by its handle, NFSv4 the directory; the rest is not known, and nothing has a new name."""
    story = _mounted().ask(2, "CREATE", b"root", b"a").tell(FOUND, b"root", b"a", b"A").ask(4, "LINK", b"A", b"b")
    story.ask(6, "LINK", b"root", b"c", version=4, before="PUTFH SAVEFH PUTFH").ask(8, "READ", b"A")
    paths = paths_of_side(story.side())
    assert shown(paths)[2:] == ["/export/a", None, "/export/a"]
    assert renamed_to(paths)[2:] == [".../b", "/export/c", None]


def test_the_new_name_of_a_link_is_not_the_one_that_the_file_had() -> None:
    """Where no other name is known, what it was called before is not known."""
    story = _mounted().ask(2, "LINK", b"A", b"b").tell(FOUND, b"root", b"b", b"A").ask(4, "READ", b"A")
    paths = paths_of_side(story.side())
    assert (shown(paths)[1:], renamed_to(paths)[1:]) == ([None, "/export/b"], ["/export/b", None])


def test_another_file_in_its_place_takes_the_name() -> None:
    """A name that leads to another handle now is no longer the first one's place for a RENAME or a REMOVE."""
    story = _mounted().ask(2, "LOOKUP", b"root", b"a").tell(FOUND, b"root", b"a", b"A")
    story.ask(4, "LOOKUP", b"root", b"a").tell(FOUND, b"root", b"a", b"B")
    story.ask(6, "RENAME", b"root", b"a").tell(RENAMED, b"root", b"a", None, b"root", b"c")
    story.ask(8, "READ", b"A").ask(10, "READ", b"B")
    assert _of(story)[-2:] == ["/export/a", "/export/c"]


def test_a_file_that_was_replaced_by_a_way_is_no_longer_there() -> None:
    """A RENAME told from the root may replace a file told by its directory: when its handle is found elsewhere, what
    happens in the old place does not concern it."""
    story = _mounted().ask(2, "CREATE", b"root", b"b").tell(FOUND, b"root", b"b", b"B")
    story.ask(4, "CREATE", b"root", b"a").tell(FOUND, b"root", b"a", b"A")
    story.ask(6, "RENAME", None, b"a", version=4, before="PUTROOTFH LOOKUP")
    story.tell(RENAMED, None, b"/export/a", None, None, b"/export/b").ask(8, "READ", b"B")
    story.ask(10, "CREATE", b"root", b"a").tell(FOUND, b"root", b"a", b"B").ask(12, "READ", b"B")
    story.ask(14, "RENAME", b"root", b"a").tell(RENAMED, b"root", b"a", None, b"root", b"b").ask(16, "READ", b"B")
    assert [_of(story)[at] for at in (4, 6, 8)] == ["/export/b", "/export/a", "/export/b"]


def test_a_name_that_a_way_may_have_changed_is_nobody_s() -> None:
    """Where a way led from the place that RENAMEs had led to, a file that is found there later was not that one."""
    story = _mounted().ask(2, "CREATE", None, b"a", version=4, before="PUTROOTFH LOOKUP")
    story.tell(ROOT, None, b"/export/a", b"A").ask(4, "RENAME", b"root", b"a")
    story.tell(RENAMED, b"root", b"a", None, b"root", b"b").ask(6, "RENAME", b"root", b"b")
    story.tell(RENAMED, b"root", b"b", None, b"root", b"c").ask(8, "RENAME", None, b"c", version=4, before="PUTROOTFH")
    story.tell(RENAMED, None, b"/export/c", None, None, b"/export/d").ask(10, "READ", b"A")
    story.ask(12, "REMOVE", b"root", b"d").tell(REMOVED, b"root", b"d")
    story.ask(14, "CREATE", b"root", b"c").tell(FOUND, b"root", b"c", b"A").ask(16, "READ", b"A")
    assert [_of(story)[at] for at in (1, 5, 8)] == ["/export/a", None, "/export/c"]


def test_what_is_found_where_a_way_may_have_led_from_has_no_history() -> None:
    """It need not be what a RENAME moved there: no name holds back beyond what may have changed the place."""
    story = _mounted().ask(2, "READ", b"A").ask(4, "RENAME", b"root", b"a")
    story.tell(RENAMED, b"root", b"a", None, b"root", b"b").ask(6, "READ", b"A").ask(8, "RENAME", b"root", b"b")
    story.tell(RENAMED, b"root", b"b", None, b"root", b"a").ask(10, "REMOVE", None, b"a", version=4, before="PUTROOTFH")
    story.tell(REMOVED, None, b"/export/b/a").ask(12, "READ", b"A")
    story.ask(14, "LOOKUP", b"root", b"a").tell(FOUND, b"root", b"a", b"A").ask(16, "READ", b"A")
    assert [_of(story)[at] for at in (1, 3, 6, 8)] == [None, None, "/export/a", "/export/a"]


def test_what_may_have_been_replaced_is_not_followed() -> None:
    """It keeps its last name until the file in its place is renamed: either may be that file, so it has none."""
    story = _mounted().ask(2, "CREATE", None, b"b", version=4, before="PUTROOTFH LOOKUP")
    story.tell(ROOT, None, b"/export/b", b"B").ask(4, "LOOKUP", b"root", b"c").tell(FOUND, b"root", b"c", b"C")
    story.ask(6, "RENAME", b"root", b"x").tell(RENAMED, b"root", b"x", None, b"root", b"b").ask(8, "READ", b"B")
    story.ask(10, "RENAME", None, b"b", version=4, before="PUTROOTFH LOOKUP")
    story.tell(RENAMED, None, b"/export/b", None, None, b"/export/c").ask(12, "READ", b"B").ask(14, "READ", b"C")
    story.ask(16, "RENAME", b"root", b"c").tell(RENAMED, b"root", b"c", None, b"root", b"d").ask(18, "READ", b"C")
    assert [_of(story)[at] for at in (4, 6, 7, 9)] == ["/export/b", None, "/export/c", None]


def test_of_two_names_told_in_two_ways_one_that_is_removed_is_not_the_file() -> None:
    """Where the other name may be the same or a link, a name that is found later does not hold back to the REMOVE."""
    story = _mounted().ask(2, "LOOKUP", b"root", b"b").tell(FOUND, b"root", b"b", b"B")
    story.ask(4, "LOOKUP", None, b"a", version=4, before="PUTROOTFH LOOKUP").tell(ROOT, None, b"/export/a", b"B")
    story.ask(6, "REMOVE", b"root", b"b").tell(REMOVED, b"root", b"b").ask(8, "READ", b"B")
    story.ask(10, "LINK", b"B", b"c").tell(FOUND, b"root", b"c", b"B").ask(12, "READ", b"B")
    assert [_of(story)[at] for at in (4, 6)] == [None, "/export/c"]


def test_a_row_that_was_cut_takes_nothing_away() -> None:
    """A name without its directory says less than what was known of the same name; another name is news."""
    story = _mounted().ask(2, "LOOKUP", b"root", b"a").tell(FOUND, b"root", b"a", b"A")
    story.ask(4, "LOOKUP", None, b"a").tell(FOUND, None, b"a", b"A").ask(6, "READ", b"A")
    story.ask(8, "LOOKUP", None, b"b").tell(FOUND, None, b"b", b"A").ask(10, "READ", b"A")
    assert _of(story)[1:] == ["/export/a", ".../a", "/export/a", ".../b", ".../b"]


def _collision() -> tuple[bytes, bytes]:
    seen: dict[int, bytes] = {}
    for letters in product(b"0123456789abcdef", repeat=5):
        one = bytes(letters)
        # CRC-32 is linear: what differs in 8 bytes can be made to agree in 4.
        other = seen.setdefault(crc32(one) & 0xFFFF, one)
        if other != one:
            return _with_hash(one, 0), _with_hash(other, 0)
    raise AssertionError


def _with_hash(head: bytes, wanted: int) -> bytes:
    """`head` and four bytes behind it that give it this CRC-32."""
    table = [0] * 256
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
        table[byte] = value
    state = wanted ^ 0xFFFFFFFF
    for _ in range(4):
        at = next(byte for byte in range(256) if table[byte] >> 24 == state >> 24)
        state = ((state ^ table[at]) << 8 | at) & 0xFFFFFFFF
    tail = (state ^ crc32(head) ^ 0xFFFFFFFF).to_bytes(4, "little")
    return head + tail


def test_two_handles_with_one_hash_have_no_name() -> None:
    """A row shows the hash of a handle only: where two known ones have it, neither is guessed."""
    one, other = _collision()
    assert one != other
    assert crc32(one) == crc32(other)
    story = _mounted().ask(2, "LOOKUP", b"root", b"a").tell(FOUND, b"root", b"a", one).ask(4, "READ", one)
    assert _of(story)[1:] == ["/export/a", "/export/a"]
    story.ask(6, "LOOKUP", b"root", b"b").tell(FOUND, b"root", b"b", other).ask(8, "READ", other)
    story.ask(10, "LOOKUP", other, b"c")
    assert _of(story)[1:] == ["/export/a", None, "/export/b", None, ".../c"]


def test_servers_have_handles_of_their_own() -> None:
    """Two servers use the same handle for different files; their paths are apart even where the texts agree."""
    ends = tuple(Connection("tcp", "10.0.0.1", 700, f"10.0.0.{host}", 2049) for host in (2, 3))
    story = Story(connections=ends)
    for conn, name in enumerate((b"a", b"b")):
        story.ask(conn * 10, "MNT", None, b"/e", program=MOUNT, conn=conn).tell(ROOT, None, b"/e", b"root")
        story.ask(conn * 10 + 2, "LOOKUP", b"root", name, conn=conn).tell(FOUND, b"root", name, b"X")
    story.ask(30, "READ", b"X").ask(32, "READ", b"X", conn=1).ask(34, "READ", b"root").ask(36, "READ", b"root", conn=1)
    paths = paths_of_side(story.side())
    assert shown(paths) == ["/e", "/e/a", "/e", "/e/b", "/e/a", "/e/b", "/e", "/e"]
    assert paths.of_op[-1] != paths.of_op[-2]


def test_directories_that_are_in_each_other_end() -> None:
    """What no file system can be gives a partial path, and no endless one."""
    story = Story().ask(0, "LOOKUP", b"A", b"b").tell(FOUND, b"A", b"b", b"B")
    story.ask(2, "LOOKUP", b"B", b"a").tell(FOUND, b"B", b"a", b"A")
    story.ask(4, "LOOKUP", b"S", b"s").tell(FOUND, b"S", b"s", b"S")
    story.ask(6, "LOOKUP", b"B", b"x").tell(FOUND, b"B", b"x", b"X").ask(8, "READ", b"X").ask(10, "READ", b"S")
    assert all(one is not None and one.startswith(".../") and len(one) < 20 for one in _of(story))


def test_absurd_depth_ends() -> None:
    """Directories 2,200 deep are shown by their end, and the text stays short."""
    story = _mounted()
    before = b"root"
    for depth in range(2200):
        handle = b"%d" % depth
        story.ask(2 + depth, "MKDIR", before, b"d").tell(FOUND, before, b"d", handle)
        before = handle
    story.ask(9000, "READ", before)
    texts = [one for one in _of(story) if one is not None]
    assert len(texts) == 2202
    assert max(map(len, texts)) < LONGEST + 10
    assert texts[-1].startswith(".../d/d")
    assert texts[100] == "/export" + 100 * "/d"


@pytest.mark.parametrize(
    ("ask", "path"),
    [
        (("OPEN", b"D", b"a", "SEQUENCE PUTFH"), "/export/d/a"),
        (("READ", b"A", None, "SEQUENCE PUTFH"), "/export/d/a"),
        (("READ", b"D", None, "SEQUENCE PUTFH OPEN"), None),  # of what was opened, and nothing says which that is
        (("LOOKUP", None, b"a", "SEQUENCE PUTROOTFH"), ".../a"),
        (("RENAME", b"root", b"a", "SEQUENCE PUTFH SAVEFH PUTFH"), ".../a"),  # the directory is the one of the new name
        (("CREATE", b"D", b"s", "SEQUENCE PUTFH SAVEFH"), "/export/d/s"),
    ],
)
def test_of_a_compound_the_handle_counts_that_its_operation_works_on(
    ask: tuple[str, bytes | None, bytes | None, str], path: str | None
) -> None:
    """A PUTFH in front of the operation tells its file, unless something in between leads to another."""
    op, fh, name, before = ask
    story = Story().ask(0, "LOOKUP", None, b"export", version=4, before="PUTROOTFH")
    story.tell(ROOT, None, b"/export", b"root")
    story.ask(2, "LOOKUP", b"root", b"d", version=4, before="PUTFH").tell(FOUND, b"root", b"d", b"D")
    story.ask(4, "OPEN", b"D", b"a", version=4, before="PUTFH").tell(FOUND, b"D", b"a", b"A")
    story.ask(6, op, fh, name, version=4, before=before)
    assert _of(story)[0] == "/export"
    assert _of(story)[-1] == path


def test_what_an_op_s_own_reply_says_of_it_counts() -> None:
    """COMPOUNDs that go on from where they began, and LINKs, are named by their results."""
    story = Story().ask(0, "GETATTR", None, version=4, before="PUTROOTFH GETFH").tell(ROOT, None, b"/", b"root")
    story.ask(2, "READ", b"root", version=4, before="PUTFH OPEN").tell(FOUND, b"root", b"a", b"A")
    story.ask(4, "LOOKUP", b"root", b"x", version=4, before="PUTFH LOOKUP").tell(FOUND, b"root", b"x/./y", b"Y")
    story.ask(6, "RENAME", b"Y", b"old", version=4, before="PUTFH SAVEFH PUTFH")
    story.tell(RENAMED, b"root", b"old", None, b"Y", b"new").ask(8, "READ", b"Y", version=4, before="PUTFH")
    story.ask(10, "LINK", b"A", b"l").tell(FOUND, b"Y", b"l", b"A").ask(12, "LINK", b"A", b"m")
    assert _of(story) == ["/", "/a", "/x/y", "/old", "/x/y", "/a", "/x/y/l"]
    assert renamed_to(paths_of_side(story.side()))[3] == "/x/y/new"


def test_the_code_page_is_asked_for_whole_paths() -> None:
    """Each part of a path is read by itself; an unknown code page is an error even where no name needs one."""
    story = _mounted().ask(2, "LOOKUP", b"root", "é".encode()).tell(FOUND, b"root", "é".encode(), b"D")
    story.ask(4, "LOOKUP", b"D", "ж=\n".encode("koi8-r")).tell(FOUND, b"D", "ж=\n".encode("koi8-r"), b"A")
    assert _of(story, "koi8-r")[-1] == r"/export/é/ж=\n"
    assert _of(story)[-1] == r"/export/é/\xd6=\n"
    with pytest.raises(UsageError, match="klingon"):
        _of(Story(), "klingon")


def test_nothing_known_gives_nothing() -> None:
    """No ops, or ops without news (as tshark's engine has them), are no error."""
    assert _of(Story()) == []
    assert _of(Story().ask(0, "READ", b"A").ask(2, "GETATTR")) == [None, None]


class _Server:
    """A file system, what it tells of itself, and the true path of each op."""

    def __init__(self, choose: Callable[[int], int], *, reuses: bool, tells_all: bool) -> None:
        self.story = _mounted()
        self.truth = ["/e"[:0] + "/export"]
        self.choose, self.reuses, self.tells_all = choose, reuses, tells_all
        self.where: dict[bytes, tuple[bytes, bytes]] = {}  # handle -> directory, name
        self.there: dict[tuple[bytes, bytes], bytes] = {}
        self.directories = [b"root"]
        self.free: list[bytes] = []
        self.made = 0
        self.t_ms = 2.0

    def path(self, handle: bytes) -> str:
        if handle == b"root":
            return "/export"
        directory, name = self.where[handle]
        return f"{self.path(directory)}/{name.decode()}"

    def ask(self, op: str, fh: bytes, name: bytes | None = None) -> None:
        self.t_ms += 2
        self.story.ask(self.t_ms, op, fh, name)
        self.truth.append(self.path(fh) + ("" if name is None else f"/{name.decode()}"))

    def one(self, of: list[bytes]) -> bytes:
        return of[self.choose(len(of))]

    def place(self) -> tuple[bytes, bytes]:
        return self.one(self.directories), b"abc"[(at := self.choose(3)) : at + 1]

    def gone(self, handle: bytes) -> None:
        del self.there[self.where.pop(handle)]
        if self.reuses and handle not in self.directories:
            self.free.append(handle)
        if handle in self.directories:
            self.directories.remove(handle)

    def is_below(self, handle: bytes, other: bytes) -> bool:
        while handle != b"root":
            if handle == other:
                return True
            handle = self.where[handle][0]
        return False

    def act(self) -> None:
        what = self.choose(6)
        files = list(self.where)
        if what == 0:
            place = self.place()
            if place in self.there:
                return
            if self.free and self.choose(2):
                handle = self.free.pop()
            else:
                self.made += 1
                handle = b"h%d" % self.made
                if self.choose(2):
                    self.directories.append(handle)
            self.ask("CREATE", *place)
            if self.tells_all or self.choose(2):
                self.story.tell(FOUND, *place, handle)
            self.where[handle], self.there[place] = place, handle
        elif not files:
            return
        elif what == 1:
            handle, place = self.one(files), self.place()
            over = self.there.get(place)
            if self.is_below(place[0], handle) or over == handle or over in self.directories:
                return
            if over is not None and handle in self.directories:
                return
            self.ask("RENAME", *self.where[handle])
            self.story.tell(RENAMED, *self.where[handle], None, *place)
            if over is not None:
                self.gone(over)
            del self.there[self.where[handle]]
            self.where[handle], self.there[place] = place, handle
        elif what == 2:
            handle = self.one(files)
            if any(directory == handle for directory, _ in self.where.values()):
                return
            self.ask("REMOVE", *self.where[handle])
            self.story.tell(REMOVED, *self.where[handle])
            self.gone(handle)
        elif what == 3:
            handle = self.one(files)
            self.ask("LOOKUP", *self.where[handle])
            if self.tells_all or self.choose(2):
                self.story.tell(FOUND, *self.where[handle], handle)
        else:
            self.ask("READ", self.one(files))


@settings(max_examples=examples(60))
@given(st.data())
def test_all_that_happens_is_followed(data: st.DataObject) -> None:
    """Where every reply is seen each op has the path that its file truly had, whatever is made, moved and removed."""
    moves = data.draw(st.lists(st.integers(0, 5040), min_size=60, max_size=400))
    left = iter(moves)
    server = _Server(lambda among: next(left) % among, reuses=True, tells_all=True)
    _run(server)
    assert _of(server.story) == server.truth


@settings(max_examples=examples(60))
@given(st.data())
def test_what_was_not_seen_leaves_gaps_and_no_wrong_names(data: st.DataObject) -> None:
    """Where replies that name files are missing, paths are not known, partial, or right."""
    moves = data.draw(st.lists(st.integers(0, 5040), min_size=60, max_size=400))
    left = iter(moves)
    server = _Server(lambda among: next(left) % among, reuses=False, tells_all=False)
    _run(server)
    for path, truth in zip(_of(server.story), server.truth, strict=True):
        assert path is None or path == truth or (path.startswith(".../") and truth.endswith(path[3:]))


class _ByWays(_Server):
    """Some of its clients go down from the root in each COMPOUND of NFSv4."""

    def __init__(self, choose: Callable[[int], int], *, reuses: bool, tells_all: bool) -> None:
        super().__init__(choose, reuses=reuses, tells_all=tells_all)
        self.by_way = False
        tell = self.story.tell

        def told(event: FileEvent, *row: bytes | None) -> Story:
            if not self.by_way:
                return tell(event, *row)
            whole = [self.way(*row[:2]), row[2] if len(row) > 2 else None, self.way(*row[3:5])]
            return tell(ROOT if event == FOUND else event, None, whole[0], whole[1], None, whole[2])

        self.story.tell = told  # type: ignore[method-assign, assignment]

    def way(self, directory: bytes | None = None, name: bytes | None = None) -> bytes | None:
        return None if directory is None or name is None else f"{self.path(directory)}/{name.decode()}".encode()

    def ask(self, op: str, fh: bytes, name: bytes | None = None) -> None:
        self.by_way = name is not None and self.choose(2) == 1
        if not self.by_way:
            super().ask(op, fh, name)
            return
        self.t_ms += 2
        self.story.ask(self.t_ms, op, None, name, version=4, before="PUTROOTFH LOOKUP")
        self.truth.append(f"{self.path(fh)}/{(name or b'').decode()}")


@settings(max_examples=examples(100))
@given(st.data(), st.booleans(), st.booleans())
def test_ways_from_the_root_leave_gaps_and_no_wrong_names(data: st.DataObject, tells_all: bool, reuses: bool) -> None:
    """Where some are told by their handle and others by the way to them, paths are not known, partial, or right."""
    moves = data.draw(st.lists(st.integers(0, 5040), min_size=60, max_size=400))
    left = iter(moves)
    server = _ByWays(lambda among: next(left) % among, reuses=reuses and tells_all, tells_all=tells_all)
    _run(server)
    for path, truth in zip(_of(server.story), server.truth, strict=True):
        assert path is None or path == truth or (path.startswith(".../") and truth.endswith(path[3:]))


def _run(server: _Server) -> None:
    try:
        while True:
            server.act()
    except StopIteration:
        # What was begun last may be half done; it is asked, and its truth is noted, at once.
        assert len(server.truth) == len(server.story.rows)
