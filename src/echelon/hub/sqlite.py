"""The revision log on disk: SQLite in WAL mode, one writer thread, group commit.

Whatever has queued up while one transaction was being made durable becomes the
next transaction, so fifty writers share one fsync. A second thread moves the
WAL into the database, so no writer waits for a checkpoint. The database is
opened by one process only, guarded by a lock file. SQLite older than 3.51.3 is
refused: two connections are exactly the condition of its WAL-reset bug.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import queue
import threading
from pathlib import Path
from typing import Any

import apsw

from echelon.hub.status import internal
from echelon.hub.store import Event, Store

MIN_SQLITE = (3, 51, 3)
MAX_BATCH = 500
"""Writes in one transaction: more would make the first of them wait for the last."""

CHECKPOINT_PAGES = 2000
"""WAL pages (8 KB each) after which the checkpoint thread moves them."""

CHECKPOINT_EVERY_S = 0.25
COMPACT_CHUNK = 500
"""Old revisions dropped in one transaction, between two batches of writes."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS log (rev INTEGER PRIMARY KEY, cluster TEXT NOT NULL, resource TEXT NOT NULL,
  key TEXT NOT NULL, gone INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""
Row = tuple[int, str, str, str, int, bytes]
_STOP = None


class DataInUseError(Exception):
    """Another process serves this folder."""


class SqliteLog:
    """Makes writes durable, in order, in groups."""

    def __init__(self, folder: Path, store: Store) -> None:
        if tuple(int(part) for part in apsw.sqlite_lib_version().split(".")[:3]) < MIN_SQLITE:
            raise RuntimeError(f"SQLite {apsw.sqlite_lib_version()} is too old: 3.51.3 or newer is needed")
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = _lock_folder(folder)
        self._path = str(folder / "log.db")
        self._store = store
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._epoch = 0
        self._failed_epoch = -1
        self._drop: list[int] = []
        self._drop_up_to = 0
        self._stopping = threading.Event()
        self._db = self._open()
        self._threads: list[threading.Thread] = []

    def _open(self) -> apsw.Connection:
        db = apsw.Connection(self._path)
        db.set_busy_timeout(10_000)
        db.execute("PRAGMA page_size=8192")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA wal_autocheckpoint=0")
        db.execute(SCHEMA)
        return db

    def rows(self) -> tuple[int, int, Any]:
        """Return the compacted revision, the newest revision ever drawn, and all rows in order."""
        meta: dict[str, Any] = {
            str(name): value for name, value in self._db.execute("SELECT name, value FROM meta")
        }
        rows = self._db.execute("SELECT rev, cluster, resource, key, gone, body FROM log ORDER BY rev")
        return int(meta.get("compacted", 0)), int(meta.get("revision", 0)), rows

    def start(self) -> None:
        """Begin to take writes; call on the loop's thread."""
        self._loop = asyncio.get_running_loop()
        for work in (self._write_forever, self._checkpoint_forever):
            thread = threading.Thread(target=work, name=f"hub-log-{work.__name__.strip('_')}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def append(self, event: Event) -> None:
        """Queue a write for the next transaction."""
        table, entry = event.table, event.entry
        gone = 1 if event.kind == "DELETED" else 0
        self._queue.put(
            (self._epoch, (entry.rev, table.cluster, table.resource, entry.key, gone, entry.body))
        )

    def compact(self, up_to: int, superseded: list[int]) -> None:
        """Queue old revisions for dropping between writes."""
        self._queue.put((up_to, superseded, None))

    def close(self) -> None:
        """Finish the queue, move the WAL and release the folder."""
        self._stopping.set()
        self._queue.put(_STOP)
        for thread in self._threads:
            thread.join()
        with contextlib.suppress(apsw.BusyError):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()
        os.close(self._lock)

    def _write_forever(self) -> None:
        running = True
        while running:
            item = self._queue.get()
            batch: list[tuple[int, Row]] = []
            while True:
                if item is _STOP:
                    running = False
                    break
                if len(item) == 3:
                    self._drop_up_to = max(self._drop_up_to, item[0])
                    self._drop.extend(item[1])
                else:
                    batch.append(item)
                if len(batch) >= MAX_BATCH:
                    break
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
            if batch:
                self._write(batch)
            if self._drop and running:
                self._drop_some()

    def _write(self, batch: list[tuple[int, Row]]) -> None:
        rows = [row for epoch, row in batch if epoch > self._failed_epoch]
        if not rows:
            return
        assert self._loop is not None
        try:
            with self._db:
                self._db.executemany("INSERT INTO log VALUES (?,?,?,?,?,?)", rows)
        except apsw.Error as error:
            self._failed_epoch = max(epoch for epoch, _ in batch)
            self._call(self._failed, error)
        else:
            self._call(self._store.durable_up_to, rows[-1][0])

    def _call(self, what: Any, argument: Any) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for the answer
            self._loop.call_soon_threadsafe(what, argument)

    def _failed(self, error: Exception) -> None:
        self._epoch += 1
        self._store.lost(internal(f"the revision log could not be written: {error}"))

    def _drop_some(self) -> None:
        chunk, self._drop = self._drop[:COMPACT_CHUNK], self._drop[COMPACT_CHUNK:]
        with contextlib.suppress(apsw.Error), self._db:  # a full disk: what stays is only larger, not wrong
            if chunk:
                self._db.executemany("DELETE FROM log WHERE rev=?", [(rev,) for rev in chunk])
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('compacted', ?)", (self._drop_up_to,))
            self._db.execute(
                "INSERT OR REPLACE INTO meta VALUES ('revision', max(?, "
                "ifnull((SELECT value FROM meta WHERE name='revision'), 0), "
                "ifnull((SELECT max(rev) FROM log), 0)))",
                (self._drop_up_to,),
            )
        if self._drop:
            self._queue.put((0, [], None))

    def _checkpoint_forever(self) -> None:
        db = apsw.Connection(self._path)
        db.set_busy_timeout(1_000)
        db.execute("PRAGMA synchronous=FULL")
        while not self._stopping.wait(CHECKPOINT_EVERY_S):
            with contextlib.suppress(apsw.Error, OSError):
                pages = Path(self._path + "-wal").stat().st_size // 8192
                if pages > CHECKPOINT_PAGES:
                    mode = "PASSIVE" if pages < 8 * CHECKPOINT_PAGES else "RESTART"
                    db.execute(f"PRAGMA wal_checkpoint({mode})")
        db.close()


def _lock_folder(folder: Path) -> int:
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise DataInUseError(f"{folder} is served by another process") from error
    return lock
