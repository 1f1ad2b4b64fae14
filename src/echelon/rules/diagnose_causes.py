"""The catalogue of causes: every reason we know for a run not to go on, worded once.

A row says what the reader is told (one sentence), whether it can recover by itself, what fixes it and which command
comes next. `diagnose*.py` recognise the rows; docs/troubleshooting.md is generated from them; tests provoke each.
The order of the table is the order of blame: what explains more stands first.

Words in braces are filled in. Always there: {run} and {placement} (names), {n} (` -n NAMESPACE` or nothing), and the
short names of the kinds: {run_kind}, {placement_kind}, {strategy_kind}, {binding_kind}, {approval_kind},
{snapshot_kind}.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec


class Recovery(StrEnum):
    """Whether waiting helps."""

    NO = "no"
    YES = "yes"
    PERSON = "when somebody acts"


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """One reason for a run not to go on."""

    id: str
    title: str
    sentence: str
    recovery: Recovery
    recovers: str  # the answer to "can it recover by itself?", in words
    fix: str
    next: tuple[str, ...]
    seen_as: str = ""  # what the API says, for readers who search for it


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Causes that belong under one heading of the documentation."""

    title: str
    causes: tuple[Cause, ...]


NEW_RUN = "No. A run that has failed stays failed: fix the cause, then create a new run."
BY_ITSELF = "Yes. Fix the cause and the run goes on by itself; there is nothing to restart."
_AGAIN = "echelon plan -f run.yaml"
_PLACEMENT = "kubectl describe {placement_kind} {placement}{n}"
_EXTERNAL = (
    "kubectl patch {placement_kind} {placement}{n} --type merge -p "
    """'{"spec":{"strategy":{"type":"External","rollingUpdate":null}}}'"""
)
_STRATEGY = "kubectl get {strategy_kind} {strategy}{n} -o yaml"

