package phases_test

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/phases"
)

var update = flag.Bool("update", false, "write the diagrams instead of comparing them")

func TestDiagramsAreWhatTheTablesDo(t *testing.T) {
	type drawing func(io.Writer) error
	draw := map[string]drawing{}
	add := func(name string, mermaid, dot drawing) { draw[name+".mermaid"], draw[name+".dot"] = mermaid, dot }
	add("clusterapi", func(w io.Writer) error { return phases.ClusterAPI().WriteMermaid(w, phases.ClusterAPILife()) },
		func(w io.Writer) error { return phases.ClusterAPI().WriteDOT(w, phases.ClusterAPILife()) })
	add("v1alpha3", func(w io.Writer) error {
		return phases.ClusterAPIV1Alpha3().WriteMermaid(w, phases.ClusterAPIV1Alpha3Life())
	},
		func(w io.Writer) error {
			return phases.ClusterAPIV1Alpha3().WriteDOT(w, phases.ClusterAPIV1Alpha3Life())
		})
	add("kubermatic", func(w io.Writer) error { return phases.Kubermatic().WriteMermaid(w, phases.KubermaticLife()) },
		func(w io.Writer) error { return phases.Kubermatic().WriteDOT(w, phases.KubermaticLife()) })
	add("gardener", func(w io.Writer) error { return phases.Gardener().WriteMermaid(w, phases.GardenerLife()) },
		func(w io.Writer) error { return phases.Gardener().WriteDOT(w, phases.GardenerLife()) })
	add("machinepool", func(w io.Writer) error { return phases.MachinePool().WriteMermaid(w, phases.MachinePoolLife()) },
		func(w io.Writer) error { return phases.MachinePool().WriteDOT(w, phases.MachinePoolLife()) })
	for name, do := range draw {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name)
			var first strings.Builder
			require.NoError(t, do(&first))
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(first.String()), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			for range 10 {
				var got strings.Builder
				require.NoError(t, do(&got))
				if diff := cmp.Diff(string(want), got.String()); diff != "" {
					t.Fatalf("(-want +got); run go test ./phases -update if the change is wanted:\n%s", diff)
				}
			}
		})
	}
}

func TestWriteMermaid_ATableOfOneRuleHasNoBlankLine(t *testing.T) {
	table, err := phases.New(phases.Rule[phases.Facts]{Decision: phases.Decision{Phase: "Only"}})
	require.NoError(t, err)
	var got strings.Builder
	require.NoError(t, table.WriteMermaid(&got, phases.ClusterAPILife()))
	require.Equal(t, "stateDiagram-v2\n    [*] --> Only\n    Only --> [*]: everything cleaned up\n", got.String())
}

func TestDiagrams_ALifeWithoutEventsOrEndIsOnePhase(t *testing.T) {
	var got strings.Builder
	require.NoError(t, phases.Kubermatic().WriteDOT(&got, phases.Life[phases.KubermaticFacts]{}))
	require.Equal(t, "digraph phases {\n    start [shape=point]\n    end [shape=doublecircle label=\"\"]\n    start -> \"Validating\"\n}\n",
		got.String())
}

var errFull = errors.New("disk full")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestDiagrams_ReturnTheErrorOfTheWriter(t *testing.T) {
	require.ErrorIs(t, phases.ClusterAPI().WriteMermaid(fullDisk{}, phases.ClusterAPILife()), errFull)
	require.ErrorIs(t, phases.ClusterAPI().WriteDOT(fullDisk{}, phases.ClusterAPILife()), errFull)
}
