package contract_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/machinist-dev/machinist/contract"
)

// keepingKind reads the finalizers of a Server as addresses, which is a list that has to be converted.
func keepingKind() contract.Kind {
	read := func(s *Server, into *contract.MachineState) error {
		before := into.Addresses
		*into = contract.MachineState{}
		if err := readServer(s, into); err != nil {
			return err
		}
		into.Addresses = contract.Converted(s.Finalizers, before, func(name string) contract.Address {
			return contract.Address{Type: "Hostname", Address: name}
		})
		return nil
	}
	return contract.NewTypedReusing(serverGVK, func() *Server { return &Server{} }, func() runtime.Object { return &metav1.List{} }, read,
		writeServer)
}

func TestNewTypedReusing(t *testing.T) {
	server, state, adapter := fullServer(), fullState(), keepingKind().Adapter
	require.NoError(t, adapter.Read(server, &state))
	want := serverState()
	want.Addresses = []contract.Address{{Type: "Hostname", Address: "machine.cluster.x-k8s.io"}}
	require.Empty(t, diffStates(want, state))
	allocations(t, "reading a Server again", 0, func() { _ = adapter.Read(server, &state) })

	handedOut := state
	server.Finalizers = []string{"other", "more"}
	require.NoError(t, adapter.Read(server, &state))
	require.Empty(t, diffStates(want.Addresses, handedOut.Addresses), "what was handed out does not change")
	require.Len(t, state.Addresses, 2)
	_, err := contract.CheckKind(keepingKind())
	require.NoError(t, err)
}

func TestConverted(t *testing.T) {
	double := func(n int) int { return 2 * n }
	for name, c := range map[string]struct{ items, before, want []int }{
		"none":          {nil, []int{2}, nil},
		"an empty list": {[]int{}, []int{2}, nil},
		"the first":     {[]int{1}, nil, []int{2}},
		"the same":      {[]int{1, 2}, []int{2, 4}, []int{2, 4}},
		"shorter":       {[]int{1}, []int{2, 4}, []int{2}},
		"longer":        {[]int{1, 2}, []int{2}, []int{2, 4}},
		"the last one":  {[]int{1, 3}, []int{2, 4}, []int{2, 6}},
		"the first one": {[]int{3, 2}, []int{2, 4}, []int{6, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			items, before := slices.Clone(c.items), slices.Clone(c.before)
			got := contract.Converted(c.items, c.before, double)
			require.Equal(t, c.want, got)
			require.Equal(t, items, c.items)
			require.Equal(t, before, c.before)
			if len(got) > 0 {
				_ = append(got, 99)
				require.Equal(t, before, c.before[:len(before)], "appending to the result changes nothing of before")
			}
		})
	}
}