FAILED = Group(
    title="The run failed",
    causes=(
        Cause(
            id="taken-over",
            title="Another run took a cluster over",
            sentence="Run {run} was aborted because {rival} moved {cluster} in stage {stage} to another version.",
            recovery=Recovery.NO,
            recovers=NEW_RUN + " Usually the later run carries the newer intent: let it finish.",
            fix="See which run moved the binding. Keep one run per placement; stop the one you do not want.",
            next=("kubectl describe {binding_kind} {binding}{n}", "echelon runs{n}"),
            seen_as="the binding of the updating cluster `{cluster}` in the stage `{stage}` is not up-to-date",
        ),
        Cause(
            id="placement-missing",
            title="The placement does not exist",
            sentence="Run {run} {failed} because its placement {placement} does not exist.",
            recovery=Recovery.NO,
            recovers=NEW_RUN,
            fix="Create the placement again (in the run's namespace for a namespaced run), then a new run.",
            next=("kubectl get {placement_kind}{n}",),
            seen_as="parent placement not found",
        ),
        Cause(
            id="placement-not-external",
            title="The placement rolls out by itself",
            sentence="Run {run} {failed} because placement {placement} has the rollout strategy {type}, and only "
            "External leaves the rollout to runs.",
            recovery=Recovery.NO,
            recovers=NEW_RUN,
            fix="Set spec.strategy.type of the placement to External, then create a new run.",
            next=(_EXTERNAL,),
            seen_as="parent placement does not have an external rollout strategy, current strategy: RollingUpdate",
        ),
        Cause(
            id="not-scheduled",
            title="The scheduler has not found all clusters",
            sentence="Run {run} {failed} because the scheduler has not found the clusters that placement {placement} "
            "asks for.",
            recovery=Recovery.NO,
            recovers=NEW_RUN + " Wait until the placement is scheduled before you create it.",
            fix="Read the placement's Scheduled condition: too few clusters match its policy, or they are not joined.",
            next=(_PLACEMENT, "echelon clusters"),
            seen_as="policy snapshot `{placement}-0` not fully scheduled yet",
        ),
        Cause(
            id="no-clusters",
            title="No cluster is picked",
            sentence="Run {run} {failed} because placement {placement} picks no cluster.",
            recovery=Recovery.NO,
            recovers=NEW_RUN,
            fix="Let the placement's policy match a joined cluster, then create a new run.",
            next=(_PLACEMENT, "echelon clusters"),
            seen_as="no scheduled or to-be-deleted bindings found for the latest policy snapshot",
        ),
        Cause(
            id="strategy-missing",
            title="The strategy does not exist",
            sentence="Run {run} {failed} because its strategy {strategy} does not exist.",
            recovery=Recovery.NO,
            recovers=NEW_RUN,
            fix="Create the strategy again (in the run's namespace for a namespaced run), then a new run.",
            next=("kubectl get {strategy_kind}{n}",),
            seen_as="referenced updateStrategy not found: `/safe`",
        ),
        Cause(
            id="tasks-invalid",
            title="A stage's tasks do not make sense",
            sentence="Run {run} {failed} because the {side} stage tasks of stage {stage} in strategy {strategy} are "
            "invalid: {detail}.",
            recovery=Recovery.NO,
            recovers=NEW_RUN,
            fix="Before a stage at most one Approval; after it at most one Approval and one TimedWait with a waitTime.",
            next=(_STRATEGY,),
            seen_as="the before stage tasks are invalid, updateStrategy: ...",
        ),
        Cause(
            id="selector-invalid",
            title="A stage's selector cannot be read",
            sentence="Run {run} {failed} because the label selector of stage {stage} in strategy {strategy} is "
            "invalid: {detail}.",
            recovery=Recovery.NO,
            recovers=NEW_RUN,
            fix="Correct the stage's labelSelector, then create a new run.",
            next=(_STRATEGY,),
            seen_as="the stage label selector is invalid, updateStrategy: ...",
        ),
        Cause(
            id="cluster-in-two-stages",
            title="A cluster is in two stages",
            sentence="Run {run} {failed} because two stages of its strategy pick the cluster {cluster}.",
            recovery=Recovery.NO,
            recovers=NEW_RUN,
            fix="Give the cluster the labels of one stage only, or make the selectors distinct.",
            next=("kubectl get membercluster {cluster} --show-labels", _STRATEGY),
            seen_as="cluster `{cluster}` appears in more than one stage",
        ),
        Cause(
            id="cluster-in-no-stage",
            title="A picked cluster is in no stage",
            sentence="Run {run} {failed} because no stage of its strategy picks {clusters}.",
            recovery=Recovery.NO,
            recovers=NEW_RUN,
            fix="Label the clusters for a stage, or add a stage whose selector matches them.",
            next=("kubectl get memberclusters --show-labels", _STRATEGY),
            seen_as="some clusters are not placed in any stage, total 2, showing up to 10: ...",
        ),
        Cause(
            id="sorting-label-invalid",
            title="A sorting label is not a number",
            sentence="Run {run} {failed} because the sorting label {key} of cluster {cluster} is {value}, not a "
            "whole number.",
            recovery=Recovery.NO,
            recovers=NEW_RUN,
            fix="Set the label on every cluster of the stage to a whole number.",
            next=("kubectl label membercluster {cluster} {key}=1 --overwrite",),
            seen_as="the sorting label `order:x` on cluster `{cluster}` is not valid",
        ),
        Cause(
            id="snapshot-missing",
            title="The resource snapshot does not exist",
            sentence="Run {run} {failed} because placement {placement} has no resource snapshot with index {index}.",
            recovery=Recovery.NO,
            recovers=NEW_RUN,
            fix="Choose an index that exists, or leave resourceSnapshotIndex out to roll out the current resources.",
            next=("echelon history {placement}{n}",),
            seen_as="no resourceSnapshots with index `1` found for placement `/{placement}`",
        ),
        Cause(
            id="snapshot-index-invalid",
            title="The snapshot index is not a number",
            sentence="Run {run} {failed} because its resourceSnapshotIndex {index} is not a number from 0 up.",
            recovery=Recovery.NO,
            recovers=NEW_RUN,
            fix="Use an index from the placement's history, or leave the field out.",
            next=("echelon history {placement}{n}",),
            seen_as="invalid resource snapshot index `x` provided, expected an integer >= 0",
        ),
        Cause(
            id="clusters-changed",
            title="The set of clusters changed during the run",
            sentence="Run {run} was aborted because the clusters of its stages changed after it was planned: {detail}.",
            recovery=Recovery.NO,
            recovers=NEW_RUN,
            fix="A cluster joined, left or was relabelled. A new run plans the stages anew.",
            next=("echelon clusters", _AGAIN),
            seen_as="the number of clusters in index `0` stage has changed, new: 2, existing: 1",
        ),
        Cause(
            id="policy-changed",
            title="The placement's policy changed during the run",
            sentence="Run {run} was aborted because the policy of placement {placement} changed after the run was "
            "planned: {detail}.",
            recovery=Recovery.NO,
            recovers=NEW_RUN,
            fix="Create a new run; it plans for the clusters picked now.",
            next=(_PLACEMENT, _AGAIN),
            seen_as="the policy snapshot index used in the updateRun is outdated, latest: 1, recorded: 0",
        ),
        Cause(
            id="apply-strategy-changed",
            title="The apply strategy changed during the run",
            sentence="Run {run} was aborted because the apply strategy of placement {placement} was edited after the "
            "run was planned.",
            recovery=Recovery.NO,
            recovers=NEW_RUN,
            fix="Create a new run; it carries the new apply strategy to the clusters.",
            next=(_PLACEMENT, _AGAIN),
            seen_as="the applyStrategy in the updateRun is outdated",
        ),
        Cause(
            id="binding-gone",
            title="A cluster's binding is gone",
            sentence="Run {run} was aborted because the binding of cluster {cluster} in stage {stage} is gone.",
            recovery=Recovery.NO,
            recovers=NEW_RUN,
            fix="Somebody deleted the binding or evicted the cluster. Create a new run.",
            next=("kubectl get {binding_kind}{n}", _PLACEMENT),
            seen_as="the binding for cluster `{cluster}` in stage `{stage}` is not found in the toBeUpdatedBindings map",
        ),
        Cause(
            id="approval-foreign",
            title="An approval request of that name belongs to something else",
            sentence="Run {run} was aborted because the approval request {approval} asks for another run or stage.",
            recovery=Recovery.NO,
            recovers=NEW_RUN,
            fix="Delete that approval request, or give the new run another name.",
            next=("kubectl get {approval_kind} {approval}{n} -o yaml",),
            seen_as="the approval request task `/{approval}` is targeting update run ...",
        ),
        Cause(
            id="failed",
            title="Another error ended the run",
            sentence="Run {run} {failed}: {detail}.",
            recovery=Recovery.NO,
            recovers=NEW_RUN,
            fix="Read the message; fix what it names.",
            next=("kubectl describe {run_kind} {run}{n}",),
            seen_as="cannot continue the updateRun: ...",
        ),
    ),
)

