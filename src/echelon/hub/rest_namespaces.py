"""PUT namespaces/NAME/finalize: who finished with a namespace takes its finalizer out of the spec."""

from __future__ import annotations

from typing import Any

from echelon.hub import conform, managed
from echelon.hub.body import decode_object, expect_kind
from echelon.hub.call import Call, Response
from echelon.hub.negotiate import render_object
from echelon.hub.rest_write import expect_name, expect_same, write
from echelon.hub.status import not_found

Json = dict[str, Any]


async def finalize(call: Call) -> Response:
    """Replace the finalizers of a namespace's spec; the last one lets it go."""
    obj = decode_object(call)
    expect_kind(call, obj)
    conform.shape(call, obj)
    entry = call.table.head(call.key)
    if entry is None:
        raise not_found(call.kind.group, call.kind.plural, call.name)
    old = call.kind.read(entry.body)
    expect_name(call, obj["metadata"])
    expect_same(call, obj, old)
    wanted = (obj.get("spec") or {}).get("finalizers")
    new = {**old, "metadata": dict(old["metadata"]), "spec": {"finalizers": wanted} if wanted else {}}
    managed.track(call, old, new)
    if call.dry_run():
        return render_object(call, call.kind.write(new), 200)
    after = write(call, new, entry)
    await call.hub.store.durable(after.rev)
    return render_object(call, after.body, 200)
