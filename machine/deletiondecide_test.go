package machine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

func TestAnObjectThatMayJustHaveGotItsMachineIsNotDeletedAsItWasReadBefore(t *testing.T) {
	for name, tc := range map[string]struct {
		providerID, version string
	}{
		"no machine is known":  {version: "7"},
		"its machine is known": {providerID: "a://b"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			s := attached(&Scope{
				Scope: base{State: contract.MachineState{MachineSpec: contract.MachineSpec{ProviderID: tc.providerID}}},
				env: testReconciler(testKind(), Ports{Ports: engine.Ports{
					Client: interceptor.NewClient(nil, interceptor.Funcs{
						Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.DeleteOption) error {
							var options client.DeleteOptions
							options.ApplyOptions(opts)
							only := options.Preconditions
							asked++
							require.Equal(t, types.UID("u"), *only.UID)
							require.Equal(t, tc.version, ptr.Deref(only.ResourceVersion, ""))
							return nil
						},
					}),
				}}, Options{}),
			})
			e := present("Infra")
			e.Object.SetUID("u")
			e.Object.SetResourceVersion("7")
			for range 2 {
				_, err := s.deleteReferenced(t.Context(), e, "", "")
				require.NoError(t, err)
			}
			require.Equal(t, 1, asked, "once is enough, whatever the cache says")
		})
	}
}

func TestADeletionSaysWhatItWaitsForAndGoesOnWhenThatIsGone(t *testing.T) {
	absent := external.Object{Ref: contract.Ref{Group: "g", Kind: "Infra", Name: "m"}, Presence: external.Absent}
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		found external.Object
		reads error
		takes error
		want  Result
		says  string
		fails bool
	}{
		"not in the cache alone": {found: absent, want: Result{Stop: true, RequeueAfter: external.AbsenceRetry},
			says: "Infra m exists, but has not been seen yet"},
		"really gone": {found: absent, reads: apierrors.NewNotFound(schema.GroupResource{}, "m")},
		"no answer comes": {found: absent, reads: boom, want: Result{Stop: true}, says: "make sure that Infra default/m is gone: boom",
			fails: true},
		"its deletion is accepted": {found: present("Infra"), want: Result{Stop: true}, says: "Waiting for Infra m to be deleted"},
		"its deletion is refused":  {found: present("Infra"), takes: boom, want: Result{Stop: true}, says: "delete Infra m: boom", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := scopeWithVolumes(nil, time.Unix(1000, 0), 0)
			s.State.Key.Namespace = "default"
			tc.found.GVK = schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Infra"}
			server := interceptor.NewClient(nil, interceptor.Funcs{
				Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
					return tc.reads
				},
				Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return tc.takes },
			})
			s.env.ports.APIReader, s.env.frame.Ports.Client = server, server
			got, err := s.deleteReferenced(t.Context(), tc.found, "", contract.ReasonWaitingForInfrastructureDeletion)
			require.Equal(t, tc.fails, err != nil, err)
			got.RequeueAfter = s.RequeueAfter()
			require.Equal(t, tc.want, got)
			said, _ := engine.Find(s.Asserted, contract.ConditionDeleting)
			require.Equal(t, tc.says, said.Message)
			require.Equal(t, tc.says != "", said.Reason == contract.ReasonWaitingForInfrastructureDeletion)
		})
	}
}