MEMBER = Group(
    title="A member cluster does not answer",
    causes=(
        Cause(
            id="member-left",
            title="The member has left the fleet",
            sentence="Nothing can be delivered to {clusters} any more, because the cluster has left the fleet.",
            recovery=Recovery.NO,
            recovers="No. The run cannot finish on a cluster that is gone.",
            fix="Let the cluster join again, or stop this run and create a new one for the clusters that are left.",
            next=("echelon clusters", 'echelon stop {run}{n} -m "member left"'),
            seen_as="MemberCluster absent, or with a deletionTimestamp",
        ),
        Cause(
            id="member-silent",
            title="The member sends no heartbeats",
            sentence="No heartbeat has come from {clusters} for {since}: the agent is down or cut off from the hub.",
            recovery=Recovery.YES,
            recovers="Yes. When the agent is back it picks up its work and the run goes on.",
            fix="Check that the member is up, that its agent runs, and that it reaches the hub.",
            next=("echelon clusters", "kubectl describe membercluster {cluster}"),
            seen_as="Healthy=False MemberAgentHeartbeatLost",
        ),
        Cause(
            id="member-unhealthy",
            title="The member's API server is unhealthy",
            sentence="The API server of {clusters} is unhealthy: {detail}.",
            recovery=Recovery.YES,
            recovers="Yes, when the member's API server recovers.",
            fix="Repair the member's control plane.",
            next=("kubectl describe membercluster {cluster}",),
            seen_as="Healthy=False MemberClusterAPIServerUnhealthy",
        ),
    ),
)

