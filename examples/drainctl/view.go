package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/machinist-dev/machinist/examples/command"
)

// view shows a drain. The follower calls it, one call at a time.
type view interface {
	// begin is called once, before all else; f may be read during the calls that follow.
	begin(f *follower)
	// tell shows a change; the follower's picture holds it already.
	tell(change)
	// every is how often tick is wanted; 0 is never.
	every() time.Duration
	tick()
	finish(summary)
}

// newView picks the view: a table that is redrawn needs a terminal that can move the cursor.
func (s *session) newView() view {
	file, ok := command.File(s.stdout)
	switch {
	case s.output == outputJSON:
		encoder := json.NewEncoder(s.stdout)
		encoder.SetEscapeHTML(false)
		return &jsonView{encoder}
	case s.output == outputTable && ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb":
		return &liveView{out: s.stdout, size: func() (int, int) {
			width, height, err := term.GetSize(int(file.Fd()))
			if err != nil {
				return 80, 24
			}
			return width, height
		}}
	default:
		return &lineView{out: s.stdout}
	}
}

// jsonView prints an object per line.
type jsonView struct{ *json.Encoder }

func (v *jsonView) begin(*follower)      {}
func (v *jsonView) tell(c change)        { _ = v.Encode(c) } // command.Run sees the error
func (v *jsonView) every() time.Duration { return 0 }
func (v *jsonView) tick()                {}
func (v *jsonView) finish(s summary)     { _ = v.Encode(s) }

// lineView prints a line per change. Counts of pods and what blocks them are looked at once a second: what comes and goes in
// between is not worth a line.
type lineView struct {
	out    io.Writer
	f      *follower
	told   map[string]string            // the last counts, by Node
	behind map[string]change            // the last progress that was not printed yet, by Node
	stuck  map[string]map[string]string // what blocks, by Node and key
}

func (v *lineView) begin(f *follower) {
	v.f, v.told, v.behind, v.stuck = f, map[string]string{}, map[string]change{}, map[string]map[string]string{}
}

func (v *lineView) every() time.Duration { return time.Second }

// tick catches up.
func (v *lineView) tick() {
	for _, n := range v.f.nodes {
		if c, found := v.behind[n.name]; found {
			delete(v.behind, n.name)
			v.blockers(c)
			v.counts(c)
		}
	}
}

func (v *lineView) tell(c change) {
	switch c.Event {
	case eventPlanned:
		v.line(c, v.f.intent())
		for _, text := range c.Plan.notes() {
			v.line(c, text)
		}
	case eventProgress:
		v.behind[c.Node] = c
	case eventDrained, eventStopped, eventFailed:
		delete(v.behind, c.Node)
		v.line(c, nodeText(c))
	default:
		v.line(c, nodeText(c))
	}
}

func (v *lineView) counts(c change) {
	if text := c.Counts.text(); text != v.told[c.Node] {
		v.told[c.Node] = text
		v.line(c, c.Node+": "+text)
	}
}

// blockers prints what is blocked now and was not, and the other way round.
func (v *lineView) blockers(c change) {
	before, now := v.stuck[c.Node], map[string]string{}
	for i := range c.Blockers {
		b := &c.Blockers[i]
		now[b.key()] = b.what()
		if _, old := before[b.key()]; !old {
			v.line(c, b.Node+": blocked: "+podsText(b.Pods, b.Count)+": "+b.why())
		}
	}
	for _, key := range sortedKeys(before) {
		if _, still := now[key]; !still {
			v.line(c, c.Node+": no longer blocked by "+before[key])
		}
	}
	v.stuck[c.Node] = now
}

func (v *lineView) line(c change, text string) {
	fmt.Fprintf(v.out, "%6.1fs %s\n", c.Time.Sub(v.f.start).Seconds(), oneLine(text))
}

func (v *lineView) finish(s summary) {
	for _, text := range s.lines() {
		fmt.Fprintln(v.out, printable(text))
	}
}

// nodeText is a change in a line, without its time.
func nodeText(c change) string {
	text := c.Node + ": "
	switch c.Event {
	case eventEvicted:
		return text + "evicting " + c.Pod
	case eventDeleted:
		return text + "deleting " + c.Pod
	case eventTrouble:
		return text + "trying again: " + c.Message
	case eventDetaching:
		if len(c.Volumes) == 0 {
			return text + "waiting for volumes: " + c.Message
		}
		return text + "waiting for volumes to be detached: " + podsText(c.Volumes[:min(pageNames, len(c.Volumes))], len(c.Volumes))
	case eventDetached:
		return text + strings.TrimSpace("volumes are detached "+c.Message)
	case eventFailed:
		return text + "failed: " + c.Message
	default:
		return text + strings.ToLower(c.Event)
	}
}

func (c *countsReport) text() string {
	return fmt.Sprintf("%d of %s gone", c.Gone, count(c.Gone+c.Left, "pod", "pods")) + parts([]part{
		{c.Asked, "about to be evicted"}, {c.Terminating, "terminating"}, {c.Waiting, "waiting"}, {c.Blocked, "blocked"},
	})
}

// key names what a blocker of a Node is about: its message may hold numbers that change.
func (b *blockerReport) key() string {
	key := string(b.Reason) + " " + strings.Join(b.Budgets, " ")
	if len(b.Budgets) == 0 {
		key += b.Message
	}
	return key
}

func (b *blockerReport) what() string {
	if len(b.Budgets) > 0 {
		return "budget " + strings.Join(b.Budgets, " and ")
	}
	return string(b.Reason)
}
