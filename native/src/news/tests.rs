//! Calls and replies built by hand in, what they say of files held against what was put in.

use super::*;
use crate::call::NONE;
use crate::compound::tests::ranks;
use crate::results::clear;
use crate::rpc::parse_call;
use crate::rpc::tests::build::{self, Bytes, words};
use crate::testing::cases;
use proptest::prelude::*;

type Known = Option<Vec<u8>>;
/// Event, directory, name, handle, to_directory, to_name.
type Line = (Event, Known, Known, Known, Known, Known);

const DIR: &[u8] = b"directory";
const FILE: &[u8] = b"file";
const OTHER: &[u8] = b"other directory";

fn known(bytes: &[u8]) -> Known {
    Some(bytes.to_vec())
}

fn found(directory: &[u8], name: &[u8], handle: &[u8]) -> Line {
    (Event::Found, known(directory), known(name), known(handle), None, None)
}

fn root(path: &[u8], handle: &[u8]) -> Line {
    (Event::Root, None, known(path), known(handle), None, None)
}

fn removed(directory: &[u8], name: &[u8]) -> Line {
    (Event::Removed, known(directory), known(name), None, None, None)
}

fn renamed(from: (&[u8], &[u8]), to: (&[u8], &[u8])) -> Line {
    (Event::Renamed, known(from.0), known(from.1), None, known(to.0), known(to.1))
}

/// What is heard of a call and the results of its reply; both may be cut.
fn heard(call: &[u8], results: &[u8]) -> Vec<Line> {
    let Ok(call) = parse_call(call, ranks()) else { return Vec::new() };
    let mut lines = Vec::new();
    if asks(&call) {
        let key = Key::from(&call);
        if let Some(results) = clear(results, &key) {
            let own = |known: Option<&[u8]>| known.map(<[u8]>::to_vec);
            let _ = read(&key, call.arguments, results, |news| {
                if news.is_any() {
                    let News { event, directory, name, handle, to_directory, to_name } = news;
                    lines.push((event, own(directory), own(name), own(handle), own(to_directory), own(to_name)));
                }
            });
        }
    }
    lines
}

fn v3(procedure: u32, arguments: &Bytes, results: &Bytes) -> Vec<Line> {
    heard(&build::call([NFS, 3, procedure], arguments), &results.0)
}

fn v2(procedure: u32, arguments: &Bytes, results: &Bytes) -> Vec<Line> {
    heard(&build::call([NFS, 2, procedure], arguments), &results.0)
}

fn b() -> Bytes {
    Bytes::default()
}

fn ok() -> Bytes {
    words(&[0])
}

fn place(directory: &[u8], name: &[u8]) -> Bytes {
    b().opaque(directory).opaque(name)
}

fn attributes3() -> Bytes {
    words(&[1]).raw(&[0; 84])
}

/// What a COMPOUND of operations and their results says.
fn v4(steps: &[(u32, Bytes, Bytes)]) -> Vec<Line> {
    let (call, results) = messages4(steps);
    heard(&call, &results)
}

fn messages4(steps: &[(u32, Bytes, Bytes)]) -> (Vec<u8>, Vec<u8>) {
    let operations: Vec<(u32, Bytes)> = steps.iter().map(|(op, call, _)| (*op, call.clone())).collect();
    let head = words(&[0]).opaque(b"tag").words(&[steps.len() as u32]);
    let results = steps.iter().fold(head, |all, (op, _, result)| all.words(&[*op, 0]).raw(&result.0));
    (build::nfs4(&operations), results.0)
}

fn putfh(handle: &[u8]) -> (u32, Bytes, Bytes) {
    (22, b().opaque(handle), b())
}

fn getfh(handle: &[u8]) -> (u32, Bytes, Bytes) {
    (10, b(), b().opaque(handle))
}

fn lookup(name: &[u8]) -> (u32, Bytes, Bytes) {
    (15, b().opaque(name), b())
}

fn plain(op: u32) -> (u32, Bytes, Bytes) {
    (op, b(), b())
}

fn getattr() -> (u32, Bytes, Bytes) {
    (9, b().bitmap(), b().fattr())
}

