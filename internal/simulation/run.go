package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Bound is the virtual time in which everything desired is reached once the faults have stopped.
	Bound = 2 * time.Hour
	// quietFor is how long there must be silence, after settleFor in which the last statuses are written, and in which sets and checks forget
	// what they remember for an hour.
	quietFor  = time.Hour
	settleFor = quietFor + 5*time.Minute
	// calmFor is how long nothing happens before the faults begin.
	calmFor = 2 * time.Minute
	// mostRounds ends a history that runs in circles, with an error: no wait of a sound one takes a fifth of them.
	mostRounds = 3000
	// mostAtOnce are the rounds at one instant that are a circle too.
	mostAtOnce = 300
	// mostEvents to each step are those after which the faults stop, and calmEvents more for the time before there are any: people act in
	// waits too, which no step counts, and each Machine that they leave makes what follows longer. Of 500 histories, none has half of them.
	mostEvents, calmEvents = 100, 1000
	// oneFaultIn is how many steps there are to one in which something goes wrong.
	oneFaultIn = 8
	// onePauseIn is how many steps there are to one in which time passes although there is work.
	onePauseIn = 10
)

// Names of the invariants that Run checks.
const (
	Reached = "once the faults have stopped, everything desired is reached"
	Silent  = "then there is silence"
)

// Run runs one history. The error is a *BrokenError, or reports why the World could not be made.
func Run(ctx context.Context, choices *Choices, o Options) (History, error) {
	w, err := run(ctx, choices, o, nil)
	if w == nil {
		return History{}, err
	}
	return w.history, err
}

// errUnneeded is the error of a history that lacks what is needed.
var errUnneeded = errors.New("the history lacks what is needed")

func run(ctx context.Context, choices *Choices, o Options, needs []string) (*World, error) {
	w, err := newWorld(ctx, choices, o)
	if err != nil {
		return nil, fmt.Errorf("make a world: %w", err)
	}
	defer w.stop()
	if !w.hasAll(needs) {
		return nil, errUnneeded
	}
	w.begin(ctx)
	for i := 0; i < w.options.Steps && w.broken == nil && !w.exhausted(); i++ {
		w.step(ctx)
	}
	w.end(ctx)
	w.history.Choices = slices.Clone(choices.made)
	for name, n := range w.seen {
		if strings.HasPrefix(name, faultPrefix) && name != faultPrefix+string(Lag) {
			w.history.Faults += n
		}
	}
	if w.broken != nil {
		w.broken.History = w.history
		return w, w.broken
	}
	return w, nil
}

// exhausted reports whether so much has happened that there are no faults any more.
func (w *World) exhausted() bool {
	return len(w.history.Events) >= calmEvents+mostEvents*w.options.Steps
}

// stop ends what the processes began: what waits for the end of a context would keep the World in memory.
func (w *World) stop() {
	for _, p := range w.processes {
		p.stop()
		p.count()
	}
}

// begin brings half of the histories to what is desired before anything goes wrong.
func (w *World) begin(ctx context.Context) {
	defer w.beginNarrowing(ctx)
	if w.choices.pick(2) == 0 {
		return
	}
	w.calm = true
	w.until(ctx, "", Bound, func() string { return w.missing(ctx) })
	w.until(ctx, "", calmFor, func() string { return "time" })
	w.atRest()
	w.calm = false
}

// step does one thing, which the choices select.
func (w *World) step(ctx context.Context) {
	if w.choices.oneIn(oneFaultIn) {
		w.disturb(ctx)
		return
	}
	if w.choices.oneIn(onePauseIn) {
		w.clock.Step(time.Duration(1+w.choices.pick(30)) * time.Second)
		return
	}
	var now []func()
	for _, act := range w.actors {
		for _, d := range act(ctx, w) {
			switch {
			case d.at.After(w.Now()):
			case d.events > 0 && w.has(Lag) && w.choices.pick(3) > 0:
				w.counts(Lag)
			default:
				now = append(now, d.do)
			}
		}
	}
	if len(now) == 0 {
		w.clock.Step(time.Duration(1+w.choices.pick(20)) * time.Second)
		return
	}
	now[w.choices.pick(len(now))]()
}

// deliveries are what the watches of all processes show next, as an actor.
func deliveries(_ context.Context, w *World) (all []due) {
	for _, p := range w.processes {
		for _, k := range p.watches() {
			if len(k.pending) > 0 {
				all = append(all, due{at: k.stalled, do: func() { p.deliver(k) }, events: len(k.pending)})
			}
		}
	}
	return all
}

// reconciliations are those of the leaders, as an actor.
func reconciliations(ctx context.Context, w *World) (all []due) {
	for i, p := range w.processes {
		for _, q := range p.waiting() {
			if w.leads[i] && !p.busy {
				all = append(all, due{at: q.due, do: func() {
					p.run(ctx, q)
					w.restart(ctx, p)
				}})
			}
		}
	}
	return all
}

// restart starts a process again that has crashed, once nothing of it is under way.
func (w *World) restart(ctx context.Context, p *process) {
	if p.crashed && !p.busy && w.broken == nil {
		w.note(p.name, "crashes and starts again", "")
		if err := p.start(ctx); err != nil {
			w.fail("a process starts", err)
		}
	}
}

// between is what happens between two requests of one pass.
func (w *World) between() {
	if w.calm || w.exhausted() || w.nested > 0 || !w.choices.oneIn(oneBetweenIn) {
		return
	}
	w.nested++
	defer func() { w.nested-- }()
	if w.choices.pick(4) == 3 {
		w.disturb(w.ctx)
	} else {
		w.step(w.ctx)
	}
}

