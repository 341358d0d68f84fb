package main

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/deployment"
	"github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// hub adds the reconcilers of Servers, Racks and Fleets to a manager. Their Nodes are in the clusters of the Sites, which access reaches:
// cluster.SecretsFromManager, where each has a Secret with its kubeconfig.
func hub(ctx context.Context, mgr ctrl.Manager, access cluster.Access, cloud cloud) error {
	clusters, err := cluster.New(cluster.Options[cluster.Workload]{Access: access, Setup: cluster.WorkloadOptions{}.Setup()})
	if err != nil {
		return err
	}
	ports := pass.PortsFromManager(mgr)
	ports.ClusterOf, ports.ClusterEvents = sites(mgr)
	kinds := fleetKinds()
	servers, err := machine.New(kinds.Machine, machine.Ports{
		Ports: ports, NodesOf: cluster.NodesOf(clusters), WorkloadEvents: clusters.Source,
	}, machine.Options{Steps: serverSteps(cloud)})
	racks, err1 := machineset.New(kinds, ports, machineset.Options{})
	fleets, err2 := deployment.New(kinds, ports, deployment.Options{})
	if err := errors.Join(err, err1, err2); err != nil {
		return err
	}
	return errors.Join(mgr.Add(clusters), servers.AddToManager(ctx, mgr), racks.AddToManager(ctx, mgr), fleets.AddToManager(ctx, mgr))
}

// cloud makes and deletes the machines of Servers. Both calls are repeated, also when the answer was lost: a machine belongs to the UID of its
// Server, so that there is no second one, and one that does not exist is gone.
type cloud interface {
	Ensure(ctx context.Context, s *Server) (id string, err error)
	Delete(ctx context.Context, s *Server) error
}

// serverSteps are those of a Server: a cloud makes it, in place of objects of providers.
func serverSteps(cloud cloud) []machine.Step {
	create := func(ctx context.Context, s *machine.Scope) (machine.Result, error) {
		server, _ := machine.ObjectAs[*Server](s)
		if server.Spec.ID == "" {
			id, err := cloud.Ensure(ctx, server)
			if err != nil {
				return machine.Result{}, err
			}
			s.SetProviderID(id)
		}
		s.SetInfrastructureReady()
		return machine.Result{}, nil
	}
	remove := func(ctx context.Context, s *machine.Scope) (machine.Result, error) {
		server, _ := machine.ObjectAs[*Server](s)
		return machine.Result{}, cloud.Delete(ctx, server)
	}
	return machine.Steps().Remove(machine.StepBootstrap).Remove(machine.StepInfrastructure).
		InsertBefore(machine.StepNode, machine.Step{Name: "make", On: machine.InRunning, Run: create}).
		Replace(machine.StepDeleteInfrastructure, machine.Step{Name: "unmake", On: machine.InDeletion, Run: remove})
}

// sites returns how the reconcilers read a Site, and a source of events when one changes.
func sites(mgr ctrl.Manager) (
	of func(context.Context, types.NamespacedName) (pass.ClusterView, error), events func(pass.ClusterMapper) source.Source,
) {
	of = func(ctx context.Context, key types.NamespacedName) (pass.ClusterView, error) {
		site := &Site{}
		err := mgr.GetClient().Get(ctx, key, site)
		if apierrors.IsNotFound(err) { // confirmed, because the cache may be behind: what is deleted goes on without its site
			err = mgr.GetAPIReader().Get(ctx, key, site)
		}
		if err != nil {
			return pass.ClusterView{Presence: pass.Absent}, client.IgnoreNotFound(err)
		}
		view := pass.ClusterView{Presence: pass.Present, GVK: fleetGroup().WithKind("Site")}
		view.State.Metadata.From(site)
		view.State.SpecPaused = site.Closed
		view.State.InfrastructureProvisioned, view.State.ControlPlaneInitialized = true, true
		return view, nil
	}
	return of, func(mapped pass.ClusterMapper) source.Source {
		return source.Kind(mgr.GetCache(), &Site{}, handler.TypedEnqueueRequestsFromMapFunc(
			func(_ context.Context, site *Site) []reconcile.Request {
				return mapped(client.ObjectKeyFromObject(site))
			}))
	}
}

// A first operator with sets needs few names. Fields and methods of what is named are not counted.
func TestNamesOfTheHub(t *testing.T) {
	t.Parallel()
	names, packages := map[string]bool{}, map[string]bool{}
	for _, file := range []string{"fleet_test.go", "hub_test.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ours := map[string]bool{}
		for _, i := range parsed.Imports {
			if name, is := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), "github.com/machinist-dev/machinist/"); is && name != "fake" {
				ours[path.Base(name)], packages[name] = true, true
			}
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if from, ok := s.X.(*ast.Ident); ok && ours[from.Name] {
					names[from.Name+"."+s.Sel.Name] = true
				}
			}
			return true
		})
	}
	require.LessOrEqual(t, len(packages), 6)
	require.LessOrEqual(t, len(names), 60)
	t.Log(len(names), "names of", len(packages), "packages")
}

