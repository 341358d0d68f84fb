package scale

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// maxNameLength is what a Machine's name may have to become a host name and a label value.
	maxNameLength = 63
	// suffixLength is how much of a default name depends on the slot: at 10,000 slots two are alike once in four million sets.
	suffixLength = 10
	// randomLength is how many characters .random of a naming template has. Rule: Cluster API's MachineSet spec.machineNaming.
	randomLength = 5
	// alphabet has no vowels, so that no words come about, and nothing that looks like something else. Rule: Kubernetes' generated
	// names.
	alphabet = "bcdfghjklmnpqrstvwxz2456789"
)

// Naming gives the Machines of one set their names. Safe for concurrent use.
type Naming struct {
	set    types.UID
	prefix string
	render func(random string) (string, error) // nil for the default names
}

// NewNaming returns the naming of a set. An empty text means the name of the set and a suffix; another one is a Go template, with
// the values .machineSet.name, .cluster.name and .random, of which the last must be there. The error says what is wrong with it.
// Rule: Cluster API's MachineSet spec.machineNaming.template.
func NewNaming(set types.UID, setName, clusterName, text string) (Naming, error) {
	n := Naming{set: set, prefix: setName}
	if text == "" {
		return n, nil
	}
	parsed, err := template.New("name").Option("missingkey=error").Parse(text)
	if err != nil {
		return Naming{}, fmt.Errorf("naming template %q: %w", text, err)
	}
	named := func(name string) map[string]any { return map[string]any{"name": name} }
	n.render = func(random string) (string, error) {
		var out strings.Builder
		err := parsed.Execute(&out, map[string]any{"machineSet": named(setName), "cluster": named(clusterName), "random": random})
		return out.String(), err
	}
	one, err := n.render("aaaaa")
	other, otherErr := n.render("bbbbb")
	if err = cmp.Or(err, otherErr); err != nil {
		return Naming{}, fmt.Errorf("naming template %q: %w", text, err)
	}
	if one == other {
		return Naming{}, fmt.Errorf("naming template %q: it must contain {{ .random }}, or all Machines would have one name", text)
	}
	if wrong := validation.IsDNS1123Subdomain(fit(one, "aaaaa")); len(wrong) > 0 {
		return Naming{}, fmt.Errorf("naming template %q makes names like %q: %s", text, one, strings.Join(wrong, "; "))
	}
	return n, nil
}

// Name returns the name of a slot: always the same one. It depends on the set's UID, so that the Machines of a set that was
// deleted and made again are others; it does not depend on the Machine template, and must never be parsed.
func (n Naming) Name(slot int64) string {
	suffix := n.suffix(slot)
	if n.render != nil {
		random := suffix[:randomLength]
		if name, err := n.render(random); err == nil { // NewNaming has tried it: it does not fail
			return fit(name, random)
		}
	}
	// The name of the set is cut to make room. What is cut must not end in what no name may have before a hyphen.
	return strings.TrimRight(n.prefix[:min(len(n.prefix), maxNameLength-1-suffixLength)], "-.") + "-" + suffix
}

// fit cuts a name that is too long, and keeps it different from those of other slots.
func fit(name, random string) string {
	if len(name) <= maxNameLength {
		return name
	}
	return name[:maxNameLength-randomLength] + random
}

// suffix is what tells slots apart.
func (n Naming) suffix(slot int64) string {
	hash := sha256.New()
	_, _ = hash.Write([]byte(n.set)) // a hash never fails
	_, _ = hash.Write(binary.BigEndian.AppendUint64([]byte{0}, uint64(slot)))
	number := binary.BigEndian.Uint64(hash.Sum(nil))
	var text [suffixLength]byte
	for i := range text {
		text[i] = alphabet[number%uint64(len(alphabet))]
		number /= uint64(len(alphabet))
	}
	return string(text[:])
}
