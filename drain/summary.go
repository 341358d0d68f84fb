package drain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	maxNames    = 3 // Pods per line, as in Cluster API
	maxTroubles = 5 // lines about blocked Pods, as in Cluster API
	maxText     = 512
)

// Summary returns the remaining work in the form of Cluster API's condition message, without its first line, which contains a start time:
// one line per group, sorted, without a newline at the end. Each line names at most three Pods, and at most five lines are about blocked
// Pods. A Pod is "eviction requested" only according to the facts ([ReasonEvictionRequested]); an eviction of the plan is "to be evicted".
// The summary is empty when the plan is Done, contains no times, and is equal for equal plans, so that it causes no unnecessary writes of a
// status.
func (p Plan) Summary() string {
	groups := map[podGroup][]PodRef{}
	troubles := map[string][]PodRef{}
	for i := range p.Decisions {
		d := &p.Decisions[i]
		if g, ref := group(d), RefOf(d.Pod); g == groupBlocked {
			text := troubleText(d)
			troubles[text] = append(troubles[text], ref)
		} else {
			groups[g] = append(groups[g], ref)
		}
	}
	var lines []string
	bullet := func(refs []PodRef, text string) {
		if len(refs) > 0 {
			lines = append(lines, fmt.Sprintf("* %s %s: %s", kind(refs), names(refs), text))
		}
	}
	bullet(groups[groupTerminating], "deletionTimestamp set, but still not removed from the Node")
	bullet(groups[groupRequested], "eviction requested")
	bullet(groups[groupEvicted], "to be evicted")
	bullet(groups[groupDeleted], "to be deleted")
	lines = append(lines, troubleLines(troubles)...)
	bullet(groups[groupCompleting], "waiting for completion")
	after := func(refs []PodRef, text string) {
		if len(refs) > 0 {
			lines = append(lines, "After above Pods have been removed from the Node, "+text+": "+names(refs))
		}
	}
	after(groups[groupLater], "the following Pods will be evicted")
	after(groups[groupCompletingLater], "waiting for the following Pods to complete without eviction")
	return strings.Join(lines, "\n")
}

func troubleLines(troubles map[string][]PodRef) []string {
	var lines []string
	var rest []PodRef
	for i, text := range slices.Sorted(maps.Keys(troubles)) {
		refs := troubles[text]
		if i >= maxTroubles {
			rest = append(rest, refs...)
			continue
		}
		lines = append(lines, fmt.Sprintf("* %s %s: %s", kind(refs), names(refs), text))
	}
	if len(rest) > 0 {
		lines = append(lines, fmt.Sprintf("* %d %s with other issues", len(rest), kind(rest)))
	}
	return lines
}

func troubleText(d *Decision) string {
	text := bounded(cmp.Or(d.Message, string(d.Reason)))
	if strings.HasPrefix(text, violation) {
		return text
	}
	return "failed to evict Pod, " + text
}

func bounded(text string) string {
	if len(text) > maxText {
		return strings.ToValidUTF8(text[:maxText], "") + "..."
	}
	return text
}

func kind(refs []PodRef) string {
	if len(refs) == 1 {
		return "Pod"
	}
	return "Pods"
}

func names(refs []PodRef) string {
	all := make([]string, 0, len(refs))
	for _, ref := range refs {
		all = append(all, ref.String())
	}
	return limited(all, maxNames)
}

// limited lists at most limit names, sorted, and the number of the others.
func limited(all []string, limit int) string {
	slices.Sort(all)
	text := strings.Join(all[:min(limit, len(all))], ", ")
	if more := len(all) - limit; more > 0 {
		text += fmt.Sprintf(", ... (%d more)", more)
	}
	return text
}
