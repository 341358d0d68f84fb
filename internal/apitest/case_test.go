package apitest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest"
)

func TestCases(t *testing.T) {
	names := map[string]bool{}
	for _, c := range apitest.Cases() {
		require.False(t, names[c.Name], "two cases have the name %q", c.Name)
		require.NotEmpty(t, c.Name)
		require.NotEmpty(t, c.Reason, c.Name)
		require.NotEmpty(t, c.Steps, c.Name)
		names[c.Name] = true
	}
	require.Contains(t, names, "an update of an old version is a Conflict")
}

func TestStep(t *testing.T) {
	tests := map[string]struct{ step, want string }{
		"with two requests":    {"{create ConfigMap/a: {}, create ConfigMap/b: {}}", "unknown field"},
		"an unknown field":     {"{get ConfigMap/a: {}, show: .data.k = v}", `unknown field "show"`},
		"a field twice":        {"{get ConfigMap/a: {}, shows: .a absent, shows: .b absent}", "already set in map"},
		"neither text nor map": {"[create ConfigMap/a]", "cannot unmarshal array"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := yaml.UnmarshalStrict([]byte("steps: ["+test.step+"]"), &apitest.Case{})
			require.ErrorContains(t, err, test.want)
		})
	}
}

// recorder is the test of a case that is expected to fail.
type recorder struct{ failure string }

func (*recorder) Helper() {}

func (r *recorder) Fatal(args ...any) { r.failure = fmt.Sprint(args...) }

func TestRun(t *testing.T) {
	store := fake.NewStore(fake.Options{})
	const created = "- create ConfigMap/a\n"
	tests := map[string]struct{ steps, want string }{
		"what is so":                    {created + "- get ConfigMap/a: {}\n  shows: .data.k = v\n  then: .metadata.uid = $uid", ""},
		"a refusal":                     {created + "- create ConfigMap/a:\n  fails: 409 AlreadyExists\n  message: exists", ""},
		"no steps":                      {"", "there are no steps"},
		"no request":                    {"- shows: .data.k = v", "step 1,  : "},
		"an unknown verb":               {"- make ConfigMap/a", `step 1, make ConfigMap/a: the verb "make" is unknown`},
		"an unknown kind":               {"- create Unknown/a", "step 1, create Unknown/a: "},
		"an unknown option":             {created + "- delete ConfigMap/a: {dryrun: true}", "step 2, delete ConfigMap/a: "},
		"an unknown operator":           {created + "- get ConfigMap/a:\n  shows: .data.k is v", `.data.k is "v", want: is v`},
		"an invalid expression":         {created + "- get ConfigMap/a:\n  shows: .data.k ~ (v", `.data.k is "v", want: ~ (v`},
		"an invalid path":               {created + "- get ConfigMap/a:\n  shows: .data[ = v", "step 2, get ConfigMap/a: "},
		"another value":                 {created + "- get ConfigMap/a:\n  shows: .data.k = w", `step 2, get ConfigMap/a: .data.k is "v", want: = w`},
		"the second of two values":      {created + "- get ConfigMap/a:\n  shows: |\n    .data.k = v\n    .data.l present", `.data.l is "", want: present`},
		"what is then another value":    {created + "- eventually get ConfigMap/a:\n  then: .data.k = w", `.data.k is "v", want: = w`},
		"accepted, but to be refused":   {"- create ConfigMap/a:\n  fails: 409 AlreadyExists", `the answer is "accepted", want "409 AlreadyExists"`},
		"refused, but to be accepted":   {created + "- create ConfigMap/a", `the answer is "409 AlreadyExists", want "accepted"`},
		"refused with another code":     {created + "- create ConfigMap/a:\n  fails: 409 Conflict", `the answer is "409 AlreadyExists", want "409 Conflict"`},
		"refused with another message":  {created + "- create ConfigMap/a:\n  fails: 409 AlreadyExists\n  message: gone", "want: has gone"},
		"refused without the cause":     {created + "- create ConfigMap/a:\n  fails: 409 AlreadyExists\n  cause: Other", "want: has Other"},
		"a message of what is accepted": {"- create ConfigMap/a:\n  message: exists", `.message is "", want: has exists`},
		"another event":                 {"- watch ConfigMap\n- create ConfigMap/a\n- next events: [DELETED ConfigMap a]", `event 1 is "ADDED ConfigMap a"`},
	}
	n := 0
	for name, test := range tests {
		n++
		namespace := fmt.Sprintf("case-%d", n)
		t.Run(name, func(t *testing.T) {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
			require.NoError(t, store.Client().Create(t.Context(), ns))
			var c apitest.Case
			require.NoError(t, yaml.UnmarshalStrict([]byte("steps:\n"+test.steps), &c))
			var r recorder
			c.Run(t.Context(), apitest.Env{T: &r, Client: store.Client(), Namespace: namespace})
			if test.want == "" {
				require.Empty(t, r.failure)
				return
			}
			require.Contains(t, r.failure, test.want)
		})
	}
}
