package kwokdriver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/provider"
)

// Keys of the Nodes of a Driver.
const (
	// NodeAnnotation has kwok simulate the kubelet of a Node.
	NodeAnnotation = "kwok.x-k8s.io/node"
	// TokenAnnotation holds the token of an instance, and TokenLabel a hash of it.
	TokenAnnotation = "kwokdriver.machinist.dev/token"
	TokenLabel      = "kwokdriver.machinist.dev/token-hash"
	// ClusterLabel names the cluster that an instance belongs to.
	ClusterLabel = "kwokdriver.machinist.dev/cluster"
)

// scheme begins the provider IDs.
const scheme = "kwok://"

// Spec is the specification of an instance.
type Spec struct {
	// CPU, Memory and Pods are the capacity of the Node, as quantities. Defaults 4, 16Gi and 110.
	CPU    string `json:"cpu,omitempty"`
	Memory string `json:"memory,omitempty"`
	Pods   string `json:"pods,omitempty"`
}

// Driver creates Nodes. Safe for concurrent use.
type Driver struct {
	client client.Client
	boot   time.Duration

	mu      sync.Mutex
	booting map[string]booting // by token
}

// booting is an instance that has no Node yet.
type booting struct {
	since    time.Time
	cluster  string
	instance provider.Instance
}

// New returns a Driver whose Nodes are in the cluster of a client. Reads must come from the API server, not from a cache. Requests with
// Credentials need the client of NewClient; another one makes all of them as the same user. An instance is
// Creating, and has neither a Node nor a provider ID, until it is created again after the boot time, which counts from calls of this
// process: in the next one an instance boots again, and is not lost.
func New(c client.Client, boot time.Duration) *Driver {
	return &Driver{client: c, boot: boot, booting: map[string]booting{}}
}

// PolicyRules are the rights that a Driver needs where its Nodes are.
func PolicyRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "create", "delete"},
	}}
}

// Name implements provider.Driver.
func (d *Driver) Name() string { return "kwok" }

// AddDefaults implements provider.Defaulter.
func (d *Driver) AddDefaults(spec json.RawMessage) (json.RawMessage, error) {
	s, err := parse(spec)
	if err != nil {
		return nil, err
	}
	return json.Marshal(s)
}

// parse reads a specification, with defaults.
func parse(spec json.RawMessage) (Spec, error) {
	var s Spec
	if len(spec) > 0 {
		if err := json.Unmarshal(spec, &s); err != nil {
			return s, provider.Errorf(provider.Invalid, "the specification is no JSON object with cpu, memory and pods: %w", err)
		}
	}
	return Spec{cmp.Or(s.CPU, "4"), cmp.Or(s.Memory, "16Gi"), cmp.Or(s.Pods, "110")}, nil
}

// capacity returns what the Node of a specification has.
func capacity(spec json.RawMessage) (corev1.ResourceList, error) {
	s, err := parse(spec)
	if err != nil {
		return nil, err
	}
	all := corev1.ResourceList{}
	var errs []error
	for name, text := range map[corev1.ResourceName]string{
		corev1.ResourceCPU: s.CPU, corev1.ResourceMemory: s.Memory, corev1.ResourcePods: s.Pods,
	} {
		quantity, err := resource.ParseQuantity(text)
		if err != nil || quantity.Sign() <= 0 {
			errs = append(errs, fmt.Errorf("%s %q: give a quantity above zero, such as 4 or 16Gi", name, text))
			continue
		}
		all[name] = quantity
	}
	if len(errs) == 0 {
		return all, nil
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return nil, &provider.Error{Class: provider.Invalid, Err: errors.Join(errs...)}
}

// Validate implements provider.Validator. It makes no request.
func (d *Driver) Validate(_ context.Context, r provider.Request) error {
	_, err := capacity(r.Spec)
	return err
}

// hash is the text that represents a token in labels and names.
func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:8])
}

// nodeName returns the name of an instance's Node: one for each token, so that the API server refuses a second one.
func nodeName(r provider.Request) string {
	name := strings.Trim(strings.ToLower(r.Name), "-.")
	return name[:min(len(name), 40)] + "-" + hash(r.Token)
}

// Create implements provider.Driver.
func (d *Driver) Create(ctx context.Context, r provider.Request) (provider.Instance, error) {
	ctx, err := authorized(ctx, r)
	if err != nil {
		return provider.Instance{}, err
	}
	have, err := d.find(ctx, provider.Request{Token: r.Token})
	if err == nil {
		return shown(have), nil // also when its name would be another one today
	}
	if provider.ClassOf(err) != provider.NotFound {
		return provider.Instance{}, err
	}
	has, err := capacity(r.Spec)
	if err != nil {
		return provider.Instance{}, err
	}
	if i, boots := d.boots(r); boots {
		return i, nil
	}
	node := newNode(r, has)
	err = d.client.Create(ctx, node)
	if apierrors.IsAlreadyExists(err) { // another process was quicker
		have, err := d.find(ctx, provider.Request{Token: r.Token})
		return shown(have), err
	}
	if err != nil {
		return provider.Instance{}, classified("create Node "+node.Name, err)
	}
	d.forget(r.Token)
	return shown(node), nil
}

// boots returns the instance of a request while it boots, and begins that.
func (d *Driver) boots(r provider.Request) (provider.Instance, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, found := d.booting[r.Token]
	if !found {
		b = booting{time.Now(), r.Cluster, provider.Instance{Token: r.Token, Name: nodeName(r), State: provider.Creating}}
	}
	if time.Since(b.since) >= d.boot {
		return provider.Instance{}, false
	}
	d.booting[r.Token] = b
	return b.instance, true
}