DELIVERY = Group(
    title="Resources cannot be made or delivered",
    causes=(
        Cause(
            id="override-failed",
            title="An override cannot be applied",
            sentence="An override does not fit what it changes {where}: {detail}.",
            recovery=Recovery.NO,
            recovers="No. A run keeps the override snapshots it was planned with: correct the override, then create "
            "a new run.",
            fix="Correct the path in the override's JSON patch (or the cluster's label it refers to).",
            next=("kubectl describe {binding_kind} {binding}{n}", "echelon plan {run}{n}"),
            seen_as="Overridden=False OverriddenFailed",
        ),
        Cause(
            id="sync-failed",
            title="The works cannot be written",
            sentence="The resources for {clusters} could not be prepared on the hub: {detail}.",
            recovery=Recovery.PERSON,
            recovers="When what the message names is corrected; an API error passes by itself.",
            fix="Read the message: a missing snapshot, or an envelope that wraps what it may not.",
            next=("kubectl describe {binding_kind} {binding}{n}",),
            seen_as="WorkSynchronized=False SyncWorkFailed",
        ),
        Cause(
            id="kind-unknown",
            title="The member does not know the kind",
            sentence="{object} cannot be applied {where} because the cluster does not know this kind: its "
            "CustomResourceDefinition is missing there.",
            recovery=Recovery.PERSON,
            recovers="Yes, as soon as the definition is on the member.",
            fix="Place the CustomResourceDefinition first, or install it on the member.",
            next=("kubectl --context {cluster} get crds",),
            seen_as="Applied=False DecodingErred",
        ),
        Cause(
            id="owned-by-other",
            title="The object belongs to somebody else",
            sentence="{object} cannot be applied {where} because it already has another owner there.",
            recovery=Recovery.PERSON,
            recovers="When the other owner lets go, or co-ownership is allowed.",
            fix="Remove the other owner, or set allowCoOwnership in the placement's apply strategy (new run).",
            next=("kubectl --context {cluster} get {kind_ref} -o yaml",),
            seen_as="Applied=False FailedToTakeOver: the object is already owned by some other sources(s)",
        ),
        Cause(
            id="diff-blocks",
            title="A pre-existing object differs",
            sentence="{object} was there before {where} and differs from the hub ({detail}), so it is not taken over.",
            recovery=Recovery.PERSON,
            recovers="Yes, when the object on the member is made equal.",
            fix="Align the object on the member, or set whenToTakeOver: Always (new run).",
            next=("kubectl --context {cluster} get {kind_ref} -o yaml",),
            seen_as="Applied=False FailedToTakeOver: configuration differences are found",
        ),
        Cause(
            id="not-taken-over",
            title="A pre-existing object may not be taken over",
            sentence="{object} was there before {where}, and the placement may not take it over "
            "(whenToTakeOver: Never).",
            recovery=Recovery.PERSON,
            recovers="Yes, when the object is removed from the member.",
            fix="Delete the object on the member, or allow takeover in the placement's apply strategy (new run).",
            next=("kubectl --context {cluster} get {kind_ref} -o yaml",),
            seen_as="Applied=False NotTakenOver",
        ),
        Cause(
            id="drift-blocks",
            title="Somebody changed the object on the member",
            sentence="{object} was changed {where} ({detail}), and the placement does not overwrite drift.",
            recovery=Recovery.PERSON,
            recovers="Yes, when the change on the member is undone.",
            fix="Undo the change on the member, or set whenToApply: Always (new run).",
            next=("kubectl --context {cluster} get {kind_ref} -o yaml",),
            seen_as="Applied=False FoundDrifts",
        ),
        Cause(
            id="namespace-missing",
            title="The namespace does not exist on the member",
            sentence="{object} cannot be applied {where} because its namespace does not exist there.",
            recovery=Recovery.YES,
            recovers="Yes, as soon as the namespace is there.",
            fix="Place the namespace too, by the same or another placement.",
            next=("kubectl --context {cluster} get namespaces",),
            seen_as='Applied=False ManifestApplyFailed: namespaces "web" not found',
        ),
        Cause(
            id="apply-refused",
            title="The member refuses the object",
            sentence="{object} was refused {where}: {detail}.",
            recovery=Recovery.PERSON,
            recovers="Yes, when the member accepts it (a quota is raised, a right is granted); a wrong manifest needs "
            "a new version and a new run.",
            fix="Read the member's answer: an invalid or immutable field, a missing right, a quota, a conflict.",
            next=("kubectl --context {cluster} get {kind_ref} -o yaml",),
            seen_as="Applied=False ManifestApplyFailed",
        ),
        Cause(
            id="diff-failed",
            title="Differences cannot be computed",
            sentence="The difference between hub and member could not be computed {where}: {detail}.",
            recovery=Recovery.YES,
            recovers="Yes, when the member accepts the dry run.",
            fix="Read the member's answer; the manifest may be invalid there.",
            next=("kubectl describe {binding_kind} {binding}{n}",),
            seen_as="DiffReported=False NotAllWorkHaveDiffReported",
        ),
        Cause(
            id="agent-busy",
            title="The member has not applied it yet",
            sentence="The agent of {clusters} has not applied the resources yet.",
            recovery=Recovery.YES,
            recovers="Yes, when the agent gets to it.",
            fix="Check the agent's log on the member.",
            next=("kubectl get works -n fleet-member-{cluster}",),
            seen_as="Applied=False NotAllWorkHaveBeenApplied: Work object ... has not yet completed the apply op",
        ),
        Cause(
            id="engine-behind",
            title="The hub has not delivered it yet",
            sentence="The hub has not delivered to {clusters} yet: {detail}.",
            recovery=Recovery.YES,
            recovers="Yes, when the hub agent gets to it.",
            fix="Check that the hub agent runs; read its log.",
            next=("kubectl describe {binding_kind} {binding}{n}",),
            seen_as="WorkSynchronized absent at the binding's generation",
        ),
    ),
)

