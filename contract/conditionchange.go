package contract

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ChangedConditions returns those of want that differ from have, ready to be written for a generation. A time of transition moves only
// with the status; it is the one that a condition brings along, say from the object that it mirrors, or else now, in whole seconds.
// One that [IsAhead] of now comes from a wrong clock: it begins anew, because what counts from it, such as minReadySeconds, would take that
// much longer.
// Messages that are equal but for what [SteadyText] leaves out are no difference: each attempt of a failing call would be a write.
// Neither list is changed or kept. Rule: metav1.Condition.
func ChangedConditions(have, want []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	var changed []metav1.Condition
	for i, c := range want {
		c.ObservedGeneration = generation
		if c.LastTransitionTime.IsZero() {
			c.LastTransitionTime = metav1.NewTime(now)
		}
		c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.UTC().Truncate(time.Second))
		if at := slices.IndexFunc(have, func(old metav1.Condition) bool { return old.Type == c.Type }); at >= 0 {
			old := have[at]
			kept := old.Status == c.Status && (!IsAhead(old.LastTransitionTime.Time, now) || IsAhead(c.LastTransitionTime.Time, now))
			if kept {
				c.LastTransitionTime = old.LastTransitionTime
			}
			if kept && old.Reason == c.Reason && SteadyText(old.Message) == SteadyText(c.Message) &&
				old.ObservedGeneration == generation {
				continue
			}
		}
		if changed == nil {
			changed = make([]metav1.Condition, 0, len(want)-i)
		}
		changed = append(changed, c)
	}
	return changed
}

// SteadyText returns the text of an error without what differs from one attempt of the same call to the next: the local address of a
// connection, whose port is a new one each time, and the query of a URL, which holds versions and timeouts. Sources: net.OpError,
// url.Error.
func SteadyText(text string) string {
	if !strings.Contains(text, "->") && !strings.Contains(text, "?") {
		return text
	}
	words := strings.Split(text, " ")
	for i, word := range words {
		if local, remote, found := strings.Cut(word, "->"); found && isAddress(local) {
			words[i] = remote
		}
		if address, query, found := strings.Cut(word, "?"); found && strings.HasPrefix(word, `"http`) {
			if end := strings.IndexByte(query, '"'); end >= 0 {
				words[i] = address + query[end:]
			}
		}
	}
	return strings.Join(words, " ")
}

func isAddress(text string) bool {
	_, err := netip.ParseAddrPort(text)
	return err == nil
}
