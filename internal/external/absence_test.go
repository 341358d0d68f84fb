package external

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

func TestOnlyProblemsOfAKindBecomeAProblem(t *testing.T) {
	resolve := func(labels map[string]string) error {
		_, err := contract.Resolve("things.example.com", labels)
		return err
	}
	notFound := apierrors.NewNotFound(schema.GroupResource{Group: "example.com", Resource: "things"}, "a")
	for name, tc := range map[string]struct {
		err    error
		reason string // empty for no Problem
	}{
		"no error":              {err: nil},
		"the CRD is missing":    {err: contract.MissingCRD(schema.GroupKind{Group: "example.com", Kind: "Thing"}), reason: ReasonCRDNotFound},
		"the label is missing":  {err: resolve(nil), reason: ReasonContractLabelMissing},
		"the label is empty":    {err: resolve(map[string]string{contract.V1Beta2.Label(): "_"}), reason: ReasonContractLabelMissing},
		"the object is missing": {err: fmt.Errorf("read: %w", notFound)},
		"the server is away":    {err: errors.New("connection refused")},
	} {
		t.Run(name, func(t *testing.T) {
			problem, known := kindProblem(tc.err)
			require.Equal(t, tc.reason, problem.Reason)
			require.Equal(t, tc.reason != "", known)
			if known {
				trouble, ok := errors.AsType[*contract.ResolveError](tc.err)
				require.True(t, ok)
				require.Contains(t, problem.Message, "things.example.com")
				require.Contains(t, problem.Message, trouble.Remedy, "the message says what a person can do")
				require.False(t, SaysGone(tc.err), "a problem of a kind does not mean that an object is gone")
			}
		})
	}
}

func TestAVersionThatIsNotServedDoesNotMeanThatAnObjectIsGone(t *testing.T) {
	gr := schema.GroupResource{Group: "g", Resource: "inframachines"}
	notServed := apierrors.NewGenericServerResponse(404, "get", gr, "m", "404 page not found", 0, true)
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no such object":  {apierrors.NewNotFound(gr, "m"), true},
		"no such place":   {notServed, false},
		"another failure": {apierrors.NewInternalError(errors.New("boom")), false},
		"it is there":     {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := SaysGone(tc.err); got != tc.want {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}
