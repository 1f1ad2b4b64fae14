"""lightkube: typed resources, server-side apply, a generic custom resource, waiting for a condition."""

from lightkube import Client
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.core_v1 import Container, PodSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.core_v1 import ConfigMap, Pod

client = Client(field_manager="lightkube")
made = client.apply(ConfigMap(metadata=ObjectMeta(name="b", namespace="default"), data={"k": "v"}))
assert made.metadata.managedFields[0].operation == "Apply"
client.create(
    Pod(
        metadata=ObjectMeta(name="p", namespace="default"),
        spec=PodSpec(containers=[Container(name="c", image="i")]),
    )
)
assert client.get(Pod, "p").spec.restartPolicy == "Always"

schema = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}}},
}
client.create(
    CustomResourceDefinition.from_dict(
        {
            "metadata": {"name": "toys.example.com"},
            "spec": {
                "group": "example.com",
                "names": {"kind": "Toy", "plural": "toys"},
                "scope": "Namespaced",
                "versions": [
                    {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
                ],
            },
        }
    )
)
client.wait(CustomResourceDefinition, "toys.example.com", for_conditions=["Established"])
Toy = create_namespaced_resource("example.com", "v1", "Toy", "toys")
toy = client.create(Toy(metadata={"name": "t", "namespace": "default"}, spec={}))
assert toy.spec["size"] == 3, "defaults of the definition"
client.delete(Toy, "t")
assert [item.metadata.name for item in client.list(Toy)] == []
print("ok")
