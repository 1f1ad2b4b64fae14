"""How often a status that only tells progress is written. R-PACE-3."""

from datetime import timedelta

import pytest

from echelon.api.scope import Key
from echelon.rules.pace import SHARED, due_at
from echelon.runtime.writes import LastWrites
from tests.rules.pretend import NOW


@pytest.mark.parametrize(
    ("alone_s", "busy", "waits_s"),
    [(0.2, 0, 0.2), (0.2, 1, 0.2), (0.2, 10, 2.0), (0.2, 100, 5.0), (7.0, 100, 7.0)],
)
def test_many_under_way_share_the_pace_but_nobody_waits_long_for_others(alone_s, busy, waits_s):
    assert due_at(NOW, timedelta(seconds=alone_s), busy) == NOW + timedelta(seconds=waits_s)


def test_as_many_share_the_pace_as_were_written_lately():
    writes = LastWrites()
    for name, ago in (("old", SHARED * 2), ("edge", SHARED), ("new", SHARED / 2)):
        writes.note(Key(None, name), NOW - ago)
    assert writes.busy(NOW) == 2
    writes.note(Key(None, "old"), NOW)
    assert writes.busy(NOW) == 3
    writes.forget(Key(None, "new"))
    assert writes.busy(NOW) == 2
    assert writes.at(Key(None, "new")) is None
