"""`echelon crds`: print the custom resource definitions, for `kubectl apply -f -`."""

from __future__ import annotations

import click


@click.command()
def crds() -> None:
    """Print the custom resource definitions as YAML.

    \b
    Apply them to any cluster:
      echelon crds | kubectl apply --server-side -f -
    """
    import yaml

    from echelon.api.crds import crds as definitions

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    click.echo(yaml.dump_all(definitions(), Dumper=dumper, sort_keys=False), nl=False)
