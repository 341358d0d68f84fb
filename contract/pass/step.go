package pass

import "github.com/machinist-dev/machinist/internal/engine"

// Step is one part of a reconciler, with a name. P is the Scope of its kind, such as *machine.Scope.
type Step[P any] = engine.Step[P]

// Steps are the steps of a pass, in their order: machine.Steps and its like return them. A method returns a changed copy, and never fails:
// the copy keeps what is wrong with the change, and New of the kind's package returns it. The error matches ErrNoStep for a name that the
// list does not have. A list is not changed, and safe for concurrent use.
type Steps[P any] = engine.Steps[P]

// StepFunc does one thing for one object. It is called in every pass that the step's Life includes, from several goroutines for different
// objects, also when it has already done its work: a step with a one-time action must check whether that action already ran. An error is
// retried with back-off.
type StepFunc[P any] = engine.StepFunc[P]

// Result is how a pass continues after a step.
type Result = engine.Result

// For which objects a step runs: objects that are not being deleted, objects that are being deleted, and both.
const (
	InRunning  = engine.InRunning
	InDeletion = engine.InDeletion
	InBoth     = engine.InBoth
)

// ErrNoStep matches the error for a name that is not in the list of steps.
var ErrNoStep = engine.ErrNoStep

// Position returns the position of the step with a name that runs in a Life, -1 without one.
func Position[P any](steps []Step[P], name string, life engine.Life) int {
	return engine.Position(steps, name, life)
}
