"""The other workloads of a simulated member: sets, daemons, jobs, services, claims, budgets."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from echelon.api.builtin import (
    CONTROLLER_REVISIONS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    JOBS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
)
from echelon.rules.available import Availability, availability_of
from echelon.sandbox.images import Fate, fate_of, log_of
from echelon.sandbox.nodes import storage_class
from echelon.sandbox.workloads import WorkloadOptions
from echelon.sandbox.workloads_cron import BadSchedule, parse_schedule
from echelon.sandbox.workloads_objects import count, status
from tests.agent.fleet import deployment, job
from tests.sandbox.member import SPACE, run
from tests.world import World, world


@pytest.fixture
def w() -> Iterator[World]:
    with world(7) as made:
        yield made


def pods_of(image="nginx:1"):
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }


def stateful_set(replicas=3, image="nginx:1", storage=None, **more):
    body = {
        "replicas": replicas,
        "serviceName": "web",
        "selector": {"matchLabels": {"app": "web"}},
        "template": pods_of(image),
        **more,
    }
    if storage is not None:
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **storage}
        body["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    meta = {"name": "web", "namespace": SPACE}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": body}


def daemon_set(image="nginx:1"):
    body = {"selector": {"matchLabels": {"app": "web"}}, "template": pods_of(image)}
    meta = {"name": "web", "namespace": SPACE}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": body}


def is_up(group, plural):
    return lambda one: availability_of(group, "v1", plural, one) is Availability.AVAILABLE


def images(pods):
    return [
        pod["spec"]["containers"][0]["image"] for pod in sorted(pods, key=lambda p: p["metadata"]["name"])
    ]


def test_a_member_has_ready_nodes(w):
    async def scenario(m):
        found = await m.all(NODES)
        assert len(found) == 3
        assert all(c["status"] == "True" for one in found for c in status(one)["conditions"])

    run(w, scenario, WorkloadOptions(nodes=3))


def test_a_stateful_set_starts_one_pod_after_the_other_each_with_a_claim(w):
    async def scenario(m):
        born = []
        store = m.workloads._cache.store(PODS)
        store.subscribe(lambda old, new: born.append(new["metadata"]["name"]) if old is None else None)
        await m.make(STATEFUL_SETS, stateful_set(storage={}))
        done = await m.until(STATEFUL_SETS, "web", is_up("apps", "statefulsets"))
        same = stateful_set(storage={})["spec"]["volumeClaimTemplates"]  # applied again as it was
        await m.client.patch(STATEFUL_SETS, "web", SPACE, {"spec": {"volumeClaimTemplates": same}})
        assert born == ["web-0", "web-1", "web-2"]
        assert count(done, "readyReplicas") == 3
        claims = await m.all(PERSISTENT_VOLUME_CLAIMS)
        assert {one["metadata"]["name"]: status(one)["phase"] for one in claims} == {
            f"data-web-{n}": "Bound" for n in range(3)
        }
        volumes = (await m.client.list(PERSISTENT_VOLUMES)).items
        assert [status(one)["phase"] for one in volumes] == ["Bound"] * 3
        pod = await m.get(PODS, "web-1")
        assert pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "web-1"

    run(w, scenario)


def test_a_stateful_set_is_updated_from_the_last_pod_on_and_keeps_its_history(w):
    async def scenario(m):
        await m.make(STATEFUL_SETS, stateful_set())
        first = await m.until(STATEFUL_SETS, "web", is_up("apps", "statefulsets"))
        gone = []
        store = m.workloads._cache.store(PODS)
        store.subscribe(lambda old, new: gone.append(old["metadata"]["name"]) if new is None else None)
        await m.client.patch(STATEFUL_SETS, "web", SPACE, {"spec": {"template": pods_of("nginx:2")}})
        done = await m.until(
            STATEFUL_SETS,
            "web",
            lambda one: is_up("apps", "statefulsets")(one) and count(one, "updatedReplicas") == 3,
        )
        assert gone == ["web-2", "web-1", "web-0"]
        assert images(await m.pods()) == ["nginx:2"] * 3
        assert status(done)["currentRevision"] != status(first)["currentRevision"]
        revisions = [one["revision"] for one in await m.all(CONTROLLER_REVISIONS)]
        assert sorted(revisions) == [1, 2]

    run(w, scenario)


def test_a_partition_holds_an_update_back(w):
    async def scenario(m):
        await m.make(STATEFUL_SETS, stateful_set())
        await m.until(STATEFUL_SETS, "web", is_up("apps", "statefulsets"))
        hold = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
        change = {"spec": {"template": pods_of("nginx:2"), "updateStrategy": hold}}
        await m.client.patch(STATEFUL_SETS, "web", SPACE, change)
        await m.until(STATEFUL_SETS, "web", lambda one: count(one, "updatedReplicas") == 1)
        await m.world.settle()
        assert images(await m.pods()) == ["nginx:1", "nginx:1", "nginx:2"]
        await m.client.delete(PODS, "web-0", SPACE)
        await m.until(STATEFUL_SETS, "web", lambda one: count(one, "readyReplicas") == 3)
        assert images(await m.pods()) == [
            "nginx:1",
            "nginx:1",
            "nginx:2",
        ]  # below it the old template comes back

    run(w, scenario)


def test_e3_a_stateful_set_whose_storage_class_is_missing_never_gets_available_until_it_is_there(w):
    async def scenario(m):
        await m.make(STATEFUL_SETS, stateful_set(storage={"storageClassName": "missing"}))
        await m.world.settle()
        (pod,) = await m.pods()
        assert status(pod)["phase"] == "Pending"
        assert not is_up("apps", "statefulsets")(await m.get(STATEFUL_SETS, "web"))
        made = storage_class()
        made["metadata"] = {"name": "missing"}
        await m.client.create(STORAGE_CLASSES, made)
        await m.until(STATEFUL_SETS, "web", is_up("apps", "statefulsets"))

    run(w, scenario)


def test_a_claim_goes_once_nobody_uses_it_and_its_volume_with_it(w):
    async def scenario(m):
        await m.make(STATEFUL_SETS, stateful_set(replicas=1, storage={}))
        await m.until(STATEFUL_SETS, "web", is_up("apps", "statefulsets"))
        await m.client.delete(PERSISTENT_VOLUME_CLAIMS, "data-web-0", SPACE)
        await m.world.settle()
        assert len(await m.all(PERSISTENT_VOLUME_CLAIMS)) == 1  # a pod uses it
        await m.client.delete(STATEFUL_SETS, "web", SPACE, propagation="Background")

        async def is_gone():
            claims = await m.all(PERSISTENT_VOLUME_CLAIMS)
            return not claims and not (await m.client.list(PERSISTENT_VOLUMES)).items

        await m.world.until(is_gone, 120)

    run(w, scenario)


def test_scaling_a_stateful_set_down_takes_the_last_pods(w):
    async def scenario(m):
        await m.make(STATEFUL_SETS, stateful_set())
        await m.until(STATEFUL_SETS, "web", is_up("apps", "statefulsets"))
        await m.client.patch(STATEFUL_SETS, "web", SPACE, {"spec": {"replicas": 1}})
        await m.until(STATEFUL_SETS, "web", lambda one: count(one, "replicas") == 1)
        await m.world.settle()
        assert [pod["metadata"]["name"] for pod in await m.pods()] == ["web-0"]

    run(w, scenario)


def test_a_daemon_set_has_one_pod_on_each_node_through_an_update(w):
    async def scenario(m):
        await m.make(DAEMON_SETS, daemon_set())
        await m.until(DAEMON_SETS, "web", is_up("apps", "daemonsets"))
        assert sorted(pod["spec"]["nodeName"] for pod in await m.pods()) == ["node-1", "node-2", "node-3"]
        await m.client.patch(DAEMON_SETS, "web", SPACE, {"spec": {"template": pods_of("nginx:2")}})
        await m.until(
            DAEMON_SETS,
            "web",
            lambda one: is_up("apps", "daemonsets")(one) and count(one, "updatedNumberScheduled") == 3,
        )
        assert images(await m.pods()) == ["nginx:2"] * 3
        assert sorted(pod["spec"]["nodeName"] for pod in await m.pods()) == ["node-1", "node-2", "node-3"]

    run(w, scenario, WorkloadOptions(nodes=3))


def test_a_job_runs_as_many_pods_side_by_side_as_it_may_and_completes(w):
    async def scenario(m):
        most = [0]
        store = m.workloads._cache.store(PODS)

        def watch(*_):
            running = [pod for pod in store.all() if status(pod).get("phase") in {"Pending", "Running"}]
            most[0] = max(most[0], len(running))

        store.subscribe(watch)
        await m.make(JOBS, job(completions=5, parallelism=2))
        done = await m.until(JOBS, "job", lambda one: status(one).get("completionTime"))
        assert count(done, "succeeded") == 5
        assert most[0] == 2
        assert {c["type"]: c["status"] for c in status(done)["conditions"]}["Complete"] == "True"
        assert {status(pod)["phase"] for pod in await m.pods()} == {"Succeeded"}

    run(w, scenario)


def test_a_job_that_keeps_failing_gives_up(w):
    async def scenario(m):
        body = job(backoffLimit=2)
        body["spec"]["template"]["spec"]["containers"][0]["image"] = "busybox:fail"
        await m.make(JOBS, body)
        done = await m.until(JOBS, "job", lambda one: status(one).get("conditions"))
        (condition,) = (c for c in status(done)["conditions"] if c["type"] == "Failed")
        assert condition["reason"] == "BackoffLimitExceeded"
        assert count(done, "failed") == 3

    run(w, scenario)


def test_a_suspended_job_does_nothing_until_it_is_resumed(w):
    async def scenario(m):
        await m.make(JOBS, job(suspend=True))
        await m.world.settle()
        assert await m.pods() == []
        await m.client.patch(JOBS, "job", SPACE, {"spec": {"suspend": False}})
        await m.until(JOBS, "job", lambda one: status(one).get("completionTime"))

    run(w, scenario)


def test_a_finished_job_goes_when_its_time_to_live_is_over(w):
    async def scenario(m):
        await m.make(JOBS, job(ttlSecondsAfterFinished=30))

        async def is_gone():
            return not await m.all(JOBS) and not await m.pods()

        await m.world.until(is_gone, 120)

    run(w, scenario)


def cron_job(**more):
    template = {"spec": job()["spec"]}
    body = {"schedule": "*/5 * * * *", "jobTemplate": template, **more}
    meta = {"name": "tick", "namespace": SPACE}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": body}


def test_a_cron_job_makes_a_job_at_every_due_time_and_keeps_the_last_three(w):
    async def scenario(m):
        await m.make(CRON_JOBS, cron_job())

        async def has_kept_three():
            return len([one for one in await m.all(JOBS) if status(one).get("completionTime")]) == 3

        await m.world.until(has_kept_three, 1200)
        await m.world.until(lambda: m.world.now().minute >= 31, 1300)
        await m.world.settle()
        assert len(await m.all(JOBS)) in {3, 4}
        tick = await m.get(CRON_JOBS, "tick")
        assert status(tick)["lastScheduleTime"].endswith(":30:00Z")

    run(w, scenario)


def test_a_suspended_cron_job_rests(w):
    async def scenario(m):
        await m.make(CRON_JOBS, cron_job(suspend=True))
        await m.world.until(lambda: m.world.now().minute >= 20, 1300)
        assert await m.all(JOBS) == []

    run(w, scenario)


@pytest.mark.parametrize(
    ("text", "after", "following"),
    [
        ("*/15 * * * *", "2026-03-01T12:07", "2026-03-01T12:15"),
        ("0 0 * * *", "2026-03-01T00:00", "2026-03-02T00:00"),
        ("30 6 1 1 *", "2026-03-01T00:00", "2027-01-01T06:30"),
        ("0 9 * * mon-fri", "2026-02-27T10:00", "2026-03-02T09:00"),
        ("0 0 13 * 5", "2026-03-01T00:00", "2026-03-06T00:00"),  # either day is enough
        ("@hourly", "2026-03-01T12:59", "2026-03-01T13:00"),
        ("0 0 29 2 *", "2026-03-01T00:00", "2028-02-29T00:00"),
        ("5,10-12 * * * 7", "2026-03-01T00:05", "2026-03-01T00:10"),
    ],
)
def test_schedules_are_read_like_cron_reads_them(text, after, following):
    def at(value):
        return datetime.fromisoformat(value).replace(tzinfo=UTC)

    assert parse_schedule(text).next_after(at(after)) == at(following)


@pytest.mark.parametrize("text", ["* * * *", "60 * * * *", "a * * * *", "*/0 * * * *", "5-1 * * * *"])
def test_schedules_that_make_no_sense_are_refused(text):
    with pytest.raises(BadSchedule):
        parse_schedule(text)


def test_a_schedule_that_never_comes_is_found_out():
    assert parse_schedule("0 0 30 2 *").next_after(datetime(2026, 3, 1, tzinfo=UTC)) is None


def service(**more):
    body = {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}], **more}
    meta = {"name": "web", "namespace": SPACE}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": body}


def test_a_service_lists_the_pods_behind_it(w):
    async def scenario(m):
        await m.make(SERVICES, service())
        await m.make(DEPLOYMENTS, deployment(replicas=2))
        await m.rolled_out("web", 2)
        await m.world.settle()
        (found,) = await m.all(ENDPOINT_SLICES)
        addresses = {one["addresses"][0] for one in found["endpoints"] if one["conditions"]["ready"]}
        assert addresses == {status(pod)["podIP"] for pod in await m.pods()}
        assert found["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
        assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
        await m.client.patch(DEPLOYMENTS, "web", SPACE, {"spec": {"replicas": 0}})
        await m.rolled_out("web", 0)
        await m.world.settle()
        (found,) = await m.all(ENDPOINT_SLICES)
        assert not found.get("endpoints")

    run(w, scenario)


def test_a_load_balancer_gets_an_address(w):
    async def scenario(m):
        await m.make(SERVICES, service(type="LoadBalancer"))
        await m.until(SERVICES, "web", is_up("", "services"))

    run(w, scenario)


def test_a_disruption_budget_counts_what_may_go(w):
    async def scenario(m):
        await m.make(DEPLOYMENTS, deployment(replicas=3))
        body = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 2}
        meta = {"name": "web", "namespace": SPACE}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": body}
        await m.make(POD_DISRUPTION_BUDGETS, budget)
        await m.rolled_out("web", 3)
        await m.world.settle()
        found = await m.get(POD_DISRUPTION_BUDGETS, "web")
        assert (count(found, "disruptionsAllowed"), count(found, "expectedPods")) == (1, 3)
        assert is_up("policy", "poddisruptionbudgets")(found)

    run(w, scenario)


def bare_pod(image="nginx:1", **more):
    meta = {"name": "lone", "namespace": SPACE}
    spec = {"containers": [{"name": "main", "image": image}], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def test_a_bare_pod_is_bound_to_a_node_and_runs(w):
    async def scenario(m):
        await m.make(PODS, bare_pod())
        pod = await m.until(PODS, "lone", lambda one: status(one)["phase"] == "Running")
        assert (await m.get(PODS, "lone"))["spec"]["nodeName"].startswith("node-")
        assert "main of pod lone started" in log_of(pod, "main")

    run(w, scenario)


def test_a_pod_that_takes_time_to_start_shows_that_its_containers_are_created(w):
    async def scenario(m):
        await m.make(PODS, bare_pod())

        def waits(one):
            states = status(one).get("containerStatuses")
            return states and states[0]["state"].get("waiting", {}).get("reason") == "ContainerCreating"

        await m.until(PODS, "lone", waits)
        await m.until(PODS, "lone", lambda one: status(one)["phase"] == "Running")

    run(w, scenario, WorkloadOptions(start_delay_s=20))


def test_a_pod_that_takes_time_to_stop_stays_for_that_time(w):
    async def scenario(m):
        await m.make(PODS, bare_pod())
        await m.until(PODS, "lone", lambda one: status(one)["phase"] == "Running")
        await m.client.delete(PODS, "lone", SPACE)
        await m.world.settle()
        assert (await m.get(PODS, "lone"))["metadata"]["deletionTimestamp"]
        before = m.world.now()

        async def is_gone():
            return not await m.pods()

        await m.world.until(is_gone, 60)
        assert 4 <= (m.world.now() - before).total_seconds() <= 6

    run(w, scenario, WorkloadOptions(stop_delay_s=5))


def test_an_init_container_in_trouble_keeps_the_others_from_starting(w):
    async def scenario(m):
        first = {"name": "first", "image": "tool:does-not-exist"}
        await m.make(PODS, bare_pod(initContainers=[first]))
        await m.world.settle()
        pod = await m.get(PODS, "lone")
        assert status(pod)["initContainerStatuses"][0]["state"]["waiting"]["reason"] == "ErrImagePull"
        assert status(pod)["containerStatuses"][0]["state"]["waiting"]["reason"] == "PodInitializing"
        assert status(pod)["phase"] == "Pending"

    run(w, scenario)


@pytest.mark.parametrize(
    ("image", "fate"),
    [
        ("nginx", Fate.RUNS),
        ("nginx:1.27.0", Fate.RUNS),
        ("ghcr.io/team/app:v1", Fate.RUNS),
        ("localhost:5000/app@sha256:" + "a" * 64, Fate.RUNS),
        ("crashpad:1", Fate.RUNS),
        ("nginx:", Fate.INVALID_NAME),
        ("nginx::1", Fate.INVALID_NAME),
        ("Nginx:1", Fate.INVALID_NAME),
        ("nginx:bad tag", Fate.INVALID_NAME),
        ("", Fate.INVALID_NAME),
        ("nginx:not-found", Fate.CANNOT_BE_PULLED),
        ("nginx:does-not-exist", Fate.CANNOT_BE_PULLED),
        ("registry.invalid/nginx:1", Fate.CANNOT_BE_PULLED),
        ("busybox:crash", Fate.CRASHES),
        ("crash-test:1", Fate.CRASHES),
        ("nginx:1.27-unready", Fate.NEVER_READY),
    ],
)
def test_what_becomes_of_a_container_is_told_by_its_image(image, fate):
    assert fate_of(image) is fate


def test_a_thousand_pods_come_up_without_a_thousand_looks_each(w):
    async def scenario(m):
        await m.make(DEPLOYMENTS, deployment(replicas=1000))
        await m.rolled_out("web", 1000)
        before = m.world.hub.store.revision
        await m.world.until(lambda: m.world.now().hour >= 1, 4000)
        assert m.world.hub.store.revision == before  # and rest without any

    run(w, scenario)
