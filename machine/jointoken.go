package machine

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine/userdata"
)

// JoinTokens issues a bootstrap token for each Machine, as a Secret in kube-system of the cluster that the machine joins. The name of the
// Secret is derived from the UID of the Machine, so that all attempts to create the instance use the same token. Pass Token as
// MachineClasses.Token or ProviderSpecs.Token, and the steps through WithJoinTokens. Safe for concurrent use.
type JoinTokens struct {
	// Life is how long a token is valid. While a Machine waits for its Node, the token is renewed when half of its life is over. Default one
	// hour.
	Life time.Duration
	// Groups are the groups of a token's bearer, in addition to system:bootstrappers. They begin with system:bootstrappers:.
	Groups []string
}

// StepJoinToken is the name of the step of WithJoinTokens.
const StepJoinToken = "join-token"

// WithJoinTokens inserts a step behind StepNode that renews the token of a Machine while its Node is missing. It deletes the token when the
// Node has joined, the instance is gone, or the Machine is being deleted; nothing waits for this. A token that is neither renewed nor
// deleted, because the Machine is paused or no process runs, expires. A machine that has not joined by then never will: a health check must
// replace it.
func WithJoinTokens(steps engine.Steps[*Scope], t JoinTokens) engine.Steps[*Scope] {
	return steps.InsertAfter(StepNode, Step{Name: StepJoinToken, On: engine.InBoth, Run: t.step})
}

// JoinTokenPolicyRules returns the rights that JoinTokens needs in the namespace kube-system of the cluster that machines join.
func JoinTokenPolicyRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "delete", "get", "patch"}}}
}

// joinToken is what a process remembers about the token of a Machine.
type joinToken struct {
	// next is the time of the next check of the token; zero while this process has not seen it.
	next time.Time
	// over: the token is no longer needed. gone: it was deleted too.
	over, gone bool
}

// Token returns the token of a Machine, which is valid for at least half of its Life. It issues the token if there is none. An error that
// matches cluster.ErrNotConnected means that the cluster cannot be reached now.
func (t JoinTokens) Token(ctx context.Context, s *Scope) (userdata.Secret, error) {
	if s.NodesErr != nil {
		return userdata.Secret{}, s.NodesErr
	}
	secret, err := readToken(ctx, s)
	if err != nil {
		return userdata.Secret{}, err
	}
	if secret == nil {
		return t.issue(ctx, s)
	}
	token := userdata.NewSecret(string(secret.Data["token-id"]) + "." + string(secret.Data["token-secret"]))
	return token, t.renew(ctx, s, secret)
}

// tokenID returns the first half of the token of a Machine. The probability of a collision is about one in a thousand million.
func tokenID(machine types.UID) string {
	sum := sha256.Sum256([]byte(machine))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:6]
}

// ownerKey is the key with the UID of the Machine in a token's Secret. The API server ignores it.
const ownerKey = "machine-uid"

// readToken returns the Secret with the token of a Machine, nil if there is none.
func readToken(ctx context.Context, s *Scope) (*corev1.Secret, error) {
	if s.Workload.APIReader == nil { // the Client may read from a cache of all Secrets
		return nil, errors.New("bootstrap token: Workload.APIReader is not set")
	}
	key := client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + tokenID(s.State.UID)}
	secret, err := external.ReadSecret(ctx, s.Workload.APIReader, key)
	switch {
	case external.IsGone(err):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, fmt.Errorf("bootstrap token: read Secret %s: %w", key, err)
	case string(secret.Data[ownerKey]) != string(s.State.UID):
		return nil, fmt.Errorf("bootstrap token: Secret %s is that of another machine: it expires, or delete it", key)
	}
	return secret, nil
}

// issue creates the token of a Machine.
func (t JoinTokens) issue(ctx context.Context, s *Scope) (userdata.Secret, error) {
	token := userdata.NewSecret(tokenID(s.State.UID) + "." + strings.ToLower(rand.Text())[:16])
	expires := s.Now.Add(t.life())
	secret, err := userdata.TokenSecret(token, expires, "Machine "+s.State.Key.String(), t.Groups...)
	if err != nil {
		return userdata.Secret{}, err
	}
	secret.Data[ownerKey] = []byte(s.State.UID)
	if err := s.Workload.Client.Create(unlogged(ctx), secret); err != nil {
		return userdata.Secret{}, fmt.Errorf("bootstrap token: create Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	s.memory.token = joinToken{next: expires.Add(-t.life() / 2)}
	return token, nil
}

// unlogged prevents client-go from logging the bodies of requests at high verbosity.
func unlogged(ctx context.Context) context.Context { return logr.NewContext(ctx, logr.Discard()) }

func (t JoinTokens) life() time.Duration { return cmp.Or(max(0, t.Life), time.Hour) }

// renew extends the life of a token when half of it is over.
func (t JoinTokens) renew(ctx context.Context, s *Scope, secret *corev1.Secret) error {
	expires, err := time.Parse(time.RFC3339, string(secret.Data["expiration"]))
	if err != nil || expires.Before(s.Now.Add(t.life()/2)) {
		expires = s.Now.Add(t.life())
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": secret.UID},
			"data": map[string][]byte{"expiration": []byte(expires.UTC().Format(time.RFC3339))}})
		if err != nil {
			return err
		}
		if err := s.Workload.Client.Patch(unlogged(ctx), secret.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("bootstrap token: renew: %w", err)
		}
	}
	s.memory.token = joinToken{next: expires.Add(-t.life() / 2)}
	return nil
}

// tokenRetry is the delay before another attempt to delete a token.
const tokenRetry = time.Minute

// step renews or deletes the token of a Machine. If the Machine has its Node, a process deletes only a token that it has seen.
func (t JoinTokens) step(ctx context.Context, s *Scope) (Result, error) {
	memory, joined := &s.memory.token, s.State.Node.UID != ""
	over, seen := joined || s.Deleting() || s.InstanceGone, !memory.next.IsZero()
	switch {
	case s.NodesErr != nil: // an event follows
		return Result{}, nil //nolint:nilerr // the condition of the Node reports it
	case over && memory.gone, joined && !seen, !over && !seen && s.State.ProviderID == "": // until then, each attempt to create calls Token
		return Result{}, nil
	case over == memory.over && s.Now.Before(memory.next):
		return Result{RequeueAfter: memory.next.Sub(s.Now)}, nil
	}
	secret, err := readToken(ctx, s)
	switch {
	case err != nil && !over:
		return Result{}, err
	case over:
		drop(ctx, s, secret, err)
		err = nil
	case secret == nil: // it is gone, or never existed
		*memory = joinToken{next: s.Now.Add(t.life())}
	default:
		err = t.renew(ctx, s, secret)
	}
	return Result{RequeueAfter: max(0, memory.next.Sub(s.Now))}, err
}

// drop deletes the token of a Machine; a nil secret means that there is none.
func drop(ctx context.Context, s *Scope, secret *corev1.Secret, err error) {
	if err == nil && secret != nil {
		err = s.Workload.Client.Delete(unlogged(ctx), secret, client.Preconditions{UID: &secret.UID})
	}
	if err == nil || external.IsGone(err) {
		s.memory.token = joinToken{over: true, gone: true}
		return
	}
	s.memory.token = joinToken{over: true, next: s.Now.Add(tokenRetry)}
	log.FromContext(ctx).Error(err, "The bootstrap token of a Machine stays until it expires, or can be deleted")
}