fn sequence() -> (u32, Bytes, Bytes) {
    (53, b().id().words(&[1, 2, 3, 0]), b().id().words(&[1, 2, 3, 4, 0]))
}

/// OPEN with this claim, and no delegation.
fn open(claim: Bytes) -> (u32, Bytes, Bytes) {
    let call = words(&[1, 3, 0]).owner().words(&[0]).raw(&claim.0);
    (18, call, b().id().words(&[1]).hypers(&[1, 2]).words(&[4]).bitmap().words(&[0]))
}

/// LOOKUP, CREATE, MKDIR, SYMLINK, MKNOD and LINK of NFSv3 say what a name is, with attributes or without.
#[test]
fn version3_finds() {
    let name = b"name";
    let expected = vec![found(DIR, name, FILE)];
    assert_eq!(v3(3, &place(DIR, name), &ok().opaque(FILE).raw(&attributes3().0)), expected);
    for procedure in 8..=11 {
        let more = place(DIR, name).words(&[0; 8]);
        assert_eq!(v3(procedure, &more, &ok().words(&[1]).opaque(FILE).words(&[0, 0])), expected, "{procedure}");
        let unsaid = vec![(Event::Found, known(DIR), known(name), None, None, None)];
        assert_eq!(v3(procedure, &more, &ok().words(&[0, 0, 0])), unsaid, "{procedure}");
    }
    assert_eq!(v3(15, &b().opaque(FILE).raw(&place(DIR, name).0), &ok().words(&[0, 0, 0])), expected);
}

/// REMOVE, RMDIR and RENAME of NFSv2 and NFSv3.
#[test]
fn gone_and_renamed() {
    let expected = vec![renamed((DIR, b"old"), (OTHER, b"new"))];
    assert_eq!(v3(14, &place(DIR, b"old").raw(&place(OTHER, b"new").0), &ok()), expected);
    for procedure in [12, 13] {
        assert_eq!(v3(procedure, &place(DIR, b"old"), &ok()), vec![removed(DIR, b"old")]);
    }
    let (one, two) = ([1; 32], [2; 32]);
    let call = b().raw(&one).opaque(b"old").raw(&two).opaque(b"new");
    assert_eq!(v2(11, &call, &ok()), vec![renamed((&one, b"old"), (&two, b"new"))]);
    for procedure in [10, 15] {
        assert_eq!(v2(procedure, &b().raw(&one).opaque(b"old"), &ok()), vec![removed(&one, b"old")]);
    }
}

/// LOOKUP, CREATE, MKDIR and LINK of NFSv2; its SYMLINK does not say the handle.
#[test]
fn version2_finds() {
    let (one, two) = ([1; 32], [2; 32]);
    for procedure in [4, 9, 14] {
        let call = b().raw(&one).opaque(b"name").words(&[0; 8]);
        assert_eq!(v2(procedure, &call, &ok().raw(&two).raw(&[0; 68])), vec![found(&one, b"name", &two)]);
    }
    assert_eq!(v2(12, &b().raw(&two).raw(&one).opaque(b"name"), &ok()), vec![found(&one, b"name", &two)]);
    let unsaid = vec![(Event::Found, known(&one), known(b"name"), None, None, None)];
    assert_eq!(v2(13, &b().raw(&one).opaque(b"name").opaque(b"to"), &ok()), unsaid);
}

/// MNT says the handle of a path: 32 bytes in versions 1 and 2, as many as it says in version 3.
#[test]
fn mounts() {
    let handle = [3; 32];
    for version in [1, 2] {
        let call = build::call([MOUNT, version, 1], &b().opaque(b"/export"));
        assert_eq!(heard(&call, &ok().raw(&handle).0), vec![root(b"/export", &handle)]);
    }
    let call = build::call([MOUNT, 3, 1], &b().opaque(b"/export"));
    assert_eq!(heard(&call, &ok().opaque(FILE).words(&[1, 1]).0), vec![root(b"/export", FILE)]);
    assert_eq!(heard(&call, &words(&[13]).0), vec![]);
}

