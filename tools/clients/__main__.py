"""./dev clients [NAME ...]: run real clients, unmodified, against the embedded hub; a fresh hub for each.

Python clients live in a virtual environment of their own, Go programs are built once; both are cached outside the
tree. A client is ok when it says "ok" and ends with 0. Needs Go for the Go ones.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tools.kubectl import cache_dir, find_or_build

HERE = Path(__file__).parent
PYTHON_CLIENTS = ("kubernetes_asyncio==36.1.0", "lightkube==1.0.1", "kopf==1.45.2", "kubernetes==37.0.2")
HELM = "helm.sh/helm/v3/cmd/helm@v3.19.2"
KUSTOMIZE = "sigs.k8s.io/kustomize/kustomize/v5@v5.7.1"
CERT_MANAGER = "github.com/cert-manager/cert-manager@v1.19.1"
CONTROLLER_GEN = "sigs.k8s.io/controller-tools/cmd/controller-gen@v0.19.0"
TIMEOUT_S = 180
BUILD_S = 900
"""A first build compiles all of Kubernetes' client libraries."""

Environment = dict[str, str]


def home() -> Path:
    """Where clients are kept."""
    folder = cache_dir() / "clients"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def hub() -> Iterator[Environment]:
    """Serve an empty hub in memory for one client."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        command = [sys.executable, "-m", "echelon.hub", "--memory", "--kubeconfig", str(kubeconfig)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            process.stdout.readline()  # its one line: ready
            yield {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": folder}
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(10)


def run(
    command: list[str],
    environment: Environment,
    cwd: Path | None = None,
    stdin: str = "",
    limit_s: int = TIMEOUT_S,
) -> str:
    """Run a command to its end; its whole output is the error when it fails."""
    done = subprocess.run(
        command,
        env=environment,
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(command[:4])} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}"
        )
    return done.stdout


def python(script: str) -> Callable[[Environment], None]:
    """Run a script in the clients' own virtual environment."""

    def client(environment: Environment) -> None:
        venv = home() / "venv"
        mark = venv / "installed"
        wanted = "\n".join(PYTHON_CLIENTS)
        if not mark.exists() or mark.read_text() != wanted:
            run([sys.executable, "-m", "venv", str(venv)], environment)
            run([str(venv / "bin" / "pip"), "install", "--quiet", *PYTHON_CLIENTS], {**os.environ})
            mark.write_text(wanted)
        assert "ok" in run([str(venv / "bin" / "python"), str(HERE / script)], environment)

    return client


def go_tool(module: str) -> str:
    """Build a published Go program once and return its path."""
    parts = module.partition("@")[0].split("/")
    name = parts[-2] if re.fullmatch(r"v\d+", parts[-1]) else parts[-1]
    target = home() / module.replace("/", "_") / name
    if not target.exists():
        run(["go", "install", module], {**os.environ, "GOBIN": str(target.parent)}, limit_s=BUILD_S)
    return str(target)


def go_program(name: str) -> str:
    """Build one of the Go programs beside this file and return its path."""
    target = home() / name
    run(["go", "build", "-o", str(target), "."], {**os.environ}, HERE / name, limit_s=BUILD_S)
    return str(target)


def client_go(environment: Environment) -> None:
    """Informer, queue, leader election."""
    assert "ok" in run([go_program("clientgo")], environment)


def controller_runtime(environment: Environment) -> None:
    """Manager and envtest pointed at the hub."""
    target = home() / "runtime.test"
    run(["go", "test", "-c", "-o", str(target), "."], {**os.environ}, HERE / "runtime", limit_s=BUILD_S)
    assert "PASS" in run([str(target), "-test.v"], environment)


CHART = {
    "Chart.yaml": "apiVersion: v2\nname: web\nversion: 0.1.0\n",
    "values.yaml": "replicas: 2\nimage: nginx:1.27\n",
    "templates/web.yaml": """apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec: {containers: [{name: web, image: "{{ .Values.image }}"}]}
---
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec: {selector: {app: {{ .Release.Name }}}, ports: [{port: 80}]}
""",
}


def helm(environment: Environment) -> None:
    """Install, upgrade, roll back and uninstall a usual chart."""
    tool, kubectl = go_tool(HELM), str(find_or_build())
    with tempfile.TemporaryDirectory() as folder:
        for name, text in CHART.items():
            file = Path(folder) / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)

        def replicas() -> str:
            return run([kubectl, "get", "deploy", "web", "-o", "jsonpath={.spec.replicas}"], environment)

        run([tool, "install", "web", folder], environment)
        assert replicas() == "2"
        run([tool, "upgrade", "web", folder, "--set", "replicas=3"], environment)
        assert replicas() == "3"
        run([tool, "rollback", "web", "1"], environment)
        assert replicas() == "2"
        assert "superseded" in run([tool, "history", "web"], environment)
        run([tool, "uninstall", "web"], environment)
        assert run([kubectl, "get", "deploy,svc", "-l", "app=web", "-o", "name"], environment) == ""


