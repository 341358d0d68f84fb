package scale

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

// LinesAnnotation of a set holds its Lines.
const LinesAnnotation = "machinist.dev/replacements"

// maxLines is how many lines are stored: 60 kB of the 256 kB that all annotations of an object may have. Those that were replaced least and
// longest ago are forgotten first.
const maxLines = 500

// Line is a chain of Machines of which each has replaced the one before, because a health check has failed. The Machine that replaces
// another one is one that was created later: it has no record of its own.
type Line struct {
	// Of is the name of the Machine that was replaced last, empty when it has recovered instead, and From the first slot that the Machine in
	// its place can have.
	Of   string
	From int64
	// Count is how often the line was replaced since a Machine of it has stayed healthy, and Last is when it was last, in whole seconds.
	Count int
	Last  time.Time
}

func (l Line) compare(other Line) int {
	return cmp.Or(cmp.Compare(l.From, other.From), cmp.Compare(l.Of, other.Of))
}

// storedLines is the form of lines in the annotation.
type storedLines struct {
	Set   types.UID    `json:"set"`
	Lines []storedLine `json:"lines"`
}

type storedLine struct {
	Of    string `json:"of,omitempty"`
	From  int64  `json:"from"`
	Count int    `json:"n"`
	Last  int64  `json:"t"`
}

// ErrLines matches the error of ParseLines. Lines that cannot be read are not empty: nothing may be replaced.
var ErrLines = errors.New("the record of replacements cannot be read")

// ParseLines reads the lines of a set. A text of another set, which was restored, moved or copied, has none.
func ParseLines(text string, set types.UID) ([]Line, error) {
	if text == "" {
		return nil, nil
	}
	var stored storedLines
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLines, err)
	}
	if stored.Set != set {
		return nil, nil
	}
	lines := make([]Line, 0, len(stored.Lines))
	for _, l := range stored.Lines {
		if l.From < 1 || l.Count < 1 {
			return nil, fmt.Errorf("%w: %q was replaced %d times before slot %d", ErrLines, l.Of, l.Count, l.From)
		}
		lines = append(lines, Line{Of: l.Of, From: l.From, Count: l.Count, Last: time.Unix(l.Last, 0).UTC()})
	}
	return lines, nil
}

// ReplacedBy returns the names of the Machines that a set has recorded as to be replaced; some of them may be gone.
func ReplacedBy(set *contract.Metadata) map[string]bool {
	lines, err := ParseLines(set.Annotations[LinesAnnotation], set.UID)
	if err != nil || len(lines) == 0 {
		return nil // the set replaces nothing until it can be read
	}
	names := make(map[string]bool, len(lines))
	for _, l := range lines {
		names[l.Of] = true
	}
	return names
}

// LinesText returns the lines of a set as text for LinesAnnotation, empty for none. Equal lines give equal texts, whatever their order.
func LinesText(set types.UID, lines []Line) string {
	if len(lines) == 0 {
		return ""
	}
	kept := slices.SortedFunc(slices.Values(lines), func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), b.Last.Compare(a.Last), a.compare(b))
	})
	kept = kept[:min(len(kept), maxLines)]
	slices.SortFunc(kept, Line.compare)
	stored := storedLines{Set: set}
	for _, l := range kept {
		stored.Lines = append(stored.Lines, storedLine{l.Of, l.From, l.Count, l.Last.Unix()})
	}
	text, err := json.Marshal(stored)
	if err != nil {
		return "" // numbers and strings always have a text
	}
	return string(text)
}

// RemediationPolicy bounds how often the Machines of a line are replaced, so that a broken template does not cost one machine after the
// other. Machines that never got a Node count like all others. The zero value has the defaults.
type RemediationPolicy struct {
	// BackOff is how long the second replacement of a line waits after the first one. Each further one waits twice as long, up to MaxBackOff.
	// Default DefaultBackOff and DefaultMaxBackOff; 0 or less is none.
	BackOff, MaxBackOff contract.Opt[time.Duration]
	// MaxReplacements is how often a line is replaced until a Machine of it stays healthy. Then it waits for Window since the last time.
	// Default DefaultMaxReplacements; 0 or less is no limit.
	MaxReplacements contract.Opt[int]
	// Window is after how long without a replacement a line is forgotten. Default DefaultReplacementWindow, also when it is not positive.
	Window time.Duration
	// HealthyAfter is for how long a Machine must have been available for its line to be forgotten. Default DefaultHealthyAfter, also when it
	// is not positive.
	HealthyAfter time.Duration
}

