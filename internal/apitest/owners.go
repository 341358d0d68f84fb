package apitest

import "k8s.io/apimachinery/pkg/types"

func ownerCases() []Case {
	const (
		first   = `{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"${ConfigMap/owner}","blockOwnerDeletion":true}`
		second  = `{"apiVersion":"v1","kind":"ConfigMap","name":"other","uid":"${ConfigMap/other}","blockOwnerDeletion":true}`
		dead    = `{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"` + foreign + `","blockOwnerDeletion":true}`
		release = `[{"op":"test","path":"/metadata/finalizers/0","value":"example.com/a"},{"op":"remove","path":"/metadata/finalizers/0"}]`
		owner   = "ConfigMap/owner"
		child   = "ConfigMap/child"
	)
	owned := func(references string) step {
		return create(child, `{"metadata":{"ownerReferences":[`+references+`]}}`)
	}
	return []Case{
		of("the garbage collector removes the dependents of a deleted owner", "a Machine's objects go with it",
			create(owner, ""), owned(first), remove(owner, `{"propagationPolicy":"Background"}`), gone(child)),
		of("an owner of another UID counts as gone", "restored objects lose their dependents",
			create(owner, ""), owned(dead), gone(child), read(owner)),
		of("an object with one living owner stays and loses the dead reference", "shared dependents",
			create(owner, ""), create("ConfigMap/other", ""), owned(first+","+second), remove(owner, ""),
			await(child, ".metadata.ownerReferences[*].uid = ${ConfigMap/other}")),
		of("orphan deletion keeps the dependents", "sets may be replaced",
			create(owner, ""), owned(first), remove(owner, `{"propagationPolicy":"Orphan"}`), gone(owner),
			read(child).shows(".metadata.ownerReferences absent")),
		of("foreground deletion keeps the owner until blocking dependents are gone", "clean-up in order",
			create(owner, ""), owned(first), merge(child, held), remove(owner, `{"propagationPolicy":"Foreground"}`),
			await(child, ".metadata.deletionTimestamp present"), read(owner).shows(`.metadata.finalizers = ["foregroundDeletion"]`),
			patch(child, types.JSONPatchType, release), gone(child), gone(owner)),
		of("deleting a Deployment removes its ReplicaSet and pods", "two generations of dependents",
			create("Deployment/web", ""), eventually(list("Pod", "").shows(".items[*].metadata.ownerReferences[*].kind ~ ^(ReplicaSet ?){2}$")),
			list("ReplicaSet", "").shows(".items[*].metadata.ownerReferences[*].name = web"),
			remove("Deployment/web", `{"propagationPolicy":"Background"}`), eventually(list("Pod", "").shows(".items[*].metadata.name absent"))),
	}
}
