"""Reading and setting conditions, the way every Kubernetes client does it.

Pure: takes conditions, returns conditions. A transition time moves only when the status changes, the order of
entries is kept, and a call that changes nothing returns the very tuple it was given, so a caller can tell with
`is` that there is nothing to write.
"""

from datetime import datetime

import msgspec

from echelon.api.meta import FALSE, TRUE, Condition, Conditions, timestamp


def find_condition(conditions: Conditions, type_: str) -> Condition | None:
    """Return the condition of a type, if there is one."""
    for condition in conditions:
        if condition.type == type_:
            return condition
    return None


def is_true_at(conditions: Conditions, type_: str, generation: int) -> bool:
    """Whether the condition is True and speaks about exactly this generation."""
    return _is(conditions, type_, TRUE, generation)


def is_false_at(conditions: Conditions, type_: str, generation: int) -> bool:
    """Whether the condition is False and speaks about exactly this generation."""
    return _is(conditions, type_, FALSE, generation)


def _is(conditions: Conditions, type_: str, status: str, generation: int) -> bool:
    found = find_condition(conditions, type_)
    return found is not None and found.status == status and found.observed_generation == generation


def set_condition(conditions: Conditions, wanted: Condition, now: datetime) -> Conditions:
    """Add a condition or replace the one of its type.

    The transition time becomes `now` (in whole seconds) for a new entry or a changed status and stays as it was
    otherwise; the one in `wanted` is ignored.
    """
    for index, current in enumerate(conditions):
        if current.type != wanted.type:
            continue
        changed_at = current.last_transition_time if current.status == wanted.status else timestamp(now)
        replacement = msgspec.structs.replace(wanted, last_transition_time=changed_at)
        if replacement == current:
            return conditions
        return (*conditions[:index], replacement, *conditions[index + 1 :])
    return (*conditions, msgspec.structs.replace(wanted, last_transition_time=timestamp(now)))


def remove_condition(conditions: Conditions, *types: str) -> Conditions:
    """Drop the conditions of these types."""
    if not any(condition.type in types for condition in conditions):
        return conditions
    return tuple(condition for condition in conditions if condition.type not in types)
