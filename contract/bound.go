package contract

import "fmt"

// What an object says in one place is bounded, because it is copied into other objects. An API server stores no more: etcd
// refuses objects beyond 1.5 MiB unless it is told otherwise, and a MachinePool takes 10,000 provider IDs.
const (
	maxText    = 1 << 20
	maxEntries = 1 << 16
)

// boundText refuses a text that no API server would store.
func boundText(at []string, text string) error {
	if len(text) <= maxText {
		return nil
	}
	return &FieldError{Path: NewPath(at...), Want: "string of at most 1 MiB", Got: fmt.Sprintf("string of %d bytes", len(text))}
}

// boundList refuses a list that no API server would store.
func boundList(at Path, items []any) error {
	if len(items) <= maxEntries {
		return nil
	}
	return &FieldError{Path: at, Want: fmt.Sprintf("list of at most %d entries", maxEntries),
		Got: fmt.Sprintf("list of %d entries", len(items))}
}
