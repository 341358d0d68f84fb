// Package testenv runs a fake.Store and the managers of a test over it, and waits for what they do.
//
// [Start] starts a store with its controllers; [Env.Manager] makes a manager that sends its requests under a name of its own, and [Env.Run]
// runs it until the test ends or the manager is stopped. [Env.Get], [Env.List], [Env.Create] and [Env.Change] are requests that must
// succeed. [Env.Eventually] polls until a condition holds, [Env.Quiet] until a manager makes no request any more, and [Env.Writes] counts
// what a manager has written.
//
// Tests of your own reconcilers can use it as those of this library do. It takes a part of testing.TB, needs no assertion library, and ends
// every wait after [Limit].
package testenv
