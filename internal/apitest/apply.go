package apitest

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// conflicts expects the refusal of an apply because of one field of another manager.
func (s step) conflicts(field, manager string) step {
	return s.fails("409 Conflict", "Apply failed with 1 conflict: conflict with "+manager,
		`.details.causes[?(@.reason=="FieldManagerConflict")].field = `+field)
}

func applyCases() []Case {
	return []Case{
		of("an apply creates a missing object, and its manager owns its fields", "declarative clients have no create",
			apply("Gauge/made", "first", `{"spec":{"size":1,"parts":[{"name":"a"}]}}`).shows(
				".metadata.uid present", ".metadata.generation = 1", `.spec = {"parts":[{"name":"a"}],"size":1}`,
				`owners = first/Apply/ {"f:spec":{"f:parts":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}}},"f:size":{}}}`,
				".metadata.managedFields[*].apiVersion = "+customGroup+"/v1", ".metadata.managedFields[*].time present")),
		of("a field that another manager applied is a conflict, which force takes", "two controllers, one field",
			apply("Gauge/shared", "first", `{"spec":{"size":1,"unit":"m"}}`),
			apply("Gauge/shared", "second", `{"spec":{"size":2}}`).conflicts(".spec.size", `"first": .spec.size`),
			apply("Gauge/shared", "second", `{"spec":{"size":1}}`), // with the same value
			apply("Gauge/shared", "first", `{"spec":{"size":3,"unit":"m"}}`).conflicts(".spec.size", `"second": .spec.size`),
			apply("Gauge/shared", "second", `{"spec":{"size":2}}`, client.ForceOwnership).shows(`.spec = {"size":2,"unit":"m"}`,
				`owners = first/Apply/ {"f:spec":{"f:unit":{}}}; second/Apply/ {"f:spec":{"f:size":{}}}`)),
		of("a field that its last owner leaves out is removed", "the point of applying",
			apply("Gauge/fewer", "first", `{"spec":{"size":1,"unit":"m","names":{"a":{"name":"x"},"b":{"name":"y"}},
				"parts":[{"name":"a"},{"name":"b"}]}}`),
			apply("Gauge/fewer", "second", `{"spec":{"unit":"m","parts":[{"name":"b"}]}}`),
			apply("Gauge/fewer", "first", `{"spec":{"size":1,"names":{"b":{"name":"y"}}}}`).shows(
				`.spec = {"names":{"b":{"name":"y"}},"parts":[{"name":"b"}],"size":1,"unit":"m"}`),
			apply("Gauge/fewer", "second", `{"spec":{"parts":[]}}`).shows(`.spec = {"names":{"b":{"name":"y"}},"size":1}`)),
		of("an apply that changes nothing keeps the version", "no write, no event",
			apply("Gauge/same", "first", `{"spec":{"size":1}}`),
			apply("Gauge/same", "first", `{"spec":{"size":1}}`).shows(".metadata.resourceVersion = $resourceVersion")),
		of("a field that an update wrote is a conflict, unless the value is the same", "beside clients that do not apply",
			create("ConfigMap/written", ""), apply("ConfigMap/written", "first", `{"data":{"k":"new"}}`).conflicts(".data.k", ""),
			apply("ConfigMap/written", "first", `{"data":{"k":"v","more":"w"}}`).shows(`.data = {"k":"v","more":"w"}`),
			apply("ConfigMap/written", "first", `{"data":{"more":"w"}}`).shows(`.data = {"k":"v","more":"w"}`),
			apply("ConfigMap/written", "first", `{"data":{"k":"new"}}`, client.ForceOwnership).shows(`.data = {"k":"new"}`)),
		of("an update takes over the fields that it changes", "its next apply must notice",
			apply("Gauge/a", "first", `{"spec":{"size":1,"unit":"m"}}`), update("Gauge/a", `{"spec":{"size":2}}`, client.FieldOwner("other")).shows(
				`owners = first/Apply/ {"f:spec":{"f:unit":{}}}; other/Update/ {"f:spec":{"f:size":{}}}`),
			apply("Gauge/a", "first", `{"spec":{"size":1,"unit":"m"}}`).conflicts(".spec.size", `"other" using `+customGroup+"/v1: .spec.size"),
			// A client without managed fields does not remove them.
			update("Gauge/a", `{"metadata":{"managedFields":null},"spec":{"unit":"cm"}}`, client.FieldOwner("other")).shows(
				`owners = other/Update/ {"f:spec":{"f:size":{},"f:unit":{}}}`)),
	}
}

