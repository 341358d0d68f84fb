package contract_test

import (
	"slices"
	"strings"
	"testing"
)

// maxLinked is how many packages outside the standard library may come with this one: unstructured alone brings 62, and
// the package that does this in Cluster API links 255.
const maxLinked = 80

func TestTheContractLinksFewPackages(t *testing.T) {
	found := map[string]bool{}
	for _, p := range listPackages(t) {
		if p.rel() != "contract" && !strings.HasPrefix(p.rel(), "contract/") {
			continue
		}
		if slices.Contains([]string{"contract/pass"}, p.rel()) {
			continue // they act, above floor 0: those who import them have a client already
		}
		found[p.rel()] = true
		linked := slices.DeleteFunc(slices.Clone(p.Deps), func(path string) bool {
			first, _, _ := strings.Cut(path, "/")
			return !strings.Contains(first, ".") // the standard library, with what it vendors
		})
		if len(linked) > maxLinked {
			t.Errorf("%s links %d packages outside the standard library, more than %d:\n%s", p.rel(), len(linked), maxLinked,
				strings.Join(linked, "\n"))
		}
		t.Logf("%s links %d packages", p.rel(), len(linked))
	}
	if !found["contract"] {
		t.Error("the package itself was not found")
	}
}

// maxLinkedByADriver is how many packages outside the standard library come with the port of a Driver.
const maxLinkedByADriver = 120

func TestADriverLinksFewPackages(t *testing.T) {
	for _, p := range listPackages(t) {
		if p.rel() != "machine/provider" {
			continue
		}
		linked := slices.DeleteFunc(slices.Clone(p.Deps), func(path string) bool {
			first, _, _ := strings.Cut(path, "/")
			return !strings.Contains(first, ".")
		})
		if len(linked) > maxLinkedByADriver {
			t.Errorf("%s links %d packages outside the standard library, more than %d:\n%s", p.rel(), len(linked), maxLinkedByADriver,
				strings.Join(linked, "\n"))
		}
		t.Logf("%s links %d packages", p.rel(), len(linked))
		return
	}
	t.Error("the package was not found")
}
