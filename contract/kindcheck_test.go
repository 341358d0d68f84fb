package contract_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

func kindOfServers(read func(*Server, *contract.MachineState) error, write func(*Server, contract.MachineUpdate) error) contract.Kind {
	return contract.NewTyped(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Server"},
		func() *Server { return &Server{} }, func() runtime.Object { return &metav1.List{} }, read, write)
}

// A test of your own type asks what it forgets, and compares that with what it may forget.
func ExampleCheckKind() {
	kind := kindOfServers(readServer, func(s *Server, u contract.MachineUpdate) error {
		u.ProviderID = contract.Change[string]{} // the line is missing
		return writeServer(s, u)
	})
	forgotten, err := contract.CheckKind(kind)
	for _, f := range forgotten {
		if f.Need != contract.NeedOptional {
			fmt.Println(f)
		}
	}
	fmt.Println(err)
	// Output:
	// ProviderID is not stored, so no Node is found, drained or deleted: have the contract.Kind write and read it
	// <nil>
}

func TestWhatAKindForgetsIsNamedWhetherItIsNotWrittenOrNotRead(t *testing.T) {
	before, err := contract.CheckKind(kindOfServers(readServer, writeServer))
	require.NoError(t, err)
	for member, forget := range map[string]struct {
		state  func(*contract.MachineState)
		update func(*contract.MachineUpdate)
		need   contract.Need
	}{
		"UID":      {state: func(s *contract.MachineState) { s.UID = "" }, need: contract.NeedMust},
		"Deleting": {state: func(s *contract.MachineState) { s.Deleting = time.Time{} }, need: contract.NeedMust},
		"Finalizers": {func(s *contract.MachineState) { s.Finalizers = nil },
			func(u *contract.MachineUpdate) { u.Finalizers = contract.Change[[]string]{} }, contract.NeedMust},
		"OwnerReferences": {func(s *contract.MachineState) { s.OwnerReferences = nil },
			func(u *contract.MachineUpdate) { u.OwnerReferences = contract.Change[[]metav1.OwnerReference]{} }, contract.NeedMust},
		"Labels": {func(s *contract.MachineState) { s.Labels = nil }, func(u *contract.MachineUpdate) { u.Labels = nil }, contract.NeedMust},
		"Annotations": {func(s *contract.MachineState) { s.Annotations = nil }, func(u *contract.MachineUpdate) { u.Annotations = nil },
			contract.NeedMust},
		"ProviderID": {func(s *contract.MachineState) { s.ProviderID = "" },
			func(u *contract.MachineUpdate) { u.ProviderID = contract.Change[string]{} }, contract.NeedShould},
		"DataSecretName": {func(s *contract.MachineState) { s.DataSecretName = contract.Opt[string]{} },
			func(u *contract.MachineUpdate) { u.DataSecretName = contract.Change[string]{} }, contract.NeedShould},
		"Node.UID": {func(s *contract.MachineState) { s.Node.UID = "" },
			func(u *contract.MachineUpdate) { u.Node = contract.SetTo(contract.NodeRef{Name: "probe"}) }, contract.NeedMust},
		"Conditions": {func(s *contract.MachineState) { s.Conditions = nil }, func(u *contract.MachineUpdate) { u.Conditions = nil },
			contract.NeedShould},
	} {
		t.Run(member, func(t *testing.T) {
			notRead := kindOfServers(func(s *Server, into *contract.MachineState) error {
				err := readServer(s, into)
				forget.state(into)
				return err
			}, writeServer)
			notWritten := kindOfServers(readServer, func(s *Server, u contract.MachineUpdate) error {
				if forget.update != nil {
					forget.update(&u)
				}
				return writeServer(s, u)
			})
			for how, kind := range map[string]contract.Kind{"read": notRead, "write": notWritten} {
				got, err := contract.CheckKind(kind)
				require.NoError(t, err)
				if how == "write" && forget.update == nil {
					require.Equal(t, before, got)
					continue
				}
				at := slices.IndexFunc(got, func(f contract.NotStored) bool { return f.Member == member })
				require.GreaterOrEqual(t, at, 0, "not named: %v", got)
				require.Equal(t, forget.need, got[at].Need)
				require.Len(t, got, len(before)+1)
			}
		})
	}
}

func TestWhatAKindOfPoolForgetsIsNamed(t *testing.T) {
	layout := *contract.LayoutsOf(contract.V1Beta2).MachinePool
	layout.Nodes, layout.Conditions = contract.Field[[]contract.NodeRef]{}, contract.ConditionsField{}
	got, err := contract.CheckKind(
		contract.Unstructured(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Many"}, &layout))
	require.NoError(t, err)
	var names []string
	for _, f := range got {
		if f.Need != contract.NeedOptional {
			names = append(names, f.Member)
		}
	}
	require.Equal(t, []string{"Conditions", "Nodes"}, names)
	refused := contract.RequireStored(got)
	require.ErrorContains(t, refused, "the Nodes of instances that are gone are neither drained nor deleted")
	require.NotContains(t, refused.Error(), "Conditions", "it has to be known, and is no danger")
	require.NoError(t, contract.RequireStored(got, "Nodes"))
}

// A state that embeds one of this package has its methods, and is none of its kinds: no reconciler takes it.
func TestAKindOfAnotherStateIsRefused(t *testing.T) {
	type state struct{ contract.MachineState }
	type update struct{ contract.MachineUpdate }
	_, err := contract.CheckKind(contract.NewTyped(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Server"},
		func() *Server { return &Server{} }, func() runtime.Object { return &metav1.List{} },
		func(s *Server, into *state) error { return readServer(s, &into.MachineState) },
		func(s *Server, u update) error { return writeServer(s, u.MachineUpdate) }))
	require.ErrorContains(t, err, "none of the kinds of this package")
}