func (d *Driver) forget(token string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.booting, token)
}

func newNode(r provider.Request, has corev1.ResourceList) *corev1.Node {
	name := nodeName(r)
	labels := map[string]string{
		corev1.LabelHostname: name, TokenLabel: hash(r.Token), ClusterLabel: contract.LabelValue(r.Cluster),
	}
	if r.FailureDomain != "" {
		labels[corev1.LabelTopologyZone] = contract.LabelValue(r.FailureDomain)
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: labels, Annotations: map[string]string{NodeAnnotation: "fake", TokenAnnotation: r.Token},
		},
		Spec:   corev1.NodeSpec{ProviderID: scheme + name},
		Status: corev1.NodeStatus{Capacity: has, Allocatable: has, NodeInfo: corev1.NodeSystemInfo{KubeletVersion: r.Version}},
	}
}

// find returns the Node of a request. Its errors have a class.
func (d *Driver) find(ctx context.Context, r provider.Request) (*corev1.Node, error) {
	missing := provider.Errorf(provider.NotFound, "there is no Node for the token %s and the provider ID %q", r.Token, r.ProviderID)
	if r.ProviderID != "" {
		name, ours := strings.CutPrefix(r.ProviderID, scheme)
		if !ours || name == "" {
			return nil, missing
		}
		var node corev1.Node
		err := d.client.Get(ctx, client.ObjectKey{Name: name}, &node)
		if apierrors.IsNotFound(err) || (err == nil && node.Annotations[TokenAnnotation] == "") { // a Node that the Driver has not made
			return nil, missing
		}
		return &node, classified("read Node "+name, err)
	}
	var list corev1.NodeList
	if err := d.client.List(ctx, &list, client.MatchingLabels{TokenLabel: hash(r.Token)}); err != nil {
		return nil, classified("list Nodes", err)
	}
	for i := range list.Items {
		if list.Items[i].Annotations[TokenAnnotation] == r.Token {
			return &list.Items[i], nil
		}
	}
	return nil, missing
}

// Get implements provider.Driver.
func (d *Driver) Get(ctx context.Context, r provider.Request) (provider.Instance, error) {
	ctx, err := authorized(ctx, r)
	if err != nil {
		return provider.Instance{}, err
	}
	node, err := d.find(ctx, r)
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if b, found := d.booting[r.Token]; found && r.ProviderID == "" && provider.ClassOf(err) == provider.NotFound {
			return b.instance, nil
		}
		return provider.Instance{}, err
	}
	return shown(node), nil
}

// Delete implements provider.Driver.
func (d *Driver) Delete(ctx context.Context, r provider.Request) (gone bool, err error) {
	ctx, err = authorized(ctx, r)
	if err != nil {
		return false, err
	}
	d.forget(r.Token)
	node, err := d.find(ctx, r)
	if provider.ClassOf(err) == provider.NotFound {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	err = d.client.Delete(ctx, node, client.Preconditions{UID: new(node.UID)})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, classified("delete Node "+node.Name, err)
	}
	_, err = d.find(ctx, r) // a Node may have a finalizer
	if provider.ClassOf(err) == provider.NotFound {
		return true, nil
	}
	return false, err
}

// List implements provider.Lister.
func (d *Driver) List(ctx context.Context, r provider.Request) ([]provider.Instance, error) {
	ctx, err := authorized(ctx, r)
	if err != nil {
		return nil, err
	}
	var list corev1.NodeList
	if err := d.client.List(ctx, &list, client.MatchingLabels{ClusterLabel: contract.LabelValue(r.Cluster)}); err != nil {
		return nil, classified("list Nodes", err)
	}
	all := make([]provider.Instance, 0, len(list.Items))
	for i := range list.Items {
		if list.Items[i].Annotations[TokenAnnotation] != "" {
			all = append(all, shown(&list.Items[i]))
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, token := range slices.Sorted(maps.Keys(d.booting)) {
		made := slices.ContainsFunc(all, func(i provider.Instance) bool { return i.Token == token })
		if b := d.booting[token]; b.cluster == r.Cluster && !made {
			all = append(all, b.instance)
		}
	}
	return all, nil
}

// shown is the instance of a Node; zero for nil.
func shown(node *corev1.Node) provider.Instance {
	if node == nil {
		return provider.Instance{}
	}
	i := provider.Instance{
		ProviderID: node.Spec.ProviderID, Token: node.Annotations[TokenAnnotation], Name: node.Name, State: provider.Running,
		FailureDomain: node.Labels[corev1.LabelTopologyZone],
		Addresses:     []provider.Address{{Type: string(corev1.NodeHostName), Address: node.Name}},
	}
	if node.DeletionTimestamp != nil {
		i.State = provider.Deleting
	}
	return i
}

// classified gives an error of the API server its class. Nil stays nil.
func classified(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return provider.Errorf(provider.Unauthenticated, "%s: %w", what, err)
	case apierrors.IsInvalid(err):
		return provider.Errorf(provider.Invalid, "%s: %w", what, err)
	case apierrors.IsTooManyRequests(err):
		return provider.Errorf(provider.RateLimited, "%s: %w", what, err)
	}
	return provider.Errorf(provider.Unavailable, "%s: %w", what, err)
}
