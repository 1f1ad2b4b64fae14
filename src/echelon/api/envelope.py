"""Envelopes: carry objects to members without their taking effect on the hub.

Shapes only. One type serves ClusterResourceEnvelope and ResourceEnvelope.
"""

from collections.abc import Mapping
from typing import Annotated

from echelon.api.meta import Manifest, Object
from echelon.api.schema import doc


class Envelope(Object, frozen=True, kw_only=True):
    """Holds manifests under names; the hub stores them, members apply them."""

    data: Annotated[
        Mapping[str, Manifest],
        doc(
            "The manifests, each under a name of your choice. Objects in a ClusterResourceEnvelope are "
            "cluster-scoped; those in a ResourceEnvelope are in the envelope's own namespace.",
            min_properties=1,
            max_properties=50,
            item_description="One object, complete with apiVersion, kind and metadata.",
            item_preserve_unknown_fields=True,
        ),
    ]