func sharedCases() []Case {
	const foreignUID = `{"metadata":{"uid":"` + foreign + `"},"spec":{"size":7}}`
	return []Case{
		of("lists merge by key, as sets or not at all, as their schema says", "two managers, one list",
			apply("Gauge/lists", "first", `{"spec":{"parts":[{"name":"a","unit":"m"}],"tags":["x"],"words":["one"]}}`),
			apply("Gauge/lists", "second", `{"spec":{"parts":[{"name":"b"}],"tags":["y","x"]}}`).shows(
				`.spec = {"parts":[{"name":"a","unit":"m"},{"name":"b"}],"tags":["y","x"],"words":["one"]}`),
			apply("Gauge/lists", "third", `{"spec":{"words":["two"]}}`).conflicts(".spec.words", `"first": .spec.words`),
			apply("Gauge/lists", "first", `{"spec":{"words":["one"]}}`).shows(`.spec = {"parts":[{"name":"b"}],"tags":["y","x"],"words":["one"]}`)),
		of("metadata of a kind without a schema merges like any", "finalizers of two controllers",
			create("Gadget/held", ""), apply("Gadget/held", "first", `{"metadata":{"labels":{"first":"x"},"finalizers":["example.com/a"]}}`),
			apply("Gadget/held", "second", `{"metadata":{"labels":{"second":"x"},"finalizers":["example.com/b"]}}`).shows(
				`.metadata.finalizers = ["example.com/a","example.com/b"]`, `.metadata.labels = {"first":"x","second":"x"}`),
			apply("Gadget/held", "first", `{"metadata":{"labels":{"first":"x"},"finalizers":["example.com/c"]}}`).shows(
				`.metadata.finalizers ~ ^\["example.com/(b","example.com/c|c","example.com/b)"\]$`),
			merge("Gadget/held", free)),
		of("containers merge by name", "built-in kinds have a schema",
			create("Deployment/web", `{"spec":{"replicas":0}}`),
			apply("Deployment/web", "second", `{"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"A","value":"1"}]}]}}}}`).shows(
				".spec.template.spec.containers[*].image = example.com/image:1", ".spec.template.spec.containers[*].env[*].name = A")),
		of("an apply of the status leaves the rest alone, and the other way round", "two writers, two endpoints",
			apply("Gauge/status", "first", `{"spec":{"size":1},"status":{"phase":"x"}}`).shows(".status.phase absent"),
			patchStatus("Gauge/status", types.ApplyPatchType, `{"apiVersion":"`+customGroup+`/v1","kind":"Gauge","metadata":{"name":"status"},
				"spec":{"size":2},"status":{"phase":"Running"}}`, client.FieldOwner("first")).shows(".status.phase = Running", `.spec = {"size":1}`,
				`owners = first/Apply/ {"f:spec":{"f:size":{}}}; first/Apply/status {"f:status":{"f:phase":{}}}`),
			apply("Gauge/status", "first", `{"spec":{"size":3}}`).shows(".status.phase = Running", `.spec = {"size":3}`)),
		of("an apply guards with UID and version", "it must not revive what is gone",
			apply("Gauge/guarded", "first", foreignUID).fails("409 Conflict", "uid mismatch"),
			apply("Gauge/guarded", "first", `{"spec":{"size":1}}`), apply("Gauge/guarded", "first", `{"spec":{"size":2}}`),
			apply("Gauge/guarded", "first", `{"metadata":{"resourceVersion":"$resourceVersion"},"spec":{"size":7}}`).fails("409 Conflict", modified),
			apply("Gauge/guarded", "first", foreignUID).fails("422 Invalid", "metadata.uid"),
			apply("Gauge/guarded", "first", `{"metadata":{"uid":"$uid"},"spec":{"size":7}}`),
			apply("Gauge/guarded", "first", `{"metadata":{"name":"other"},"spec":{"size":7}}`).fails("400 BadRequest", renamed)),
		of("an apply needs a manager, and only an apply can be forced", "ownership without an owner",
			apply("Gauge/a", "", `{"spec":{"size":1}}`).invalid("fieldManager: Required value: is required for apply patch", "FieldValueRequired"),
			patch("Gauge/a", types.MergePatchType, `{}`, client.ForceOwnership).forbidden(
				"force: Forbidden: may not be specified for non-apply patch"),
			patch("Gauge/a", types.ApplyPatchType, `{"spec":`, client.FieldOwner("first")).fails("400 BadRequest", "")),
		of("an apply of a field that the schema does not know is refused", "an applier would own nothing",
			apply("Gauge/unknown", "first", `{"spec":{"unknown":1}}`).fails("500", ".spec.unknown: field not declared in schema")),
		of("a dry run of an apply stores nothing", "previews",
			apply("Gauge/dry", "first", `{"spec":{"size":1}}`, client.DryRunAll), read("Gauge/dry").fails("404 NotFound", "")),
	}
}