/// READDIRPLUS names what it gives the handle of; "." says nothing that is not known.
#[test]
fn lists_version3() {
    let entry = |name: &[u8], handle: Option<&[u8]>| {
        let head = words(&[1]).hypers(&[7]).opaque(name).hypers(&[9]).raw(&attributes3().0);
        handle.map_or_else(|| head.clone().words(&[0]), |handle| head.clone().words(&[1]).opaque(handle))
    };
    let results = ok().raw(&attributes3().0).hypers(&[5]).raw(&entry(b".", Some(DIR)).0);
    let results = results.raw(&entry(b"..", Some(OTHER)).0).raw(&entry(b"a", Some(FILE)).0);
    let results = results.raw(&entry(b"no handle", None).0).raw(&entry(b"b", Some(b"file b")).0).words(&[0, 1]);
    let call = b().opaque(DIR).hypers(&[0, 0]).words(&[512, 4096]);
    let expected = vec![found(DIR, b"..", OTHER), found(DIR, b"a", FILE), found(DIR, b"b", b"file b")];
    assert_eq!(v3(17, &call, &results), expected);
}

/// READDIR of NFSv4 names what it gives the handle of, among other attributes and behind an ACL.
#[test]
fn lists_version4() {
    let entry = |name: &[u8], mask: u32, values: Bytes| {
        words(&[1]).hypers(&[7]).opaque(name).words(&[2, mask, 0x30]).opaque(&values.0)
    };
    let acl = words(&[1, 0, 0, 1]).opaque(b"OWNER@");
    let all = words(&[1, 1 << 20, 2, 0]).hypers(&[1, 2]).words(&[1, 1, 0]).hypers(&[5, 5]).words(&[1, 90, 0]);
    let all = all.raw(&acl.0).words(&[1, 0, 0, 0, 0, 1]).opaque(FILE).hypers(&[77]);
    let results = b().hypers(&[5]).raw(&entry(b"all", (1 << 21) - 1, all).0);
    let results = results.raw(&entry(b"handle", 1 << 19, b().opaque(b"another")).0);
    let results = results.raw(&entry(b"none", 1 << 1, words(&[2])).0).words(&[0, 1]);
    let steps = [sequence(), putfh(DIR), (26, b().hypers(&[0, 0]).words(&[9, 9]).bitmap(), results), getfh(DIR)];
    assert_eq!(v4(&steps), vec![found(DIR, b"all", FILE), found(DIR, b"handle", b"another")]);
}

/// OPEN, CREATE and LOOKUP name what the GETFH behind them says; by a handle OPEN names nothing.
#[test]
fn version4_finds() {
    let create = (6, words(&[2]).opaque(b"name").fattr(), words(&[1]).hypers(&[1, 2]).bitmap());
    let by_name = open(words(&[0]).opaque(b"name"));
    let delegated = open(words(&[2]).id().opaque(b"name"));
    for step in [lookup(b"name"), create, by_name, delegated] {
        let steps = [sequence(), putfh(DIR), step, getattr(), getfh(FILE), getattr()];
        assert_eq!(v4(&steps), vec![found(DIR, b"name", FILE)]);
    }
    assert_eq!(v4(&[putfh(FILE), open(words(&[4])), getfh(FILE)]), vec![]);
    assert_eq!(v4(&[putfh(DIR), plain(16), getfh(OTHER)]), vec![found(DIR, b"..", OTHER)]);
}

/// From the root on, and over several names without a handle in between, the way is put together.
#[test]
fn version4_chains() {
    assert_eq!(v4(&[plain(24), getfh(DIR)]), vec![root(b"/", DIR)]);
    let steps = [plain(24), lookup(b"srv"), lookup(b"export"), getfh(DIR), lookup(b"a"), lookup(b"b"), getfh(FILE)];
    assert_eq!(v4(&steps), vec![root(b"/srv/export", DIR), found(DIR, b"a/b", FILE)]);
    // Up from a directory without a handle leads nowhere that is known.
    let unknown = (Event::Found, None, known(b"b"), known(FILE), None, None);
    assert_eq!(v4(&[putfh(DIR), lookup(b"a"), plain(16), lookup(b"b"), getfh(FILE)]), vec![unknown]);
}

