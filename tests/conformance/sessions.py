"""Runs kubectl sessions against one server and returns what kubectl said, normalised.

A session has a namespace, a kubeconfig and a home of its own. Its steps:

    run: get cm a -o yaml     what kubectl is told, as in a shell; $ns and $id are filled in
    stdin: text               what it reads
    editor: sed -i s/a/b/     what `kubectl edit` uses as an editor
    until: text               ask again until the output contains it
    background: name          start and go on; a later step `collect: name` with `lines: N` reads it
    only: exit                compare the exit code alone; `head: N` the first lines alone; `sort: true`
    quiet: true               must succeed; is not compared
"""

from __future__ import annotations

import os
import queue
import random
import re
import shlex
import shutil
import string
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.conformance.normal import Normaliser
from tests.conformance.runner import Result, Sequence, SequenceError

Json = dict[str, Any]
SESSIONS = Path(__file__).parent / "sessions"
UNTIL_S = 40.0
STEP_LIMIT_S = 60.0
WORKERS = 4
AGE = re.compile(r"(?<=[\s(])(\d+[dhms]|\d+m\d+s|\d+ms|<invalid>)(?=[\s,)]|$)", re.MULTILINE)
PADDING = re.compile(r"(?<=\S) {2,}")
SERVER = re.compile(r"https://127\.0\.0\.1:\d+(/clusters/\w+)?")
DATE = re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}")
HASH = re.compile(r"-(?=[a-z0-9]*\d)[a-z0-9]{8,10}(-[a-z0-9]{5})?\b")
TEMPORARY = re.compile(r"\S*(LIVE|MERGED|edit)-\d+(\S*)")
STAMP = re.compile(r"\t\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}")
KLOG = re.compile(r"^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ .*\n", re.MULTILINE)  # kubectl's own log
SKEW = re.compile(r"WARNING: version difference between client .*\n")


@dataclass(frozen=True)
class Session:
    """A named list of kubectl commands."""

    topic: str
    name: str
    steps: list[Json]
    context: str = "hub"
    files: dict[str, str] = field(default_factory=dict)
    cleanup: list[str] = field(default_factory=list)
    crds: bool = False

    @property
    def id(self) -> str:
        """Returns the name under which answers are recorded."""
        return f"{self.topic}/{self.name}"


def load_sessions(folder: Path = SESSIONS) -> list[Session]:
    """Reads all sessions, in the order of files and entries."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [
        Session(f"kubectl-{file.stem}", **entry)
        for file in sorted(folder.glob("*.yaml"))
        for entry in yaml.load(file.read_text(), Loader=loader)
    ]


def run_sessions(
    sessions: Iterable[Session],
    kubeconfig: Path,
    kubectl: str,
    workers: int = WORKERS,
    until_s: float = UNTIL_S,
) -> list[Result]:
    """Runs sessions side by side; the results have the order of the sessions."""
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda one: run_session(one, kubeconfig, kubectl, until_s), sessions))


def run_session(session: Session, kubeconfig: Path, kubectl: str, until_s: float = UNTIL_S) -> Result:
    """Runs one session; what keeps it from being carried out becomes the result's error."""
    began = time.monotonic()
    answers: list[Json] = []
    error = None
    with tempfile.TemporaryDirectory(prefix="session-") as home:
        terminal = _Terminal(session, kubeconfig, kubectl, Path(home), until_s)
        try:
            terminal.prepare()
            for step in session.steps:
                answer = terminal.step(step)
                if answer is not None:
                    answers.append(answer)
        except (SequenceError, subprocess.TimeoutExpired, OSError) as problem:
            error = f"{type(problem).__name__}: {problem}"
        finally:
            terminal.close()
    told = Sequence(session.topic, session.name, session.steps)
    return Result(told, answers, error, time.monotonic() - began)


class _Background:
    """A command that goes on while others run."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        """Reads lines until the command ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)

    def take(self, count: int, limit_s: float) -> list[str]:
        """Waits for lines, then ends the command."""
        taken = []
        end = time.monotonic() + limit_s
        while len(taken) < count:
            try:
                taken.append(self.lines.get(timeout=max(0.0, end - time.monotonic())))
            except queue.Empty:
                break
        self.process.kill()
        self.process.wait()
        return taken


