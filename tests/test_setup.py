"""The set-up: what it would install, with which compiler, from which locks; what is said where nothing was compiled."""

from __future__ import annotations

import configparser
import fcntl
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PACKING = ROOT / "scripts" / "packing"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg")
EXTRAS = SETUP["options.extras_require"]
CRATE = tomllib.loads((ROOT / "native" / "Cargo.toml").read_text())
CRATES = tomllib.loads((ROOT / "native" / "crates.lock").read_text())["package"]
LOCKS = {"core": "", "run": "all", "alone": "html", "dev": "dev", "tools": "tools"}  # lock: the extra that it holds
PAIR = [str(ROOT / "samples" / "server-threads" / f"{side}.pcap.gz") for side in ("server", "client")]


def _required(extra: str) -> list[Requirement]:
    lines = SETUP["options"]["install_requires"] if not extra else EXTRAS[extra]
    named = [Requirement(line) for line in lines.splitlines() if line and not line.startswith("#")]
    inner = [one for own in named if own.name == "nfslat" for name in own.extras for one in _required(name)]
    return [one for one in named if one.name != "nfslat"] + inner


def _locked(lock: str) -> list[tuple[Requirement, list[str]]]:
    entries = re.split(r"\n(?=\S)", (ROOT / "locks" / f"{lock}.txt").read_text().strip())
    split = [entry.replace("\\\n", "").split(" --hash=") for entry in entries]
    return [(Requirement(head.strip()), [one.strip() for one in hashes]) for head, *hashes in split]


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_has_one_version_of_each_package_that_setup_cfg_allows(lock: str, python: str) -> None:
    """For each Python and processor a lock names all that setup.cfg asks for, once, in a version that it allows."""
    for machine in ("x86_64", "aarch64"):
        here = {"python_version": python, "python_full_version": f"{python}.2", "platform_machine": machine}
        here |= {"sys_platform": "linux", "os_name": "posix", "platform_system": "Linux"}
        entries = [one for one, _ in _locked(lock) if one.marker is None or one.marker.evaluate(here)]
        pins = {canonicalize_name(one.name): str(one.specifier).removeprefix("==") for one in entries}
        assert len(pins) == len(entries)
        for wanted in _required("") + (_required(LOCKS[lock]) if LOCKS[lock] else []):
            assert Version(pins[canonicalize_name(wanted.name)]) in wanted.specifier, wanted


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_each_file_and_names_no_place(lock: str) -> None:
    """Each entry is one version with SHA-256 sums; where it comes from is the user's configuration of pip."""
    for entry, hashes in _locked(lock):
        assert re.fullmatch(r"==[^,*]+", str(entry.specifier))
        assert hashes
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", one) for one in hashes)
    assert "://" not in (ROOT / "locks" / f"{lock}.txt").read_text()


def test_what_is_tested_is_what_is_run() -> None:
    """No package has another version in the tests than in a run."""
    tested = {(one.name, one.specifier) for one, _ in _locked("dev")}
    assert {(one.name, one.specifier) for lock in ("core", "run", "alone") for one, _ in _locked(lock)} <= tested


def test_crates_are_named_exactly() -> None:
    """Cargo.toml names versions with "=", crates.lock has these, each with its sum, and no registry."""
    versions = {(one["name"], one["version"]) for one in CRATES}
    for name, wanted in (CRATE["dependencies"] | CRATE["dev-dependencies"]).items():
        version = wanted if isinstance(wanted, str) else wanted["version"]
        assert version.startswith("=")
        assert (name, version[1:]) in versions
    assert [one["name"] for one in CRATES if "checksum" not in one] == [CRATE["package"]["name"]]
    assert not any("source" in one for one in CRATES)


