package machine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machine"
)

// mortal is a world whose reconciler can die while the providers and the cluster go on.
type mortal struct {
	*world

	machine *unstructured.Unstructured
	options worldOptions
	calm    testenv.Calm
}

func newMortal(t *testing.T, name string) *mortal {
	t.Helper()
	kind := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
	kinds := []fake.ServedKind{{GVK: kind.GVK, Status: kind.StatusSubresource}}
	env := testenv.Start(t, fake.Options{Kinds: kinds}, fake.AllLoops(), func(e *testenv.Env) {
		e.Create(fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2),
			fake.CRD(fake.BootstrapConfigGVK(contract.V1Beta2), contract.V1Beta2))
	})
	m := &mortal{
		world:   worldIn(t, env),
		machine: fake.Machine(name, fake.WithLabels(map[string]string{"node-role.kubernetes.io/worker": ""})),
		options: worldOptions{kind: kind, machine: machine.Options{Options: pass.Options{StatusDelay: killedStatusDelay}}},
	}
	providers := m.manager("provider")
	require.NoError(t, (&fake.Infrastructure{}).SetupWithManager(providers))
	require.NoError(t, (&fake.Bootstrap{}).SetupWithManager(providers))
	m.Run(providers)
	return m
}

func (m *mortal) create() {
	m.t.Helper()
	name := m.machine.GetName()
	m.world.Create(fake.BootstrapConfig(contract.V1Beta2, name), fake.InfraMachine(contract.V1Beta2, name), m.machine)
}

// delete deletes the Machine, with pods on its Node.
func (m *mortal) delete() {
	m.t.Helper()
	m.runPods("early-1", "early-2")
	m.Delete(m.machine)
}

// process is one run of the reconciler, with a user agent of its own. Its methods are safe for concurrent use.
type process struct {
	agent string
	dead  chan struct{} // closed when it makes no more requests
	stop  func()

	mu      sync.Mutex
	made    []fake.Request // the writes, in the order in which they were asked for, events aside: they change no Machine
	killAt  int            // the write at which it dies; 0 for none
	applied bool           // whether that write is applied
	died    bool
}

var errKilled = errors.New("the process was killed")

// start runs the reconciler until it is stopped. It dies by having none of its requests answered any more.
func (m *mortal) start(name string) *process {
	m.t.Helper()
	p := &process{agent: userAgent + "-" + name, dead: make(chan struct{})}
	m.store.Inject(fake.Fault{Err: errKilled, Times: -1, Match: p.isLost})
	m.store.Inject(fake.Fault{Err: errKilled, Lose: true, Times: 1, Match: p.isLast})
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // ends in Cleanup, after the test's own context
	mgr := m.manager(p.agent)
	m.options.setup(ctx, m.t, mgr)
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(m.t, <-done, "the reconciler's manager")
	})
	m.t.Cleanup(p.stop)
	return p
}

// isLost has every request fail that the process would make after its death. It is asked first, and once for each request, so
// it counts too.
func (p *process) isLost(r fake.Request) bool {
	if r.UserAgent != p.agent {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.died || !r.IsWrite() || r.GVK.Kind == "Event" {
		return p.died
	}
	p.made = append(p.made, r)
	if len(p.made) == p.killAt && !p.applied {
		p.die()
		return true
	}
	return false
}

// isLast has the answer to the last write of the process get lost, which is applied. Only a request that isLost let pass comes here.
func (p *process) isLast(r fake.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.UserAgent != p.agent || p.died || !r.IsWrite() || len(p.made) != p.killAt || p.killAt == 0 || r.GVK.Kind == "Event" {
		return false
	}
	p.die()
	return true
}

// die is called with the lock held.
func (p *process) die() {
	p.died = true
	close(p.dead)
}

// dieAt lets the process die at its nth write, before or after it is applied.
func (p *process) dieAt(n int, applied bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killAt, p.applied = n, applied
}

func (p *process) writes() int { return p.count(func(fake.Request) bool { return true }) }

// count counts the writes that match, the last one of a dead process too if it was applied.
func (p *process) count(match func(fake.Request) bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	made := p.made
	if p.died && !p.applied {
		made = made[:len(made)-1]
	}
	n := 0
	for _, r := range made {
		if match(r) {
			n++
		}
	}
	return n
}

// lastWrite says where a process died.
func (p *process) lastWrite() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.died {
		return "never"
	}
	r := p.made[len(p.made)-1]
	return fmt.Sprintf("at write %d, %s %s %s", len(p.made), r.Verb, r.GVK.Kind, r.Subresource)
}

// picture is all that must be the same however often the process died: the Machine and what belongs to it, without times and
// versions, and with names in place of UIDs.
func (m *mortal) picture() map[string]any {
	m.t.Helper()
	objects := append(m.belongings(), m.machine)
	uids, found := []string{}, map[string]any{}
	for i, obj := range objects {
		fresh := m.Get(obj)
		require.NotNil(m.t, fresh, "%s %s", obj.GetKind(), obj.GetName())
		objects[i] = fresh
		uids = append(uids, string(fresh.GetUID()), "uid of the "+obj.GetKind())
	}
	for _, obj := range objects {
		generation, observed := obj.GetGeneration(), int64(0)
		if obj.GetKind() == m.machine.GetKind() {
			observed, _, _ = unstructured.NestedInt64(obj.Object, "status", "observedGeneration")
		}
		text, err := json.Marshal(obj.Object)
		require.NoError(m.t, err)
		var content map[string]any
		require.NoError(m.t, json.Unmarshal([]byte(strings.NewReplacer(uids...).Replace(string(text))), &content))
		withoutTimes(content)
		found[obj.GetKind()] = content
		found[obj.GetKind()+" is observed"] = observed == 0 || observed == generation
	}
	return found
}

// withoutTimes takes away, at any depth, what differs from run to run.
func withoutTimes(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if slices.Contains([]string{"resourceVersion", "creationTimestamp", "generation", "observedGeneration", "managedFields"}, key) ||
				strings.HasPrefix(key, "last") {
				delete(v, key)
				continue
			}
			withoutTimes(inner)
		}
	case []any:
		for _, inner := range v {
			withoutTimes(inner)
		}
	}
}
