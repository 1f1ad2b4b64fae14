"""Deployments of a simulated member: pods, rolling updates, history, trouble."""

from collections.abc import Iterator

import pytest

from echelon.api.builtin import DEPLOYMENTS, PODS, REPLICA_SETS
from echelon.sandbox.workloads_objects import count, replicas, status
from tests.agent.fleet import deployment
from tests.sandbox.member import SPACE, run
from tests.world import World, world


@pytest.fixture
def w() -> Iterator[World]:
    with world(3) as made:
        yield made


def image(name):
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}}


def reasons(pods):
    return sorted(
        (one["state"].get("waiting") or {}).get("reason", "")
        for pod in pods
        for one in status(pod)["containerStatuses"]
    )


def test_a_deployment_gets_its_pods_and_they_get_ready(w):
    async def scenario(m):
        await m.make(DEPLOYMENTS, deployment(replicas=3))
        done = await m.rolled_out("web", 3)
        said = {one["type"]: (one["status"], one["reason"]) for one in status(done)["conditions"]}
        assert said == {
            "Available": ("True", "MinimumReplicasAvailable"),
            "Progressing": ("True", "NewReplicaSetAvailable"),
        }
        assert status(done)["readyReplicas"] == 3
        assert done["metadata"]["generation"] == 1
        pods = await m.pods()
        assert len(pods) == 3
        for pod in pods:
            assert status(pod)["phase"] == "Running"
            assert pod["spec"]["nodeName"].startswith("node-")
            assert status(pod)["containerStatuses"][0]["ready"]

    run(w, scenario)


def test_a_rolling_update_never_has_too_few_or_too_many_pods(w):
    async def scenario(m):
        await m.make(DEPLOYMENTS, deployment(replicas=8))
        await m.rolled_out("web", 8)
        seen = []

        def watch(*_):
            alive = [pod for pod in store.all() if not pod["metadata"].get("deletionTimestamp")]
            ready = [
                pod
                for pod in alive
                if any(
                    one["type"] == "Ready" and one["status"] == "True"
                    for one in status(pod).get("conditions", ())
                )
            ]
            seen.append((len(alive), len(ready)))

        store = m.workloads._cache.store(PODS)
        store.subscribe(watch)
        seen.clear()
        await m.client.patch(DEPLOYMENTS, "web", SPACE, image("nginx:2"))
        await m.rolled_out("web", 8)
        assert max(total for total, _ in seen) <= 10  # 25 % of 8 above
        assert min(ready for _, ready in seen) >= 6  # and 25 % below
        assert {pod["spec"]["containers"][0]["image"] for pod in await m.pods()} == {"nginx:2"}

    run(w, scenario)


def test_a_bad_image_name_shows_as_in_the_guides_and_keeps_the_old_pods(w):
    async def scenario(m):
        await m.make(DEPLOYMENTS, deployment(replicas=4))
        await m.rolled_out("web", 4)
        await m.client.patch(DEPLOYMENTS, "web", SPACE, image("nginx:"))
        await m.world.settle()
        assert reasons(await m.pods()) == ["", "", "", "InvalidImageName", "InvalidImageName"]
        stuck = await m.get(DEPLOYMENTS, "web")
        assert (count(stuck, "updatedReplicas"), count(stuck, "availableReplicas")) == (2, 3)
        await m.client.patch(DEPLOYMENTS, "web", SPACE, image("nginx:3"))
        await m.rolled_out("web", 4)

    run(w, scenario)


def test_an_image_that_cannot_be_pulled_backs_off(w):
    async def scenario(m):
        await m.make(DEPLOYMENTS, deployment(containers=[{"name": "main", "image": "nginx:does-not-exist"}]))
        await m.world.settle()
        assert reasons(await m.pods()) == ["ErrImagePull"]
        await m.world.until(lambda: _reasons(m, ["ImagePullBackOff"]))

    async def _reasons(m, wanted):
        return reasons(await m.pods()) == wanted

    run(w, scenario)


def test_a_crashing_container_is_restarted_further_and_further_apart(w):
    async def scenario(m):
        await m.make(DEPLOYMENTS, deployment(containers=[{"name": "main", "image": "busybox:crash"}]))

        async def restarts():
            found = [one for pod in await m.pods() for one in status(pod).get("containerStatuses", ())]
            return next((one for one in found if one["restartCount"] >= 4), None)

        one = await m.world.until(restarts)
        assert one["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert one["lastState"]["terminated"]["exitCode"] == 1
        assert not one["ready"]

    run(w, scenario)


def test_history_is_kept_and_an_undo_brings_the_old_replica_set_back(w):
    async def scenario(m):
        await m.make(DEPLOYMENTS, deployment(replicas=2))
        await m.rolled_out("web", 2)
        (first,) = await m.all(REPLICA_SETS)
        await m.client.patch(DEPLOYMENTS, "web", SPACE, image("nginx:2"))
        await m.rolled_out("web", 2)
        assert sorted(revision(one) for one in await m.all(REPLICA_SETS)) == ["1", "2"]
        assert revision(await m.get(DEPLOYMENTS, "web")) == "2"
        await m.client.patch(DEPLOYMENTS, "web", SPACE, image("nginx:1.27"))
        await m.rolled_out("web", 2)
        again = await m.get(REPLICA_SETS, first["metadata"]["name"])
        assert revision(again) == "3"
        assert again["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"
        assert revision(await m.get(DEPLOYMENTS, "web")) == "3"
        assert replicas(again) == 2

    def revision(one):
        return one["metadata"]["annotations"]["deployment.kubernetes.io/revision"]

    run(w, scenario)


def test_a_rollout_that_takes_too_long_says_so(w):
    async def scenario(m):
        body = deployment(containers=[{"name": "main", "image": "nginx:unready"}])
        body["spec"]["progressDeadlineSeconds"] = 30
        await m.make(DEPLOYMENTS, body)

        def is_late(one):
            return any(c["reason"] == "ProgressDeadlineExceeded" for c in status(one).get("conditions", ()))

        late = await m.until(DEPLOYMENTS, "web", is_late)
        assert count(late, "unavailableReplicas") == 1

    run(w, scenario)


def test_scaling_follows_the_number_of_replicas_even_while_paused(w):
    async def scenario(m):
        await m.make(DEPLOYMENTS, deployment(replicas=1))
        await m.rolled_out("web", 1)
        await m.client.patch(DEPLOYMENTS, "web", SPACE, {"spec": {"replicas": 5}})
        await m.rolled_out("web", 5)
        await m.client.patch(DEPLOYMENTS, "web", SPACE, {"spec": {"paused": True, "replicas": 2}})
        await m.rolled_out("web", 2)

    run(w, scenario)


def test_recreate_stops_every_old_pod_before_the_first_new_one(w):
    async def scenario(m):
        body = deployment(replicas=3)
        body["spec"]["strategy"] = {"type": "Recreate"}
        await m.make(DEPLOYMENTS, body)
        await m.rolled_out("web", 3)
        images = []
        store = m.workloads._cache.store(PODS)
        store.subscribe(lambda *_: images.append({p["spec"]["containers"][0]["image"] for p in store.all()}))
        await m.client.patch(DEPLOYMENTS, "web", SPACE, image("nginx:2"))
        await m.rolled_out("web", 3)
        assert {"nginx:1.27", "nginx:2"} not in images

    run(w, scenario)
