package conformance

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Env is where a case runs.
type Env struct {
	// Client talks to the server under test: live, not cached, and with a REST mapper that finds new kinds.
	Client client.WithWatch
	// Namespace exists, is empty and is for one case alone. Its name is at most 30 characters.
	Namespace string
}

// Case is one behaviour.
type Case struct {
	// Name is a sentence about the server.
	Name string
	// Reason is why somebody depends on it.
	Reason string
	// Run returns what differed, or nil. It stops early when ctx ends.
	Run func(ctx context.Context, env Env) error
}

// Cases returns all cases in a fixed order. The slice is the caller's.
func Cases() []Case {
	return slices.Concat(
		createCases(), updateCases(), patchCases(), applyCases(), statusCases(), deleteCases(), ownerCases(),
		evictionCases(), budgetCases(), nodeCases(), namespaceCases(), listCases(), watchCases(), kindCases(),
	)
}