def _sourced(tmp_path: Path, commands: dict[str, str], script: str) -> str:
    """What a script says that has scripts/setup.sh, where these commands are all that there is besides the usual."""
    for name, text in commands.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    for name in ("sh", "sed", "sort", "grep", "awk", "cat", "mv", "cmp", "ls", "id", "cksum", "env", "find", "rm"):
        if name not in commands:
            (tmp_path / name).symlink_to(str(shutil.which(name)))
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path), "root": str(ROOT)}
    script = f'set -eu\n. "$root/scripts/setup.sh"\nvenv="$HOME" source="$HOME"\n{script}'
    shell = str(shutil.which("sh"))
    return subprocess.run([shell, "-c", script], env=environment, capture_output=True, text=True, check=True).stdout


def _apt(candidates: dict[str, str]) -> dict[str, str]:
    """An apt-cache that knows these packages."""
    names = "\n".join(name for name in candidates if name.startswith("cargo-1."))
    cases = "\n".join(f"{name}) echo '  Candidate: {version}' ;;" for name, version in candidates.items())
    return {"apt-cache": f"case $1 in pkgnames) echo '{names}' ;; policy) case $2 in {cases} esac ;; esac"}


@pytest.mark.parametrize(
    ("candidates", "chosen"),
    [
        ({"cargo": "0.66.0+ds1-1", "cargo-web": "1.85.0+dfsg3-1~deb12u3"}, "cargo-web rustc-web"),
        ({"cargo": "1.85.1+dfsg1-1+deb13u1", "cargo-web": "1.96.0+dfsg1-1~deb13u1+b1"}, "cargo rustc"),
        (
            {
                "cargo": "1.75.0+dfsg0ubuntu1-0ubuntu7",
                "cargo-1.100": "1.100.0",
                "cargo-1.89-doc": "1.89.0",
                "cargo-1.89": "1.89.0+dfsg0ubuntu1",
                "cargo-1.74": "1.74.1",
            },
            "cargo-1.89 rustc-1.89",
        ),
        ({"cargo": "2:1.90.0-1"}, "cargo rustc"),
        ({"cargo": "(none)", "cargo-1.74": "1.74.1"}, ""),
        ({}, ""),
    ],
    ids=["Debian 12", "Debian 13", "Ubuntu", "epoch", "too old", "no lists"],
)
def test_the_compiler_is_one_that_apt_has_and_that_is_new_enough(
    tmp_path: Path, candidates: dict[str, str], chosen: str
) -> None:
    """The release's own cargo where it will do, else one under another name, else none."""
    found = _sourced(tmp_path, _apt(candidates), 'find_cargo; find_compiler; echo "$compiler"').strip()
    assert found == (f"{chosen} gcc libc6-dev ca-certificates" if chosen else "")


def _cargo(version: str) -> str:
    return f"echo 'cargo {version} (0123456 2026-01-01)'"


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("1.85.0", ""),
        ("1.100.0-nightly", ""),
        ("1.84.1", "Rust 1.84.1 is too old"),
        ("0.66.0", "Rust 0.66.0 is too old"),
    ],
)
def test_a_cargo_is_taken_that_is_new_enough(tmp_path: Path, version: str, why: str) -> None:
    """The rust-version of the crate decides; one that is too old is named."""
    said = _sourced(tmp_path, {"cargo": _cargo(version)}, 'find_cargo; echo "${cargo:-$why}"').strip()
    assert said == (why or f"{tmp_path}/cargo")


def test_a_newer_cargo_in_the_home_is_found_behind_an_old_one(tmp_path: Path) -> None:
    """rustup's is taken where the one in PATH is too old."""
    newer = tmp_path / ".cargo" / "bin" / "cargo"
    newer.parent.mkdir(parents=True)
    newer.write_text(f"#!/bin/sh\n{_cargo('1.90.0')}\n")
    newer.chmod(0o755)
    assert _sourced(tmp_path, {"cargo": _cargo("1.70.0")}, 'find_cargo; echo "$cargo"').strip() == str(newer)


