package apitest

func listCases() []Case {
	const pageOfTwo = `{"labelSelector":"watched","limit":2,"continue":"$continue"}`
	secrets := func(names string, wants ...string) step {
		return list("Secret", `{"limit":2,"continue":"$continue"}`).shows(append(wants, ".items[*].metadata.name = "+names)...)
	}
	return []Case{
		of("a list in pages shows one moment, whatever happens between the pages", "pages must not miss or repeat an object",
			create("Secret/a", ""), create("Secret/b", ""), create("Secret/c", ""), create("Secret/d", ""), create("Secret/e", ""),
			secrets("a b", ".metadata.continue present", ".metadata.remainingItemCount = 3"),
			remove("Secret/c", ""), create("Secret/bb", ""), update("Secret/d", `{"data":{"k":"bmV3"}}`),
			secrets("c d", ".items[*].data.k ~ ^(dg== ?){2}$", ".metadata.resourceVersion = $resourceVersion", ".metadata.continue present",
				".metadata.remainingItemCount = 1"),
			remove("Secret/e", ""),
			secrets("e", ".metadata.resourceVersion = $resourceVersion", ".metadata.continue absent", ".metadata.remainingItemCount absent"),
			secrets("a b", ".metadata.continue present", ".metadata.remainingItemCount = 2")),
		of("a page of a selection does not say how many remain", "only whole lists are counted",
			create("ConfigMap/a", watched), create("ConfigMap/b", watched), create("ConfigMap/c", watched),
			list("ConfigMap", pageOfTwo).shows(".items[*].metadata.name = a b", ".metadata.continue present", ".metadata.remainingItemCount absent"),
			list("ConfigMap", pageOfTwo).shows(".items[*].metadata.name = c", ".metadata.continue absent")),
		of("a list goes on only where a list stopped", "made-up tokens are a bug",
			list("ConfigMap", `{"limit":1,"continue":"no token"}`).fails("400 BadRequest", ""),
			create("ConfigMap/a", watched), create("ConfigMap/b", watched), list("ConfigMap", `{"labelSelector":"watched","limit":1}`),
			list("ConfigMap", `{"labelSelector":"watched","limit":1,"continue":"$continue","resourceVersion":"$resourceVersion"}`).
				fails("400 BadRequest", "")),
	}
}
