package external

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

func TestAVersionThatIsNotServedDoesNotMeanThatAnObjectIsGone(t *testing.T) {
	gr := schema.GroupResource{Group: "g", Resource: "inframachines"}
	notServed := apierrors.NewGenericServerResponse(404, "get", gr, "m", "404 page not found", 0, true)
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no such object":  {apierrors.NewNotFound(gr, "m"), true},
		"no such place":   {notServed, false},
		"no such kind":    {contract.MissingCRD(schema.GroupKind{Group: "example.com", Kind: "Thing"}), false},
		"another failure": {apierrors.NewInternalError(errors.New("boom")), false},
		"it is there":     {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := IsGone(tc.err); got != tc.want {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}
