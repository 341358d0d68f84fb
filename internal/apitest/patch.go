package apitest

import "k8s.io/apimachinery/pkg/types"

func patchCases() []Case {
	const foreignUID = `{"metadata":{"uid":"` + foreign + `"},"status":{"phase":"x"},"spec":{"size":2}}`
	tested := func(document string) step { return patch("ConfigMap/tested", types.JSONPatchType, document) }
	return []Case{
		of("a merge patch removes with null and leaves the rest", "minimal documents",
			create("ConfigMap/merged", `{"data":{"k":null,"a":"1","b":"2"}}`), merge("ConfigMap/merged", `{"data":{"a":null,"c":"3"}}`),
			read("ConfigMap/merged").shows(`.data = {"b":"2","c":"3"}`)),
		of("a patch with an old version is a Conflict", "patches that replace lists carry it",
			create("ConfigMap/stale", ""), merge("ConfigMap/stale", `{"data":{"k":"new"},"metadata":{"resourceVersion":"$resourceVersion"}}`),
			merge("ConfigMap/stale", late).fails("409 Conflict", modified)),
		of("a merge patch with another UID is Invalid", "it guards against a successor of the same name",
			create("Gadget/foreign", ""), merge("Gadget/foreign", `{"metadata":{"uid":"$uid"},"spec":{"size":3}}`),
			merge("Gadget/foreign", foreignUID).invalid("metadata.uid", "FieldValueInvalid"),
			remove("Gadget/foreign", ""), merge("Gadget/foreign", foreignUID).fails("404 NotFound", "")),
		of("a JSON patch whose test fails is Invalid without causes and changes nothing", "Node patches test what they saw",
			create("ConfigMap/tested", ""),
			tested(`[{"op":"test","path":"/data/k","value":"other"},{"op":"replace","path":"/data/k","value":"new"}]`).
				fails("422 Invalid", "", ".details.causes absent"),
			read("ConfigMap/tested").shows(".metadata.resourceVersion = $resourceVersion"),
			tested(`[{"op":"test","path":"/metadata/uid","value":"$uid"},{"op":"replace","path":"/data/k","value":"new"}]`).shows(".data.k = new")),
		of("a JSON patch test of null fails on an absent key only where the library says so", "taints may be absent",
			create("ConfigMap/tested", ""), tested(`[{"op":"test","path":"/data/none","value":null},{"op":"add","path":"/data/none","value":"x"}]`),
			tested(`[{"op":"test","path":"/data/k","value":null}]`).fails("422 Invalid", ""),
			tested(`[{"op":"test","path":"/metadata/annotations/none","value":null}]`).fails("422 Invalid", "")),
		of("a malformed JSON patch is BadRequest", "our bug, not the user's",
			create("ConfigMap/tested", ""), tested(`{"op":"test"}`).fails("400 BadRequest", "")),
		of("a strategic merge patch merges lists by key", "built-in kinds have it",
			pod("Pod/two", ""), patch("Pod/two", types.StrategicMergePatchType,
				`{"spec":{"containers":[{"name":"c","image":"example.com/image:2"}]},"metadata":{"uid":"$uid"}}`).shows(
				".spec.containers[*].image = example.com/image:2")),
		of("a custom kind has no strategic merge patch", "unsupported media type",
			create("Gadget/plain", ""),
			patch("Gadget/plain", types.StrategicMergePatchType, `{"spec":{"size":2}}`).fails("415 UnsupportedMediaType", "")),
	}
}
