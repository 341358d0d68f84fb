package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/instance"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/noderef"
)

// DriverOptions connects Machines with a provider.Driver.
type DriverOptions struct {
	// Calls are the calls of the Driver, usually decorated with deadlines, a rate limit and a cache. Required.
	Calls provider.Calls
	// RequestOf returns the Driver's input: the specification, of the Machine or of its class, with Account and Credentials. Token, names,
	// version and failure domain are filled in where they are empty. It is called in every pass, from several goroutines, must not block, and
	// must not keep or change the state. An error is retried with back-off; in a deletion the Driver is called with the Request that is
	// returned beside the error, for its Credentials. Default: contract.MachineState.Provider.Spec, without credentials.
	RequestOf func(context.Context, *contract.MachineState) (provider.Request, error)
	// UserData returns the first-boot data, before each attempt to create the instance. BootstrapData, MachineClasses and ProviderSpecs
	// provide such functions. The Request is the Driver's input, with the Driver's defaults. It is called from several goroutines, and must
	// not keep or change its arguments. An error is retried with back-off. Nil: the instance needs no data, and does not wait for bootstrap
	// data.
	UserData func(context.Context, *Scope, provider.Request) ([]byte, error)
	// WithoutBootstrap: UserData does not depend on bootstrap data of the Machine, as with MachineClasses, and is called at once.
	WithoutBootstrap bool
	// Backoff defines the delay after an error. Default provider.DefaultBackoff().
	Backoff provider.Backoff
	// Poll is the time between two reads of an instance that does not run yet or is being deleted. Default ten seconds.
	Poll time.Duration
	// Refresh is the time between two reads of a running instance. Default instance.DefaultRefresh; negative: only events cause a read.
	Refresh time.Duration
}

// WithDriver returns steps in which a Driver takes the place of the infrastructure object: StepInfrastructure creates and reads the
// instance of the Machine, and StepDeleteInfrastructure deletes it. The Token is the UID of the Machine. When the Driver rejects a
// specification, the condition InfrastructureReady reports it, and the Driver is called again when the specification or its credentials
// change, or after ten minutes. New reports missing options. WithDriver does not store Instance.Resume: the Driver finds the instance by
// its Token until the provider ID is recorded. As with an infrastructure object, the Node of a Machine in deletion is not drained when the
// instance is already being deleted.
//
// If several Machines of a cluster have the provider ID of an instance, as after a Machine was copied, the instance is deleted with the
// Machine that alone has recorded its Node. Otherwise it is retained until all of them are being deleted, or only one of them has the
// provider ID; the condition Deleting names the others. A Machine without a provider ID counts when the Driver finds the instance by its
// Token. If the Driver reports that the instance was made for a Machine that is not being deleted, the Node is not touched either,
// whichever Machine has recorded it. A Machine of another cluster, as after a backup was restored into another namespace, does not block
// the Machine whose Token the Driver reports for the instance. Machines in namespaces that are not in the cache, or in other management
// clusters, are not seen.
//
// Package internal/instance makes the decisions; package inframachine uses it for a Driver behind an InfraMachine. To count Machines by the
// name of the Driver, set MetricsOptions.Provider; by default they are counted by the scheme of their provider ID.
func WithDriver(steps engine.Steps[*Scope], o DriverOptions) engine.Steps[*Scope] {
	keeper, err := instance.NewKeeper(instance.Options{Calls: o.Calls, Backoff: o.Backoff, Poll: o.Poll, Refresh: o.Refresh})
	if err != nil {
		return engine.Wrong(steps, fmt.Errorf("DriverOptions: %w", err))
	}
	if o.RequestOf == nil {
		o.RequestOf = func(_ context.Context, m *contract.MachineState) (provider.Request, error) {
			return provider.Request{Spec: m.Provider.Spec}, nil
		}
	}
	d := &driver{DriverOptions: o, keeper: keeper}
	return steps.Replace(StepInfrastructure, Step{Name: StepInfrastructure, On: engine.InBoth, Run: d.run}).
		Replace(StepDeleteInfrastructure, Step{Name: StepDeleteInfrastructure, On: engine.InDeletion, Run: d.remove})
}

// driver implements the two steps.
type driver struct {
	DriverOptions

	keeper *instance.Keeper
}

// input returns the facts of a pass about the instance.
func (d *driver) input(ctx context.Context, s *Scope) instance.Input {
	r, err := d.RequestOf(ctx, &s.State)
	r.Token, r.Name = cmp.Or(r.Token, string(s.State.UID)), cmp.Or(r.Name, s.State.Key.Name)
	r.Cluster, r.Version = cmp.Or(r.Cluster, s.State.ClusterName), cmp.Or(r.Version, s.State.Version)
	r.FailureDomain, r.ProviderID = cmp.Or(r.FailureDomain, s.State.WantedFailureDomain), s.State.ProviderID
	in := instance.Input{
		Request: r, Err: err, Provisioned: s.State.InfrastructureReady.Or(false) || instance.IsLost(s.State.FailureReason),
		Deleting: s.Deleting(), Now: s.Now, IsKept: s.IsKept, Announce: s.announces,
	}
	if d.UserData != nil {
		in.AwaitsData = !d.WithoutBootstrap && !s.State.BootstrapReady.Or(false) && !s.State.DataSecretName.Found()
		in.FirstBoot = func(ctx context.Context, r provider.Request) ([]byte, error) { return d.UserData(ctx, s, r) }
	}
	return in
}