class _Terminal:
    """Where one session's commands run."""

    def __init__(self, session: Session, kubeconfig: Path, kubectl: str, home: Path, until_s: float) -> None:
        token = "".join(random.choices(string.ascii_lowercase + string.digits, k=8))
        self._session, self._kubectl, self._home, self._until_s = session, kubectl, home, until_s
        self._variables = {"ns": f"k{token}", "id": f"z{token}"}
        self._normaliser = Normaliser(dict(self._variables))
        self._background: dict[str, _Background] = {}
        self._config = home / "config"
        shutil.copy(kubeconfig, self._config)
        self._environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(home),
            "KUBECONFIG": str(self._config),
            "TMPDIR": str(home),
        }

    def prepare(self) -> None:
        """Makes the namespace and the files."""
        self._must("config", "use-context", self._session.context)
        self._must("create", "namespace", self._variables["ns"])
        self._must("config", "set-context", "--current", f"--namespace={self._variables['ns']}")
        for name, text in self._session.files.items():
            path = self._home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._fill(text))
        account = ["wait", "--for=create", "serviceaccount/default", "--timeout=30s"]
        self._must(*account)

    def close(self) -> None:
        """Removes what the session left behind."""
        for one in self._background.values():
            one.process.kill()
            one.process.wait()
            if one.process.stdout is not None:
                one.process.stdout.close()
        leftovers = [shlex.split(self._fill(line)) for line in self._session.cleanup]
        for words in (*leftovers, ["delete", "namespace", self._variables["ns"], "--wait=false"]):
            try:
                self._ask([*words, "--context", self._session.context], {})
            except subprocess.TimeoutExpired:
                continue

    def _fill(self, text: str) -> str:
        """Puts the variables' values into a text."""
        return re.sub(r"\$(ns|id)\b", lambda found: self._variables[found[1]], text)

    def _must(self, *words: str) -> None:
        """Runs a command that has to succeed."""
        done = self._ask(list(words), {})
        if done.returncode != 0:
            raise SequenceError(f"kubectl {' '.join(words)}: {done.stderr}")

    def _ask(self, words: list[str], step: Json) -> subprocess.CompletedProcess[str]:
        """Runs kubectl once."""
        environment = dict(self._environment)
        if "editor" in step:
            environment["KUBE_EDITOR"] = self._fill(step["editor"])
        return subprocess.run(
            [self._kubectl, *words],
            input=self._fill(step.get("stdin", "")),
            capture_output=True,
            text=True,
            cwd=self._home,
            env=environment,
            timeout=STEP_LIMIT_S,
            check=False,
        )

    def step(self, step: Json) -> Json | None:
        """Carries out one step; returns what is to be compared."""
        if "pause" in step:
            time.sleep(step["pause"])
            return None
        if "collect" in step:
            lines = self._background[step["collect"]].take(step["lines"], self._until_s)
            return {"out": self._normal("".join(lines))}
        words = shlex.split(self._fill(step["run"]))
        if "background" in step:
            self._start(step["background"], words)
            return None
        done = self._until(words, step)
        if step.get("quiet"):
            if done.returncode != 0:
                raise SequenceError(f"kubectl {step['run']}: {done.stderr}")
            return None
        return self._describe(step, done)

    def _start(self, name: str, words: list[str]) -> None:
        """Starts a command in the background."""
        self._background[name] = _Background(
            subprocess.Popen(
                [self._kubectl, *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                cwd=self._home,
                env=self._environment,
            )
        )

    def _until(self, words: list[str], step: Json) -> subprocess.CompletedProcess[str]:
        """Runs a command, again and again where a text is waited for."""
        end = time.monotonic() + self._until_s
        while True:
            done = self._ask(words, step)
            wanted = step.get("until")
            if wanted is None or self._fill(wanted) in done.stdout + done.stderr:
                return done
            if time.monotonic() > end:
                raise SequenceError(
                    f"kubectl {step['run']}: never {wanted!r}; last {done.stdout}{done.stderr}"
                )
            time.sleep(0.1)

    def _describe(self, step: Json, done: subprocess.CompletedProcess[str]) -> Json:
        """Returns what kubectl said, normalised."""
        if step.get("only") == "exit":
            return {"exit": done.returncode}
        out, err = self._normal(done.stdout), self._normal(SKEW.sub("", KLOG.sub("", done.stderr)))
        if "head" in step:
            out = "\n".join(out.splitlines()[: step["head"]])
        if "grep" in step:
            out = "\n".join(line for line in out.splitlines() if re.search(step["grep"], line))
        if step.get("sort"):
            out = "\n".join(sorted(out.splitlines()))
        return {"exit": done.returncode, "out": out} | ({"err": err} if err else {})

    def _normal(self, text: str) -> str:
        """Replaces what differs between servers and between runs."""
        text = self._normaliser.text(text.replace(str(self._home), "<home>"))
        text = TEMPORARY.sub(r"<temporary>/\1\2", STAMP.sub("\t<time>", text))
        text = DATE.sub("<time>", SERVER.sub("<server>", text))
        text = HASH.sub("-<hash>", text)
        return PADDING.sub("  ", AGE.sub("<age>", text))
