package machineset_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func TestSetsOfEverySystemReplaceWhatAHealthCheckHasMarked(t *testing.T) {
	t.Parallel()
	all := systems(t)
	maps.DeleteFunc(all, func(_ string, s system) bool { return s.scheme != nil }) // their Machines have no conditions of health checks
	for name, s := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldOf(t, s.kinds)
			mgr := w.Manager("lives", ctrl.Options{})
			require.NoError(t, fake.NewMachines(mgr.GetClient(), s.kinds.Machine).SetupWithManager(mgr))
			w.start(mgr)
			w.run(machineset.Options{})
			set := object(s.kinds.Set.GVK, "workers")
			labels := map[string]any{"pool": "workers"}
			set.Object["spec"] = map[string]any{"replicas": int64(2), "selector": map[string]any{"matchLabels": labels},
				"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": s.template}}
			w.create(set)
			w.counts(set, 2)
			before := w.machines()
			w.Quiet("lives", quiet)
			w.mark(&before[0])
			w.Gone(&before[0])
			w.counts(set, 2)
			require.NotNil(t, w.get(&before[1]))
		})
	}
}

// before is a client that does something else before it deletes the first Machine.
type before struct {
	client.Client

	do func()
}

func (b *before) Delete(ctx context.Context, obj client.Object, options ...client.DeleteOption) error {
	if do := b.do; do != nil && obj.GetObjectKind().GroupVersionKind().Kind == "Machine" {
		b.do = nil
		do()
	}
	return b.Client.Delete(ctx, obj, options...)
}

func TestTheOnlyMachineOfASetIsDeletedAsItSaysThatItGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	w.run(machineset.Options{})
	set := w.set("workers", 1)
	w.create(set)
	w.has(set, 1)
	m := w.machines()[0]
	w.Quiet("lives", quiet)
	w.mark(&m)
	w.replaced(set, &m, 1)
	w.saysBeforeItDeletes(&m)
}

func TestAMachineThatRecoversInTheLastMomentStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	var m unstructured.Unstructured
	recovers := func() { w.sayOf(&m, metav1.ConditionTrue, contract.ConditionHealthCheckSucceeded) }
	w.runWith(ctrl.Options{NewClient: func(cfg *rest.Config, o client.Options) (client.Client, error) {
		c, err := client.New(cfg, o)
		return &before{c, recovers}, err
	}}, machineset.Options{})
	set := w.set("workers", 1)
	w.create(set)
	w.has(set, 1)
	m = w.machines()[0]
	w.Quiet("lives", quiet)
	w.mark(&m)
	w.eventually("the Machine not to be recorded any more", func() string {
		record := w.replacements(set)
		if len(record.Names) != 0 || record.Count != 1 {
			return w.describe(set)
		}
		return ""
	})
	w.Quiet("lives", quiet)
	require.Nil(t, w.get(&m).GetDeletionTimestamp())
}

// replacements is the record of a set.
func (w *world) replacements(set *unstructured.Unstructured) scale.Replacements {
	w.t.Helper()
	ledger, err := scale.ParseLedger(w.get(set).GetAnnotations()[scale.LedgerAnnotation])
	require.NoError(w.t, err)
	return ledger.Replaced
}

func TestAMachineThatCannotSayThatItIsReplacedIsNotDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	set := w.set("workers", 1)
	w.create(set)
	w.run(machineset.Options{})
	w.has(set, 1)
	m := w.machines()[0]
	w.Quiet("lives", quiet)
	refused := func(r fake.Request) bool {
		return r.UserAgent == userAgent && r.GVK == w.kinds.Machine.GVK && r.Subresource == "status" && r.Verb == "patch"
	}
	allow := w.store.Inject(fake.Fault{Match: refused, Times: -1,
		Err: apierrors.NewForbidden(schema.GroupResource{Resource: "machines/status"}, m.GetName(), errors.New("no right"))})
	w.mark(&m)
	w.eventually("some attempts", func() string {
		if w.store.CountRequests(refused) < 3 {
			return "there are fewer"
		}
		return ""
	})
	require.Nil(t, w.get(&m).GetDeletionTimestamp())
	allow()
	w.replaced(set, &m, 1)
	require.Equal(t, 1, w.replacements(set).Count, "what was tried again counts once")
}
