// Package fake replaces a cluster in tests and demonstrations: contract objects, providers that fulfil the contract, and Store, an
// in-memory API server.
//
// Store is an HTTP transport, not a client: RESTConfig connects any client-go or controller-runtime client to a server in the same process,
// without a network. Everything above the transport is the real code: clients, caches, informers, REST mappers, event recorders, leader
// election, retries after 429. Loops replace the controllers, the scheduler and the kubelets that act on Nodes, pods, budgets and
// dependents.
//
// # Usage
//
// A test of a reconciler takes these steps; the example "fakes" of package machine shows them:
//
//   - Create a Store with NewStore, and call Store.Start with AllLoops: without the loop Kubelet no Node becomes Ready.
//   - Register every kind that is not built in: create its CRD, or list it in Options.Kinds. A fake Machine references InfraMachineGVK and
//     BootstrapConfigGVK, whose CRDs need the contract label: CRD(InfraMachineGVK(v), v).
//   - Create a manager with Store.NewManager, and add Bootstrap, Infrastructure and the reconciler. A second test in the process must use
//     another Name for each, or set Controller.SkipNameValidation in the manager's options.
//   - With Store.Client, create InfraMachine, BootstrapConfig and Machine with the same name, and check the results. A Machine needs no
//     Cluster unless the reconciler reads Clusters.
//
// Sets clone from templates: create a CRD of the same kinds with the suffix Template, and objects with a spec.template.spec. A kind without
// bootstrap and infrastructure objects needs no provider: its own step creates a Node with Node and the provider ID.
//
// A unit test that needs no API server takes only the objects: an InfraMachine with the options Provisioned and Addresses, a Machine with
// WithContract and Running, a Node with the same provider ID. It does not depend on the field in which a contract version stores a value.
//
// # Guarantees
//
//   - Equal arguments give equal objects, which share no mutable data. They have neither UID nor resourceVersion.
//   - Store and a real control plane pass the same table of cases, package internal/apitest.
//   - All types of a Store are safe for concurrent use. Callers and the store share no memory of objects.
//   - Resource versions are one counter for all objects, so that any two writes can be ordered. UIDs and generated names depend only on
//     Options.Seed and the order of the requests.
//   - A watch that allows bookmarks gets one after the initial objects.
//   - A writer never waits for a watcher. A watcher that falls behind gets 410 and the end of its stream, as from a real server.
//   - No goroutine is left after the context of Start and the contexts of watches have ended.
//
// # Limits
//
//   - There are no admission webhooks and no authorization.
//   - An object has managed fields from its first server-side apply on; its earlier fields belong to before-first-apply, and the fields
//     that loops write to fake-loops. Custom kinds merge lists by the schema of their CustomResourceDefinition; without one, lists are
//     replaced as a whole.
//   - Custom objects are pruned by the schema of their CustomResourceDefinition, but not validated, defaulted or converted between
//     versions. A kind of Options.Kinds or Register has no schema: every field is preserved.
//   - Only common built-in kinds are served, in one version each; discovery lists them. Only the validation and defaults in the conformance
//     table are implemented: metadata, Node provider IDs, pod deletion, immutable fields of pods, Secrets and ConfigMaps, new pods and
//     Nodes.
//   - JSON only: a client that requires protobuf gets 406.
//   - The subresources status, eviction and binding exist; scale and log do not.
package fake
