package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NotStored is a member of MachineState, or of the state of another kind, that a kind does not store, because one of its two functions or
// its encoding omits it. Counters are not checked.
type NotStored struct {
	// Member is the name of the member: "Node.UID".
	Member string
	// Need is how important the member is. With NeedMust no machine is safe, with NeedShould work is repeated or limits do not apply, and with
	// NeedOptional another controller or a user lacks information.
	Need Need
	// breaks is the consequence, and mend is the remedy.
	breaks, mend string
}

// String returns the member, the consequence and the remedy in one line.
func (f NotStored) String() string {
	return fmt.Sprintf("%s is not stored, so %s: %s", f.Member, f.breaks, f.mend)
}

// CheckKind writes a state to a new object of a kind, encodes and decodes it, reads it back, and returns the missing members. It makes no
// request. A test of the embedder should fail for each NeedMust; which of the others matter depends on the embedder. A ProviderID that read
// derives from other fields is reported as missing. Spec and ClusterName of an InfraMachine, which its provider only reads, are not
// checked.
//
// The error is that of writing, encoding or reading the object, which has no other content.
func CheckKind[S, U any](kind KindOf[S, U]) ([]NotStored, error) {
	var u U
	var got S
	update, ok := any(&u).(probeUpdate)
	state, ok2 := any(&got).(probeState)
	common := ChangesOf(&u)
	if !ok || !ok2 || common.MetadataUpdate == nil || CommonOf(&got).Metadata == nil { // types that embed one of this package fail too
		return nil, fmt.Errorf("check %T: it is none of the kinds of this package", kind)
	}
	*common.MetadataUpdate = MetadataUpdate{
		Finalizers:      SetTo([]string{probeKey}),
		OwnerReferences: SetTo(probeOwners()),
		Labels:          map[string]Change[string]{probeKey: SetTo("probe")},
		Annotations:     map[string]Change[string]{probeKey: SetTo("probe")},
	}
	*common.Conditions = []metav1.Condition{{Type: "Probe", Status: metav1.ConditionTrue, Reason: "Probe", Message: "probe",
		LastTransitionTime: metav1.NewTime(probeTime())}}
	*common.ObservedGeneration = SetTo[int64](1)
	update.probe()
	if err := probe(kind, u, &got); err != nil {
		return nil, err
	}
	return missing(append(commonMembers(CommonOf(&got), kind.GVK.Kind), state.members()...), "have the contract.Kind write and read it"), nil
}

// probeUpdate is an update that can be filled for a probe. The members that all kinds share are already set.
type probeUpdate interface{ probe() }

// probeState is a state that compares the values read with the values written. The members that all kinds share are already compared.
type probeState interface{ members() []member }

// RequireStored returns an error that names each NeedMust member, except the given ones; nil when there is none.
func RequireStored(forgotten []NotStored, except ...string) error {
	var errs []error
	for _, f := range forgotten {
		if f.Need == NeedMust && !slices.Contains(except, f.Member) {
			errs = append(errs, errors.New(f.String()))
		}
	}
	return errors.Join(errs...)
}

// probe writes an update to a new object of a kind, encodes and decodes it, and reads it back.
func probe[S, U any](kind KindOf[S, U], u U, into *S) error {
	if kind.New == nil || kind.Adapter == nil {
		return errors.New("the kind needs New and an Adapter")
	}
	obj := kind.New()
	obj.SetNamespace("probe")
	obj.SetName("probe")
	obj.SetUID("probe")
	obj.SetDeletionTimestamp(&metav1.Time{Time: probeTime()})
	if err := kind.Adapter.Write(obj, u); err != nil {
		return err
	}
	stored := kind.New()
	encoded, err := json.Marshal(obj)
	if err == nil {
		err = json.Unmarshal(encoded, stored)
	}
	if err != nil {
		return fmt.Errorf("encode and decode %T: %w", obj, err)
	}
	return kind.Adapter.Read(stored, into)
}