WORKLOAD = Group(
    title="The workload does not come up",
    causes=(
        Cause(
            id="image-name-invalid",
            title="An image name is not valid",
            sentence='{object} does not come up {where}: "{image}" is not a valid image name ({reason}).',
            recovery=Recovery.NO,
            recovers="No. The name has to be corrected: change the resource on the hub and create a new run.",
            fix="Correct the image on the hub; then create a new run, or roll back.",
            next=(
                "echelon rollback {placement}{n}",
                "kubectl --context {cluster} describe pod {pod} -n {namespace}",
            ),
            seen_as="pod: InvalidImageName",
        ),
        Cause(
            id="image-pull",
            title="An image cannot be pulled",
            sentence='{object} does not come up {where}: the image "{image}" cannot be pulled ({reason}).',
            recovery=Recovery.PERSON,
            recovers="Only if the image appears in its registry; otherwise correct it on the hub and create a new run.",
            fix="Check the tag, the registry and the pull secret; then create a new run, or roll back.",
            next=(
                "echelon rollback {placement}{n}",
                "kubectl --context {cluster} describe pod {pod} -n {namespace}",
            ),
            seen_as="pod: ErrImagePull, ImagePullBackOff",
        ),
        Cause(
            id="crash-loop",
            title="A container crashes again and again",
            sentence="{object} does not come up {where}: container {container} keeps crashing ({reason}).",
            recovery=Recovery.PERSON,
            recovers="Only if what it needs appears; a broken version needs a new one.",
            fix="Read the container's log; fix it, then create a new run, or roll back.",
            next=(
                "kubectl --context {cluster} logs {pod} -n {namespace} --previous",
                "echelon rollback {placement}{n}",
            ),
            seen_as="pod: CrashLoopBackOff",
        ),
        Cause(
            id="config-missing",
            title="A container's configuration is missing",
            sentence="{object} does not come up {where}: container {container} cannot be made ({reason}: {detail}).",
            recovery=Recovery.PERSON,
            recovers="Yes, when the missing ConfigMap or Secret is there.",
            fix="Place the ConfigMap or Secret that the pod names.",
            next=("kubectl --context {cluster} describe pod {pod} -n {namespace}",),
            seen_as="pod: CreateContainerConfigError",
        ),
        Cause(
            id="unschedulable",
            title="No node has room",
            sentence="{object} does not come up {where}: no node takes its pods ({detail}).",
            recovery=Recovery.YES,
            recovers="Yes, when nodes get room.",
            fix="Add nodes, or lower the requests.",
            next=("kubectl --context {cluster} describe pod {pod} -n {namespace}",),
            seen_as="pod: PodScheduled=False Unschedulable",
        ),
        Cause(
            id="pods-refused",
            title="The member refuses to create the pods",
            sentence="{object} does not come up {where}: its pods are refused ({detail}).",
            recovery=Recovery.PERSON,
            recovers="Yes, when the quota or the admission rule allows the pods.",
            fix="Raise the quota, or correct the pod template.",
            next=("kubectl --context {cluster} describe {kind_ref}",),
            seen_as="Deployment: ReplicaFailure=True FailedCreate",
        ),
        Cause(
            id="pods-not-ready",
            title="Pods run but are not ready",
            sentence="{object} does not come up {where}: its pods run but are not ready.",
            recovery=Recovery.YES,
            recovers="Yes, when their readiness probes succeed.",
            fix="Read the pod's log and its readiness probe.",
            next=("kubectl --context {cluster} logs {pod} -n {namespace}",),
            seen_as="pod: Ready=False ContainersNotReady",
        ),
        Cause(
            id="not-available",
            title="An object is not available yet",
            sentence="{object} is not available yet {where}.",
            recovery=Recovery.YES,
            recovers="Yes, if it only needs time; look at the object on the member to tell.",
            fix="Look at the object and its pods on the member.",
            next=(
                "kubectl --context {cluster} describe {kind_ref}",
                "kubectl --context {cluster} get pods{object_n}",
            ),
            seen_as="Available=False ManifestNotAvailableYet",
        ),
        Cause(
            id="in-progress",
            title="A cluster is still being updated",
            sentence="The update of {clusters} has been under way for {since}, and nothing is wrong so far.",
            recovery=Recovery.YES,
            recovers="Yes.",
            fix="Wait.",
            next=("echelon watch {run}{n}",),
        ),
    ),
)

