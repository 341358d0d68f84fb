// Package provider is the port between a reconciler of Machines and a cloud: a Driver that creates, finds and deletes instances, and knows
// no Kubernetes object at all.
//
// machine.WithDriver puts a Driver in the place of the infrastructure object of a Machine, and package inframachine behind InfraMachines of
// Cluster API. Both use it through its [Calls], which [Of] makes with decorators:
//
//	calls := provider.Of(driver, metrics.Decorator(), provider.Timeout(time.Minute),
//		provider.RateLimit(provider.RateLimitOptions{PerSecond: 20}), provider.Cache(provider.CacheOptions{}))
//
// # A new cloud in one file
//
// The example NewCloud is such a file. The way there:
//
//  1. Write an empty struct with the four methods of [Driver], and a test that runs the [Cases] against it. Each case that fails says
//     what goes wrong without it.
//  2. Create makes an instance with the Token in a tag, and returns its provider ID, the one that its Node will have. Get finds it by
//     either, and says NotFound for what does not exist, and for nothing else.
//  3. Create looks for the Token before it makes anything, and calls with one Token wait for each other.
//  4. Delete begins or continues a deletion, uses nothing but the provider ID or the Token, and says when nothing is left.
//  5. Give errors their [Class]: first Invalid, for what only a change of the specification mends, then RateLimited with RetryAfter,
//     Exhausted and Unauthenticated.
//  6. Add what is optional, each a method that [Of] finds: [Validator], so that a Machine says what is wrong before it costs anything,
//     [Defaulter], [Lister] and [CloudConfigurer].
//  7. Run the cases against the real cloud, with a Conformance.Token that is new in each run.
//
// # The specification and its source
//
// A Driver gets a specification as JSON and does not know where it comes from. Machines of Kubermatic have it in spec.providerSpec.value,
// Machines of Gardener in a MachineClass with a Secret, which contract.MachineState.Provider names; InfraMachines have it in their spec.
// Defaults are added in memory, for each call; a webhook that wants them in the object calls Calls.AddDefaults.
//
// # Creation
//
// Create is idempotent by a token, usually the UID of the Machine: an answer may be lost, and a process may die before it stores one, so
// the same call is made again. Where the cloud has idempotency tokens, pass Request.Token. Where it has none, put the token into a label or
// tag, look for it before you create, and serialize the calls of one token. Wait until a new instance is seen before Create returns.
//
// # Deletion
//
// Delete uses what identifies an instance and nothing else, so that a Machine can go whose specification is invalid or whose class is gone.
// It is called again until everything is gone; an instance that does not exist is gone.
//
// # Errors
//
// An Error has a Class, and Backoff the wait for each. Invalid, Unauthenticated and Terminal park a Machine until its specification or its
// credentials change; credentials are tried again all the same, soon at first, because an API server that has just started refuses what it
// allows a second later. A look at an instance is never parked, whatever its error: it is made again after ten minutes. No other wait is
// shorter than a provider's RetryAfter. An error without a class counts as Unavailable.
//
// # Limits
//
// RateLimit keeps to a rate for each account without holding a worker: a call that comes too early is told when its turn is, and turns are
// given in order. Cache answers Get again for a while. It does not store that an instance was not found, because a new one can appear late.
//
// # Secrets
//
// Credentials are a function value that the Driver reads when it needs them. Requests and Values print no secrets, and the cases check
// that a Driver's errors contain none.
package provider
