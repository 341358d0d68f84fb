package e2e_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machine/userdata"
	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// hollowScheme begins the provider IDs of instances whose first-boot data name none.
const hollowScheme = "hollow://"

// hollowDriver makes instances that are kubelets of one control plane: processes with the kubelet's own code over a fake container runtime.
// An instance starts from its first-boot data and nothing else, as a machine does: the bootstrap token, the pinned CA, the name, labels and
// taints of the Node, and the KubeletConfiguration are read from what package machine/userdata rendered. A machine whose first-boot data
// starts no kubelet is an instance that runs and never joins, as everywhere. It forgets them with the process, in which they end too. Safe for
// concurrent use.
type hollowDriver struct {
	plane *cluster.ControlPlane

	mu        sync.Mutex
	instances map[string]*hollowInstance // by Token
}

type hollowInstance struct {
	provider.Instance

	cluster string
	kubelet *cluster.Kubelet // nil: the first-boot data start none
}

// newHollow returns a hollowDriver. The control plane must have kwok leave the Nodes alone (cluster.OtherNodes), and allow bootstrap tokens
// (cluster.AllowBootstrap).
func newHollow(plane *cluster.ControlPlane) *hollowDriver {
	return &hollowDriver{plane: plane, instances: map[string]*hollowInstance{}}
}

// Name implements provider.Driver.
func (d *hollowDriver) Name() string { return "hollow" }

// Kubelet returns the kubelet of an instance; nil where there is none.
func (d *hollowDriver) Kubelet(token string) *cluster.Kubelet {
	d.mu.Lock()
	defer d.mu.Unlock()
	if have := d.instances[token]; have != nil {
		return have.kubelet
	}
	return nil
}

// Create implements provider.Driver.
func (d *hollowDriver) Create(ctx context.Context, r provider.Request) (provider.Instance, error) {
	if err := ctx.Err(); err != nil {
		return provider.Instance{}, err
	}
	if spec := string(r.Spec); spec != "" && spec != "{}" && spec != "null" {
		return provider.Instance{}, provider.Errorf(provider.Invalid, "instances have no specification")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if have := d.instances[r.Token]; have != nil {
		return have.shown(), nil
	}
	sum := sha256.Sum256([]byte(r.Token))
	id := hollowScheme + hex.EncodeToString(sum[:8])
	made := &hollowInstance{cluster: r.Cluster, Instance: provider.Instance{
		ProviderID: id, Token: r.Token, Name: r.Name, State: provider.Running,
	}}
	joined, err := userdata.Parse(r.UserData)
	if err != nil {
		made.Message = "the first-boot data start no kubelet: " + err.Error()
		d.instances[r.Token] = made
		return made.shown(), nil
	}
	if err := d.boot(made, joined); err != nil {
		return provider.Instance{}, err
	}
	d.instances[r.Token] = made
	return made.shown(), nil
}

// boot starts the kubelet of a new instance.
func (d *hollowDriver) boot(made *hollowInstance, joined userdata.Joined) error {
	if joined.ProviderID != "" {
		made.ProviderID = joined.ProviderID
	}
	if joined.NodeName != "" {
		made.Name = joined.NodeName
	}
	for _, other := range d.instances {
		if other.kubelet != nil && other.Name == made.Name {
			return provider.Errorf(provider.Exhausted, "the instance %s has the Node %s", other.ProviderID, made.Name)
		}
	}
	configuration, err := configured(joined.KubeletConfiguration, made.ProviderID)
	if err != nil {
		return err
	}
	made.kubelet, err = d.plane.StartKubelet(cluster.KubeletOptions{
		Name: made.Name, BootstrapKubeconfig: []byte(joined.Kubeconfig.Reveal()), Configuration: configuration, Args: joined.KubeletArgs,
	})
	if err != nil {
		return provider.Errorf(provider.Unavailable, "%w", err)
	}
	made.Addresses = []provider.Address{{Type: string(corev1.NodeHostName), Address: made.Name}}
	return nil
}

// configured adds what a cloud tells a kubelet.
func configured(configuration json.RawMessage, providerID string) ([]byte, error) {
	fields := map[string]any{}
	if err := json.Unmarshal(configuration, &fields); err != nil {
		return nil, provider.Errorf(provider.Invalid, "the KubeletConfiguration is no JSON object")
	}
	fields["providerID"] = providerID
	return json.Marshal(fields)
}

// shown is what the Driver says about an instance. One whose kubelet has ended runs on: only its Node says that something is wrong.
func (i *hollowInstance) shown() provider.Instance {
	shown := i.Instance
	shown.Addresses = slices.Clone(shown.Addresses)
	if i.kubelet == nil {
		return shown
	}
	select {
	case <-i.kubelet.Ended():
		shown.Message = "the kubelet has ended"
		if err := i.kubelet.Err(); err != nil {
			shown.Message = err.Error()
		}
	default:
	}
	return shown
}

// find returns the instance of a request. The caller holds mu.
func (d *hollowDriver) find(r provider.Request) (*hollowInstance, error) {
	if have := d.instances[r.Token]; have != nil && r.ProviderID == "" {
		return have, nil
	}
	for _, have := range d.instances {
		if r.ProviderID != "" && have.ProviderID == r.ProviderID {
			return have, nil
		}
	}
	return nil, provider.Errorf(provider.NotFound, "there is no instance with the token %s and the provider ID %q", r.Token, r.ProviderID)
}

// Get implements provider.Driver.
func (d *hollowDriver) Get(ctx context.Context, r provider.Request) (provider.Instance, error) {
	if err := ctx.Err(); err != nil {
		return provider.Instance{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	have, err := d.find(r)
	if err != nil {
		return provider.Instance{}, err
	}
	return have.shown(), nil
}

// Delete implements provider.Driver. The Node stays, as when any machine goes.
func (d *hollowDriver) Delete(ctx context.Context, r provider.Request) (gone bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	have, err := d.find(r)
	if err != nil {
		return true, nil
	}
	if have.kubelet != nil {
		if err := have.kubelet.Remove(); err != nil {
			return false, provider.Errorf(provider.Unavailable, "remove the kubelet of %s: %w", have.Name, err)
		}
	}
	delete(d.instances, have.Token)
	return true, nil
}

// List implements provider.Lister.
func (d *hollowDriver) List(ctx context.Context, r provider.Request) ([]provider.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []provider.Instance
	for _, have := range d.instances {
		if have.cluster == r.Cluster {
			all = append(all, have.shown())
		}
	}
	slices.SortFunc(all, func(a, b provider.Instance) int { return strings.Compare(a.Token, b.Token) })
	return all, nil
}
