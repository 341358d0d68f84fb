package remediation_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/remediation"
)

// BenchmarkPass measures a pass over 300 Machines that are all healthy.
func BenchmarkPass(b *testing.B) {
	w := newWorld(b, contract.V1Beta2)
	for i := range 300 {
		w.machine(fmt.Sprintf("m%03d", i), fmt.Sprintf("zone-%d", i%3))
	}
	check := w.check("workers")
	w.Create(check)
	r, mgr := w.reconciler(remediation.Options{})
	require.NoError(b, r.Index(b.Context()))
	w.Run(mgr)
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(check)}
	w.Eventually("be healthy", func() string {
		_, err := r.Reconcile(b.Context(), request)
		if got := w.checkState(check).CurrentHealthy.Or(0); err != nil || got != 300 {
			return fmt.Sprint(got, err)
		}
		return ""
	})
	b.ReportAllocs()
	for b.Loop() {
		_, _ = r.Reconcile(b.Context(), request)
	}
}