def test_without_root_one_line_says_which_packages(tmp_path: Path) -> None:
    """Where a password is needed nothing is installed: the command is named."""
    (tmp_path / "nfslat").mkdir()
    commands = _apt({"cargo-web": "1.85.0"}) | {"apt-get": "exit 9", "id": "echo 1000"}
    said = _sourced(tmp_path, commands, "(fill_native) 2>&1 || :")
    assert said == (
        "nfslat: the decoder has to be compiled, and no cargo is found: "
        "sudo apt-get install cargo-web rustc-web gcc libc6-dev ca-certificates, and run again\n"
    )


def test_byte_code_is_kept_where_python_keeps_none_itself(tmp_path: Path) -> None:
    """In a container, too, nfslat is compiled once, and what is changed after that runs as it is then."""
    module = tmp_path / "nfslat" / "one.py"
    module.parent.mkdir()
    module.write_text("print('before')")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    _sourced(tmp_path, {}, "export PYTHONDONTWRITEBYTECODE=1; keep_byte_code")
    assert list((tmp_path / "nfslat" / "__pycache__").glob("one.*.pyc"))
    module.write_text("print('changed')")
    command = [sys.executable, "-c", "import one"]
    said = subprocess.run(command, env={"PYTHONPATH": str(module.parent)}, capture_output=True, text=True, check=True)
    assert said.stdout == "changed\n"


def test_cargo_gets_a_lock_with_the_registry_that_it_names_itself(tmp_path: Path) -> None:
    """Cargo.lock is crates.lock and, for each crate with a sum, the line that cargo writes; it is made once."""
    (tmp_path / "native").mkdir()
    lock, made = tmp_path / "native" / "Cargo.lock", tmp_path / "made"
    cargo = f"""case $1 in
--version) {_cargo("1.90.0")} ;;
generate-lockfile) echo made >>{made}; printf '[[package]]\\nname = "a"\\nsource = "registry+here"\\n' >Cargo.lock ;;
esac"""
    _sourced(tmp_path, {"cargo": cargo}, "lock_crates; lock_crates")
    crates = tomllib.loads(lock.read_text())["package"]
    assert [one.pop("source", None) for one in crates] == [
        "registry+here" if "checksum" in one else None for one in crates
    ]
    assert crates == CRATES
    assert made.read_text() == "made\n"


@pytest.mark.parametrize(
    "arguments",
    [PAIR, *(pytest.param([name, *PAIR], marks=pytest.mark.long) for name in ("fleet", "transport", "live", "diff"))],
    ids=["report", "fleet", "transport", "live", "diff"],
)
def test_without_the_compiled_decoder_a_line_says_how_to_get_it(arguments: list[str]) -> None:
    """A module that is missing ends each command with status 3 and one line, and no traceback."""
    program = "import sys; sys.modules['nfslat._native'] = None; from nfslat.cli.main import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1), done.stderr
    assert "not compiled" in done.stderr


