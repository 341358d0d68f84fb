package deployment_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
)

func TestADeploymentWithoutReplicasKeepsWhatItHas(t *testing.T) {
	without := func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "replicas") }
	tests := map[string]struct {
		options []fake.Option
		begins  int
	}{
		"a new one begins with 1":             {nil, 1},
		"or with the autoscaler's minimum":    {[]fake.Option{annotated(contract.MinSizeAnnotation, "2")}, 2},
		"which may be 0":                      {[]fake.Option{annotated(contract.MinSizeAnnotation, "0")}, 0},
		"a minimum that is no number is none": {[]fake.Option{annotated(contract.MinSizeAnnotation, "few")}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).live()
			w.run()
			d := w.deployment(9, append(test.options, without)...)
			w.eventually("its first number", func() string {
				n, found, _ := unstructured.NestedInt64(w.get(d).Object, "spec", "replicas")
				if !found || int(n) != test.begins {
					return fmt.Sprint(n, found)
				}
				return ""
			})
			w.rolled(d, "blue", test.begins)
			w.change(d, fake.WithField(int64(3), "spec", "replicas"))
			w.rolled(d, "blue", 3)
			before := w.uids()
			w.change(d, without)
			w.eventually("its present number", func() string {
				n, found, _ := unstructured.NestedInt64(w.get(d).Object, "spec", "replicas")
				return map[bool]string{false: fmt.Sprint(n, found)}[found && n == 3]
			})
			w.settled(d)
			require.Equal(t, before, w.uids())
			w.change(d, without, template("green"))
			w.rolled(d, "green", 3)
		})
	}
}
