// Package instance decides which call to a provider.Driver one Machine needs next, makes it, and says what the answer means.
//
// It stands between the port and the reconcilers: machine.WithDriver uses it for a Driver as steps of a Machine, and package inframachine
// for a Driver as an InfraMachine provider. It reads and writes no object.
//
//   - [Decide] is pure: an answer or an error of a Driver becomes the status, reason and message of a condition, and what to record;
//   - [Keeper] makes the calls: [Keeper.Ensure] validates, creates and reads an instance, [Keeper.Remove] deletes it. It remembers the last
//     error for each Token: what a Driver refuses costs no call until the specification or the credentials change (refused credentials are
//     tried again after up to 10 minutes), and other errors wait as long as their class says. Losing that memory costs a call. A deletion
//     that no provider ID helps does not believe at once that there is no instance: a new one may be seen late, and the answer to its
//     creation may have been lost with the process that made it.
package instance
