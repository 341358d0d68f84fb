//go:build e2e

package e2e_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/measure"
)

const (
	drainctlAgent = "machinist-drainctl"
	drainPods     = 6
)

// drainScene is a namespace whose pods run on Nodes of its own, and examples/drainctl with users who have no more rights
// than it asks for.
type drainScene struct {
	*world
	binary, name  string
	first, second string // Nodes; all pods are on the first one
}

const drainObjects = `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: NAME}
spec: {minAvailable: 6, selector: {matchLabels: {app: web}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: NAME}
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {nodeSelector: {scene: NAME}, containers: [{name: web, image: web}]}
`

func newDrainScene(t *testing.T) *drainScene {
	t.Helper()
	plane := shared(t)
	live, err := client.NewWithWatch(plane.Config(), client.Options{})
	require.NoError(t, err)
	s := &drainScene{world: &world{t: t, plane: plane, client: live}, binary: filepath.Join(t.TempDir(), "drainctl")}
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", s.binary,
		"github.com/machinist-dev/machinist/examples/drainctl").CombinedOutput()
	require.NoError(t, err, string(out))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "drainctl-"}}
	require.NoError(t, live.Create(t.Context(), ns))
	s.name = ns.Name
	s.first, s.second = s.name+"-1", s.name+"-2"
	s.join(s.first)
	s.apply(strings.ReplaceAll(drainObjects, "NAME", s.name))
	s.eventually("all pods to be ready on the first Node", func() string {
		if n := s.serving(); n != drainPods {
			return fmt.Sprintf("%d are", n)
		}
		return ""
	})
	s.eventually("the budget to count them", func() string {
		var budget policyv1.PodDisruptionBudget
		require.NoError(t, s.client.Get(t.Context(), clientKey(s.name, "web"), &budget))
		if n := budget.Status.CurrentHealthy; n != drainPods {
			return fmt.Sprintf("it counts %d", n)
		}
		return ""
	})
	s.join(s.second) // only now, so that all pods are on the other one
	return s
}

// join creates a Node and waits until it takes pods.
func (s *drainScene) join(name string) {
	s.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"scene": s.name}}}
	require.NoError(s.t, s.client.Create(s.t.Context(), node))
	s.eventually(name+" to take pods", func() string {
		require.NoError(s.t, s.client.Get(s.t.Context(), client.ObjectKeyFromObject(node), node))
		if !isReady(node) || len(node.Spec.Taints) > 0 {
			return "it is not Ready"
		}
		return ""
	})
}

func (s *drainScene) pods() []corev1.Pod {
	s.t.Helper()
	var list corev1.PodList
	require.NoError(s.t, s.client.List(s.t.Context(), &list, client.InNamespace(s.name)))
	return list.Items
}

// serving counts the pods that a budget counts.
func (s *drainScene) serving() (n int) {
	for _, pod := range s.pods() {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				n++
			}
		}
	}
	return n
}

func (s *drainScene) podsOn(node string) (n int) {
	for _, pod := range s.pods() {
		if pod.Spec.NodeName == node {
			n++
		}
	}
	return n
}

// user returns the kubeconfig of a user who may read what a plan needs, and may do more.
func (s *drainScene) user(name string, more ...rbacv1.PolicyRule) string {
	s.t.Helper()
	role := rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.name + "-" + name}, Rules: append(more,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
		rbacv1.PolicyRule{APIGroups: []string{"policy"}, Resources: []string{"poddisruptionbudgets"}, Verbs: []string{"list"}},
	)}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: role.Name}},
	}
	require.NoError(s.t, s.client.Create(s.t.Context(), &role))
	require.NoError(s.t, s.client.Create(s.t.Context(), binding))
	s.knowsRights(role.Name, role.Rules)
	limited, err := s.plane.ConfigFor(role.Name)
	require.NoError(s.t, err)
	path := filepath.Join(s.t.TempDir(), "kubeconfig")
	require.NoError(s.t, cluster.WriteKubeconfig(path, limited))
	return path
}

// do runs a command to its end.
func (s *drainScene) do(kubeconfig string, args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	var out, errs strings.Builder
	cmd := exec.CommandContext(s.t.Context(), s.binary, append(args, "--kubeconfig", kubeconfig)...) //nolint:gosec // built above
	cmd.Stdout, cmd.Stderr = &out, &errs
	measure.Tie(cmd)
	return exitCode(s.t, cmd.Run()), out.String(), errs.String()
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	require.NoError(t, err)
	return 0
}

// interrupted runs a command, presses Ctrl-C at the first line with a word, and returns what it printed.
func (s *drainScene) interrupted(word, kubeconfig string, args ...string) (code int, printed string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), s.binary, append(args, "--kubeconfig", kubeconfig)...) //nolint:gosec // built above
	out, err := cmd.StdoutPipe()
	require.NoError(s.t, err)
	measure.Tie(cmd)
	require.NoError(s.t, cmd.Start())
	pressed := false
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(s.t, err)
		printed += line
		if !pressed && strings.Contains(line, word) {
			pressed = true
			require.NoError(s.t, cmd.Process.Signal(os.Interrupt))
		}
	}
	return exitCode(s.t, cmd.Wait()), printed
}

func TestDrainctlOnARealControlPlane(t *testing.T) {
	t.Parallel()
	s := newDrainScene(t)
	drainer, planner := s.user("drainer", runner.PolicyRules()...), s.user("planner")

	mark, err := s.plane.Audit().Mark()
	require.NoError(t, err)
	code, stdout, stderr := s.do(planner, "plan", "-l", "scene="+s.name)
	require.Equal(t, 3, code, stderr)
	require.Contains(t, stdout, "can never allow one while it covers 6 pods")
	code, stdout, stderr = s.do(drainer, "run", s.first)
	require.Equal(t, 3, code, stderr)
	require.Contains(t, stdout, "Refused")
	code, stdout, _ = s.do(planner, "run", s.first, "--wait")
	require.Equal(t, 1, code)
	require.Contains(t, stdout, `cannot patch resource "nodes"`)
	events, err := s.plane.Audit().Since(mark)
	require.NoError(t, err)
	changes := events.From(drainctlAgent).Writes().Where(func(e cluster.AuditEvent) bool { return e.Code < 300 })
	require.Empty(t, changes, "plans and refusals change nothing")

	code, printed := s.interrupted(s.first+": blocked", drainer, "run", s.first, "--wait")
	require.Equal(t, 130, code)
	require.Contains(t, printed, fmt.Sprintf("%s: stopped: 0 gone, %d left", s.first, drainPods))
	require.Contains(t, printed, "kubectl uncordon "+s.first)
	var node corev1.Node
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKey{Name: s.first}, &node))
	require.True(t, node.Spec.Unschedulable)
	require.Equal(t, drainPods, s.podsOn(s.first))

	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: "web"}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"minAvailable":5}}`))
	require.NoError(t, s.client.Patch(t.Context(), pdb, patch))
	mark, err = s.plane.Audit().Mark()
	require.NoError(t, err)
	code, stdout, stderr = s.do(drainer, "run", s.first, "--wait")
	require.Equal(t, 0, code, stdout+stderr)
	require.Zero(t, s.podsOn(s.first))
	require.GreaterOrEqual(t, s.podsOn(s.second), drainPods-1, "the budget wants so many")
	events, err = s.plane.Audit().Since(mark)
	require.NoError(t, err)
	accepted := events.From(drainctlAgent).Where(func(e cluster.AuditEvent) bool { return e.Subresource == "eviction" && e.Code == 201 })
	require.Len(t, accepted, drainPods, "each pod of the Node once, and no other")
}
