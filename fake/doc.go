// Package fake stands in for a cluster in tests and demonstrations: contract objects, providers that fulfil the contract, and
// Store, an API server in memory.
//
// Store is an HTTP transport, not a client: RESTConfig gives any client-go or controller-runtime client a server that answers in
// the same process, without a network. So everything above the transport is the real thing: clients, caches, informers, REST
// mappers, event recorders, leader election, retries after 429. Loops add what the controllers, the scheduler and the kubelets of
// a cluster do to Nodes, pods, budgets and dependents.
//
// # Usage
//
// A test of a reconciler takes these steps; the example of package machine that is called fakes is one of them at work:
//
//   - NewStore, and Store.Start with AllLoops: without the loop Kubelet no Node becomes Ready.
//   - Every kind that is not built in is made known: create its CRD, or name it in Options.Kinds. A fake Machine refers to
//     InfraMachineGVK and BootstrapConfigGVK, whose CRD is labelled with the contract: CRD(InfraMachineGVK(v), v).
//   - Store.NewManager, and in it Bootstrap, Infrastructure and the reconciler. A second test in the process gives everything
//     another Name, or sets Controller.SkipNameValidation of the manager's options.
//   - With Store.Client, create InfraMachine, BootstrapConfig and Machine of one name, and look at what comes of them. A Machine
//     needs no Cluster as long as nobody was told to read Clusters.
//
// Sets clone from templates: CRD of the same kinds with Template behind their names, and objects with a spec.template.spec. A kind
// without bootstrap and infrastructure objects needs no provider: its own step creates a Node with Node and the provider ID.
//
// # Guarantees
//
//   - Store and a real control plane pass one table of cases, package fake/conformance.
//   - All types of a Store are safe for concurrent use. Nothing that a caller hands in or gets out is shared with the store.
//   - Versions are one counter for all objects, so that two writes anywhere can be ordered. UIDs and generated names follow from
//     Options.Seed and the order of the requests.
//   - A watch that allows bookmarks gets one after the objects that were there, and one for each Store.Bookmark.
//   - A writer never waits for a watcher. A watcher that falls behind is told 410 and cut off, as by a real server.
//   - No goroutine is left after the context of Start and the contexts of watches have ended.
//
// # Limits
//
//   - No admission webhooks, no authorization.
//   - An object has managed fields from its first server-side apply on; what was there before belongs to before-first-apply, and what
//     the loops write to fake-loops. Custom kinds merge lists as the schema of their CustomResourceDefinition says; without one,
//     lists are replaced as a whole.
//   - Custom objects are pruned by the schema of their CustomResourceDefinition, but neither validated against it nor given its
//     defaults, and not converted between versions. A kind of Options.Kinds or Register has no schema: every field is kept.
//   - Of built-in kinds the common ones are served, in one version each; discovery lists them. Of their validation and defaults only
//     what the conformance table names is there: metadata, Node provider IDs, pod deletion, what is fixed in pods, Secrets and
//     ConfigMaps, new pods and Nodes.
//   - JSON only: a client that insists on protobuf is answered 406.
//   - The subresources scale and log do not exist; status, eviction and binding do.
package fake
