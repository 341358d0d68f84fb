package apitest

import "k8s.io/apimachinery/pkg/types"

func evictionCases() []Case {
	return []Case{
		of("an eviction without a budget deletes the pod gracefully and says why", "the ordinary case",
			cordoned(), running("Pod/free"), merge("Pod/free", held), evict("Pod/free", `{"preconditions":{"uid":"$uid"}}`),
			read("Pod/free").shows(".metadata.deletionTimestamp present",
				`.status.conditions[?(@.type=="DisruptionTarget")]['status','reason'] = True EvictionByEvictionAPI`),
			evict("Pod/free", ""), // again, while it terminates
			merge("Pod/free", free), gone("Pod/free")),
		of("evicting what is gone is NotFound of the pod", "done",
			evict("Pod/missing", "").fails("404 NotFound", `pods "missing" not found`, ".details.kind = pods")),
		of("an eviction with another UID is a Conflict", "the successor of the same name must live",
			cordoned(), running("Pod/kept"),
			evict("Pod/kept", `{"preconditions":{"uid":"`+foreign+`"}}`).fails("409 Conflict", "the UID in the precondition"),
			read("Pod/kept").shows(".metadata.deletionTimestamp absent")),
		of("a spent budget answers 429 with a cause that names budget and counts", "who blocks and why",
			cordoned(), running("Pod/a"), budget(`"minAvailable":1`), observed("1", "1"),
			evict("Pod/a", "").spent("The disruption budget budget needs 1 healthy pods and has 1 currently"),
			read("Pod/a").shows(".metadata.deletionTimestamp absent")),
		of("two budgets answer 500 without a reason", "permanent until edited",
			cordoned(), running("Pod/a"), budget(`"minAvailable":0`), observed("1", "1"),
			create("PodDisruptionBudget/other", `{"spec":{"minAvailable":0}}`), eventually(evict("Pod/a", `{"dryRun":["All"]}`).fails("500", "")),
			evict("Pod/a", "").fails("500", "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")),
		of("a pending pod is evicted whatever its budget says", "it serves no traffic",
			budget(`"minAvailable":1`), unbound("Pod/pending"), observed("1", "0"), evict("Pod/pending", ""), gone("Pod/pending")),
		of("a pod that is not ready follows the budget's policy", "crash loops must not block",
			cordoned(), running("Pod/a"), budget(`"minAvailable":1`), observed("1", "1"),
			patchStatus("Pod/a", types.StrategicMergePatchType, `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`),
			observed("1", "0"), evict("Pod/a", "").spent("needs 1 healthy pods and has 0 currently"),
			merge("PodDisruptionBudget/budget", `{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}`),
			observed("2", "0"), eventually(evict("Pod/a", "")), gone("Pod/a")),
		of("an allowed eviction is counted at once", "two evictions must not share one allowance",
			cordoned(), running("Pod/a"), running("Pod/b"), budget(`"minAvailable":1`), observed("1", "2").shows(".status.disruptionsAllowed = 1"),
			evict("Pod/a", ""),
			evict("Pod/b", "").spent("The disruption budget budget "), // the counts depend on whether they were computed again in between
			gone("Pod/a"), observed("1", "1").shows(".status.disruptionsAllowed = 0")),
		of("a budget opens when the replacement is ready elsewhere", "how drains end",
			node("Node/old", ""), create("Deployment/web", ""), budget(`"minAvailable":1`), observed("1", "2"),
			merge("Node/old", `{"spec":{"unschedulable":true}}`),
			list("Pod", `{"fieldSelector":"spec.nodeName=$ns-old"}`).shows(".items[*].spec.nodeName = $ns-old $ns-old"),
			evict("Pod/0", ""), gone("Pod/0"), observed("1", "1"), evict("Pod/1", "").spent("needs 1 healthy pods and has 1 currently"),
			node("Node/new", ""), observed("1", "2"), evict("Pod/1", ""), gone("Pod/1")),
		of("a dry run evicts nothing and costs nothing", "previews",
			cordoned(), running("Pod/a"), budget(`"minAvailable":0`), observed("1", "1"), evict("Pod/a", `{"dryRun":["All"]}`),
			read("Pod/a").shows(".metadata.deletionTimestamp absent"),
			read("PodDisruptionBudget/budget").shows(".status.disruptedPods absent")),
	}
}

// spent expects the refusal of an eviction that a budget forbids.
func (s step) spent(text string) step {
	return s.fails("429 TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.",
		`.details.causes[?(@.reason=="DisruptionBudget")].message has `+text)
}
