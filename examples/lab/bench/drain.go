package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/machinist-dev/machinist/examples/lab/arm"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/internal/gobuild"
	"github.com/machinist-dev/machinist/examples/lab/measure"
)

const (
	// drainLimit keeps a round within 20 minutes. No drain here needs half of it by its own times, but thousands of polls a second
	// can keep a small computer so busy that pods hardly go.
	drainLimit    = 3 * time.Minute
	progressEvery = 5 * time.Second
	// catchUp is how long the recorder may take to see what an arm has seen.
	catchUp = 5 * time.Second
)

// errTooLong is matched when an arm was given up.
var errTooLong = fmt.Errorf("not drained after %s", drainLimit)

func drainArms() []string { return []string{arm.Ours, arm.Kubectl, arm.KubectlDefaults, arm.CAPI} }

// drains measures drains of the same Nodes.
func drains() kind {
	var cases []string
	var about strings.Builder
	about.WriteString(`the same Nodes drained by this library, by kubectl's drain helper and by Cluster API's manager. Cases:

`)
	for _, s := range scenarios() {
		cases = append(cases, strconv.Itoa(s.number))
		fmt.Fprintf(&about, "  (%d) %s [%s]\n", s.number, s.title, strings.Join(s.arms, ", "))
	}
	about.WriteString(`
  ours              drain/runner behind the informers of a manager (Nodes, budgets), four workers
  kubectl           kubectl's drain.Helper: retry delay 5 s, one call per Node, all Nodes at once, no client limits
  kubectl-defaults  the same with client-go's own limits, 5 requests a second: what the kubectl command does
  capi              Cluster API's manager without client limits; a Machine is deleted. It evicts one pod after the other for 10 s at most
                    and looks again after 20 s; 100 pods are about what one such pass can do

An arm is prepared first: informers are synced, the manager runs, the Machine has its Node. Then the clock starts. Wall is the time until
the arm reports that its Nodes are drained; for Cluster API, until it goes on to delete the Machine's infrastructure. "last eviction" and
"pods gone" show where that time went. After 3 minutes an arm is given up, and "pods left" counts what is left; if that happens to ours,
the run fails.

Requests are those about pods, Nodes, budgets, DaemonSets and volumes, and discovery; not what Cluster API does with its own objects, nor
the informers that an operator keeps open for its whole life (standing). A budget opens when its status shows it: reaction is the time from
that write to the first accepted eviction; that of kubectl is anything up to 5 s, and that of Cluster API up to 20 s. A wrong-node eviction
is an evicted pod that runs on a Node that nobody drains. A duplicate is an eviction asked for again although the same pod's was not refused
with 429.`)
	return kind{
		name: "drain", about: about.String(), arms: drainArms(), cases: cases,
		has: func(of, name string) bool { return slices.Contains(scenarioOf(of).arms, name) },
		columns: []measure.Column{
			{Figure: "requests/pod"}, {Figure: "wall", Unit: "s"}, {Figure: "wrong-node"},
		},
		plane:   func(_ options, o *cluster.Options) { o.ExtraStages = stages() },
		prepare: func(context.Context, *lab) error { return nil },
		one:     oneDrain,
	}
}

func scenarioOf(number string) scenario {
	all := scenarios()
	return all[slices.IndexFunc(all, func(s scenario) bool { return strconv.Itoa(s.number) == number })]
}

// drainTrial is one drain.
type drainTrial struct {
	*lab
	*measure.Run
	*scene

	agent      string
	drainer    arm.Drainer
	standing   cluster.AuditEvents // the arm's requests while it was prepared
	mark       cluster.AuditMark   // where the audit log stood when the drain began
	start, end time.Time
}

// oneDrain sets a scene up, lets the arm drain it, and counts.
func oneDrain(ctx context.Context, l *lab, run *measure.Run) error {
	own, err := kubernetes.NewForConfig(l.config("bench"))
	if err != nil {
		return err
	}
	sc := newScene(scenarioOf(run.Case), run.Arm, run.Round, own)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	sc.seen = newRecorder(time.Now)
	factory := informers.NewSharedInformerFactoryWithOptions(own, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = sc.selector().LabelSelector }))
	if err := sc.seen.follow(watching, factory.Core().V1().Pods().Informer()); err != nil {
		return fmt.Errorf("watch the pods: %w", err)
	}
	defer sc.cleanUp(ctx)
	if err := sc.setUp(ctx); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	t := &drainTrial{lab: l, Run: run, scene: sc, agent: "bench-" + sc.name}
	before, err := l.plane.Audit().Mark()
	if err != nil {
		return err
	}
	if err := t.prepare(ctx); err != nil {
		return err
	}
	err = t.play(ctx, before)
	t.drainer.Close()
	if errors.Is(err, errTooLong) && run.Arm != arm.Ours {
		err = nil // it is a result about them; about ours it means that something is broken
	}
	return errors.Join(err, t.count())
}

