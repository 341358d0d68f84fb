package contract_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

func FuzzEveryProviderRoleRead(f *testing.F) {
	seeds(f)
	for _, text := range []string{fullPool, fullTemplate, everythingProvisioned,
		`{"spec":{"template":{"metadata":{"labels":{"a":1}},"spec":[]},"providerIDList":[null]},
			"status":{"capacity":{"cpu":"1e-2000000000","memory":1.5},"instances":[{"addresses":[{}]}],"ready":"yes"}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		obj := &unstructured.Unstructured{Object: anyObject(text)}
		before := obj.DeepCopy()
		for _, v := range contractVersions() {
			for role, c := range providerCases(v) {
				err, spared := c.read(obj)
				if err != nil {
					require.ErrorIs(t, err, contract.ErrWrongType, "%s of %s", role, v)
				}
				again, sparedAgain := c.read(obj)
				require.Equal(t, errorText(err), errorText(again), "the same object, the same error")
				require.Equal(t, errorText(spared), errorText(sparedAgain), "the same object, the same error")
			}
		}
		require.Empty(t, cmp.Diff(before.Object, obj.Object), "Read changed the object")
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