def kustomize(environment: Environment) -> None:
    """Build an overlay and apply it."""
    tool, kubectl = go_tool(KUSTOMIZE), str(find_or_build())
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "kustomization.yaml").write_text(
            "namePrefix: a-\nconfigMapGenerator:\n- name: settings\n  literals: [colour=green]\n"
        )
        built = run([tool, "build", folder], environment)
        assert "created" in run([kubectl, "apply", "-f", "-"], environment, stdin=built)
        assert "a-settings-" in run([kubectl, "get", "cm", "-o", "name"], environment)


def cert_manager(environment: Environment) -> None:
    """Install cert-manager's definitions and make a certificate."""
    kubectl = str(find_or_build())
    where = run(["go", "mod", "download", "-json", CERT_MANAGER], {**os.environ})
    folder = Path(where.split('"Dir": "')[1].split('"')[0]) / "deploy" / "crds"
    for file in sorted(folder.glob("*.yaml")):
        run([kubectl, "apply", "--server-side", "-f", str(file)], environment)
    run([kubectl, "wait", "--for=condition=Established", "crd", "--all", "--timeout=20s"], environment)
    certificate = """
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: web}
spec: {secretName: web-tls, dnsNames: [web.example.com], issuerRef: {name: ca}}
"""
    run([kubectl, "apply", "-f", "-"], environment, stdin=certificate)
    assert "web-tls" in run([kubectl, "get", "certificates"], environment)
    assert "dnsNames" in run([kubectl, "explain", "certificate.spec"], environment)


def kubebuilder(environment: Environment) -> None:
    """Let controller-gen make a definition of Go types with markers, and use it."""
    tool, kubectl = go_tool(CONTROLLER_GEN), str(find_or_build())
    with tempfile.TemporaryDirectory() as folder:
        argv = [tool, "crd", "paths=./...", f"output:crd:dir={folder}"]
        run(argv, {**os.environ}, HERE / "kubebuilder", limit_s=BUILD_S)
        run([kubectl, "apply", "-f", folder], environment)
    run([kubectl, "wait", "--for=condition=Established", "crd", "--all", "--timeout=20s"], environment)
    order = "apiVersion: shop.example.com/v1\nkind: Order\nmetadata: {name: a}\nspec: {customer: jane%s}\n"
    run([kubectl, "apply", "-f", "-"], environment, stdin=order % "")
    shown = run([kubectl, "get", "ord", "--field-selector", "spec.size=Small"], environment).split()
    assert shown == ["NAME", "SIZE", "CUSTOMER", "a", "Small", "jane"], shown
    for more, why in (
        (", minimum: 20", "the maximum must not be below the minimum"),
        (", size: Huge", "Unsupported value"),
        ("t", "the customer is immutable"),
    ):
        try:
            run([kubectl, "apply", "-f", "-"], environment, stdin=order % more)
        except RuntimeError as error:
            assert why in str(error), error  # noqa: PT017 - no pytest here
        else:
            raise AssertionError(f"{more} was taken")


def prometheus(environment: Environment) -> None:
    """What Prometheus scrapes is read by its own parser, and promtool's rules find nothing in it."""
    kubectl = str(find_or_build())
    scraped = run([kubectl, "get", "--raw", "/metrics"], environment)
    assert list(text_string_to_metric_families(scraped))
    assert "ok" in run([go_program("prometheus")], environment, stdin=scraped)


CLIENTS: dict[str, Callable[[Environment], None]] = {
    "kubernetes_asyncio": python("python_asyncio.py"),
    "lightkube": python("python_lightkube.py"),
    "kopf": python("python_kopf.py"),
    "client-go": client_go,
    "controller-runtime": controller_runtime,
    "helm": helm,
    "kustomize": kustomize,
    "cert-manager": cert_manager,
    "kubebuilder": kubebuilder,
    "prometheus": prometheus,
}


def main() -> int:
    """Run those named, or all; the exit code says whether all were ok."""
    names = sys.argv[1:] or list(CLIENTS)
    unknown = [name for name in names if name not in CLIENTS]
    if unknown:
        print(f"clients: unknown {', '.join(unknown)}; there are: {', '.join(CLIENTS)}", file=sys.stderr)
        return 2
    if shutil.which("go") is None:
        print("clients: no Go on PATH; only the Python clients can run", file=sys.stderr)
    failed = 0
    for name in names:
        began = time.monotonic()
        try:
            with hub() as environment:
                CLIENTS[name](environment)
        except (AssertionError, RuntimeError, subprocess.TimeoutExpired) as error:
            failed += 1
            print(f"FAIL {name}: {error!r}" if isinstance(error, AssertionError) else f"FAIL {name}: {error}")
        else:
            print(f"ok   {name} ({time.monotonic() - began:.1f} s)", flush=True)
    print(f"{len(names) - failed} of {len(names)} clients are content")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