/// A component with a slash in it is no name, and no way of several.
#[test]
fn version4_slashes() {
    for steps in [vec![lookup(b"a/b")], vec![lookup(b"a"), lookup(b"../b")]] {
        let steps = [vec![putfh(DIR)], steps, vec![getfh(FILE)]].concat();
        assert!(v4(&steps).iter().all(|(_, _, name, ..)| name.is_none()));
    }
}

/// The saved filehandle is where a RENAME comes from, what a LINK links to, and what RESTOREFH goes back to.
#[test]
fn version4_saved() {
    let info = || words(&[1]).hypers(&[1, 2]);
    let rename = (29, place(b"old", b"new"), info().raw(&info().0));
    let steps = [sequence(), putfh(DIR), plain(32), putfh(OTHER), rename];
    assert_eq!(v4(&steps), vec![renamed((DIR, b"old"), (OTHER, b"new"))]);
    let link = (11, b().opaque(b"name"), info());
    assert_eq!(v4(&[putfh(FILE), plain(32), putfh(DIR), link]), vec![found(DIR, b"name", FILE)]);
    let remove = (28, b().opaque(b"name"), info());
    assert_eq!(v4(&[putfh(DIR), remove.clone(), getattr()]), vec![removed(DIR, b"name")]);
    let steps = [putfh(DIR), plain(32), lookup(b"name"), getfh(FILE), plain(31), remove];
    assert_eq!(v4(&steps), vec![found(DIR, b"name", FILE), removed(DIR, b"name")]);
}

fn laid_out(device: &[u8; 16], handle: &[u8]) -> Line {
    (Event::LaidOut, known(device), None, known(FILE), known(handle), None)
}

fn at_address(address: &[u8]) -> Line {
    (Event::Device, None, known(address), known(&[0x0b; 16]), None, None)
}

/// LAYOUTGET that grants layouts of these types with these bodies.
fn layoutget(layouts: &[(u32, Bytes)]) -> (u32, Bytes, Bytes) {
    let call = words(&[0, 1, 2]).hypers(&[0, u64::MAX, 4096]).id().words(&[4096]);
    let head = words(&[1]).id().words(&[layouts.len() as u32]);
    let result =
        layouts.iter().fold(head, |all, (kind, body)| all.hypers(&[0, u64::MAX]).words(&[2, *kind]).opaque(&body.0));
    (50, call, result)
}

fn of_files(device: &[u8; 16], handles: &[&[u8]]) -> (u32, Bytes) {
    let head = b().raw(device).words(&[0x10000, 0]).hypers(&[0]).words(&[handles.len() as u32]);
    (1, handles.iter().fold(head, |all, handle| all.opaque(handle)))
}

/// One data server a mirror.
fn flexible(servers: &[(&[u8; 16], &[&[u8]])]) -> (u32, Bytes) {
    let head = b().hypers(&[65536]).words(&[servers.len() as u32]);
    let all = servers.iter().fold(head, |all, (device, handles)| {
        let head = all.words(&[1]).raw(*device).words(&[9]).id().words(&[handles.len() as u32]);
        handles.iter().fold(head, |all, handle| all.opaque(handle)).opaque(b"1000").opaque(b"100")
    });
    (4, all.words(&[0, 0]))
}

fn getdeviceinfo(kind: u32, body: &Bytes) -> (u32, Bytes, Bytes) {
    let call = b().raw(&[0x0b; 16]).words(&[kind, 4096]).bitmap();
    (47, call, words(&[kind]).opaque(&body.0).bitmap())
}

fn addresses(all: &[&[u8]]) -> Bytes {
    all.iter().fold(words(&[all.len() as u32]), |all, address| all.opaque(b"tcp").opaque(address))
}

