package machine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/instance"
	"github.com/machinist-dev/machinist/machine/provider"
)

func TestDriverConditions(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]provider.State{"was off": provider.Stopped, "had failed": provider.Failed} {
		t.Run("an instance runs again that "+name, func(t *testing.T) {
			t.Parallel()
			shown := provider.Instance{ProviderID: "cloud:///i", State: state}
			get := func(context.Context, provider.Request) (provider.Instance, error) { return shown, nil }
			gone := func(context.Context, provider.Request) (bool, error) { return true, nil }
			steps := WithDriver(Steps(), DriverOptions{Calls: provider.Calls{Name: "cloud", Create: get, Get: get, Delete: gone}})
			step := steps[engine.Position(steps, StepInfrastructure, engine.InRunning)]
			pass := func(stored []metav1.Condition) *Scope {
				s := attached(&Scope{Scope: base{Object: testKind().New(), Stored: stored}})
				s.State.UID, s.State.ProviderID, s.State.InfrastructureReady = "uid", shown.ProviderID, contract.Some(true)
				_, err := step.Run(t.Context(), s)
				require.NoError(t, err)
				return s
			}
			off := pass(nil)
			require.True(t, engine.HasStatus(off.Asserted, contract.ConditionInfrastructureReady, metav1.ConditionFalse))
			shown.State = provider.Running
			require.True(t, engine.HasStatus(pass(off.Asserted).Asserted, contract.ConditionInfrastructureReady, metav1.ConditionTrue))
		})
	}
}

// A webhook or a restore may take away that the infrastructure was ready, and leave that the instance is lost.
func TestWhatIsKnownOfALostInstanceStaysWhileALookWaits(t *testing.T) {
	t.Parallel()
	waits := func(context.Context, provider.Request) (provider.Instance, error) {
		return provider.Instance{}, &provider.Error{Class: provider.RateLimited, Delayed: true, RetryAfter: time.Second}
	}
	gone := func(context.Context, provider.Request) (bool, error) { return true, nil }
	steps := WithDriver(Steps(), DriverOptions{Calls: provider.Calls{Name: "cloud", Create: waits, Get: waits, Delete: gone}})
	for reason, reports := range map[string]bool{"": true, instance.ReasonGone: false, instance.ReasonFailed: false} {
		s := attached(&Scope{Scope: base{Object: testKind().New()}})
		s.State.UID, s.State.ProviderID, s.State.FailureReason = "uid", "cloud:///i", reason
		_, err := steps[engine.Position(steps, StepInfrastructure, engine.InRunning)].Run(t.Context(), s)
		require.NoError(t, err)
		_, found := engine.Find(s.Asserted, contract.ConditionInfrastructureReady)
		require.Equal(t, reports, found, reason)
	}
}
