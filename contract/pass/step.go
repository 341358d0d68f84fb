package pass

import "github.com/machinist-dev/machinist/internal/engine"

// Step is one part of a reconciler, with a name. P is the Scope of its kind, such as *machine.Scope.
type Step[P any] = engine.Step[P]

// StepFunc does one thing for one object. It is called in every pass that the step's Life includes, from several goroutines for different
// objects, also when it has already done its work: a step with a one-time action must check whether that action already ran. An error is
// retried with back-off.
type StepFunc[P any] = engine.StepFunc[P]

// Result is how a pass continues after a step.
type Result = engine.Result

// Life is for which objects a step runs.
type Life = engine.Life

// Values of Life: objects that are not being deleted, objects that are being deleted, and both.
const (
	InRunning  = engine.InRunning
	InDeletion = engine.InDeletion
	InBoth     = engine.InBoth
)

// ErrNoStep matches the error for a name that is not in the list of steps.
var ErrNoStep = engine.ErrNoStep

// InsertBefore returns steps with one more in front of the named one. The error matches ErrNoStep.
func InsertBefore[P any](steps []Step[P], name string, step Step[P]) ([]Step[P], error) {
	return engine.InsertBefore(steps, name, step)
}

// InsertAfter returns steps with one more behind the named one. The error matches ErrNoStep.
func InsertAfter[P any](steps []Step[P], name string, step Step[P]) ([]Step[P], error) {
	return engine.InsertAfter(steps, name, step)
}

// Replace returns steps with the named one replaced. The error matches ErrNoStep.
func Replace[P any](steps []Step[P], name string, step Step[P]) ([]Step[P], error) {
	return engine.Replace(steps, name, step)
}

// Remove returns steps without the named one. New of the kind's package rejects a list that is not safe without it. The error matches
// ErrNoStep.
func Remove[P any](steps []Step[P], name string) ([]Step[P], error) {
	return engine.Remove(steps, name)
}

// Position returns the position of the step with a name that runs in a Life, -1 without one.
func Position[P any](steps []Step[P], name string, life Life) int {
	return engine.Position(steps, name, life)
}