const probeNode = types.UID("probe-uid")

func probeTime() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// probeKey is the finalizer, label and annotation of a probe.
const probeKey = "example.com/probe"

func probeOwners() []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "probe", UID: "probe"}}
}

// member is a member of a state, and whether a kind stores it.
type member struct {
	keeps  bool
	name   string
	need   Need
	breaks string
}

// missing returns the members that are not stored, with the given remedy.
func missing(all []member, mend string) []NotStored {
	var found []NotStored
	for _, m := range all {
		if !m.keeps {
			found = append(found, NotStored{Member: m.name, Need: m.need, breaks: m.breaks, mend: mend})
		}
	}
	return found
}

// commonMembers returns the members that all kinds share.
func commonMembers(s Common, what string) []member {
	const metadata = " (Metadata.From, MetadataUpdate.ApplyTo)"
	return []member{
		{s.Key.Name != "" && s.Key.Namespace != "", "Key", NeedMust, "no " + what + " can be distinguished from another" + metadata},
		{s.UID != "", "UID", NeedMust, "objects of a " + what + " that was made anew are taken for its own" + metadata},
		{!s.Deleting.IsZero(), "Deleting", NeedMust, "no deletion is noticed" + metadata},
		{slices.Contains(s.Finalizers, probeKey), "Finalizers", NeedMust,
			"a " + what + " goes at once and leaves its machines behind" + metadata},
		{len(s.OwnerReferences) == 1, "OwnerReferences", NeedMust, "owners are written over" + metadata},
		{s.Labels[probeKey] != "", "Labels", NeedMust, "it is in no Cluster" + metadata},
		{s.Annotations[probeKey] != "", "Annotations", NeedMust,
			"pauses, hooks, excluded drains and what was created are not seen" + metadata},
		{slices.ContainsFunc(s.Conditions, func(c metav1.Condition) bool { return c.Type == "Probe" && c.Status == metav1.ConditionTrue }),
			"Conditions", NeedShould, "nobody sees what is awaited"},
		{s.ObservedGeneration == 1, "ObservedGeneration", NeedOptional, "an old status looks like a new one"},
	}
}

func (u *MachineUpdate) probe() {
	at := SetTo(probeTime())
	u.ProviderID, u.DataSecretName, u.Node = SetTo("probe://probe/probe"), SetTo("probe"), SetTo(NodeRef{Name: "probe", UID: probeNode})
	u.BootstrapReady, u.InfrastructureReady, u.FailureDomain = SetTo(true), SetTo(true), SetTo("probe")
	u.LastUpdated, u.DrainStarted, u.VolumeDetachStarted = at, at, at
	u.FailureReason, u.FailureMessage = SetTo("Probe"), SetTo("probe")
}

func (s *MachineState) members() []member {
	at := probeTime()
	return []member{
		{s.ProviderID != "", "ProviderID", NeedShould, "no Node is found, drained or deleted"},
		{s.DataSecretName.Found(), "DataSecretName", NeedShould, "infrastructure that waits for bootstrap data waits for ever"},
		{s.Node.Name != "", "Node.Name", NeedMust, "its Node is neither drained nor deleted"},
		{s.Node.UID == probeNode, "Node.UID", NeedMust, "its Node is neither drained nor deleted"},
		{s.BootstrapReady.Or(false), "BootstrapReady", NeedOptional, "a phase may go back"},
		{s.InfrastructureReady.Or(false), "InfrastructureReady", NeedOptional, "a phase may go back, and a lost machine looks like a new one"},
		{s.FailureDomain != "", "FailureDomain", NeedOptional, "outages of one domain are not distinguished from others"},
		{s.LastUpdated.Equal(at), "LastUpdated", NeedOptional, "times in phases are not counted after a restart"},
		{s.FailureReason != "" && s.FailureMessage != "", "FailureReason", NeedOptional, "no terminal failure is noticed or shown"},
		{s.DrainStarted.Equal(at), "DrainStarted", NeedOptional, "Cluster API's controller counts its limit of the drain anew"},
		{s.VolumeDetachStarted.Equal(at), "VolumeDetachStarted", NeedOptional, "Cluster API's controller waits for volumes anew"},
	}
}