// announces reports whether a pass ends before a call of the Driver, which may take long, so that the status is stored first. A process
// announces each call once, and no validation after another call.
func (s *Scope) announces(op provider.Operation) bool {
	before := s.memory.announced
	if before == op || op == provider.OpValidate && before != "" {
		return false
	}
	s.memory.announced = op
	return true
}

// run creates or reads the instance and copies its values to the Machine. A new provider ID is stored before anything else happens, because
// it identifies the instance in later passes.
func (d *driver) run(ctx context.Context, s *Scope) (Result, error) {
	in := d.input(ctx, s)
	found, err := d.keeper.Ensure(ctx, in)
	if !found.Keep {
		s.Assert(found.Condition(contract.ConditionInfrastructureReady))
	}
	if err != nil {
		return Result{}, err
	}
	if found.Unread != "" {
		return s.waitFor(contract.ReasonWaitingForInfrastructureDeletion, found.Unread, found.RequeueAfter), nil
	}
	s.validated = contract.Some(found.Valid)
	if found.Announced {
		return Result{Stop: true, Checkpoint: true, RequeueAfter: found.RequeueAfter}, nil
	}
	s.InstanceGone, s.PoweredOff = s.InstanceGone || found.Gone, s.PoweredOff || found.Off
	s.instanceGoing = found.Going && s.Deleting()
	if found.Instance.ProviderID != "" || found.Instance.State != "" { // the Driver has answered
		s.memory.instanceToken = contract.Some(found.Instance.Token)
	}
	if err := s.claimNode(ctx, in.Request.Token); err != nil {
		return Result{}, err
	}
	s.recordFailure(engine.Failure{Reason: found.FailureReason, Message: found.FailureMessage})
	result := Result{RequeueAfter: found.RequeueAfter}
	if found.Adopt {
		result.Checkpoint = s.State.ProviderID == ""
		s.adopt(&found.Instance)
	}
	if found.Provisioned {
		s.SetInfrastructureReady()
		if instance.IsLost(s.State.FailureReason) { // the instance appeared late, or was repaired
			s.SetFailure("", "")
		}
	}
	return result, nil
}

// adopt copies the instance's values to the Machine.
func (s *Scope) adopt(i *provider.Instance) {
	s.SetProviderID(i.ProviderID)
	if len(i.Addresses) > 0 {
		s.SetAddresses(i.Addresses)
	}
	if i.FailureDomain != "" {
		s.SetFailureDomain(i.FailureDomain)
	}
}

// remove deletes the instance, and waits until the Driver reports that it is gone. It needs no valid specification, and no class or Secret
// if the Driver has credentials from elsewhere. An instance that another Machine claims is retained (see decideInstanceClaim); an event of
// a Machine of the same cluster ends the wait.
func (d *driver) remove(ctx context.Context, s *Scope) (Result, error) {
	in := d.input(ctx, s)
	holders, err := s.instanceHolders(ctx, in.Request.Token)
	if err != nil {
		return s.Wait(contract.ReasonWaitingForInfrastructureDeletion, err.Error()), err
	}
	if len(holders) == 0 && s.heldBy != "" { // its deletion has begun in this pass, which has not touched the Node
		holders = []string{s.heldBy}
	}
	var removal instance.Removal
	switch reported := engine.HasStatus(s.Stored, contract.ConditionDeleting, metav1.ConditionTrue); {
	case len(holders) > 0:
		value := fmt.Sprintf("spec.providerID %q", s.State.ProviderID)
		removal = d.keeper.Held(s.env.kind.GVK.Kind, value, s.env.frame.Finalizer, holders)
	case !reported && s.announces(provider.OpDelete):
		wait := s.waitFor(contract.ReasonWaitingForInfrastructureDeletion, "The instance is being deleted", time.Nanosecond)
		wait.Checkpoint = true
		return wait, nil
	default:
		if removal = d.keeper.Remove(ctx, in); removal.Gone {
			s.InstanceGone, s.memory.instanceGone = true, true
			return Result{}, nil
		}
	}
	return s.waitFor(contract.ReasonWaitingForInfrastructureDeletion, removal.Message, removal.RequeueAfter), nil
}

// instanceClaim is a Machine that claims an instance.
type instanceClaim struct {
	Machine types.NamespacedName
	// Recorded: the Machine has recorded a Node. Elsewhere: it is of another cluster. Made: the Driver made the instance for it.
	Recorded, Deleting, Elsewhere, Made bool
}

// instanceClaims are the inputs of decideInstanceClaim.
type instanceClaims struct {
	// Recorded: this Machine has recorded a Node. Contested: the Node with the provider ID is not this Machine's, or that is not certain.
	// Made: the Driver reports that the instance was made for this Machine.
	Recorded, Contested, Made bool
	Others                    []instanceClaim
}

