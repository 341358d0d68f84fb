package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/fake"
)

func forbidden(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New(`User "jane" cannot do that`))
}

func TestErrors_SayWhatAPersonCanDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault fake.Fault
		args  []string
		want  []string
	}{
		"unknown Nodes": {
			args: []string{"run", "x", "a", "y"},
			want: []string{`drainctl: there is no Node "x"`, `drainctl: there is no Node "y"`, "kubectl get nodes"},
		},
		"a selector without Nodes": {args: []string{"plan", "-l", "pool=new"}, want: []string{"-l pool=new selects no Node"}},
		"no right to see pods": {
			fault: fake.Fault{Match: requests("list", "Pod"), Err: forbidden("pods"), Times: -1}, args: []string{"plan", "a"},
			want: []string{"the right to list pods and poddisruptionbudgets is missing", "pods is forbidden", `User "jane"`},
		},
		"a broken server": {
			fault: fake.Fault{Match: requests("list", "PodDisruptionBudget"), Err: apierrors.NewInternalError(errors.New("etcd")), Times: -1},
			args:  []string{"plan", "a"}, want: []string{"list pods and poddisruptionbudgets: ", "etcd"},
		},
		"a broken connection": {
			fault: fake.Fault{Match: requests("", "Node"), Err: errors.New("no route to host"), Times: -1}, args: []string{"plan", "a"},
			want: []string{"cannot be reached", "check the kubeconfig"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "a")
			cordoned := newNode("cordoned")
			cordoned.Labels, cordoned.Spec.Unschedulable = nil, true
			s.create(cordoned)
			s.store.Inject(c.fault)
			if c.fault.Match == nil {
				s = newStage(t, "a")
			}
			got := s.do(c.args...)
			require.Equal(t, exitFailed, got.code)
			for _, want := range c.want {
				require.Contains(t, got.stderr, want)
			}
			require.Empty(t, got.stdout)
		})
	}
}

func TestErrors_AServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	var stdout, stderr screen
	p := (&stage{}).program(&stdout, &stderr)
	p.connect = func(options) (*rest.Config, error) {
		return &rest.Config{Host: "http://127.0.0.1:1"}, nil // no process listens there
	}
	require.Equal(t, exitFailed, p.execute(t.Context(), []string{"run", "a"}))
	require.Contains(t, stderr.String(), "cannot be reached")
	require.Contains(t, stderr.String(), "connection refused")
}

func TestErrors_AKubeconfigThatIsNotThere(t *testing.T) {
	t.Parallel()
	var stdout, stderr screen
	require.Equal(t, exitFailed, execute([]string{"plan", "a", "--kubeconfig", "does/not/exist"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "no cluster in does/not/exist: ")
}

func TestErrors_TemporaryTroubleIsReported(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a")
	node := s.node("a")
	s.pods(newPod("a", "web-0"))
	require.NoError(t, s.live.Patch(t.Context(), node, client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"unschedulable":true}}`))))
	gets := 0
	s.store.Inject(fake.Fault{Match: func(r fake.Request) bool {
		if r.Verb == "get" && r.GVK.Kind == "Node" {
			gets++
		}
		return r.Verb == "get" && r.GVK.Kind == "Node" && gets == 1
	}, Err: errors.New("connection refused")})
	got := s.do("run", "a")
	require.Equal(t, exitDone, got.code, got.stderr)
	require.Equal(t, 1, strings.Count(got.stdout, "trying again: "), got.stdout)
	require.Contains(t, got.stdout, "connection refused")
}

func TestAKubeconfigThatIsNotThereIsNamed(t *testing.T) {
	dir := t.TempDir()
	nowhere, empty := filepath.Join(dir, "nope"), filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for files, want := range map[string]string{
		nowhere:               nowhere,
		empty:                 empty,
		nowhere + ":" + empty: nowhere + ", " + empty,
	} {
		t.Setenv("KUBECONFIG", files)
		_, err := connect(options{})
		require.ErrorContains(t, err, "no cluster in "+want+": they are missing or empty; give --kubeconfig")
		_, withContext := connect(options{context: "dev"})
		require.ErrorContains(t, withContext, "no cluster in "+want)
		require.NotContains(t, err.Error(), "KUBERNETES_MASTER")
	}
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestOutputThatIsLostIsAFailure(t *testing.T) {
	for _, args := range [][]string{{"--help"}} {
		var stderr strings.Builder
		require.Equal(t, exitFailed, execute(args, full{}, &stderr), args)
		require.Equal(t, 1, strings.Count(stderr.String(), "no space left"), stderr.String())
	}
}
