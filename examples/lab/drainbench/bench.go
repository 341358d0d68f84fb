package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/bench"
	peer "github.com/machinist-dev/machinist/examples/lab/capi"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
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

// comparison measures on one control plane.
type comparison struct {
	options

	say   bench.Say
	plane *cluster.ControlPlane
	own   kubernetes.Interface // for setting scenes up; no arm uses it
	live  client.Client        // the same, for Cluster API's objects
}

// measured is one drain: an arm in a scenario in a round.
type measured struct {
	Scenario int      `json:"scenario"`
	Arm      armName  `json:"arm"`
	Round    int      `json:"round"`
	Figures  *figures `json:"figures,omitempty"` // nil when it failed
	Error    string   `json:"error,omitempty"`
}

// measure runs everything that was chosen on a control plane of its own. It returns what it has measured, also with an error. A drain
// that fails does not end it.
func (b *comparison) measure(ctx context.Context) (runs []measured, err error) {
	if b.uses(armCAPI) { // before the control plane runs, which would be in the way of the compiler
		if _, err := peer.BuildManager(ctx, b.say); err != nil {
			return nil, err
		}
	}
	o := cluster.Options{ExtraStages: stages(), KeepDir: b.keep}
	err = bench.OnControlPlane(ctx, b.say, o, func(ctx context.Context, plane *cluster.ControlPlane) error {
		b.plane = plane
		if err := b.connect(); err != nil {
			return err
		}
		var err error
		runs, err = b.all(ctx)
		return err
	})
	return runs, err
}

// all measures every arm in every scenario and round, until ctx ends.
func (b *comparison) all(ctx context.Context) (runs []measured, err error) {
	for round := range b.rounds {
		for _, s := range b.scenarios {
			for _, a := range bench.InTurn(s.arms, round) {
				m := b.one(ctx, s, a, round)
				if ctx.Err() != nil {
					return runs, context.Cause(ctx)
				}
				runs = append(runs, m)
			}
		}
	}
	return runs, nil
}

func (b *comparison) uses(a armName) bool {
	return slices.ContainsFunc(b.scenarios, func(s scenario) bool { return slices.Contains(s.arms, a) })
}

func (b *comparison) connect() error {
	config := b.config("drainbench")
	var err error
	if b.own, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	b.live, err = client.New(config, client.Options{Scheme: scheme.Scheme})
	return err
}

func (b *comparison) config(agent string) *rest.Config {
	config := b.plane.Config()
	config.UserAgent = agent
	return config
}

// one measures one drain and says how it went.
func (b *comparison) one(ctx context.Context, s scenario, a armName, round int) measured {
	m := measured{Scenario: s.number, Arm: a, Round: round + 1}
	b.say("scenario %d, %s, round %d of %d: setting up %d Nodes with %d pods each", s.number, a, m.Round, b.rounds, s.nodes, s.pods)
	f, err := b.drainOnce(ctx, s, a, round)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		m.Error = err.Error()
		b.say("scenario %d, %s: failed: %v", s.number, a, err)
	default:
		m.Figures = f
		b.say("scenario %d, %s: %s, %.2f requests per pod", s.number, a, f.wall(), f.PerPod)
	}
	return m
}

// drainOnce sets a scene up, lets the arm drain it, and counts.
func (b *comparison) drainOnce(ctx context.Context, s scenario, a armName, round int) (*figures, error) {
	sc := newScene(s, a, round, b.own)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	sc.seen = newRecorder(time.Now)
	factory := informers.NewSharedInformerFactoryWithOptions(b.own, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = sc.selector().LabelSelector }))
	if err := sc.seen.follow(watching, factory.Core().V1().Pods().Informer()); err != nil {
		return nil, fmt.Errorf("watch the pods: %w", err)
	}
	defer sc.cleanUp(ctx)
	if err := sc.setUp(ctx); err != nil {
		return nil, fmt.Errorf("set up: %w", err)
	}
	audit := b.plane.Audit()
	before, err := audit.Mark()
	if err != nil {
		return nil, err
	}
	d, err := b.prepare(ctx, sc, a)
	if err != nil {
		return nil, err
	}
	t := trial{scene: sc, agent: agentOf(a, sc.name), drainer: d}
	err = b.play(ctx, &t, before, round)
	d.close()
	if errors.Is(err, errTooLong) && a != armOurs {
		err = nil // says something about them; about ours it says that something is broken
	}
	if err != nil {
		return nil, err
	}
	return b.count(&t)
}

// prepare starts an arm.
func (b *comparison) prepare(ctx context.Context, sc *scene, a armName) (drainer, error) {
	agent := agentOf(a, sc.name)
	switch {
	case a == armCAPI:
		return startCAPI(ctx, b.plane, b.live, sc.drained(), b.say)
	case sc.killed:
		half := sc.nodes * sc.pods / 2
		return &killedHalfWay{arm: a, agent: agent, kubeconfig: b.plane.Kubeconfig(), halfWay: func(ctx context.Context) error {
			return sc.eventually(ctx, func() (string, bool) {
				leaving := sc.seen.leaving(sc.drained())
				return fmt.Sprintf("%d of %d pods are terminating", leaving, sc.nodes*sc.pods), leaving >= half
			})
		}}, nil
	default:
		return startInProcess(ctx, a, b.config(agent))
	}
}

// play drains the scene, and fails if the arm takes Nodes for drained that are not.
func (b *comparison) play(ctx context.Context, t *trial, before cluster.AuditMark, round int) error {
	var err error
	if t.mark, err = b.plane.Audit().Mark(); err != nil {
		return err
	}
	standing, err := b.plane.Audit().Since(before)
	if err != nil {
		return err
	}
	t.standing = standing.From(t.agent)
	t.start = time.Now()
	err = b.drainWithScript(ctx, t.scene, t.drainer, round)
	t.end = time.Now()
	t.left = t.scene.seen.left(t.scene.drained())
	if err != nil {
		return err
	}
	err = t.scene.nothingLeft(ctx)
	t.left = 0
	return err
}

// drainWithScript drains while the scene's script runs, and says every few seconds how far it is.
func (b *comparison) drainWithScript(ctx context.Context, sc *scene, d drainer, round int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, drainLimit, errTooLong)
	defer cancel()
	stop := bench.Every(progressEvery, func(elapsed time.Duration) {
		b.say("  %s: %d of %d pods are left after %.0f s", sc.name, sc.seen.left(sc.drained()), sc.nodes*sc.pods, elapsed.Seconds())
	})
	defer stop()
	scripted := make(chan error, 1)
	go func() {
		if sc.script == nil {
			scripted <- nil
			return
		}
		err := sc.script(ctx, sc, round)
		if err != nil {
			cancel() // without it the drain may never end
		}
		scripted <- err
	}()
	err := d.drain(ctx, sc.drained())
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
		return fmt.Errorf("the arm says that it is done: %w", err)
	}
	return nil
}
