package testenv_test

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/fake/testenv"
)

func Example() {
	test := func(t testenv.T) { // a *testing.T
		t.Helper()
		env := testenv.Start(t, fake.Options{}, fake.AllLoops(), nil)
		mgr := env.Manager("mine", ctrl.Options{}) // add your reconciler to it
		env.Run(mgr)
		node := testenv.Object(corev1.SchemeGroupVersion.WithKind("Node"), "n")
		env.Create(node)
		env.Quiet("mine", time.Second)
		if n := len(env.Writes("mine")); n > 0 {
			t.Errorf("%d writes", n)
		}
	}
	_ = test // a test of yours
	// Output:
}
