"""Reads kubeconfig files the way kubectl does: which server, how to trust it, who we are.

Pure reading: KUBECONFIG lists are merged, relative paths belong to the file that names them, a context is chosen.
Connecting is `http.py`'s part. Errors name the file, the entry and the fix.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MAX_KUBECONFIG_BYTES = 10 * 1024 * 1024  # a file larger than this is not a kubeconfig

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ConfigError(Exception):
    """The configuration does not say how to reach a cluster; the message says what is missing and where."""


class ExecPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A program that prints credentials (client.authentication.k8s.io ExecCredential)."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    api_version: str = "client.authentication.k8s.io/v1"
    install_hint: str = ""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Everything needed to talk to one API server as one user."""

    server: str
    context: str = ""
    namespace: str = "default"
    ca: bytes | None = None
    insecure: bool = False
    server_name: str = ""
    proxy_url: str = ""
    client_certificate: bytes | None = None
    client_key: bytes | None = None
    token: str = ""
    token_file: str = ""
    username: str = ""
    password: str = ""
    exec_plugin: ExecPlugin | None = None
    impersonate: str = ""
    impersonate_groups: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()  # sent with every request, for gateways before the server


def load(path: str | None = None, context: str | None = None) -> Access:
    """Return the access of a context (default: the current one) of a kubeconfig, $KUBECONFIG or ~/.kube/config.

    Without any file, inside a pod, the pod's own service account is used.
    """
    files = _files(path)
    if not files and path is None and (IN_CLUSTER / "token").exists():
        return in_cluster()
    if not files:
        raise ConfigError(
            "no kubeconfig found; pass --kubeconfig FILE, set KUBECONFIG, or run 'echelon up' for a local hub"
        )
    merged = _merge(files)
    name = context or merged["current-context"]
    if not name:
        raise ConfigError(f"{_names(files)}: no current context; choose one with --context")
    return _access(merged, name, _names(files))


def in_cluster() -> Access:
    """Return the access of the pod this runs in."""
    host, port = (
        os.environ.get("KUBERNETES_SERVICE_HOST", ""),
        os.environ.get("KUBERNETES_SERVICE_PORT", "443"),
    )
    if not host:
        raise ConfigError("not inside a pod: KUBERNETES_SERVICE_HOST is not set")
    host = f"[{host}]" if ":" in host else host
    namespace_file = IN_CLUSTER / "namespace"
    return Access(
        server=f"https://{host}:{port}",
        context="in-cluster",
        namespace=namespace_file.read_text().strip() if namespace_file.exists() else "default",
        ca=(IN_CLUSTER / "ca.crt").read_bytes(),
        token_file=str(IN_CLUSTER / "token"),
    )


def contexts(path: str | None = None) -> list[str]:
    """Return the names of all contexts."""
    return list(_merge(_files(path))["contexts"])


def _files(path: str | None) -> list[Path]:
    if path:
        if not Path(path).exists():
            raise ConfigError(f"kubeconfig {path} does not exist")
        return [Path(path)]
    listed = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if not listed:
        listed = [Path.home() / ".kube" / "config"]
    return [file for file in listed if file.exists()]


def _names(files: list[Path]) -> str:
    return ", ".join(str(file) for file in files)


def _merge(files: list[Path]) -> dict[str, Any]:
    """Merge files as kubectl does: the first file that names an entry wins."""
    merged: dict[str, Any] = {"current-context": "", "clusters": {}, "users": {}, "contexts": {}}
    for file in files:
        if file.stat().st_size > MAX_KUBECONFIG_BYTES:
            raise ConfigError(f"{file}: larger than {MAX_KUBECONFIG_BYTES} bytes, not a kubeconfig")
        try:
            document = yaml.load(file.read_bytes(), Loader=_LOADER) or {}  # noqa: S506 - a safe loader
        except yaml.YAMLError as error:
            raise ConfigError(f"{file}: not valid YAML: {error}") from error
        if not isinstance(document, dict):
            raise ConfigError(f"{file}: not a kubeconfig")
        merged["current-context"] = merged["current-context"] or document.get("current-context") or ""
        for kind, inner in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for entry in document.get(kind) or []:
                merged[kind].setdefault(entry.get("name"), ((entry.get(inner) or {}), file.parent))
    return merged


def _access(merged: Mapping[str, Any], name: str, source: str) -> Access:
    if name not in merged["contexts"]:
        known = ", ".join(sorted(merged["contexts"])) or "none"
        raise ConfigError(f'{source}: no context "{name}"; there are: {known}')
    context, _ = merged["contexts"][name]
    cluster, cluster_dir = merged["clusters"].get(context.get("cluster"), (None, None))
    if not cluster or not cluster.get("server"):
        raise ConfigError(
            f'{source}: context "{name}" names cluster "{context.get("cluster")}", which has no server'
        )
    user, user_dir = merged["users"].get(context.get("user"), ({}, cluster_dir))
    token_file = user.get("tokenFile") or ""
    return Access(
        server=cluster["server"].rstrip("/"),
        context=name,
        namespace=context.get("namespace") or "default",
        ca=_bytes(cluster, "certificate-authority", cluster_dir),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=cluster.get("tls-server-name") or "",
        proxy_url=cluster.get("proxy-url") or "",
        client_certificate=_bytes(user, "client-certificate", user_dir),
        client_key=_bytes(user, "client-key", user_dir),
        token=user.get("token") or "",
        token_file=str(user_dir / token_file) if token_file else "",
        username=user.get("username") or "",
        password=user.get("password") or "",
        exec_plugin=_exec(user.get("exec")),
        impersonate=user.get("as") or "",
        impersonate_groups=tuple(user.get("as-groups") or ()),
    )


def _bytes(entry: Mapping[str, Any], key: str, base: Path) -> bytes | None:
    """Return inline data (`key`-data) or the content of the file `key` names, relative to its kubeconfig."""
    inline = entry.get(f"{key}-data")
    if inline:
        try:
            return base64.b64decode(inline, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ConfigError(f"{key}-data is not base64: {error}") from error
    if not entry.get(key):
        return None
    path = base / str(entry[key])
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{key}: cannot read {path}: {error.strerror}") from error


def _exec(entry: Mapping[str, Any] | None) -> ExecPlugin | None:
    if not entry:
        return None
    return ExecPlugin(
        command=entry.get("command") or "",
        args=tuple(entry.get("args") or ()),
        env={pair["name"]: pair["value"] for pair in entry.get("env") or ()},
        api_version=entry.get("apiVersion") or "client.authentication.k8s.io/v1",
        install_hint=entry.get("installHint") or "",
    )