// prepare starts the arm.
func (t *drainTrial) prepare(ctx context.Context) (err error) {
	switch {
	case t.Arm == arm.CAPI:
		t.agent = arm.CAPIAgent
		objects := &arm.Objects{Client: t.lab.client, Plane: t.plane, Cluster: clusterName}
		t.drainer, err = arm.DrainByCAPI(ctx, t.built, objects, t.drained())
	default:
		t.drainer, err = arm.StartDrainer(ctx, t.Arm, t.config(t.agent))
	}
	return err
}

// play drains the scene, and fails if the arm takes Nodes for drained that are not.
func (t *drainTrial) play(ctx context.Context, before cluster.AuditMark) error {
	var err error
	if t.mark, err = t.plane.Audit().Mark(); err != nil {
		return err
	}
	standing, err := t.plane.Audit().Since(before)
	if err != nil {
		return err
	}
	t.standing = standing.From(t.agent)
	t.start = time.Now()
	err = t.drainWithScript(ctx)
	t.end = time.Now()
	t.Figures["pods left"] = float64(t.seen.left(t.drained()))
	if err != nil {
		return err
	}
	err = t.nothingLeft(ctx)
	t.Figures["pods left"] = 0
	return err
}

// drainWithScript drains while the scene's script runs, and reports every few seconds how far it is.
func (t *drainTrial) drainWithScript(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, drainLimit, errTooLong)
	defer cancel()
	stop := gobuild.Every(progressEvery, func(elapsed time.Duration) {
		t.printf("  %d of %d pods are left after %.0f s", t.seen.left(t.drained()), t.scene.nodes*t.scene.pods, elapsed.Seconds())
	})
	defer stop()
	scripted := make(chan error, 1)
	go func() {
		if t.script == nil {
			scripted <- nil
			return
		}
		err := t.script(ctx, t.scene, t.Round)
		if err != nil {
			cancel() // without it the drain may never end
		}
		scripted <- err
	}()
	err := t.drainer.Drain(ctx, t.drained())
	if err != nil {
		cancel()
	}
	return errors.Join(err, <-scripted)
}

// nothingLeft fails if the arm has taken Nodes for drained that are not.
func (s *scene) nothingLeft(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	err := s.eventually(ctx, func() (string, bool) {
		left := s.seen.left(s.drained())
		return fmt.Sprintf("%d pods are left on the Nodes", left), left == 0
	})
	if err != nil {
		return fmt.Errorf("the arm reports that it is done: %w", err)
	}
	return nil
}

// count makes the figures of a drain that has ended.
func (t *drainTrial) count() error {
	during, err := t.plane.Audit().Since(t.mark)
	if err != nil {
		return err
	}
	own := during.From(t.agent)
	if keeper, ok := t.drainer.(arm.Timekeeper); ok {
		if ended := keeper.Ended(own); !ended.IsZero() {
			t.end = ended
			own = own.Where(func(e cluster.AuditEvent) bool { return e.Received.Before(ended) })
		}
	}
	t.Figures["wall"] = t.end.Sub(t.start).Seconds()
	t.Figures["wrong-node"] = float64(t.seen.evictedElsewhere(t.drained()))
	if last := t.seen.lastGone(t.drained()); !last.IsZero() {
		t.Figures["pods gone"] = last.Sub(t.start).Seconds()
	}
	countDrain(t.Run, t.standing, own, t.scene.nodes*t.scene.pods, t.start)
	if after, ok := reaction(during, own, t.scene.name, t.opened); ok && !t.opened.IsZero() {
		t.Figures["reaction"] = after.Seconds()
	}
	return nil
}

// countDrain adds everything that the audit log has. standing and own are the arm's requests before and during the drain.
func countDrain(run *measure.Run, standing, own cluster.AuditEvents, pods int, start time.Time) {
	f := run.Figures
	run.Count("drain", own.Where(isOfADrain))
	f["requests/pod"] = (f["drain writes"] + f["drain reads"] + f["drain watches"]) / float64(max(1, pods))
	f["standing"] = float64(len(standing.Where(isOfADrain)))
	f["refused with 429"] = float64(len(own.Where(func(e cluster.AuditEvent) bool {
		return isEviction(e) && e.Code == http.StatusTooManyRequests
	})))
	all, most := duplicates(own)
	f["duplicates"], f["duplicates of one pod"] = float64(all), float64(most)
	if last := lastAccepted(own); !last.IsZero() {
		f["last eviction"] = last.Sub(start).Seconds()
	}
}
