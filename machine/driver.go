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

// DriverOptions connect Machines with a provider.Driver.
type DriverOptions struct {
	// Calls are those of the Driver, usually decorated with deadlines, a rate limit and a cache. Required.
	Calls provider.Calls
	// RequestOf returns what the Driver is asked for: the specification, of the Machine or of its class, with Account and Credentials; the
	// Token, the names, the version and the failure domain are filled in where it leaves them empty. It is called in every pass, from several
	// goroutines, must not block, and neither keeps nor changes the state. An error is retried with back-off; in a deletion the
	// Driver is asked with what it returns beside the error, such as Credentials. Default: contract.MachineState.Provider.Spec, without
	// credentials.
	RequestOf func(context.Context, *contract.MachineState) (provider.Request, error)
	// UserData returns the first-boot data, before each attempt to create the instance: BootstrapData, the UserData of MachineClasses, that of
	// ProviderSpecs, or your own. The Request is what the Driver is asked for, with the Driver's defaults. It is called from several
	// goroutines, and neither keeps nor changes its arguments. An error is retried with back-off. Nil: the instance needs none, and does not
	// wait for bootstrap data.
	UserData func(context.Context, *Scope, provider.Request) ([]byte, error)
	// WithoutBootstrap: UserData does not depend on bootstrap data of the Machine, such as that of MachineClasses, and is called at once.
	WithoutBootstrap bool
	// Backoff says how long to wait after an error. Default provider.DefaultBackoff().
	Backoff provider.Backoff
	// Poll is the time between two looks at an instance that does not run yet, or is being deleted. Default ten seconds.
	Poll time.Duration
	// Refresh is the time between two looks at an instance that runs. Default instance.DefaultRefresh; negative: only events cause one.
	Refresh time.Duration
}

// WithDriver returns steps in which a Driver takes the place of the infrastructure object: StepInfrastructure creates and reads the
// instance of the Machine, and StepDeleteInfrastructure deletes it. The Token is the UID of the Machine. A Machine whose specification the
// Driver refuses says so in the condition InfrastructureReady, and costs no call until its specification or its credentials change. New
// returns what is missing in the options. WithDriver does not keep Instance.Resume: the Driver finds the instance by its Token until its
// provider ID is recorded. The Node of a Machine in deletion whose instance is being deleted already is not drained, as with an
// infrastructure object.
//
// An instance whose provider ID several Machines of a cluster name, as after a Machine was copied, is deleted with the one that alone has
// recorded its Node. Otherwise it stays until all of them are being deleted, or one has the provider ID alone; the condition Deleting names
// the others. A Machine without a provider ID is one of them when the Driver finds the instance by its Token. Where the Driver says that
// the instance was made for one that is not being deleted, the Node is left alone too, whoever has recorded it. One of another cluster, as
// after a backup was restored into another namespace, does not hold the one whose Token the Driver says for the instance. Machines of
// namespaces that the cache does not have, or of other management clusters, are not seen.
//
// Package instance makes the decisions, and package inframachine uses it for a Driver behind an InfraMachine. To count Machines by the name
// of the Driver, set MetricsOptions.Provider; by default they are counted by the scheme of their provider ID.
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

// driver are the two steps.
type driver struct {
	DriverOptions

	keeper *instance.Keeper
}

// input returns what a pass knows about the instance.
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

// announces reports whether a pass ends before a call of the Driver, which may take long, so that the status has first what goes on: each
// call is announced once by a process, the first one only where there is no status yet, and a creation where the status is not that of an
// earlier attempt.
func (s *Scope) announces(op provider.Operation) bool {
	stored, _ := engine.Find(s.Stored, contract.ConditionInfrastructureReady)
	attempted := stored.Status == metav1.ConditionFalse &&
		!slices.Contains([]string{instance.ReasonInvalid, instance.ReasonWaitingForData}, stored.Reason)
	said := s.memory.announced == op || op == provider.OpValidate && (s.memory.announced != "" || s.State.Phase != "") ||
		op == provider.OpCreate && attempted
	if !said {
		s.memory.announced = op
	}
	return !said
}

// run creates or reads the instance, and copies what the Driver says about it. A new provider ID is stored before anything else happens: it
// is what finds the instance again.
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
	if found.Instance.ProviderID != "" || found.Instance.State != "" { // it has answered
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
		if instance.IsLost(s.State.FailureReason) { // it was seen late, or mended
			s.SetFailure("", "")
		}
	}
	return result, nil
}

// adopt copies what the Driver says about the instance.
func (s *Scope) adopt(i *provider.Instance) {
	s.SetProviderID(i.ProviderID)
	if len(i.Addresses) > 0 {
		s.SetAddresses(i.Addresses)
	}
	if i.FailureDomain != "" {
		s.SetFailureDomain(i.FailureDomain)
	}
}

