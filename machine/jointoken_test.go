package machine_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/instance"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machine/userdata"
	"github.com/machinist-dev/machinist/phases"
)

// tokenWorld is a world whose Machines contain their operating system, and join with tokens of their own.
type tokenWorld struct {
	*cloudWorld

	mu   sync.Mutex
	logs strings.Builder
}

// newTokenWorld adds the certificate of the tests to what machines are told about their cluster.
func newTokenWorld(t *testing.T, o fake.DriverOptions, tokens machine.JoinTokens, before ...func(*world)) *tokenWorld {
	t.Helper()
	w := &tokenWorld{cloudWorld: &cloudWorld{cloud: fake.NewDriver(o)}}
	specs := machine.ProviderSpecs{Config: configOf(t), Token: tokens.Token}
	steps := machine.WithDriver(machine.Steps().Remove(machine.StepBootstrap), machine.DriverOptions{
		Calls: provider.Of(w.cloud), Backoff: quickBackoff(), Poll: 10 * time.Millisecond, Refresh: 100 * time.Millisecond,
		RequestOf: specs.RequestOf, UserData: specs.UserData, WithoutBootstrap: true,
	})
	steps = steps.Replace(machine.StepPhase, machine.PhaseStep(phases.Kubermatic(), machine.KubermaticFacts))
	w.world = newWorld(t, worldOptions{
		kind: shapes()["Kubermatic, without a status subresource"].kind, noCRDs: true,
		machine: machine.Options{Steps: machine.WithJoinTokens(steps, tokens)},
		before: func(w *world) {
			for _, do := range before {
				do(w)
			}
		},
		logger: funcr.NewJSON(func(line string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.logs.WriteString(line + "\n")
		}, funcr.Options{Verbosity: 10}),
	})
	return w
}

// ubuntu creates a Machine that contains its operating system.
func (w *tokenWorld) ubuntu() *unstructured.Unstructured {
	w.t.Helper()
	m := testenv.Object(shapes()["Kubermatic, without a status subresource"].kind.GVK, "m1")
	m.Object["spec"] = map[string]any{
		"versions": map[string]any{"kubelet": "1.36.3"},
		"providerSpec": map[string]any{"value": map[string]any{
			"operatingSystem": "ubuntu", "cloudProvider": "fake", "cloudProviderSpec": map[string]any{"size": "small"},
		}},
	}
	w.Create(m)
	return m
}

// tokens returns the Secrets in kube-system.
func (w *tokenWorld) tokens() []corev1.Secret {
	w.t.Helper()
	var list corev1.SecretList
	require.NoError(w.t, w.client.List(w.t.Context(), &list, client.InNamespace(metav1.NamespaceSystem)))
	return list.Items
}

// token waits for the token of the only Machine.
func (w *tokenWorld) waitsForToken() corev1.Secret {
	w.t.Helper()
	var found []corev1.Secret
	w.Until("a token", func() bool {
		found = w.tokens()
		return len(found) == 1
	})
	return found[0]
}

func (w *tokenWorld) tokenGoes() {
	w.t.Helper()
	w.Until("no token", func() bool { return len(w.tokens()) == 0 })
}

// textOf is a token as a kubelet sends it.
func textOf(secret corev1.Secret) string {
	return string(secret.Data["token-id"]) + "." + string(secret.Data["token-secret"])
}

func ofSecrets(verb string) func(fake.Request) bool {
	return fake.Match(verb, schema.GroupKind{Kind: "Secret"}, "")
}

// ofOurs matches requests of the reconciler.
func ofOurs(verb string) func(fake.Request) bool {
	return func(r fake.Request) bool { return ofSecrets(verb)(r) && r.UserAgent == userAgent }
}