/// A layout of files has one handle for each data server, or one for all of them, or that of the file itself.
#[test]
fn layouts_of_files() {
    let (one, two) = ([1; 16], [2; 16]);
    let layouts = [of_files(&one, &[b"ds 1", b"ds 2"]), (3, b().raw(&[9; 40])), of_files(&two, &[])];
    let steps = [sequence(), putfh(DIR), open(words(&[0]).opaque(b"a")), getfh(FILE), layoutget(&layouts), getfh(FILE)];
    let expected = vec![found(DIR, b"a", FILE), laid_out(&one, b"ds 1"), laid_out(&one, b"ds 2"), laid_out(&two, FILE)];
    assert_eq!(v4(&steps), expected);
    // Neither is a handle.
    for handle in [&b""[..], &[7; 129]] {
        let layouts = [of_files(&one, &[b"ds 1", handle, b"ds 3"]), of_files(&two, &[b"ds 2"])];
        let expected = vec![laid_out(&one, b"ds 1"), laid_out(&two, b"ds 2")];
        assert_eq!(v4(&[putfh(FILE), layoutget(&layouts)]), expected);
    }
}

/// A flexible layout has a handle for each mirror, and for each version of NFS that it speaks.
#[test]
fn flexible_layouts() {
    let (one, two) = ([1; 16], [2; 16]);
    let layout = flexible(&[(&one, &[b"ds 1 v3", b"ds 1 v4"]), (&two, &[b"ds 2"])]);
    let expected = vec![laid_out(&one, b"ds 1 v3"), laid_out(&one, b"ds 1 v4"), laid_out(&two, b"ds 2")];
    assert_eq!(v4(&[sequence(), putfh(FILE), layoutget(&[layout]), getattr()]), expected);
}

/// GETDEVICEINFO says where the data servers are.
#[test]
fn devices() {
    let several = words(&[3, 0, 1, 0, 2]).raw(&addresses(&[b"10.0.0.3.8.1", b"10.0.1.3.8.1"]).0);
    let several = several.raw(&addresses(&[b"fe80::1.8.1"]).0);
    let expected = vec![at_address(b"10.0.0.3.8.1"), at_address(b"10.0.1.3.8.1"), at_address(b"fe80::1.8.1")];
    assert_eq!(v4(&[sequence(), getdeviceinfo(1, &several)]), expected);
    let one = addresses(&[b"10.0.0.3.8.1"]).words(&[1, 3, 0, 65536, 65536, 1]);
    let steps = [sequence(), getdeviceinfo(4, &one), putfh(FILE), getfh(FILE), getdeviceinfo(3, &one)];
    assert_eq!(v4(&steps), vec![at_address(b"10.0.0.3.8.1")]);
}

/// What failed says nothing, and of a COMPOUND nothing from the operation on that failed.
#[test]
fn failures() {
    assert_eq!(v3(3, &place(DIR, b"name"), &words(&[2]).raw(&attributes3().0)), vec![]);
    assert_eq!(v3(12, &place(DIR, b"name"), &words(&[13, 0, 0])), vec![]);
    let (call, mut results) = messages4(&[putfh(DIR), lookup(b"a"), getfh(FILE), lookup(b"b"), getfh(OTHER)]);
    let at = results.len() - 4 - b().opaque(OTHER).0.len() - 4 - 4;
    results[at..at + 4].copy_from_slice(&2u32.to_be_bytes());
    assert_eq!(heard(&call, &results), vec![found(DIR, b"a", FILE)]);
}

/// RPCSEC_GSS with integrity hides nothing, with privacy everything.
#[test]
fn gss() {
    let with = |service| {
        let arguments = build::wrapped(7, &place(DIR, b"name"));
        let call = build::call_with(&build::data(7, service), [NFS, 3, 3], &arguments);
        heard(&call, &build::wrapped(7, &ok().opaque(FILE)).0)
    };
    assert_eq!(with(2), vec![found(DIR, b"name", FILE)]);
    assert_eq!(with(3), vec![]);
}

/// The uid of an AUTH_SYS credential; none of another flavor, or where it was not captured.
#[test]
fn uids() {
    let body = words(&[77]).opaque(b"client").words(&[1001, 100, 1, 4]);
    let credential = words(&[1]).opaque(&body.0).words(&[0, 0]);
    let call = build::call_with(&credential, [NFS, 3, 0], &b());
    let uid = |bytes: &[u8]| parse_call(bytes, ranks()).unwrap().uid;
    assert_eq!(uid(&call), 1001);
    for end in 24..call.len() {
        assert_eq!(uid(&call[..end]), if end < 24 + 8 + 4 + 12 + 4 { NONE } else { 1001 }, "{end}");
    }
    assert_eq!(uid(&build::call_with(&words(&[0, 0, 0, 0]), [NFS, 3, 0], &b())), NONE);
    assert_eq!(uid(&build::call_with(&build::data(7, 1), [NFS, 3, 0], &b())), NONE);
}

