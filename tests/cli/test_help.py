"""Help that reads well: every command is in one section, says what it does, and fits."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from echelon.cli.main import COMMANDS, HIDDEN, SECTIONS, echelon


def test_every_command_stands_in_exactly_one_section():
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(COMMANDS)


@pytest.mark.parametrize("name", [*COMMANDS, *HIDDEN])
def test_every_command_says_what_it_does(name):
    done = CliRunner().invoke(echelon, [name, "--help"])
    assert done.exit_code == 0
    assert done.output.startswith("Usage: ")
    assert all(len(line) <= 100 for line in done.output.splitlines())
    assert "Traceback" not in done.output


def test_the_short_line_fits_eighty_columns():
    for line in CliRunner().invoke(echelon, ["--help"]).output.splitlines():
        assert len(line) <= 80, line


def test_the_peers_words_are_accepted_but_not_advertised():
    assert "draincluster" not in CliRunner().invoke(echelon, ["--help"]).output