func TestHub(t *testing.T) {
	t.Parallel()
	store := fake.NewStore(fake.Options{Seed: 1, Scheme: fleetScheme()})
	workload := map[string]*fake.Store{"east": fake.NewStore(fake.Options{Seed: 2}), "west": fake.NewStore(fake.Options{Seed: 3})}
	for _, kind := range []string{"Server", "Rack", "Fleet", "Site"} {
		require.NoError(t, store.Client().Create(t.Context(), fake.CRD(fleetGroup().WithKind(kind))))
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	settled := store.Start(ctx, fake.AllLoops())
	mgr, err := store.NewManager(ctrl.Options{Logger: logr.Discard(), Controller: config.Controller{SkipNameValidation: new(true)}})
	require.NoError(t, err)
	access := cluster.AccessFunc(func(_ context.Context, key types.NamespacedName) (cluster.Target, error) {
		return cluster.Target{Config: workload[key.Name].RESTConfig(), Version: "1"}, nil
	})
	machines := &quickCloud{workload: workload, made: map[types.UID]string{}}
	require.NoError(t, hub(ctx, mgr, access, machines))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		settled()
	})

	var fleets []*Fleet
	for name := range workload {
		fleet := &Fleet{Servers{ObjectMeta: named(name), Spec: ServersSpec{
			Count: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"fleet": name}},
			Server: Server{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"fleet": name}}, Spec: ServerSpec{Site: name, Size: "small"}},
		}}}
		require.NoError(t, store.Client().Create(t.Context(), &Site{ObjectMeta: named(name)}))
		require.NoError(t, store.Client().Create(t.Context(), fleet))
		fleets = append(fleets, fleet)
	}
	larger := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"server":{"spec":{"size":"large"}}}}`))
	for _, fleet := range fleets {
		has(t, store.Client(), fleet, "small", 2)
		require.NoError(t, store.Client().Patch(t.Context(), fleet, larger))
	}
	for _, fleet := range fleets {
		has(t, store.Client(), fleet, "large", 2)
	}
	eventually(t, "the old machines to go", func() string { return machines.differs(4) })
	for _, fleet := range fleets { // the site goes first: nothing waits for it
		require.NoError(t, store.Client().Delete(t.Context(), &Site{ObjectMeta: named(fleet.Name)}))
		require.NoError(t, store.Client().Delete(t.Context(), fleet))
		eventually(t, fleet.Name+" to go", func() string {
			if err := store.Client().Get(t.Context(), client.ObjectKeyFromObject(fleet), fleet); !apierrors.IsNotFound(err) {
				return fmt.Sprint(err)
			}
			return ""
		})
	}
	eventually(t, "all machines to go", func() string { return machines.differs(0) })
}

// quickCloud is one whose machines join at once.
type quickCloud struct {
	workload map[string]*fake.Store

	mu   sync.Mutex
	made map[types.UID]string
}

func (c *quickCloud) Ensure(ctx context.Context, s *Server) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made[s.UID] = "example://" + s.Name
	node := fake.Node(s.Name, c.made[s.UID])
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return c.made[s.UID], client.IgnoreAlreadyExists(c.workload[s.Spec.Site].Client().Create(ctx, node))
}

func (c *quickCloud) Delete(_ context.Context, s *Server) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.made, s.UID)
	return nil
}

// differs reports which machines there are if that is not a number of them.
func (c *quickCloud) differs(want int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.made) == want {
		return ""
	}
	return fmt.Sprint(c.made)
}

// has waits until a fleet consists of a number of servers of a size, all with a Node.
func has(t *testing.T, c client.Client, fleet *Fleet, size string, want int) {
	t.Helper()
	eventually(t, fleet.Name+" to have servers that are "+size, func() string {
		servers, ready, text := &List[Server, *Server]{}, 0, ""
		require.NoError(t, c.List(t.Context(), servers, client.MatchingLabels{"fleet": fleet.Name}))
		for _, s := range servers.Items {
			text += fmt.Sprintf("\n%s %s %q %v", s.Name, s.Spec.Size, s.Status.Host, s.Status.Conditions)
			if s.Spec.Size == size && s.Status.HostUID != "" {
				ready++
			}
		}
		if ready == want && len(servers.Items) == want {
			return ""
		}
		return text
	})
}
