//go:build e2e

package e2e_test

import (
	"testing"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// One table, two servers: whatever differs fails.
func TestConformanceOfTheFakeStoreAndTheRealControlPlane(t *testing.T) {
	t.Run("fake store", func(t *testing.T) {
		store := fake.NewStore(fake.Options{})
		t.Cleanup(store.Start(t.Context(), fake.AllLoops()))
		t.Run("cases", func(t *testing.T) { conform(t, store.Client()) })
	})
	t.Run("real control plane", func(t *testing.T) {
		c, err := client.NewWithWatch(shared(t).Config(), client.Options{})
		require.NoError(t, err)
		conform(t, c)
	})
}

func conform(t *testing.T, c client.WithWatch) {
	for _, test := range apitest.Cases() {
		t.Run(test.Name, func(t *testing.T) {
			t.Parallel()
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "case-"}}
			require.NoError(t, c.Create(t.Context(), ns))
			t.Log(test.Reason)
			test.Run(t.Context(), apitest.Env{T: t, Client: c, Namespace: ns.Name})
		})
	}
}
