"""The charts are whole: their files can be read, and every value is used and described. Helm itself: tests/real."""

import re
from pathlib import Path

import pytest
import yaml

from echelon import __version__

CHARTS = Path(__file__).parents[2] / "charts"


@pytest.fixture(params=["echelon-hub", "echelon-member"])
def chart(request):
    return CHARTS / request.param


def test_the_chart_says_what_it_is(chart):
    said = yaml.safe_load((chart / "Chart.yaml").read_text())
    assert (said["apiVersion"], said["name"]) == ("v2", chart.name)
    assert said["version"] == said["appVersion"] == __version__


def test_every_value_is_used_and_every_value_used_is_there(chart):
    values = yaml.safe_load((chart / "values.yaml").read_text())
    used = {
        name
        for template in (chart / "templates").glob("*.yaml")
        for name in re.findall(r"\.Values\.(\w+)", template.read_text())
    }
    assert used == set(values)


def test_every_value_is_described(chart):
    lines = (chart / "values.yaml").read_text().splitlines()
    for before, line in zip(["", *lines], lines, strict=False):
        assert line.startswith("#") or before.startswith("#"), line
