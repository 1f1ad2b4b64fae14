"""Command lines written for the peer's agents: flags mean the same, or it is said that they do not."""

import base64

import click
import pytest
from click.testing import CliRunner

from echelon.cli import agent_flags
from echelon.cli.agent_flags import AgentCommand, addresses, read_lease, read_rate
from echelon.cli.engine_flags import engine_flags, read_engine
from echelon.cli.hub_access import access_from
from echelon.cli.peer_flags import FLAGS, HUB, MEMBER, peer_flags
from echelon.client.rate import Rate
from echelon.runtime.lease import Timing


def parse(*words, agent=HUB):
    found = {}

    @click.command(cls=AgentCommand)
    @agent_flags.common_flags
    @agent_flags.rate_flags("hub-api")
    @agent_flags.lease_flags(elects=True, namespace="fleet-system", timing=("15s", "10s", "2s"))
    @engine_flags
    @peer_flags(agent)
    def command(**given):
        found.update(given)
        read_lease(given)
        read_rate(given, "hub-api")
        read_engine(given)

    done = CliRunner().invoke(command, words, env={"KUBECONFIG": ""})
    return found, done.output


def test_booleans_are_written_as_in_go():
    assert parse("--leader-elect=false", "--log-json")[0]["leader_elect"] is False
    assert parse("-leader-elect=F", "-enable-workload")[0]["workloads_enabled"] is True
    assert parse("--leader-elect", "--log-json")[0]["leader_elect"] is True
    assert "neither true nor false" in parse("--leader-elect=maybe")[1]


def test_verbosity_is_klogs(monkeypatch):
    levels = []
    monkeypatch.setattr("echelon.runtime.telemetry.configure_logs", lambda level, **_: levels.append(level))
    for words in (["-v=5"], ["--v", "2"], ["--log-level=warning"]):
        agent_flags.configure_logs(parse(*words)[0])
    assert levels == ["debug", "info", "warning"]


def test_a_lease_must_outlast_its_renewal_and_that_a_retry():
    words = ("--leader-lease-duration=60s", "--leader-renew-deadline=45s", "--leader-retry-period=5s")
    assert read_lease(parse(*words)[0]) == Timing(duration_s=60, renew_deadline_s=45, retry_s=5)
    assert read_lease(parse("--leader-elect=false")[0]) is None
    assert "must be less than" in parse("--leader-lease-duration=5s")[1]


def test_every_address_is_served_once():
    found, _ = parse("--health-probe-bind-address=:8081", "--metrics-bind-address=0.0.0.0:8080")
    assert addresses(found) == [("0.0.0.0", 8081), ("0.0.0.0", 8080)]
    assert addresses(parse("--health-probe-bind-address=0")[0]) == []


def test_a_burst_below_the_rate_is_refused():
    assert read_rate(parse()[0], "hub-api") is None
    assert read_rate(parse("--hub-api-qps=-1")[0], "hub-api") is None
    assert "must not be less" in parse("--hub-api-qps=100", "--hub-api-burst=50")[1]


def test_parts_of_the_engine_can_be_left_out():
    words = ("--enable-resource-placement=false", "--enable-eviction-apis=false")
    assert read_engine(parse(*words)[0]).without == {"namespaced", "evictions"}
    assert "must be between 30s and 3600s" in parse("--force-delete-wait-time=1s")[1]


@pytest.mark.parametrize(
    ("agent", "name", "flag"),
    [(agent, name, flag) for flag in FLAGS for agent in flag.agents for name in flag.names],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_flag_without_counterpart_is_named_or_refused_never_ignored(agent, name, flag):
    good = flag.accepts[0] if flag.accepts else "true" if flag.is_switch else "7"
    assert f"--{name} has no effect here: {flag.why}" in parse(f"--{name}={good}", agent=agent)[1]
    if flag.accepts is not None:
        bad = {"true": "false", "false": "true"}.get(good, "something")
        assert f"--{name}={bad} cannot be honoured: {flag.why}" in parse(f"--{name}={bad}", agent=agent)[1]


def test_a_flag_nobody_knows_is_an_error():
    assert "No such option '--no-such-flag'" in parse("--no-such-flag=1")[1]
    assert "No such option" in parse("--hub-pprof-port=1", agent=HUB)[1]
    assert "has no effect here" in parse("--hub-pprof-port=1", agent=MEMBER)[1]


def test_a_rate_lets_a_burst_through_and_then_one_after_the_other():
    rate = Rate(qps=10, burst=2)
    assert [round(rate.take(100.0), 3) for _ in range(4)] == [0, 0, 0.1, 0.2]
    assert rate.take(100.1) == pytest.approx(0.2)
    assert rate.take(200.0) == 0, "what was not used is kept up to the burst"
    assert [round(rate.take(200.0), 3) for _ in range(2)] == [0, 0.1]


# --- the member's way to its hub ------------------------------------------------------------------------------------
@pytest.fixture
def files(tmp_path):
    for name in ("token", "ca", "key", "cert"):
        (tmp_path / name).write_text(f"the {name}")
    return tmp_path


def reach(by_certificate=False, insecure=False, **env):
    return access_from(
        {"HUB_SERVER_URL": "https://hub:6443/", **env}, by_certificate=by_certificate, insecure=insecure
    )


def test_the_environment_says_how_to_reach_the_hub(files):
    text = base64.b64encode(b"an authority").decode()
    found = reach(CONFIG_PATH=str(files / "token"), HUB_CERTIFICATE_AUTHORITY=text)
    assert (found.server, found.token_file, found.ca) == (
        "https://hub:6443",
        str(files / "token"),
        b"an authority",
    )
    found = reach(
        by_certificate=True,
        IDENTITY_KEY=str(files / "key"),
        IDENTITY_CERT=str(files / "cert"),
        CA_BUNDLE=str(files / "ca"),
    )
    assert (found.client_key, found.client_certificate, found.ca) == (b"the key", b"the cert", b"the ca")
    assert reach(insecure=True, CONFIG_PATH="/t", CA_BUNDLE="/none").insecure


def test_extra_headers_are_sent_but_replace_none(files):
    found = reach(CONFIG_PATH="/t", HUB_KUBE_HEADER="X-Tenant: one\r\nX-Other: two\n")
    assert found.headers == (("X-Tenant", "one"), ("X-Other", "two"))
    with pytest.raises(click.UsageError, match="Authorization is set by the agent itself"):
        reach(CONFIG_PATH="/t", HUB_KUBE_HEADER="Authorization: mine")


@pytest.mark.parametrize(
    ("env", "by_certificate", "said"),
    [
        ({}, False, "CONFIG_PATH must be set"),
        ({}, True, "IDENTITY_CERT must be set"),
        ({"CONFIG_PATH": "/t", "CA_BUNDLE": "/x", "HUB_CERTIFICATE_AUTHORITY": "eA=="}, False, "only one of"),
        ({"CONFIG_PATH": "/t", "HUB_CERTIFICATE_AUTHORITY": ""}, False, "set but empty"),
        ({"CONFIG_PATH": "/t", "HUB_CERTIFICATE_AUTHORITY": "%"}, False, "is not base64"),
        ({"CONFIG_PATH": "/t", "CA_BUNDLE": "/no/such/file"}, False, "No such file"),
    ],
)
def test_what_is_missing_or_contradicts_is_named(env, by_certificate, said):
    with pytest.raises(click.UsageError, match=said):
        reach(by_certificate=by_certificate, **env)
