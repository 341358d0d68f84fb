package phases

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// step is one thing that can happen to a Machine.
type step struct {
	name  string
	apply func(*Facts)
}

func life() []step {
	return []step{
		{"bootstrap data created", func(f *Facts) { f.BootstrapReady = true }},
		{"infrastructure provisioned", func(f *Facts) { f.InfrastructureReady, f.HasProviderID = true, true }},
		{"Node joined", func(f *Facts) { f.HasNode = true }},
		{"deletion requested", func(f *Facts) { f.Deleting = true }},
	}
}

// WriteMermaid writes the state diagram of a table for a Machine with bootstrap data of a provider. It is not drawn by
// hand: every order in which the facts of a life can become true is walked (a Node joins only once the infrastructure is
// there, and nothing follows deletion), and each change of phase is an arrow. Output is sorted and stable. The only
// errors are those of w.
func (t *Table) WriteMermaid(w io.Writer) error {
	edges := map[string]bool{}
	var walk func(Facts)
	walk = func(f Facts) {
		from := t.Compute(f).Phase
		for _, s := range life() {
			next := f
			s.apply(&next)
			if next == f || f.Deleting || (next.HasNode && !next.InfrastructureReady) {
				continue
			}
			if to := t.Compute(next).Phase; to != from {
				edges[fmt.Sprintf("    %s --> %s: %s", from, to, s.name)] = true
			}
			walk(next)
		}
	}
	walk(Facts{})
	lines := slices.Concat(
		[]string{"stateDiagram-v2", fmt.Sprintf("    [*] --> %s", t.Compute(Facts{}).Phase)},
		slices.Sorted(maps.Keys(edges)),
		[]string{fmt.Sprintf("    %s --> [*]: everything cleaned up", t.Compute(Facts{Deleting: true}).Phase)},
	)
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}
