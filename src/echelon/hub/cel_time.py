"""Fields of times and durations in CEL: `getHours`, `getDayOfWeek` and the others, in any time zone.

What it must never do: know what time it is.
"""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Callable
from typing import Any

from echelon.hub.cel_overloads import method
from echelon.hub.cel_types import DURATION, INT, STRING, TIMESTAMP
from echelon.hub.cel_values import NANOS, CelError, Timestamp

_OFFSET = re.compile(r"([+-]?)(\d{1,2}):(\d{2})\Z", re.ASCII)

_FIELDS: dict[str, Callable[[dt.datetime], int]] = {
    "getFullYear": lambda at: at.year,
    "getMonth": lambda at: at.month - 1,
    "getDate": lambda at: at.day,
    "getDayOfMonth": lambda at: at.day - 1,
    "getDayOfYear": lambda at: at.timetuple().tm_yday - 1,
    "getDayOfWeek": lambda at: at.isoweekday() % 7,
    "getHours": lambda at: at.hour,
    "getMinutes": lambda at: at.minute,
    "getSeconds": lambda at: at.second,
    "getMilliseconds": lambda at: at.microsecond // 1000,
}
_UNITS = {"getHours": 3600 * NANOS, "getMinutes": 60 * NANOS, "getSeconds": NANOS}


def _moment(value: Timestamp, zone: str = "UTC") -> dt.datetime:
    moment = value.utc() + dt.timedelta(microseconds=value.nanos % NANOS // 1000)
    offset = _OFFSET.match(zone)
    if offset is not None:
        shift = dt.timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return moment - shift if offset[1] == "-" else moment + shift
    try:
        return moment.astimezone(zoneinfo.ZoneInfo(zone))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise CelError(f"unknown time zone {zone}") from None


def _part_of_time(name: str) -> Callable[..., int]:
    take = _FIELDS[name]
    return lambda value, zone="UTC": take(_moment(value, zone))


def _part_of_duration(unit: int) -> Callable[[Any], int]:
    return lambda value: abs(value.nanos) // unit * (-1 if value.nanos < 0 else 1)


def _register() -> None:
    for name in _FIELDS:
        method(name, (TIMESTAMP,), INT, _part_of_time(name))
        method(name, (TIMESTAMP, STRING), INT, _part_of_time(name))
    for name, unit in _UNITS.items():
        method(name, (DURATION,), INT, _part_of_duration(unit))
    # The milliseconds of a duration are those of its last second.
    method("getMilliseconds", (DURATION,), INT, lambda value: _part_of_duration(10**6)(value) % 1000)


_register()
