package patch

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestOnlyErrorsThatTheNextPassResolvesAreRetryable(t *testing.T) {
	gr, gk := schema.GroupResource{Resource: "machines"}, schema.GroupKind{Kind: "Machine"}
	immutable := func(path string) error {
		return apierrors.NewInvalid(gk, "m", field.ErrorList{field.Invalid(field.NewPath("metadata").Child(path), "x", "field is immutable")})
	}
	conflict := apierrors.NewConflict(gr, "m", errors.New("changed"))
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"conflict":               {fmt.Errorf("write: %w", conflict), true},
		"invalid":                {immutable("name"), false},
		"two conflicts":          {fmt.Errorf("pass: %w", errors.Join(ErrStale, conflict)), true},
		"a conflict and another": {errors.Join(conflict, errors.New("boom")), false},
		"not found":              {apierrors.NewNotFound(gr, "m"), false},
		"no API error":           {errors.New("boom"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Retryable(tc.err); got != tc.want {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}
