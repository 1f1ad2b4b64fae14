"""The hub agent's flags about placing mean what the peer's mean."""

from datetime import timedelta

import click
import pytest
from click.testing import CliRunner

from echelon.cli.placing import placing_flags, read_placing
from echelon.rules.propagate import Gvk


def read(*words):
    found = {}

    @click.command()
    @placing_flags
    def command(**given):
        found.update(read_placing(given))

    done = CliRunner().invoke(command, words)
    return found, done.output


def test_without_flags_the_peers_defaults_hold():
    found, _ = read()
    delays = found["placements"].delays
    assert (delays.minimum_interval, delays.collection) == (timedelta(seconds=30), timedelta(seconds=15))
    assert found["vetoes"].is_enabled(Gvk("apps", "v1", "Deployment"))
    assert not found["vetoes"].is_enabled(Gvk("", "v1", "Pod"))


def test_flags_reach_the_rules():
    found, _ = read(
        "--resource-snapshot-creation-minimum-interval=1m",
        "--resource-changes-collection-duration=0s",
        "--skipped-propagating-apis=apps;v1/Secret,Service",
        "--skipped-propagating-namespaces=mine, yours;theirs",
        "--enable-workload",
    )
    delays, vetoes = found["placements"].delays, found["vetoes"]
    assert (delays.minimum_interval, delays.collection) == (timedelta(minutes=1), timedelta(0))
    assert not vetoes.is_enabled(Gvk("apps", "v1", "Deployment"))
    assert not vetoes.is_enabled(Gvk("", "v1", "Secret"))
    assert vetoes.is_enabled(Gvk("", "v1", "ConfigMap"))
    assert all(map(vetoes.is_reserved, ("mine", "yours", "theirs", "default")))
    assert vetoes.workloads_enabled


def test_an_allow_list_replaces_every_denial():
    found, _ = read("--allowed-propagating-apis=v1/Pod")
    assert found["vetoes"].is_enabled(Gvk("", "v1", "Pod"))
    assert not found["vetoes"].is_enabled(Gvk("", "v1", "ConfigMap"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--resource-snapshot-creation-minimum-interval=10m"], "must be between 0s and 300s, not 600s"),
        (["--resource-changes-collection-duration=2m"], "must be between 0s and 60s, not 120s"),
        (["--skipped-propagating-apis=a", "--allowed-propagating-apis=b"], "exclude each other"),
        (["--skipped-propagating-apis=a/b/c/d"], "'a/b/c/d' is not group, group/version"),
    ],
)
def test_a_flag_that_makes_no_sense_is_named(words, said):
    found, output = read(*words)
    assert not found
    assert said in output