// remove deletes the instance, and waits until the Driver says that it is gone. It needs no valid specification, and no class or Secret
// where the Driver has its credentials from elsewhere. An instance that another Machine names stays, see decideInstanceClaim: an event of
// one of the same cluster follows.
func (d *driver) remove(ctx context.Context, s *Scope) (Result, error) {
	in := d.input(ctx, s)
	holders, named, err := s.instanceHolders(ctx, in.Request.Token)
	if err != nil {
		return s.Wait(contract.ReasonWaitingForInfrastructureDeletion, err.Error()), err
	}
	if len(holders) == 0 && s.heldBy != "" { // its deletion has begun in this pass, which has left the Node alone
		holders = []string{s.heldBy}
	}
	var removal instance.Removal
	switch told := engine.HasStatus(s.Stored, contract.ConditionDeleting, metav1.ConditionTrue); {
	case len(holders) > 0:
		value := fmt.Sprintf("spec.providerID %q", s.State.ProviderID)
		removal = d.keeper.Held(s.env.kind.GVK.Kind, value, named, s.env.frame.Finalizer, holders)
	case !told && s.announces(provider.OpDelete):
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

// instanceClaim is a Machine that names the provider ID of an instance.
type instanceClaim struct {
	Machine types.NamespacedName
	// Recorded: the Machine has recorded a Node. Elsewhere: it is of another cluster. Made: the instance was made for it, by the Driver.
	// Named: it has the provider ID, and was not only found by its Token.
	Recorded, Deleting, Elsewhere, Made, Named bool
}

// instanceClaims are the inputs of decideInstanceClaim.
type instanceClaims struct {
	// Recorded: this Machine has recorded a Node. Contested: the Node of the provider ID is not its own, or that is not certain.
	// Made: the Driver says that the instance was made for this Machine.
	Recorded, Contested, Made bool
	Others                    []instanceClaim
}

// isContested reports whether a lookup found no Node of the provider ID that is the Machine's own. One that is gone may have been another
// one's, so only one that is there says whose the instance is.
func isContested(o noderef.Outcome) bool { return o != noderef.Matched && o != noderef.Readopted }

// decideInstanceClaim returns the other Machines that an instance stays for while this Machine is being deleted, sorted. The rule is that
// of Nodes (package noderef): the Machine that alone has recorded the Node keeps the instance. Otherwise none deletes it while a Machine
// that is not being deleted names it, and a Machine that has recorded a Node goes before one that has not: it drains the Node first. The
// record may have been removed from the Machine that the instance was made for, and a copy may have it: the instance stays for that one. A
// Machine of another cluster has another Node, or a copy of everything: only the one that the instance was made for does not stay for it.
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

// instanceHolders returns the other Machines for which the instance stays, and whether the first has its provider ID; token is that of
// this Machine.
func (s *Scope) instanceHolders(ctx context.Context, token string) (holders []string, named bool, err error) {
	others, err := s.instanceClaims(ctx)
	holders = decideInstanceClaim(instanceClaims{
		Recorded: s.State.Node.UID != "", Contested: isContested(s.Node.Outcome), Made: s.memory.instanceToken.Or("") == token, Others: others,
	})
	named = slices.ContainsFunc(others, func(c instanceClaim) bool { return c.Named && holders != nil && c.Machine.String() == holders[0] })
	return holders, named, err
}

// decideNodeClaim decides about the Node of a Machine in deletion whose instance was not made for it, as far as the Driver has said, see
// known. Of the others that name the instance and are not being deleted, it returns the one that the instance was made for, heldBy, and
// until that is known any, unclear.
func decideNodeClaim(others []instanceClaim, known bool) (heldBy, unclear string) {
	var names []string
	for _, other := range others {
		if name := other.Machine.String(); !other.Deleting {
			if names = append(names, name); known && other.Made {
				return name, ""
			}
		}
	}
	if known || len(names) == 0 {
		return "", ""
	}
	return "", slices.Min(names)
}

// claimNode leaves the Node of a Machine in deletion alone, whoever has recorded it, while another Machine has the instance that the
// Driver has made for it, as after a copy; the instance stays too. Until a look has told whose it is, the deletion waits.
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
		s.careReason = fmt.Sprintf("Machine %s names the instance too, and the driver has yet to say whose it is, see condition %s; or remove "+
			"the provider ID from one of them", unclear, contract.ConditionInfrastructureReady)
	}
	return err
}

// instanceClaims returns the other Machines that name the instance. Without the index Machines do not detect each other. One that is going
// stays for none: its Node goes with it.
func (s *Scope) instanceClaims(ctx context.Context) (others []instanceClaim, err error) {
	key, token := s.env.options.Matching.Key(s.State.ProviderID), s.memory.instanceToken.Or("")
	if key == "" || !s.env.indexed || s.instanceGoing || s.InstanceGone || s.memory.instanceGone {
		return nil, nil
	}
	named := true
	claims := func(obj client.Object) {
		var other contract.MachineState
		at, going := client.ObjectKeyFromObject(obj), obj.GetDeletionTimestamp() != nil
		if at == s.State.Key {
			return
		}
		recorded := !going // one that cannot be read may have recorded the Node, and does not drain it
		if s.env.kind.Adapter.Read(obj, &other) == nil {
			recorded = other.Node.UID != ""
		}
		made := token != "" && token == string(obj.GetUID())
		others = append(others, instanceClaim{at, recorded, going, s.env.clusterOf(&other) != s.cluster, made, named})
	}
	err = s.env.frame.Each(ctx, "", engine.ProviderIDKey(key), claims)
	if token != "" && !slices.ContainsFunc(others, func(c instanceClaim) bool { return c.Made }) { // it may have lost the provider ID
		named = false
		err = errors.Join(err, s.env.frame.Each(ctx, "", tokenKey(token), claims))
	}
	return others, err
}