fn conversations() -> Vec<(Vec<u8>, Vec<u8>)> {
    let rename = place(DIR, b"old").raw(&place(OTHER, b"new").0);
    let entry = words(&[1]).hypers(&[7]).opaque(b"name").hypers(&[9]).words(&[0, 1]).opaque(FILE);
    let listing = ok().raw(&attributes3().0).hypers(&[5]).raw(&entry.0).raw(&entry.0).words(&[0, 1]);
    let steps = [sequence(), plain(24), lookup(b"a"), getfh(DIR), open(words(&[0]).opaque(b"b")), getfh(FILE)];
    let layout: [(&[u8; 16], &[&[u8]]); 2] = [(&[3; 16], &[b"v3", b"v4"]), (&[4; 16], &[b"v4"])];
    vec![
        (build::call([NFS, 3, 3], &place(DIR, b"name")), ok().opaque(FILE).0),
        (build::call([NFS, 3, 14], &rename), ok().0),
        (build::call([NFS, 3, 17], &b().opaque(DIR).hypers(&[0, 0])), listing.0),
        (build::call([NFS, 2, 12], &b().raw(&[1; 32]).raw(&[2; 32]).opaque(b"name")), ok().0),
        (build::call([MOUNT, 3, 1], &b().opaque(b"/export")), ok().opaque(FILE).0),
        messages4(&steps),
        messages4(&[putfh(FILE), layoutget(&[of_files(&[1; 16], &[b"ds 1", b"ds 2"]), flexible(&layout)])]),
        messages4(&[getdeviceinfo(1, &words(&[1, 0, 1]).raw(&addresses(&[b"10.0.0.3.8.1", b"::1.8.1"]).0))]),
    ]
}

/// Wherever call and reply end, what is known stays as it is, and the rest is not known: nothing is made up.
#[test]
fn cuts() {
    for (call, results) in conversations() {
        let all = heard(&call, &results);
        assert!(!all.is_empty());
        for (kept_call, kept_results) in
            (0..call.len()).map(|kept| (kept, results.len())).chain((0..results.len()).map(|kept| (call.len(), kept)))
        {
            let some = heard(&call[..kept_call], &results[..kept_results]);
            assert!(some.len() <= all.len());
            for (cut, whole) in some.iter().zip(&all) {
                let agrees = |cut: &Known, whole: &Known| cut.is_none() || cut == whole;
                let fields = [
                    (&cut.1, &whole.1),
                    (&cut.2, &whole.2),
                    (&cut.3, &whole.3),
                    (&cut.4, &whole.4),
                    (&cut.5, &whole.5),
                ];
                assert!(fields.iter().all(|(cut, whole)| agrees(cut, whole)), "{cut:?} {whole:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(4000))]

    /// Whatever else call and reply say: it ends, and no more is told than the reply has bytes for.
    #[test]
    fn hostile(which in 0usize..8, flips in prop::collection::vec((any::<bool>(), any::<u16>(), any::<u32>()), 1..6)) {
        let (mut call, mut results) = conversations().swap_remove(which);
        for (is_reply, at, value) in flips {
            let bytes = if is_reply { &mut results } else { &mut call };
            let at = usize::from(at) % (bytes.len() / 4) * 4;
            bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        prop_assert!(heard(&call, &results).len() <= results.len() / 4 + 1);
    }

    /// Random bytes behind a header.
    #[test]
    fn noise(program in 0usize..4, procedure in 0u32..20, arguments: Vec<u8>, results: Vec<u8>) {
        let (program, version) = [(NFS, 2), (NFS, 3), (NFS, 4), (MOUNT, 3)][program];
        let procedure = if version == 4 { 1 } else { procedure };
        let call = build::call([program, version, procedure], &b().raw(&arguments));
        prop_assert!(heard(&call, &results).len() <= results.len() / 4 + 1);
    }
}
