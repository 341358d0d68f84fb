package fake_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest"
)

func TestTheStoreConforms(t *testing.T) {
	store := fake.NewStore(fake.Options{})
	wait := store.Start(t.Context(), fake.AllLoops())
	t.Cleanup(wait)
	for i, c := range apitest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("case-%d", i)}}
			require.NoError(t, store.Client().Create(t.Context(), ns))
			t.Log(c.Reason)
			c.Run(t.Context(), apitest.Env{T: t, Client: store.Client(), Namespace: ns.Name})
		})
	}
}