func TestJoinToken(t *testing.T) {
	t.Parallel()
	t.Run("is one for all attempts, and goes when the Node has joined", func(t *testing.T) {
		lost := 3
		w := newTokenWorld(t, fake.DriverOptions{Boot: 50 * time.Millisecond, Answer: func(op provider.Operation, _ provider.Request) error {
			if op != provider.OpCreate || lost == 0 {
				return nil
			}
			lost--
			return provider.Errorf(provider.Unavailable, "the answer is lost")
		}}, machine.JoinTokens{Groups: []string{"system:bootstrappers:workers"}})
		m := w.ubuntu()
		secret := w.waitsForToken()
		require.Equal(t, corev1.SecretTypeBootstrapToken, secret.Type)
		require.Equal(t, "system:bootstrappers:workers", string(secret.Data["auth-extra-groups"]))
		require.Equal(t, "bootstrap-token-"+string(secret.Data["token-id"]), secret.Name)
		expires, err := time.Parse(time.RFC3339, string(secret.Data["expiration"]))
		require.NoError(t, err)
		require.InDelta(t, time.Hour, time.Until(expires), float64(time.Minute))
		w.joins(m)
		w.reaches(m, string(phases.Running))
		w.tokenGoes()
		require.Zero(t, lost)
		require.Contains(t, w.cloud.UserData(string(m.GetUID())), textOf(secret))
		require.Equal(t, 1, w.store.CountRequests(ofSecrets("create")))
		w.isQuiet()
	})
	t.Run("is nowhere but in its Secret and in the user data", func(t *testing.T) {
		w := newTokenWorld(t, fake.DriverOptions{}, machine.JoinTokens{}, func(w *world) {
			w.store.FailNext(ofSecrets("create"), apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "token", errors.New("no")))
		})
		m := w.ubuntu()
		secret := w.waitsForToken()
		w.joins(m)
		w.reaches(m, string(phases.Running))
		w.tokenGoes()
		var events eventsv1.EventList
		require.NoError(t, w.client.List(t.Context(), &events))
		everything, err := json.Marshal([]any{w.Get(m), events})
		require.NoError(t, err)
		w.mu.Lock()
		defer w.mu.Unlock()
		require.NotEmpty(t, w.logs.String())
		for _, text := range []string{string(secret.Data["token-secret"]), base64.StdEncoding.EncodeToString(secret.Data["token-secret"])} {
			require.NotContains(t, string(everything)+w.logs.String(), text)
		}
	})
	t.Run("is renewed while the Node is missing", func(t *testing.T) {
		w := newTokenWorld(t, fake.DriverOptions{}, machine.JoinTokens{Life: 4 * time.Second})
		w.ubuntu()
		first := w.waitsForToken()
		w.Eventually("another expiry", func() string {
			now := w.waitsForToken()
			if string(now.Data["expiration"]) == string(first.Data["expiration"]) {
				return "it is the first one"
			}
			require.Equal(t, textOf(first), textOf(now))
			return ""
		})
	})
	t.Run("is renewed at once when a request has failed", func(t *testing.T) {
		w := newTokenWorld(t, fake.DriverOptions{}, machine.JoinTokens{Life: 6 * time.Second})
		m := w.ubuntu()
		first := w.waitsForToken()
		w.Until("an instance", func() bool { return providerIDOf(w.Get(m)) != "" })
		w.store.Inject(fake.Fault{Match: ofOurs("get"), Err: apierrors.NewServiceUnavailable("later")})
		w.store.Inject(fake.Fault{Match: ofOurs("patch"), Err: apierrors.NewServiceUnavailable("later")})
		w.Until("another expiry", func() bool { return string(w.waitsForToken().Data["expiration"]) != string(first.Data["expiration"]) })
		ends, err := time.Parse(time.RFC3339, string(first.Data["expiration"]))
		require.NoError(t, err)
		require.Equal(t, 2, w.store.CountRequests(ofOurs("patch")), "before its end at %s", ends)
	})
	t.Run("that cannot be deleted makes a Node no less ready, and is asked for rarely", func(t *testing.T) {
		w := newTokenWorld(t, fake.DriverOptions{}, machine.JoinTokens{})
		m := w.ubuntu()
		w.waitsForToken()
		w.store.Inject(fake.Fault{Match: ofOurs("delete"), Times: 1000,
			Err: apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "token", errors.New("no"))})
		w.joins(m)
		w.reaches(m, string(phases.Running))
		w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
		w.Until("an attempt", func() bool { return w.store.CountRequests(ofOurs("delete")) > 0 })
		w.store.ResetRequests()
		w.isQuietFor("no further attempt", 2*time.Second)
		require.Zero(t, w.store.CountRequests(ofOurs("delete")))
	})
	t.Run("goes with an instance that is gone", func(t *testing.T) {
		w := newTokenWorld(t, fake.DriverOptions{}, machine.JoinTokens{})
		m := w.ubuntu()
		w.waitsForToken()
		w.conditionIs(m, contract.ConditionInfrastructureReady, contract.ReasonReady)
		require.True(t, w.cloud.Lose(string(m.GetUID())))
		w.conditionIs(m, contract.ConditionInfrastructureReady, instance.ReasonGone)
		w.tokenGoes()
	})
	t.Run("goes with a Machine whose Node never came", func(t *testing.T) {
		w := newTokenWorld(t, fake.DriverOptions{}, machine.JoinTokens{})
		m := w.ubuntu()
		w.waitsForToken()
		w.Remove(m)
		require.Empty(t, w.tokens())
	})
	t.Run("holds no deletion", func(t *testing.T) {
		w := newTokenWorld(t, fake.DriverOptions{}, machine.JoinTokens{})
		m := w.ubuntu()
		w.waitsForToken()
		w.store.Inject(fake.Fault{Match: ofOurs("delete"), Times: 1000,
			Err: apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "token", errors.New("no"))})
		w.Remove(m)
		require.Len(t, w.tokens(), 1, "it expires")
	})
	t.Run("of another machine is left alone", func(t *testing.T) {
		w := newTokenWorld(t, fake.DriverOptions{}, machine.JoinTokens{})
		serve := w.store.Inject(fake.Fault{Match: ofOurs("create"), Times: 1000, Err: apierrors.NewServiceUnavailable("later")})
		m := w.ubuntu()
		var name string
		w.Until("a request for the token", func() bool {
			for _, r := range w.store.Requests() {
				if ofSecrets("create")(r) {
					name = r.Name
				}
			}
			return name != ""
		})
		other, err := userdata.TokenSecret(userdata.NewSecret(strings.TrimPrefix(name, "bootstrap-token-")+".0123456789abcdef"), time.Now(), "")
		require.NoError(t, err)
		w.Create(other)
		serve()
		w.conditionIs(m, contract.ConditionInfrastructureReady, "Unavailable", other.Name+" is that of another machine")
		w.Remove(m)
		require.Len(t, w.tokens(), 1)
	})
}

// configOf returns what the machines of a test know about their cluster.
func configOf(t *testing.T) func(context.Context, *machine.Scope) (userdata.Config, error) {
	t.Helper()
	ca, err := os.ReadFile("userdata/testdata/ca.pem")
	require.NoError(t, err)
	return func(_ context.Context, s *machine.Scope) (userdata.Config, error) {
		return userdata.Config{
			Cluster: userdata.Cluster{Server: "https://192.0.2.1:6443", CA: string(ca)}, Node: userdata.Node{Name: s.State.Key.Name},
		}, nil
	}
}
