package apitest

import "k8s.io/apimachinery/pkg/types"

const (
	modified = "the object has been modified"
	fixed    = ": Forbidden: field is immutable when `immutable` is set"
	renamed  = "does not match the name on the URL"
	late     = `{"data":{"k":"late"},"metadata":{"resourceVersion":"$resourceVersion"}}`
)

func updateCases() []Case {
	return []Case{
		of("an update of an old version is a Conflict", "lost updates",
			create("ConfigMap/stale", ""), update("ConfigMap/stale", `{"data":{"k":"new"}}`),
			update("ConfigMap/stale", late).fails("409 Conflict", modified, ".details.kind = configmaps")),
		of("an update without a version needs a kind that allows it", "custom kinds do not",
			create("ConfigMap/free", ""), update("ConfigMap/free", `{"metadata":{"resourceVersion":null},"data":{"k":"new"}}`),
			create("Gadget/bound", ""),
			update("Gadget/bound", `{"metadata":{"resourceVersion":null}}`).fails("422 Invalid", "metadata.resourceVersion")),
		of("an update with another UID is a Conflict that names the precondition", "a name may belong to another object by now",
			create("ConfigMap/foreign", ""),
			update("ConfigMap/foreign", `{"metadata":{"uid":"`+foreign+`"}}`).fails("409 Conflict", "Precondition failed: UID in precondition")),
		of("an update that changes nothing keeps the version", "no write, no event",
			create("ConfigMap/same", ""), update("ConfigMap/same", ""), merge("ConfigMap/same", `{"data":{"k":"v"},"metadata":{"labels":null}}`),
			read("ConfigMap/same").shows(".metadata.resourceVersion = $resourceVersion")),
		of("only changes of the wanted state count as generations", "observedGeneration",
			create("Gadget/counted", ""), update("Gadget/counted", `{"metadata":{"labels":{"a":"b"}}}`).shows(".metadata.generation = 1"),
			updateStatus("Gadget/counted", `{"status":{"phase":"x"}}`).shows(".metadata.generation = 1"),
			update("Gadget/counted", `{"spec":{"size":2}}`).shows(".metadata.generation = 2"),
			update("Gadget/counted", `{"other":"x"}`).shows(".metadata.generation = 3"),
			update("Gadget/counted", `{"metadata":{"generation":9,"labels":null}}`).shows(".metadata.generation = 3")),
		of("without a status subresource every change outside metadata is a generation", "embedders' older CRDs",
			create("Gizmo/counted", `{"status":{"phase":"start"}}`).shows(".status.phase = start"),
			update("Gizmo/counted", `{"status":{"phase":"x"}}`).shows(".metadata.generation = 2"),
			updateStatus("Gizmo/counted", `{"status":{"phase":"y"}}`).fails("404 NotFound", "")),
		of("a write of the object leaves the status alone", "two writers, two endpoints",
			create("Gadget/main", ""),
			update("Gadget/main", `{"status":{"phase":"x"}}`).shows(".status.phase absent", ".metadata.resourceVersion = $resourceVersion"),
			merge("Gadget/main", `{"status":{"phase":"x"},"spec":{"size":5}}`).shows(".status.phase absent", ".metadata.generation = 2")),
		of("a write of the status leaves the rest alone", "two writers, two endpoints",
			create("Gadget/status", ""),
			updateStatus("Gadget/status", `{"metadata":{"labels":{"a":"b"},"finalizers":["example.com/f"]},"spec":{"size":9},
				"status":{"phase":"x"}}`).shows(".status.phase = x", ".spec.size = 1", ".metadata.labels absent", ".metadata.finalizers absent",
				".metadata.generation = 1")),
		of("a status write checks version and UID like any other", "stale status writes",
			create("Gadget/a", ""), updateStatus("Gadget/a", `{"status":{"phase":"x"}}`),
			updateStatus("Gadget/a", `{"metadata":{"resourceVersion":"$resourceVersion"},"status":{"phase":"y"}}`).fails("409 Conflict", modified),
			updateStatus("Gadget/a", `{"metadata":{"uid":"`+foreign+`"}}`).fails("409 Conflict", "UID in precondition")),
		of("a pod's status is the server's at creation", "pods start Pending",
			pod("Pod/new", `{"spec":{"schedulerName":"none"},"status":{"phase":"Running"}}`).shows(".status.phase = Pending",
				".metadata.generation = 1", ".spec.terminationGracePeriodSeconds = 30", ".spec.restartPolicy = Always")),
	}
}

func fixedCases() []Case {
	const others = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`"
	images := func(document string) step { return patch("Pod/bound", types.StrategicMergePatchType, document) }
	return []Case{
		of("an object cannot be renamed", "the URL decides",
			create("ConfigMap/named", ""), merge("ConfigMap/named", `{"metadata":{"name":"other"}}`).fails("400 BadRequest", renamed)),
		of("an update cannot set a deletion timestamp", "only a delete can",
			create("ConfigMap/a", ""),
			update("ConfigMap/a", `{"metadata":{"deletionTimestamp":"2030-01-01T00:00:00Z"}}`).fails("422 Invalid", "metadata.deletionTimestamp")),
		of("an immutable ConfigMap or Secret keeps its data and stays immutable", "rotation makes new ones",
			immutable("ConfigMap/fixed"), immutable("Secret/fixed"),
			merge("ConfigMap/fixed", `{"binaryData":{"b":"eA=="}}`).forbidden("binaryData"+fixed)),
		of("a Secret keeps its type", "bootstrap data and kubeconfigs are told apart by it",
			create("Secret/typed", ""), merge("Secret/typed", `{"type":"example.com/other"}`).invalid("type: Invalid value", "FieldValueInvalid")),
		of("a pod's spec does not change but for images, and for tolerations that are added", "a pod never moves",
			cordoned(), running("Pod/bound"), images(`{"spec":{"nodeName":"$ns-n-other"}}`).forbidden(others),
			images(`{"spec":{"nodeName":null}}`).forbidden(others),
			images(`{"spec":{"terminationGracePeriodSeconds":7}}`).forbidden(others),
			images(`{"spec":{"containers":[{"name":"d","image":"example.com/image:1"}]}}`).forbidden(
				"spec.containers: Forbidden: pod updates may not add or remove containers"),
			images(`{"spec":{"containers":[{"name":"c","image":"example.com/image:2"}]}}`),
			images(`{"spec":{"tolerations":[{"operator":"Exists"},{"key":"example.com/a","operator":"Exists"}]}}`).shows(
				".spec.tolerations[1].key = example.com/a", ".spec.containers[*].image = example.com/image:2")),
		of("system fields survive an update that leaves them out", "creation time and UID",
			create("ConfigMap/bare", ""),
			update("ConfigMap/bare", `{"metadata":{"uid":null,"resourceVersion":null,"creationTimestamp":null,"managedFields":null},
				"data":{"k":"new"}}`).shows(".metadata.uid = $uid", ".metadata.creationTimestamp = $creationTimestamp", ".data.k = new")),
	}
}

// immutable makes an object immutable and tries to change it.
func immutable(ref string) step {
	return all(create(ref, ""), merge(ref, `{"immutable":true}`),
		merge(ref, `{"data":{"k":null}}`).forbidden("data"+fixed),
		merge(ref, `{"immutable":false}`).forbidden("immutable"+fixed),
		merge(ref, `{"metadata":{"labels":{"a":"b"}}}`))
}