WAITING = Group(
    title="The run waits",
    causes=(
        Cause(
            id="approval-not-counted",
            title="An approval does not count",
            sentence="The approval {approval} does not count: it was written for generation {observed}, and the "
            "request is at generation {generation}.",
            recovery=Recovery.PERSON,
            recovers="No. It has to be approved again, at the request's generation.",
            fix="`echelon approve` writes the right generation; with kubectl set observedGeneration yourself.",
            next=('echelon approve {run}/{stage}{n} -m "why"',),
            seen_as="Approved=True with observedGeneration: 0 while metadata.generation is 1",
        ),
        Cause(
            id="approval-refused",
            title="An approval was refused",
            sentence="Stage {stage} waits for approval {approval}, which somebody set to {status}: {detail}.",
            recovery=Recovery.PERSON,
            recovers="When it is approved, or the run is stopped.",
            fix="Talk to whoever refused; then approve, or stop the run.",
            next=('echelon approve {run}/{stage}{n} -m "why"', 'echelon stop {run}{n} -m "why"'),
            seen_as="Approved=False on the approval request",
        ),
        Cause(
            id="approval-open",
            title="A stage waits for approval",
            sentence="Run {run} has been waiting for {since} for an approval {side} stage {stage}.",
            recovery=Recovery.PERSON,
            recovers="When somebody approves.",
            fix="Look at what happens next, then approve.",
            next=('echelon approve {run}/{stage}{n} -m "why"',),
            seen_as="Not all before-stage tasks are completed, waiting for approval",
        ),
        Cause(
            id="timed-wait",
            title="A stage waits for time to pass",
            sentence="Run {run} waits after stage {stage} until {until}, as its strategy asks.",
            recovery=Recovery.YES,
            recovers="Yes, by time alone.",
            fix="Nothing to do.",
            next=("echelon watch {run}{n}",),
            seen_as="All clusters in the stage are updated, waiting for after-stage tasks to complete",
        ),
        Cause(
            id="not-started",
            title="The run was not told to start",
            sentence="Run {run} is planned but not started, because its state is Initialize.",
            recovery=Recovery.PERSON,
            recovers="When somebody starts it.",
            fix="Look at the plan, then start it.",
            next=(
                "echelon start {run}{n}",
                'kubectl patch {run_kind} {run}{n} --type merge -p \'{"spec":{"state":"Run"}}\'',
            ),
            seen_as="Initialized=True and nothing else",
        ),
        Cause(
            id="stopping",
            title="The run is stopping",
            sentence="Run {run} is stopping and waits for {count} cluster(s) that it had begun: {clusters}.",
            recovery=Recovery.YES,
            recovers="Yes, when those clusters have finished.",
            fix="Wait; clusters under way are never left half done.",
            next=("echelon watch {run}{n}",),
            seen_as="UpdateRunStopping",
        ),
        Cause(
            id="stopped",
            title="The run was stopped",
            sentence="Run {run} was stopped{detail}; {done} of {total} clusters are done.",
            recovery=Recovery.PERSON,
            recovers="When somebody resumes it.",
            fix="Resume it, or delete it and create another.",
            next=('echelon resume {run}{n} -m "why"',),
            seen_as="The update run has been stopped",
        ),
        Cause(
            id="scheduler-busy",
            title="The scheduler has not decided yet",
            sentence="Run {run} is not planned yet because the scheduler has not decided: {detail}.",
            recovery=Recovery.YES,
            recovers="Yes, when the scheduler is done; a placement with an error keeps it from deciding.",
            fix="Wait a moment; if it lasts, read the placement's Scheduled condition.",
            next=(_PLACEMENT,),
        ),
        Cause(
            id="engine-silent",
            title="Nobody has looked at the run",
            sentence="The hub agent has not looked at run {run}, which was created {since} ago.",
            recovery=Recovery.YES,
            recovers="Yes, when the hub agent runs.",
            fix="Start the hub agent; check that it holds the lease and serves this kind.",
            next=("echelon status",),
            seen_as="no conditions at all",
        ),
    ),
)