def test_a_run_here_needs_no_dask() -> None:
    """What `nfslat fleet` imports without --scheduler does not bring the cluster along, whose import takes a second."""
    program = "import sys, nfslat.fleet.run.executor, nfslat.fleet.run.run; sys.exit('distributed' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    "package", ["distributed", *(pytest.param(one, marks=pytest.mark.long) for one in ("fsspec", "psutil"))]
)
def test_a_package_that_was_left_out_is_named(package: str, tmp_path: Path) -> None:
    """Where a command needs a package that is not installed, it ends with status 2 and one line that names it."""
    program = f"import sys; sys.modules['{package}'] = None; from nfslat.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "fleet", *PAIR]
    if package == "distributed":
        command += ["--scheduler", "tls://head:8786", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert f"package {package}," in done.stderr


def test_the_bill_of_materials_has_what_the_locks_have() -> None:
    """Each package and crate that is locked stands in it once; what only tests need is optional."""
    command = [sys.executable, str(PACKING / "sbom.py"), str(ROOT), "1.2.3", "1700000000"]
    first, second = (subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert first == second
    document = json.loads(first)
    assert (document["bomFormat"], document["metadata"]["component"]["version"]) == ("CycloneDX", "1.2.3")
    scopes = {one["purl"]: one["scope"] for one in document["components"]}
    crates = {f"pkg:cargo/{one['name']}@{one['version']}" for one in CRATES if "checksum" in one}
    packages = {f"pkg:pypi/{one.name}@{str(one.specifier)[2:]}" for lock in ("dev", "run") for one, _ in _locked(lock)}
    assert len(scopes) == len(document["components"])
    assert set(scopes) == crates | packages
    by_name = {purl.split("@")[0]: scope for purl, scope in scopes.items()}
    assert {by_name[f"pkg:{one}"] for one in ("pypi/numpy", "pypi/pyarrow", "cargo/pyo3", "cargo/zlib-rs")} == {
        "required"
    }
    assert {by_name[f"pkg:{one}"] for one in ("pypi/pytest", "cargo/proptest")} == {"optional"}


def test_an_archive_made_anew_does_not_say_when_and_by_whom(tmp_path: Path) -> None:
    """The same files packed by others, at other times, in another order, make the same bytes."""
    made = []
    for number, names in enumerate((["b", "a"], ["a", "b"])):
        path = tmp_path / f"{number}.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for name in names:
                member = tarfile.TarInfo(name)
                member.size, member.mtime, member.uid, member.uname = 1, number, number, f"user{number}"
                archive.addfile(member, io.BytesIO(name.encode()))
        subprocess.run([sys.executable, str(PACKING / "again.py"), str(path), "1700000000"], check=True)
        with tarfile.open(path) as archive:
            assert [member.name for member in archive] == ["a", "b"]
        made.append(path.read_bytes())
    assert made[0] == made[1]


@pytest.mark.long
@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("debootstrap") is None, reason="bare roots need root, debootstrap"
)
@pytest.mark.parametrize("suite", ["bookworm", "trixie", "noble"])
@pytest.mark.parametrize("form", ["commands", "*.whl", "*.pyz", "*.deb"])
def test_each_form_runs_in_a_bare_root(suite: str, form: str, packages: Path) -> None:
    """Installed where there is nothing but the base system, it decodes with its own decoder."""
    if suite == "noble" and not Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg").exists():
        pytest.skip("nothing to check Ubuntu's packages by")
    some = ["tests/test_docs.py", "tests/test_native.py"]
    what = [form, *some] if form == "commands" else [str(next(packages.glob(form)))]
    done = subprocess.run([ROOT / "scripts" / "bare", suite, *what], capture_output=True, text=True, check=False)
    print(done.stdout)  # what it took: pytest -rP shows it
    assert done.returncode == 0, done.stderr[-5000:]
    assert "status 0, native" in done.stdout


@pytest.mark.long
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="what is built is what git has")
def test_two_builds_of_a_commit_are_equal(packages: Path, tmp_path: Path) -> None:
    """Made again in another checkout, with tools installed anew, each file is the same byte for byte."""
    clone, out = tmp_path / "clone", tmp_path / "out"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    _build(clone, out)
    shutil.rmtree(clone)  # the tools alone are 400 MB
    sums = [{one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in it.iterdir()} for it in (packages, out)]
    assert len(sums[0]) == 5
    assert sums[0] == sums[1]


def _build(checkout: Path, out: Path) -> None:
    done = subprocess.run([checkout / "scripts" / "build", out], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What scripts/build makes, once for all processes that test."""
    ours = tmp_path_factory.getbasetemp()
    common = ours.parent if "PYTEST_XDIST_WORKER" in os.environ else ours
    out = common / "packages"
    with open(common / "packages.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.exists():
            _build(ROOT, common / "packages.new")
            (common / "packages.new").rename(out)
    return out
