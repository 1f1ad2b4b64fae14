"""What holds for every fleet, policy and history: the scheduler is stable, bounded and never gives up more than asked."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.rules.fleet_b import Desk, labelled, pick_fixed, pick_n, preferred, required, spread
from tests.rules.pretend import SCOPES

NAMES = [f"c{number}" for number in range(7)]
HEALTH = st.sampled_from(["healthy", "healthy", "healthy", "sick", "silent", "unjoined", "absent"])
REGIONS = st.sampled_from(["east", "west", "north"])
TAINTS = st.sampled_from([(), (), ({"key": "k", "value": "v", "effect": "NoSchedule"},)])
COUNTS = st.integers(0, 6)


@st.composite
def policies(draw):
    kind = draw(st.sampled_from(["all", "choosy", "n", "n-spread", "n-loose", "n-preferred", "fixed"]))
    count = draw(COUNTS)
    match kind:
        case "all":
            return {"placementType": "PickAll"}
        case "choosy":
            return {"placementType": "PickAll", "affinity": required(labelled(region=draw(REGIONS)))}
        case "n":
            return pick_n(count)
        case "n-spread":
            return pick_n(
                count, topologySpreadConstraints=[spread("region", max_skew=draw(st.integers(1, 2)))]
            )
        case "n-loose":
            return pick_n(count, topologySpreadConstraints=[spread("region", "ScheduleAnyway")])
        case "n-preferred":
            return pick_n(count, affinity=preferred((20, labelled(region=draw(REGIONS)))))
    return pick_fixed(*draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1)))


class Scheduling(RuleBasedStateMachine):
    """A fleet that changes under one placement."""

    @initialize(
        policy=policies(), scope=st.sampled_from(SCOPES), regions=st.lists(REGIONS, min_size=7, max_size=7)
    )
    def begin(self, policy, scope, regions):
        self.policy, self.scope = policy, scope
        self.desk = Desk(scope, policy)
        for name, region in zip(NAMES[:4], regions, strict=False):
            self.desk.cluster(name, {"region": region})
        self.cycle()

    def cycle(self):
        self.desk.cycle()  # which also checks that a second cycle finds nothing to do

    def live(self):
        return {
            b.spec.target_cluster: b
            for b in self.desk.store.bindings(self.scope)
            if not b.metadata.is_deleting and b.spec.state != "Unscheduled"
        }

    @rule(name=st.sampled_from(NAMES), region=REGIONS, health=HEALTH, taints=TAINTS)
    def a_member_reports_something_else(self, name, region, health, taints):
        before = set(self.live())
        self.desk.cluster(name, {"region": region}, health=health, taints=taints)
        self.cycle()
        assert before <= set(self.live()), "what is picked stays picked, whatever becomes of it"

    @rule(name=st.sampled_from(NAMES))
    def a_member_leaves(self, name):
        if name in self.desk.store.clusters():
            before = set(self.live())
            self.desk.lose(name)
            self.cycle()
            assert before - {name} <= set(self.live())
            assert name not in self.live()

    @rule(count=COUNTS)
    def another_count(self, count):
        if "numberOfClusters" in self.policy:
            before, snapshot = set(self.live()), self.desk.snapshot.name
            self.policy = {**self.policy, "numberOfClusters": count}
            self.desk.edit(policy={"numberOfClusters": count})
            self.cycle()
            assert self.desk.snapshot.name == snapshot
            assert len(before & set(self.live())) == min(len(before), count)

    @rule()
    def everything_is_bound(self):
        self.desk.bind_all()

    @rule(tolerations=st.booleans())
    def another_policy(self, tolerations):
        if self.policy["placementType"] == "PickFixed":
            return
        value = [{"operator": "Exists"}] if tolerations else None
        self.desk.edit(policy={"tolerations": value})
        self.cycle()

    @rule(data=st.data())
    def a_binding_is_evicted(self, data):
        if self.live():
            binding = self.live()[data.draw(st.sampled_from(sorted(self.live())))]
            self.desk.store.delete(self.scope.binding, binding.name, binding.namespace)
            self.cycle()

    @invariant()
    def bindings_and_decisions_agree(self):
        if not hasattr(self, "desk"):
            return
        names = [
            b.spec.target_cluster
            for b in self.desk.store.bindings(self.scope)
            if not b.metadata.is_deleting and b.spec.state != "Unscheduled"
        ]
        assert len(names) == len(set(names)), "one binding a cluster"
        assert set(names) == set(self.desk.picked())
        assert set(names) <= set(self.desk.store.clusters())
        assert all(
            b.spec.scheduling_policy_snapshot_name == self.desk.snapshot.name for b in self.live().values()
        )

    @invariant()
    def the_verdict_is_true(self):
        if not hasattr(self, "desk"):
            return
        status, _, message = self.desk.verdict()
        assert f"found {len(self.live())} cluster(s)" in message
        wanted = self.policy.get("numberOfClusters")
        if wanted is not None:
            assert len(self.live()) <= wanted
            assert (status == "True") == (len(self.live()) == wanted)


TestScheduling = Scheduling.TestCase
TestScheduling.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
