// Package provider is the port between a reconciler of Machines and a cloud: a Driver that creates, finds and deletes instances, and knows
// no Kubernetes object at all.
//
// A new cloud is one type with four methods: Name, Create, Get and Delete. Everything else is optional, and found out once: validation,
// defaults, a list of instances, the cloud provider's configuration file. Start from the empty struct, run package conformance, and mend
// what it names until it is silent; the example of conformance shows this.
//
//	calls := provider.Of(driver, metrics.Decorator(), provider.Timeout(provider.TimeoutOptions{}),
//		provider.RateLimit(provider.RateLimitOptions{PerSecond: 20}), provider.Cache(provider.CacheOptions{}))
//
// machine.WithDriver puts a Driver in the place of the infrastructure object of a Machine.
//
// # Creation
//
// Create is idempotent by a token, usually the UID of the Machine: the answer to a request may be lost, and a process may die between an
// answer and the write that records it. So the same call is simply made again. Where the cloud has idempotency tokens, pass Request.Token.
// Where it has none, put the token into a label or tag, look for it before you create, and serialize the calls of one token. Where a new
// instance is seen late, wait until it is seen before Create returns.
//
// # Deletion
//
// Delete uses what identifies an instance and nothing else, so that a Machine can go whose specification is not valid any more, or whose
// class is gone. It is called again until it says that everything is gone; an instance that does not exist is gone.
//
// # Errors
//
// An Error has a Class, and Backoff says for each how long to wait. Invalid, Unauthenticated and Terminal park a Machine: only a change of
// its specification or of its credentials is expected to help. A provider's RetryAfter is kept. An error without a class counts as
// Unavailable: it is not known what the provider has done.
//
// # Limits
//
// RateLimit keeps to a rate for each account without holding a worker: a call that comes too early is told when its turn is, and turns are
// given in order. Cache answers Get again for a while, and knows no absence: a new instance may be seen late.
//
// # Secrets
//
// Credentials are a function value, read by the Driver when it needs them. Requests and Values print no secrets; a Driver's errors must not
// contain any, which conformance checks.
//
// Sources: Kubermatic's cloudprovider/types and Gardener's driver package, whose errors are text that has to be parsed, whose calls have no
// deadline, and which create twice when a read is late (machine-controller#381).
package provider
