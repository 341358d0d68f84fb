// Package instance decides which call to a provider.Driver one Machine needs next, makes it, and interprets the result.
//
// It connects Drivers with the reconcilers: machine.WithDriver uses it for a Driver as steps of a Machine, and package inframachine for a
// Driver as an InfraMachine provider. It reads and writes no object.
//
//   - [Decide] is pure: a result or an error of a Driver becomes the status, reason and message of a condition, and the values to record;
//   - [Keeper] makes the calls: [Keeper.Ensure] validates, creates and reads an instance, [Keeper.Remove] deletes it. It remembers the last
//     error for each Token, and makes no call before the delay of its class is over; a creation is also repeated when the specification or
//     the credentials change. Losing that memory costs a call. A deletion without a provider ID needs more than one result that there is no
//     instance, because a new instance may be visible late, and the result of its creation may have been lost with the process that created
//     it.
package instance