NOTICE = Group(
    title="What will hurt later",
    causes=(
        Cause(
            id="plan-outdated",
            title="The plan no longer holds",
            sentence="Run {run} would fail when it goes on, because its plan no longer holds: {detail}.",
            recovery=Recovery.NO,
            recovers="Only if what changed is changed back.",
            fix="Create a new run; it plans for what is there now.",
            next=(_AGAIN,),
        ),
        Cause(
            id="rival",
            title="Another run is active on the placement",
            sentence="Run {rival} is active on placement {placement} too, and the two can take clusters from each "
            "other.",
            recovery=Recovery.PERSON,
            recovers="When one of them ends.",
            fix="Stop the one you do not want.",
            next=('echelon stop {rival}{n} -m "why"',),
        ),
        Cause(
            id="deletion-blocked",
            title="Resources are not removed from a cluster",
            sentence="The delete stage waits for the resources of {clusters} to be removed.",
            recovery=Recovery.YES,
            recovers="Yes, when their works are gone and nothing holds the binding any more.",
            fix="Look for a finalizer that holds the cluster's binding, and for works that are not deleted.",
            next=("kubectl get {binding_kind}{n} -o yaml", "kubectl get works -n fleet-member-{cluster}"),
        ),
        Cause(
            id="concurrency-one",
            title="A percentage rounds down to one cluster",
            sentence="Stage {stage} updates one cluster at a time, because {percent} of {count} clusters rounds down "
            "to {rounded}.",
            recovery=Recovery.PERSON,
            recovers="It is not an error; it only takes longer.",
            fix="Set maxConcurrency to a number, or a larger percentage, in the strategy (for the next run).",
            next=(_STRATEGY,),
        ),
        Cause(
            id="no-run",
            title="Nothing rolls the placement out",
            sentence="Placement {placement} is scheduled on {count} cluster(s), but its strategy is External and no "
            "run rolls it out.",
            recovery=Recovery.PERSON,
            recovers="When a run is created and started.",
            fix="Create a staged update run for the placement.",
            next=(_AGAIN,),
            seen_as="RolloutControlledByExternalController",
        ),
    ),
)

GROUPS: tuple[Group, ...] = (FAILED, MEMBER, DELIVERY, WORKLOAD, WAITING, NOTICE)
CAUSES: Mapping[str, Cause] = {cause.id: cause for group in GROUPS for cause in group.causes}
BLAME: Mapping[str, int] = {id_: rank for rank, id_ in enumerate(CAUSES)}