// isContested reports whether a lookup found no Node with the provider ID that is the Machine's own. A Node that is gone may have been
// another Machine's, so only an existing Node proves which Machine owns the instance.
func isContested(o noderef.Outcome) bool { return o != noderef.Matched && o != noderef.Readopted }

// decideInstanceClaim returns the other Machines for which the instance is retained while this Machine is being deleted, sorted. The rule
// is that of Nodes (package noderef): the Machine that alone has recorded the Node owns the instance. Otherwise no Machine deletes it while
// a Machine that is not being deleted claims it, and a Machine that has recorded a Node goes before a Machine that has not, because it
// drains the Node first. The Machine for which the instance was made may have lost its record to a copy: the instance is retained for it. A
// Machine of another cluster has another Node, or is a copy: only the Machine for which the instance was made ignores it.
func decideInstanceClaim(f instanceClaims) []string {
	theirs := slices.ContainsFunc(f.Others, func(c instanceClaim) bool { return c.Recorded && !c.Elsewhere })
	alone := f.Recorded && !f.Contested && !theirs
	var holders []string
	for _, other := range f.Others {
		drains := other.Recorded && !f.Recorded && !other.Elsewhere
		if keeps := alone && !other.Elsewhere && !other.Made || f.Made && other.Elsewhere; !keeps && (!other.Deleting || drains) {
			holders = append(holders, other.Machine.String())
		}
	}
	slices.Sort(holders)
	return holders
}

// instanceHolders returns the other Machines for which the instance is retained. The token is this Machine's.
func (s *Scope) instanceHolders(ctx context.Context, token string) ([]string, error) {
	others, err := s.instanceClaims(ctx)
	return decideInstanceClaim(instanceClaims{
		Recorded: s.State.Node.UID != "", Contested: isContested(s.Node.Outcome), Made: s.memory.instanceToken.Or("") == token, Others: others,
	}), err
}

// decideNodeClaim decides about the Node of a Machine in deletion whose instance was not made for it; known: the Driver has reported the
// instance's Token. Of the other Machines that claim the instance and are not being deleted, it returns the one for which the instance was
// made (heldBy), or any of them until that is known (unclear).
func decideNodeClaim(others []instanceClaim, known bool) (heldBy, unclear string) {
	for _, other := range others {
		switch name := other.Machine.String(); {
		case other.Deleting:
		case known && other.Made:
			return name, ""
		case !known && (unclear == "" || name < unclear):
			unclear = name
		}
	}
	return "", unclear
}

// claimNode leaves the Node of a Machine in deletion untouched, whichever Machine has recorded it, while another Machine has the instance
// that the Driver has made for that Machine, as after a copy; the instance is retained too. The deletion waits until the Driver has
// reported for which Machine the instance was made.
func (s *Scope) claimNode(ctx context.Context, token string) error {
	made, known := s.memory.instanceToken.Get()
	if !s.Deleting() || made == token {
		return nil
	}
	others, err := s.instanceClaims(ctx)
	heldBy, unclear := decideNodeClaim(others, known)
	if s.heldBy = heldBy; heldBy != "" {
		s.care, s.careReason = careNone, "its instance was made for Machine "+heldBy
	}
	if s.contested = unclear != ""; s.contested {
		s.careReason = fmt.Sprintf("Machine %s names the instance too, and the driver has not reported yet whose it is, see condition %s; "+
			"or remove the provider ID from one of them", unclear, contract.ConditionInfrastructureReady)
	}
	return err
}

// instanceClaims returns the other Machines that claim the instance. Without the index, Machines do not detect each other. An instance that
// is being deleted is retained for no Machine: its Node goes with it.
func (s *Scope) instanceClaims(ctx context.Context) (others []instanceClaim, err error) {
	key, token := s.env.options.Matching.Key(s.State.ProviderID), s.memory.instanceToken.Or("")
	if key == "" || !s.env.indexed || s.instanceGoing || s.InstanceGone || s.memory.instanceGone {
		return nil, nil
	}
	claims := func(obj client.Object) {
		var other contract.MachineState
		at, going := client.ObjectKeyFromObject(obj), obj.GetDeletionTimestamp() != nil
		if at == s.State.Key {
			return
		}
		recorded := !going // a Machine that cannot be read may have recorded the Node, and does not drain it
		if s.env.kind.Adapter.Read(obj, &other) == nil {
			recorded = other.Node.UID != ""
		}
		made := token != "" && token == string(obj.GetUID())
		others = append(others, instanceClaim{at, recorded, going, s.env.clusterOf(&other) != s.cluster, made})
	}
	err = s.env.frame.Each(ctx, "", engine.ProviderIDKey(key), claims)
	if token != "" && !slices.ContainsFunc(others, func(c instanceClaim) bool { return c.Made }) { // it may have lost the provider ID
		err = errors.Join(err, s.env.frame.Each(ctx, "", tokenKey(token), claims))
	}
	return others, err
}
