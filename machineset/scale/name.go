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
	// maxNameLength is the maximum length of a Machine's name, so that it can be a host name and a label value.
	maxNameLength = 63
	// suffixLength is the length of a default name's part that depends on the slot: at 10,000 slots two are equal in one of four million sets.
	suffixLength = 10
	// randomLength is the length of .random in a naming template. Rule: Cluster API's MachineSet spec.machineNaming.
	randomLength = 5
	// alphabet has no vowels, so that no words occur, and no ambiguous characters. Rule: Kubernetes' generated names.
	alphabet = "bcdfghjklmnpqrstvwxz2456789"
)

// Naming names the Machines of one set. Safe for concurrent use.
type Naming struct {
	set    types.UID
	prefix string
	render func(random string) (string, error) // nil for the default names
}

// NewNaming returns the naming of a set. An empty text means the name of the set and a suffix; any other text is a Go template with the
// values .machineSet.name, .cluster.name and .random, the last of which is required. The error describes an invalid template. Rule: Cluster
// API's MachineSet spec.machineNaming.template.
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

// Name returns the name of a slot, which never changes. It depends on the set's UID, so that the Machines of a set that was deleted and
// created again have other names; it does not depend on the Machine template, and must never be parsed.
func (n Naming) Name(slot int64) string {
	suffix := n.suffix(slot)
	if n.render != nil {
		random := suffix[:randomLength]
		if name, err := n.render(random); err == nil { // NewNaming has validated it
			return fit(name, random)
		}
	}
	// The name of the set is shortened. The rest must not end in a character that is invalid before a hyphen.
	return strings.TrimRight(n.prefix[:min(len(n.prefix), maxNameLength-1-suffixLength)], "-.") + "-" + suffix
}

// fit shortens a name that is too long, and keeps the names of slots different.
func fit(name, random string) string {
	if len(name) <= maxNameLength {
		return name
	}
	return name[:maxNameLength-randomLength] + random
}

// suffix returns the part of a name that differs between slots.
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
