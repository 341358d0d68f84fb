package apitest

import "sigs.k8s.io/controller-runtime/pkg/client"

func deleteCases() []Case {
	const unsupported = ".details.causes[*].reason has FieldValueNotSupported"
	return []Case{
		of("a delete with another UID is a Conflict and deletes nothing", "every destructive call carries a UID",
			create("ConfigMap/kept", ""),
			remove("ConfigMap/kept", `{"preconditions":{"uid":"`+foreign+`"}}`).fails("409 Conflict", "the UID in the precondition"),
			read("ConfigMap/kept"), remove("ConfigMap/kept", `{"preconditions":{"uid":"$uid"}}`), gone("ConfigMap/kept")),
		of("a delete with an old version is a Conflict", "decided on what was read",
			create("ConfigMap/kept", ""), update("ConfigMap/kept", `{"data":{"k":"new"}}`),
			remove("ConfigMap/kept", `{"preconditions":{"resourceVersion":"$resourceVersion"}}`).
				fails("409 Conflict", "the ResourceVersion in the precondition")),
		of("an object with finalizers stays until the last one is removed", "clean-up comes first",
			create("Gadget/held", ""), merge("Gadget/held", `{"metadata":{"finalizers":["example.com/a","example.com/b"]}}`),
			remove("Gadget/held", ""), remove("Gadget/held", ""),
			read("Gadget/held").shows(".metadata.deletionTimestamp present", ".metadata.deletionGracePeriodSeconds = 0", ".metadata.generation = 2"),
			merge("Gadget/held", `{"metadata":{"finalizers":["example.com/b"]}}`), read("Gadget/held"), merge("Gadget/held", free),
			read("Gadget/held").fails("404 NotFound", "")),
		of("an object that is being deleted takes no new finalizer", "a finalizer that comes late is no protection",
			create("ConfigMap/held", held), remove("ConfigMap/held", ""),
			merge("ConfigMap/held", `{"metadata":{"finalizers":["example.com/a","example.com/b"]}}`).
				forbidden("no new finalizers can be added"),
			merge("ConfigMap/held", free)),
		of("an update that removes the last finalizer removes the object", "the answer has the version from before",
			create("ConfigMap/held", held), merge("ConfigMap/held", watched), remove("ConfigMap/held", ""),
			list("ConfigMap", `{"labelSelector":"watched"}`), // it is ConfigMap/0 there, with a version of its own
			update("ConfigMap/0", free).shows(".metadata.resourceVersion = $resourceVersion", ".metadata.deletionTimestamp present",
				".metadata.finalizers absent"),
			read("ConfigMap/held").fails("404 NotFound", "")),
		of("a pod without a node goes at once", "there is no kubelet to wait for",
			unbound("Pod/unbound"), remove("Pod/unbound", ""), read("Pod/unbound").fails("404 NotFound", "")),
		of("a bound pod gets its grace period", "the kubelet ends it",
			cordoned(), pod("Pod/bound", `{"metadata":{"finalizers":["example.com/a"]},"spec":{"nodeName":"$ns-n"}}`),
			remove("Pod/bound", `{"gracePeriodSeconds":20}`), read("Pod/bound").shows(".metadata.deletionTimestamp present"),
			merge("Pod/bound", free), gone("Pod/bound")),
		of("deleting all of a selection deletes only it", "clean-up by label",
			create("ConfigMap/a", `{"metadata":{"labels":{"pick":"yes"}}}`), create("ConfigMap/b", `{"metadata":{"labels":{"pick":"yes"}}}`),
			create("ConfigMap/c", `{"metadata":{"labels":{"pick":"no"}}}`), removeAll("ConfigMap", client.MatchingLabels{"pick": "yes"}),
			list("ConfigMap", `{"labelSelector":"pick"}`).shows(".items[*].metadata.name = c")),
		of("a dry run of a delete deletes nothing", "previews",
			create("ConfigMap/kept", ""), create("ConfigMap/held", held),
			remove("ConfigMap/kept", `{"dryRun":["All"]}`), remove("ConfigMap/held", `{"dryRun":["All"]}`), removeAll("ConfigMap", client.DryRunAll),
			read("ConfigMap/kept"), read("ConfigMap/held").shows(".metadata.deletionTimestamp absent"),
			merge("ConfigMap/held", free)),
		of("a delete refuses options that it does not know", "a typo is no dry run",
			create("ConfigMap/kept", ""), remove("ConfigMap/kept", `{"dryRun":["Some"]}`).fails("422 Invalid", "", unsupported),
			remove("ConfigMap/kept", `{"propagationPolicy":"Sideways"}`).fails("422 Invalid", "", unsupported),
			read("ConfigMap/kept")),
	}
}
