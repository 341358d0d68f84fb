// Package provider is the port between a reconciler of Machines and a cloud: a Driver that creates, finds and deletes instances, and uses
// no Kubernetes objects.
//
// machine.WithDriver uses a Driver in place of the infrastructure object of a Machine, and package inframachine uses one behind
// InfraMachines of Cluster API. Both call it through its [Calls], which [Of] builds with decorators:
//
//	calls := provider.Of(driver, metrics.Decorator(), provider.Timeout(time.Minute),
//		provider.RateLimit(provider.RateLimitOptions{PerSecond: 20}), provider.Cache(provider.CacheOptions{}))
//
// # A new cloud in one file
//
// The example NewCloud is such a file. The steps:
//
//  1. Write an empty struct with the four methods of [Driver], and a test that runs the [Cases] against it. A failed case reports the
//     harm that its rule prevents.
//  2. Create creates an instance with the Token in a tag, and returns the provider ID that its Node will have. Get finds the instance by
//     either, and returns NotFound only if it does not exist.
//  3. Create looks for the Token before it creates anything, and calls with the same Token wait for each other.
//  4. Delete begins or continues a deletion, uses only the provider ID or the Token, and reports when nothing is left.
//  5. Give errors their [Class]: first Invalid, for problems that only a change of the specification fixes, then RateLimited with
//     RetryAfter, Exhausted and Unauthenticated.
//  6. Add optional methods, which [Of] detects: [Validator], so that errors in a Machine are reported before it costs anything,
//     [Defaulter], [Lister] and [CloudConfigurer].
//  7. Run the cases against the real cloud, with a Conformance.Token that is new in each run.
//
// # The specification and its source
//
// A Driver gets a specification as JSON, whatever its source. Machines of Kubermatic have it in spec.providerSpec.value, Machines of
// Gardener in a MachineClass with a Secret, which contract.MachineState.Provider references; InfraMachines have it in their spec. Defaults
// are added in memory, for each call; a webhook that stores them in the object calls Calls.AddDefaults.
//
// # Creation
//
// Create is idempotent by a token, usually the UID of the Machine: a response may be lost, and a process may stop before it stores one, so
// the same call is made again. If the cloud has idempotency tokens, pass Request.Token. Otherwise put the token into a label or tag, look
// for it before you create, and serialize the calls with one token. Create must not return before a new instance is visible.
//
// # Deletion
//
// Delete uses only the identity of an instance, so that a Machine whose specification is invalid or whose class is gone can be deleted. It
// is called again until everything is gone; an instance that does not exist is gone.
//
// # Errors
//
// An Error has a Class, and Backoff has the delay for each Class. A creation that fails as Invalid or Terminal is retried when the
// specification or the credentials change, and every ten minutes. Unauthenticated is retried soon at first, because an API server that has
// just started may reject valid credentials. No delay is shorter than a provider's RetryAfter. An error without a class counts as
// Unavailable.
//
// # Limits
//
// RateLimit enforces a rate for each account without blocking a worker: a call that comes too early returns the time of its turn, and turns
// are assigned in order. Cache answers Get from memory for a while. It does not store that an instance was not found, because a new
// instance can appear late.
//
// # Secrets
//
// Credentials are a function value that the Driver reads when it needs them. Requests and Values print no secrets, and the cases check
// that a Driver's errors contain none.
package provider