func (u *ReplicatedUpdate) probe() {
	u.Replicas, u.SelectorText, u.ObservedReplicas = SetTo[int32](3), SetTo("probe=probe"), SetTo[int32](3)
}

func (s *ReplicatedState) members() []member {
	return []member{
		{s.Replicas.Or(0) == 3, "Replicas", NeedShould, "there are none, and a default is not written"},
		{s.SelectorText != "", "SelectorText", NeedOptional, "the scale subresource and autoscalers find no Machines"},
		{s.ObservedReplicas.Or(0) == 3, "ObservedReplicas", NeedShould, "the scale subresource and autoscalers see none"},
	}
}

func (u *MachineDeploymentUpdate) probe() {
	u.ReplicatedUpdate.probe()
	u.RolloutPaused, u.RolloutAfter, u.RollbackTo = SetTo(true), SetTo(probeTime()), SetTo[int64](1)
}

func (s *MachineDeploymentState) members() []member {
	return append([]member{
		{s.RolloutPaused, "RolloutPaused", NeedOptional, "it cannot be paused"},
		{s.RolloutAfter.Equal(probeTime()), "RolloutAfter", NeedOptional, "it cannot be restarted"},
		{s.RollbackTo.Or(0) == 1, "RollbackTo", NeedShould, "a rollback is not asked for, or asked for again in each pass"},
	}, s.ReplicatedState.members()...)
}

func (u *MachinePoolUpdate) probe() {
	u.ReplicatedUpdate.probe()
	u.ProviderIDs, u.Nodes = SetTo([]string{"probe://probe/probe"}), SetTo([]NodeRef{{Name: "probe", UID: probeNode}})
	u.BootstrapReady, u.InfrastructureReady = SetTo(true), SetTo(true)
}

func (s *MachinePoolState) members() []member {
	return append([]member{
		{slices.Equal(s.ProviderIDs, []string{"probe://probe/probe"}), "ProviderIDs", NeedMust,
			"instances that the infrastructure does not list for a moment are forgotten, and their Nodes with them"},
		{slices.Equal(s.Nodes, []NodeRef{{Name: "probe", UID: probeNode}}), "Nodes", NeedMust,
			"the Nodes of instances that are gone are neither drained nor deleted"},
		{s.BootstrapReady.Or(false), "BootstrapReady", NeedOptional, "a phase may go back"},
		{s.InfrastructureReady.Or(false), "InfrastructureReady", NeedOptional, "a phase may go back"},
	}, s.ReplicatedState.members()...)
}

func (u *HealthCheckUpdate) probe() { u.Targets = SetTo([]string{"probe"}) }

func (s *HealthCheckState) members() []member {
	return []member{{len(s.Targets) == 1, "Targets", NeedOptional, "nobody sees which Machines are checked"}}
}

func (u *ProvidedMachineUpdate) probe() {
	u.ProviderID, u.Resume, u.Provisioned = SetTo("probe://probe/probe"), SetTo(json.RawMessage(`{"probe":1}`)), SetTo(true)
}

func (s *ProvidedMachineState) members() []member {
	return []member{
		{s.ProviderID != "", "ProviderID", NeedMust, "an instance is not found again, and its Machine has no Node"},
		{s.Resume != nil, "Resume", NeedShould, "a Driver without provider IDs at first does not find its instance again"},
		{s.Provisioned.Or(false), "Provisioned", NeedMust, "the Machine waits for ever"},
	}
}

