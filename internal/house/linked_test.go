package house

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostLinked is how many packages outside the standard library a package may link, itself included: every operator pays for them in build
// time, size and updates. controller-runtime alone brings 564, and Cluster API's reconciler of Machines 917.
func mostLinked() map[string]int { return map[string]int{"contract": 67, "drain": 74, "machine": 583} }

func TestLinkedPackages(t *testing.T) {
	found := 0
	for _, p := range listPackages(t) {
		most, ok := mostLinked()[p.rel()]
		if !ok {
			continue
		}
		found++
		linked := 1
		for _, dep := range p.Deps {
			if first, _, _ := strings.Cut(dep, "/"); strings.Contains(first, ".") {
				linked++
			}
		}
		t.Logf("%s links %d packages", p.rel(), linked)
		if linked > most {
			t.Errorf("%s links %d packages outside the standard library, more than %d", p.rel(), linked, most)
		}
	}
	require.Len(t, mostLinked(), found)
}
