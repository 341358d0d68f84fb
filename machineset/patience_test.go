package machineset_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset"
)

// attempts waits for so many attempts to create, and finds no more after two passes that come later.
func (w *world) attempts(set *unstructured.Unstructured, attempt func(fake.Request) bool, want int) {
	w.t.Helper()
	w.eventually("an attempt", func() string {
		if w.store.CountRequests(attempt) < want {
			return "there was none"
		}
		return ""
	})
	for _, paused := range []bool{true, false} { // passes that come after it
		w.change(set, func(u *unstructured.Unstructured) {
			annotations := u.GetAnnotations()
			delete(annotations, contract.PausedAnnotation)
			if paused {
				annotations[contract.PausedAnnotation] = ""
			}
			u.SetAnnotations(annotations)
		})
		reason := map[bool]string{true: contract.ReasonPaused, false: contract.ReasonNotPaused}[paused]
		w.eventually("to be "+reason, func() string {
			if c := w.condition(set, contract.ConditionPaused); c.Reason != reason {
				return "it is " + c.Reason
			}
			return ""
		})
	}
	require.Equal(w.t, want, w.store.CountRequests(attempt), "attempts to create")
}

func TestASetWhoseCreationsAreRefusedWaitsBeforeItTriesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "", nil)
	attempt := func(r fake.Request) bool {
		return r.UserAgent == userAgent && r.Verb == "create" && r.GVK.Kind == w.kinds.Machine.GVK.Kind
	}
	mend := w.store.Inject(fake.Fault{Err: refused, Times: -1, Match: attempt})
	clock := clocktesting.NewFakePassiveClock(time.Now())
	w.run(machineset.Options{Options: pass.Options{Clock: clock, StatusDelay: -1}})
	set := w.set("workers", 3)
	w.create(set)
	w.attempts(set, attempt, 1)
	clock.SetTime(clock.Now().Add(5 * time.Second))
	w.attempts(set, attempt, 2)
	mend()
	clock.SetTime(clock.Now().Add(time.Minute))
	w.has(set, 3)
}

func TestASetWaitsFromTheEndOfAnAttemptThatTookLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	isAttempt := func(r fake.Request) bool {
		return r.UserAgent == userAgent && r.Verb == "create" && r.GVK.Kind == w.kinds.Machine.GVK.Kind
	}
	w.store.Inject(fake.Fault{Err: apierrors.NewInternalError(errors.New("failed calling webhook")), Times: -1,
		Match: func(r fake.Request) bool {
			if isAttempt(r) {
				clock.SetTime(clock.Now().Add(10 * time.Second))
			}
			return isAttempt(r)
		}})
	w.run(machineset.Options{Options: pass.Options{Clock: clock, StatusDelay: -1}})
	set := w.set("workers", 1)
	w.create(set)
	w.attempts(set, isAttempt, 1)
}

// The event of the ledger's write may come before the wait is over, and no other one comes.
func TestASetThatWaitsAsksForAPassWhenItsTimeHasCome(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	r := w.reconcilerWith(machineset.Options{
		Options: pass.Options{StatusDelay: -1, Clock: clock},
	}, func(ctrl.Manager, *pass.Ports) {})
	w.store.FailNext(func(r fake.Request) bool {
		return r.UserAgent == userAgent && r.Verb == "create" && r.GVK.Kind == w.kinds.Machine.GVK.Kind
	}, apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "", errors.New("not today")))
	set := w.set("workers", 1)
	w.create(set)
	w.fails(r, set, "not today")
	w.eventually("ask for a pass", func() string {
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > 5*time.Second || len(w.machines()) > 0 {
			return fmt.Sprintf("it asks for %s: %v", result.RequeueAfter, err)
		}
		return ""
	})
}
