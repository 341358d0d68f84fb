package apitest

import "sigs.k8s.io/controller-runtime/pkg/client"

func createCases() []Case {
	generated := create("ConfigMap/", `{"metadata":{"generateName":"made-","labels":{"made":"yes"}}}`)
	return []Case{
		of("a new object gets UID, version, time and generation from the server", "identity and staleness rest on them",
			create("Gadget/one", `{"metadata":{"uid":"`+foreign+`","generation":7},"status":{"phase":"mine"}}`).shows(
				".metadata.uid ~ ^.{36}$", ".metadata.uid != "+foreign, ".metadata.resourceVersion present",
				".metadata.creationTimestamp present", ".metadata.generation = 1", ".status absent")),
		of("generateName makes different names", "sets create pods that way",
			generated, generated, generated, generated, generated,
			list("ConfigMap", `{"labelSelector":"made"}`).shows(`.items[*].metadata.name ~ ^(made-\w{5} ){4}made-\w{5}$`)),
		of("creating a name again is AlreadyExists with details", "creates are repeated after lost answers",
			create("ConfigMap/twice", ""),
			create("ConfigMap/twice", "").fails("409 AlreadyExists", `configmaps "twice" already exists`, ".details.kind = configmaps")),
		of("reading what is missing is NotFound with details", "gone is decided on it",
			read("ConfigMap/none").fails("404 NotFound", `configmaps "none" not found`, ".details.name = none", ".details.kind = configmaps"),
			update("ConfigMap/none", "").fails("404 NotFound", "", ".details.kind = configmaps"),
			remove("ConfigMap/none", "").fails("404 NotFound", "", ".details.kind = configmaps")),
		of("creating in a missing namespace is NotFound of the namespace", "the details tell both kinds of NotFound apart",
			create("ConfigMap/one", `{"metadata":{"namespace":"$ns-missing"}}`).fails("404 NotFound", "", ".details.kind = namespaces")),
		of("a dry run stores nothing", "previews use it",
			create("ConfigMap/dry", "", client.DryRunAll), read("ConfigMap/dry").fails("404 NotFound", "")),
		of("a bad name is Invalid", "generated names must be checked before",
			create("ConfigMap/Not_A_Name", "").invalid("metadata.name", "FieldValueInvalid")),
		of("stringData of a Secret becomes data", "bootstrap data is written that way",
			create("Secret/s", `{"data":null,"stringData":{"value":"data"}}`),
			read("Secret/s").shows(`.data = {"value":"ZGF0YQ=="}`, ".type = Opaque", ".stringData absent")),
		of("typed, unstructured and metadata clients see one object", "an embedder may use any of them",
			create("ConfigMap/seen", `{"metadata":{"labels":{"a":"b"}}}`),
			read("ConfigMap/seen:unstructured").shows(".metadata.uid = $uid", ".data.k = v"),
			read("ConfigMap/seen:metadata").shows(".metadata.uid = $uid"),
			list("ConfigMap", `{"labelSelector":"a=b"}`).shows(".items[*].metadata.uid = ${ConfigMap/seen}", ".items[*].kind absent"),
			list("ConfigMap:metadata", `{"labelSelector":"a=b"}`).shows(".items[*].metadata.uid = ${ConfigMap/seen}")),
	}
}
