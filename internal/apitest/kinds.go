package apitest

import "k8s.io/apimachinery/pkg/types"

func kindCases() []Case {
	const kept = `"names":{"one":{"name":"a"}},"parts":[{"name":"a"}],"size":1`
	return []Case{
		of("a custom kind is unknown until it is defined, and after", "references to missing kinds",
			create("Thing/one", "").fails("no match", ""),
			read("Thing/one").fails("no match", ""),
			define("Thing"), create("Thing/one", ""), remove("CustomResourceDefinition/Thing", ""), gone("Thing/one")),
		of("fields that a custom kind's schema does not know are dropped at every write", "a status can be lost",
			create("Gauge/pruned", `{"top":"x","spec":{"unknown":"x","parts":[{"name":"a","unknown":"x"}],
				"names":{"one":{"name":"a","unknown":"x"}}}}`).pruned("{"+kept+"}", ""),
			update("Gauge/pruned", `{"spec":{"unknown":"x"}}`).pruned("{"+kept+"}", "").shows(".metadata.resourceVersion = $resourceVersion"),
			merge("Gauge/pruned", `{"top":"x","spec":{"unknown":"x","unit":"m"}}`).pruned("{"+kept+`,"unit":"m"}`, ""),
			patch("Gauge/pruned", types.JSONPatchType, `[{"op":"add","path":"/spec/unknown","value":1},{"op":"remove","path":"/spec/unit"}]`).
				pruned("{"+kept+"}", ""),
			updateStatus("Gauge/pruned", `{"status":{"phase":"Running","unknown":"x"}}`).pruned("{"+kept+"}", `{"phase":"Running"}`)),
		of("what a schema preserves is kept, and known fields below it are still pruned", "templates and provider data",
			create("Gauge/preserved", `{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}},
				"spec":{"free":{"any":{"thing":"x"},"known":{"a":"x","b":"x"}},"either":"50%"}}`).shows(
				`.spec = {"either":"50%","free":{"any":{"thing":"x"},"known":{"a":"x"}},"size":1}`,
				`.metadata.labels = {"a":"b"}`, `.metadata.annotations = {"c":"d"}`)),
	}
}

func (s step) pruned(spec, status string) step {
	return s.shows(".spec = "+spec, ".status = "+status, ".top absent")
}
