package apitest

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Env is the environment of a case.
type Env struct {
	// T is the test of the case, a *testing.T. It fails, and ends, with the first difference.
	T interface {
		Helper()
		Fatal(args ...any)
	}
	// Client is a client of the server under test: without a cache, and with a REST mapper that finds new kinds.
	Client client.WithWatch
	// Namespace exists, is empty and is used by one case only. Its name has at most 30 characters.
	Namespace string
}

// Case is one behaviour.
type Case struct {
	// Name is a sentence about the server.
	Name string
	// Reason is why this library or its users depend on it.
	Reason string
	// Run stops when ctx ends.
	Run func(ctx context.Context, env Env)
}

// Cases returns all cases in a fixed order. The slice is the caller's.
func Cases() []Case {
	return slices.Concat(
		createCases(), updateCases(), patchCases(), applyCases(), statusCases(), deleteCases(), ownerCases(),
		evictionCases(), budgetCases(), nodeCases(), namespaceCases(), listCases(), watchCases(), kindCases(),
	)
}