// disturb draws a fault, or an act of a person.
func (w *World) disturb(ctx context.Context) {
	var among []Fault
	for _, d := range disturbances() {
		if w.has(d.fault) {
			among = append(among, d.fault)
		}
	}
	if len(among) > 0 {
		f := oneOf(w, among...)
		w.happens(ctx, f)
		w.lasts(ctx, f)
	}
}

// happens carries a disturbance out.
func (w *World) happens(ctx context.Context, f Fault) {
	w.counts(f)
	for _, d := range disturbances() {
		if d.fault == f {
			d.do(w, ctx)
		}
	}
}

func (w *World) elects(context.Context) {
	w.leads = oneOf(w, []bool{true, true}, []bool{true, false}, []bool{false, true})
	w.note("lease", fmt.Sprintf("leaders are %v", w.leads), "")
}

// textOf is the text of an error; empty without.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// end stops the faults, waits until everything desired is reached and until it is silent, and deletes everything.
func (w *World) end(ctx context.Context) {
	w.calm, w.leads = true, []bool{true, false}
	w.note("world", "the faults stop, "+strconv.Itoa(w.desired())+" Machines are desired", "")
	for _, p := range w.processes {
		w.setClock(p, 0)
		for _, k := range p.view.kinds {
			k.stalled = time.Time{}
		}
	}
	w.unpauses(ctx)
	w.writers.applies = w.Now() // the manifests of GitOps count from now on
	w.revive(ctx)
	w.calmPool()
	w.until(ctx, Reached, Bound, func() string { return w.missing(ctx) })
	w.until(ctx, "", settleFor+w.habits.last(), func() string { return "time" })
	w.atRest()
	before := w.requests
	w.until(ctx, "", quietFor, func() string { return "time" })
	if n := w.requests - before; n > 0 && w.broken == nil {
		w.fail(Silent, fmt.Errorf("%d requests in %s", n, quietFor))
	}
	w.atRest()
	w.onceMore(ctx)
	if w.broken != nil {
		return
	}
	w.delete(ctx)
	w.until(ctx, "everything goes", Bound, func() string { return textOf(nothingLeft(w)) })
	for _, i := range append(Invariants(), w.options.Invariants...) {
		if i.AtEnd != nil {
			w.fail(i.Name, i.AtEnd(w))
		}
	}
}

// onceMore requests something else in the silence, or makes one Node fail that a check judges: what a process remembers of the time of the
// faults must not hold it up.
func (w *World) onceMore(ctx context.Context) {
	if w.broken != nil || w.choices.pick(2) == 0 {
		return
	}
	node := w.chooseNode(func(node *unstructured.Unstructured) bool {
		return isReady(node) && w.isJudged(w.withID("Machine", providerIDIn(node)))
	})
	if node != nil {
		w.setReady(ctx, node, corev1.ConditionUnknown)
	} else {
		w.happens(ctx, UserScales)
	}
	w.until(ctx, Reached, Bound, func() string { return w.missing(ctx) })
}

func (w *World) delete(ctx context.Context) {
	w.ending = true
	w.note("user", "delete everything", "")
	w.undeploy(ctx)
	if w.pool != nil {
		w.collects(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: otherNode}})
	}
	for _, obj := range w.ours() {
		if len(obj.GetOwnerReferences()) == 0 || obj.GetName() == ForeignName { // others go with their owners
			w.fail("a deletion is accepted", client.IgnoreNotFound(w.store.Client().Delete(ctx, obj.DeepCopy())))
		}
	}
}

// until runs everything fairly, until nothing is missing; with an empty name only for as long, and until nothing is possible. Among faults,
// an object is rightly passed over once a second for as long as others undo what is written: then the rounds of a minute are counted.
func (w *World) until(ctx context.Context, name string, limit time.Duration, missing func() string) {
	begun, end := w.Now(), w.Now().Add(limit)
	for rounds, atOnce := 0, 0; rounds < mostRounds && atOnce < mostAtOnce; rounds++ {
		if !w.calm && w.Now().Sub(begun) >= time.Minute {
			rounds, begun = 0, w.Now()
		}
		if w.broken != nil {
			return
		}
		did, next := w.round(ctx, end)
		if did {
			if w.calm || w.exhausted() { // faults end by themselves
				atOnce++
			}
			continue
		}
		atOnce = 0
		if w.isOver(name, limit, end, missing) {
			return
		}
		if name != "" || !w.calm { // what is missing may be something that no time is known for
			next = earlier(next, w.Now().Add(longestWait))
		}
		w.clock.Step(max(time.Millisecond, next.Sub(w.Now())))
	}
	w.fail("time passes", w.circle())
}

// isOver reports whether nothing is missing, or the time is over, which is a failure under a name that is not empty.
func (w *World) isOver(name string, limit time.Duration, end time.Time, missing func() string) bool {
	text := missing()
	if text != "" && w.Now().Before(end) {
		return false
	}
	if text != "" && name != "" {
		w.fail(name, fmt.Errorf("after %s: %s", limit, text))
	}
	return true
}

// longestWait is the longest time for which a history does not look whether anything is due.
const longestWait = 30 * time.Second

// round does everything that is possible now, and returns whether there was anything and, if not, when something will be due; at the
// latest, the end.
func (w *World) round(ctx context.Context, end time.Time) (did bool, next time.Time) {
	next = end
	for _, act := range w.actors {
		for _, d := range act(ctx, w) {
			if d.at.After(w.Now()) {
				next = earlier(next, d.at)
				continue
			}
			for range max(1, d.events) {
				d.do()
			}
			did = true
		}
	}
	if !did && w.calm {
		for _, d := range people(ctx, w) {
			d.do()
			did = true
		}
	}
	return did, next
}

func earlier(a, b time.Time) time.Time {
	return slices.MinFunc([]time.Time{a, b}, time.Time.Compare)
}