// Defaults of RemediationPolicy.
const (
	DefaultBackOff           = time.Minute
	DefaultMaxBackOff        = time.Hour
	DefaultMaxReplacements   = 5
	DefaultReplacementWindow = 24 * time.Hour
	DefaultHealthyAfter      = time.Hour
)

func (p RemediationPolicy) maxReplacements() int { return p.MaxReplacements.Or(DefaultMaxReplacements) }

func (p RemediationPolicy) window() time.Duration {
	if p.Window > 0 {
		return p.Window
	}
	return DefaultReplacementWindow
}

func (p RemediationPolicy) healthyAfter() time.Duration {
	if p.HealthyAfter > 0 {
		return p.HealthyAfter
	}
	return DefaultHealthyAfter
}

// backOff is how long a line waits that was replaced so many times.
func (p RemediationPolicy) backOff(count int) time.Duration {
	wait, most := max(p.BackOff.Or(DefaultBackOff), 0), max(p.MaxBackOff.Or(DefaultMaxBackOff), 0)
	for range count - 1 {
		if wait == 0 || wait >= most {
			break
		}
		wait *= 2
	}
	return min(wait, most)
}

// readLines finds the Machines that stand for lines, and keeps the lines that are not forgotten.
func (r *remediation) readLines() {
	lines, left := r.request(), make([]*Machine, 0, len(r.Machines))
	for i := range r.Machines {
		if m := &r.Machines[i]; !m.Deleting && !r.requested[m.Name] {
			left = append(left, m)
		}
	}
	slices.SortFunc(left, func(a, b *Machine) int { return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.Name, b.Name)) })
	slices.SortFunc(lines, func(a, b Line) int { // those that were replaced most find their Machine first
		return cmp.Or(cmp.Compare(b.Count, a.Count), a.compare(b))
	})
	for i := range lines {
		line, m := &lines[i], (*Machine)(nil)
		at := slices.IndexFunc(left, func(m *Machine) bool { return m.Slot >= line.From })
		if at >= 0 {
			m = left[at]
		}
		over := r.over(*line, m)
		if !r.requested[line.Of] && !over.After(r.Now) {
			continue
		}
		r.wake(over)
		if r.out.Lines = append(r.out.Lines, *line); m != nil {
			r.lines[m.Name], left = line, slices.Delete(left, at, at+1)
		}
	}
}

// request returns the lines, and remembers which Machines are to go because of them: those that lines name and that are still there. One
// that has recovered stands for its line again, if it has a slot by which it is known.
func (r *remediation) request() []Line {
	there := map[string]*Machine{}
	for i := range r.Machines {
		there[r.Machines[i].Name] = &r.Machines[i]
	}
	lines := make([]Line, 0, len(r.Lines))
	for _, line := range r.Lines {
		m := there[line.Of]
		recovered := m != nil && !m.Deleting && !m.Ailing
		switch {
		case recovered && m.Slot == 0:
			continue
		case recovered:
			line.Of, line.From = "", m.Slot
		default:
			r.requested[line.Of] = m != nil
		}
		lines = append(lines, line)
	}
	return lines
}

// over is when a line is forgotten, of which m is the Machine; nil while there is none.
func (r *remediation) over(line Line, m *Machine) time.Time {
	over := line.Last.Add(r.window())
	if m != nil && m.Available && !m.Ailing && !m.AvailableSince.IsZero() {
		if healthy := m.AvailableSince.Add(r.healthyAfter()); healthy.Before(over) {
			return healthy
		}
	}
	return over
}

// drop forgets a line that is replaced again.
func (r *remediation) drop(line Line) {
	r.out.Lines = slices.DeleteFunc(r.out.Lines, func(l Line) bool { return l == line })
}
