package cluster

import (
	"fmt"
	"slices"
	"strings"
)

// AuditEvents is a list of audit events with filters for tests. Its methods change nothing and return new lists in the
// same order.
type AuditEvents []AuditEvent

// From returns the events of one client: those whose user agent starts with prefix.
func (l AuditEvents) From(prefix string) AuditEvents {
	return l.Where(func(e AuditEvent) bool { return strings.HasPrefix(e.UserAgent, prefix) })
}

// Writes returns the events with IsWrite.
func (l AuditEvents) Writes() AuditEvents { return l.Where(AuditEvent.IsWrite) }

// To returns the events of one resource, named in the plural, including its subresources. The group of the core API is
// "".
func (l AuditEvents) To(group, resource string) AuditEvents {
	return l.Where(func(e AuditEvent) bool { return e.Group == group && e.Resource == resource })
}

// Where returns the events for which keep is true.
func (l AuditEvents) Where(keep func(AuditEvent) bool) AuditEvents {
	kept := AuditEvents{}
	for _, event := range l {
		if keep(event) {
			kept = append(kept, event)
		}
	}
	return kept
}

// summaryLines limits String.
const summaryLines = 40

// String counts equal requests, most frequent first, without the object's name, for the message of a failed test. It
// has at most 41 lines.
func (l AuditEvents) String() string {
	counts := map[string]int{}
	for _, event := range l {
		target := event.resource()
		if event.Resource == "" {
			target, _, _ = strings.Cut(event.URI, "?")
		}
		counts[fmt.Sprintf("%s %s %d", event.Verb, target, event.Code)]++
	}
	kinds := make([]string, 0, len(counts))
	for kind := range counts {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	var out strings.Builder
	fmt.Fprintf(&out, "%d requests", len(l))
	for i, kind := range kinds {
		if i == summaryLines-1 && len(kinds) > summaryLines {
			fmt.Fprintf(&out, "\n  and %d kinds more", len(kinds)-i)
			break
		}
		fmt.Fprintf(&out, "\n%6d %s", counts[kind], kind)
	}
	return out.String()
}
