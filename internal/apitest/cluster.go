package apitest

import "sigs.k8s.io/controller-runtime/pkg/client"

const (
	ready    = `.status.conditions[?(@.type=="Ready")].status = True`
	notReady = "node.kubernetes.io/not-ready"
)

// node creates a Node that kwok manages, if it runs, and waits until it is Ready and untainted.
func node(ref, fields string) step {
	return all(create(ref, fields), await(ref, ready, `.spec.taints[?(@.key=="`+notReady+`")] absent`))
}

// cordoned makes the Node n, on which only pods run that are bound to it by name.
func cordoned() step { return node("Node/n", `{"spec":{"unschedulable":true}}`) }

// pod creates a pod. It tries again while the namespace's service account is being made.
func pod(ref, fields string) step { return eventually(create(ref, fields)) }

// running creates a pod on the Node n and waits until it is Ready.
func running(ref string) step {
	return all(pod(ref, `{"spec":{"nodeName":"$ns-n","tolerations":[{"operator":"Exists"}]}}`), await(ref, ready))
}

// unbound creates a pod for which there is no Node.
func unbound(ref string) step { return pod(ref, `{"spec":{"nodeSelector":{"conformance":"nowhere"}}}`) }

// budget creates a budget of the pods.
func budget(limit string) step { return create("PodDisruptionBudget/budget", `{"spec":{`+limit+`}}`) }

// observed waits until the status of the budget has a generation and a number of healthy pods.
func observed(generation, healthy string) step {
	return await("PodDisruptionBudget/budget", ".status.observedGeneration = "+generation, ".status.currentHealthy = "+healthy)
}

func clusterCases() []Case {
	const elsewhere = `{"metadata":{"namespace":"$ns-x"}}`
	const terminating = ".details.causes[*].reason has NamespaceTerminating"
	// scaled makes a Deployment of three pods.
	scaled := all(node("Node/n", ""), create("Deployment/web", `{"spec":{"replicas":3}}`))
	return []Case{
		of("a percentage counts what the controllers want, rounded up", "budgets of half a Deployment",
			scaled, budget(`"minAvailable":"50%"`),
			observed("1", "3").shows(".status.expectedPods = 3", ".status.desiredHealthy = 2", ".status.disruptionsAllowed = 1")),
		of("maxUnavailable allows that many disruptions", "the other form",
			scaled, budget(`"maxUnavailable":2`),
			observed("1", "3").shows(".status.expectedPods = 3", ".status.desiredHealthy = 1", ".status.disruptionsAllowed = 2")),
		of("a budget without pods allows nothing", "safe before its first pod",
			budget(`"minAvailable":0`).shows(".metadata.generation = 1"),
			observed("1", "0").shows(".status.disruptionsAllowed = 0")),
		of("a Node's provider ID is set once", "identity",
			cordoned(), merge("Node/n", `{"spec":{"providerID":"test://one"}}`),
			merge("Node/n", `{"spec":{"providerID":"test://two"}}`).fails("422 Invalid", "spec.providerID"),
			merge("Node/n", `{"spec":{"providerID":null}}`).fails("422 Invalid", "spec.providerID")),
		of("a new Node is tainted until it is ready, and counts no generations", "no pod before it is ready",
			create("Node/n", "", client.DryRunAll).shows(".spec.taints[*].key = "+notReady, ".metadata.generation absent")),
		of("pods are selected by the Node they are on", "one scoped list per drain",
			cordoned(), running("Pod/here"), unbound("Pod/elsewhere"),
			list("Pod:all", `{"fieldSelector":"spec.nodeName=$ns-n"}`).shows(".items[*].metadata.name = here"),
			list("Pod:all", `{"fieldSelector":"spec.none=x"}`).fails("400 BadRequest", "field label not supported")),
		of("a pod is bound once", "the scheduler's write",
			cordoned(), pod("Pod/bound", `{"spec":{"schedulerName":"none"}}`), bind("Pod/bound", "$ns-n"),
			read("Pod/bound").shows(".spec.nodeName = $ns-n"),
			bind("Pod/bound", "$ns-n").fails("409 Conflict", "is already assigned to node")),
		// A drain leaves only pods that are being deleted. Others are removed too, but a real cluster needs longer for them.
		of("the pods of a deleted Node are removed", "Node deletion lets pods end",
			cordoned(), running("Pod/left"), merge("Pod/left", held), remove("Pod/left", ""), remove("Node/n", ""), merge("Pod/left", free),
			gone("Node/n")),
		of("a terminating namespace accepts no new object and is removed when it is empty", "evictions there are refused, deletes are not",
			create("Namespace/x", ""), create("ConfigMap/held", `{"metadata":{"namespace":"$ns-x","finalizers":["example.com/a"]}}`),
			pod("Pod/any", elsewhere), remove("Namespace/x", ""), read("Namespace/x").shows(".status.phase = Terminating"),
			create("ConfigMap/late", elsewhere).fails("403 Forbidden", "", terminating),
			evict("Pod/any", "").fails("403 Forbidden", "", terminating),
			await("ConfigMap/held", ".metadata.deletionTimestamp present"), merge("ConfigMap/held", free), gone("Namespace/x")),
	}
}
