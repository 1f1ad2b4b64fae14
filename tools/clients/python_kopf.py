"""kopf: an operator with handlers, finalizers and status on a custom resource."""

import asyncio
import contextlib
import threading

import kopf
from kubernetes import client, config

GROUP, VERSION, PLURAL = "example.com", "v1", "jobs2"
seen: list[str] = []


@kopf.on.create(GROUP, VERSION, PLURAL)
def created(spec, **_):
    seen.append(f"created {spec.get('size')}")
    return {"answer": 42}


@kopf.on.update(GROUP, VERSION, PLURAL, field="spec.size")
def updated(new, **_):
    seen.append(f"updated {new}")


@kopf.on.delete(GROUP, VERSION, PLURAL)
def deleted(**_):
    seen.append("deleted")


def define() -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"kind": "Job2", "plural": PLURAL}
    spec = {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]}
    client.ApiextensionsV1Api().create_custom_resource_definition(
        {"metadata": {"name": f"{PLURAL}.{GROUP}"}, "spec": spec}
    )


async def until(text: str) -> None:
    async with asyncio.timeout(30):
        while text not in seen:
            await asyncio.sleep(0.05)


async def main() -> None:
    config.load_kube_config()
    await asyncio.to_thread(define)
    stop = threading.Event()
    operator = asyncio.create_task(kopf.operator(clusterwide=True, stop_flag=stop))
    api = client.CustomObjectsApi()
    place = (GROUP, VERSION, "default", PLURAL)
    body = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Job2",
        "metadata": {"name": "x"},
        "spec": {"size": 1},
    }
    await asyncio.to_thread(api.create_namespaced_custom_object, *place, body)
    await until("created 1")
    await asyncio.to_thread(api.patch_namespaced_custom_object, *place, "x", {"spec": {"size": 2}})
    await until("updated 2")
    held = await asyncio.to_thread(api.get_namespaced_custom_object, *place, "x")
    assert held["metadata"]["finalizers"], "kopf holds what it has to clean up"
    await asyncio.to_thread(api.delete_namespaced_custom_object, *place, "x")
    await until("deleted")
    stop.set()
    with contextlib.suppress(asyncio.CancelledError):
        await operator


asyncio.run(main())
print("ok")