// CheckMaker calls a maker, and returns what the new Machine lacks of its seed and of the Cluster of its set. A set would not recognize
// such a Machine, and would create another one. CheckMaker makes no request. A test of the embedder should pass a realistic set; nil is an
// empty set, with which a missing Cluster is not detected. The set is not changed.
//
// The error is that of the maker, or of reading the object that it made. A panic of the maker is an error too.
func CheckMaker(sets MachineSetKind, machines Kind, maker MachineMaker, set Object) ([]NotStored, error) {
	if maker == nil {
		return nil, errors.New("the maker of Machines is nil")
	}
	return checkMade(sets, machines, set, "Machine", func(owner Object, s Seed) (Object, error) {
		return maker.NewMachine(owner, MachineSeed{Seed: s})
	})
}

// CheckSetMaker is CheckMaker for the MachineSets of a deployment.
func CheckSetMaker(
	deployments MachineDeploymentKind, sets MachineSetKind, maker MachineSetMaker, deployment Object,
) ([]NotStored, error) {
	if maker == nil {
		return nil, errors.New("the maker of MachineSets is nil")
	}
	return checkMade(deployments, sets, deployment, "MachineSet", func(owner Object, s Seed) (Object, error) {
		return maker.NewSet(owner, MachineSetSeed{Seed: s})
	})
}

func probeSeed() Seed {
	texts := func() map[string]string { return map[string]string{"example.com/a": "a", "example.com/b": "b"} }
	return Seed{Key: types.NamespacedName{Namespace: "probe", Name: "probe-made"}, Labels: texts(), Annotations: texts(),
		Finalizers: []string{probeKey}, Owners: probeOwners()}
}

func checkMade[S, U, CS, CU any](
	owners KindOf[S, U], kind KindOf[CS, CU], owner Object, what string, maker func(Object, Seed) (Object, error),
) ([]NotStored, error) {
	if owners.New == nil || owners.Adapter == nil || kind.Adapter == nil {
		return nil, errors.New("both kinds need New and an Adapter")
	}
	if owner == nil {
		owner = owners.New()
		owner.SetNamespace("probe")
		owner.SetName("probe")
	}
	made, err := makes(maker, owner)
	if err == nil && made == nil {
		err = errors.New("the maker returns nothing")
	}
	if err != nil {
		return nil, fmt.Errorf("make a %s: %w", what, err)
	}
	var of S
	var got CS
	if err := owners.Adapter.Read(owner, &of); err != nil {
		return nil, err
	}
	if err := kind.Adapter.Read(made, &got); err != nil {
		return nil, err
	}
	return missing(madeMembers(CommonOf(&of).ClusterName, CommonOf(&got), what), "have the maker set it"), nil
}

// makes calls the embedder's maker and turns a panic into an error.
func makes(maker func(Object, Seed) (Object, error), owner Object) (made Object, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the maker panics: %v", p)
		}
	}()
	return maker(owner, probeSeed())
}

func madeMembers(cluster string, got Common, what string) []member {
	breaks, seed := "its owner does not recognize the "+what+" and makes another one", probeSeed()
	keeps := func(have map[string]string) bool { return have["example.com/a"] == "a" && have["example.com/b"] == "b" }
	return []member{
		{got.Key.Name == seed.Key.Name, "metadata.name", NeedMust, breaks},
		{got.Key.Namespace == seed.Key.Namespace, "metadata.namespace", NeedMust, breaks},
		{keeps(got.Labels), "metadata.labels", NeedMust, breaks},
		{keeps(got.Annotations), "metadata.annotations", NeedMust, breaks},
		{len(got.OwnerReferences) == 1, "metadata.ownerReferences", NeedMust, breaks},
		{slices.Contains(got.Finalizers, probeKey), "metadata.finalizers", NeedMust, "the " + what + " may go before what it has made"},
		{got.ClusterName == cluster, "the name of its Cluster", NeedMust, breaks},
	}
}
