package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
)

// Scope is one pass over one object of any kind: the facts that were read, the decisions so far, and the functions to write them. The Scope
// of each kind embeds it. Only the worker that runs the pass uses it.
type Scope[S, U any] struct {
	// Object is the object as it was read, or as the API server returned it after Commit. It may be shared with a cache and must not be
	// changed.
	Object contract.Object
	// State is the state of the object, updated with the decisions of this pass.
	State S
	// Update contains the changes of this pass to the object. The Set functions change State and Update together.
	Update U
	// Cluster is the result of Ports.ClusterOf for the object's Cluster, and ClusterErr its error. Both are zero if objects have no Clusters;
	// then no Cluster delays or pauses an object.
	Cluster    external.ClusterView
	ClusterErr error
	// Now is the time of the pass.
	Now time.Time
	// Stored are the conditions as they were read, and Asserted those that this pass has set with Assert, in the order of their first
	// assertion. Neither slice may be changed in place.
	Stored, Asserted []metav1.Condition

	frame      *Frame[S, U]
	requeue    time.Duration
	generation int64           // the observed generation of the status, zero when it has none
	paused     bool            // the object is paused, or that is unknown
	checkpoint bool            // a step requires that everything is written in this pass
	released   bool            // see Release
	deferred   error           // see DeferError
	answer     contract.Object // of the last write
	// wroteStatus: this pass has written the status.
	wroteStatus bool
}

// Attach makes the Scope read and write through a Frame. ReconcileObject does this; call it in a test of a step, with a Scope of your own.
func (s *Scope[S, U]) Attach(f *Frame[S, U]) {
	s.frame = f
	if s.Object != nil {
		s.generation = f.Generation(s.Object)
	}
}

// Begin fills an empty Scope for one object that was read. A Reconciler calls it; a test of a single step calls it itself.
func Begin[S, U any](s *Scope[S, U], f *Frame[S, U], obj contract.Object) error {
	s.Object, s.Now = obj, f.Options.Clock.Now()
	s.Attach(f)
	if err := f.Read(obj, &s.State); err != nil {
		return err
	}
	s.Stored = s.Common().Conditions
	return nil
}

// Common returns the fields that all states have, of the object as it is after the last Commit.
func (s *Scope[S, U]) Common() contract.Common { return contract.CommonOf(&s.State) }

func (s *Scope[S, U]) changes() contract.CommonUpdate { return contract.ChangesOf(&s.Update) }

// Deleting reports whether the object is being deleted.
func (s *Scope[S, U]) Deleting() bool { return !s.Common().Deleting.IsZero() }

// DeferError returns an error, except in a deletion: then it returns nil, the later steps run, and the pass fails with the error at its
// end. Use it for errors that do not concern every stage of a deletion.
func (s *Scope[S, U]) DeferError(err error) error {
	if err == nil || !s.Deleting() {
		return err
	}
	s.deferred = errors.Join(s.deferred, err)
	return nil
}

// Deferred returns the errors that DeferError has stored, or nil.
func (s *Scope[S, U]) Deferred() error { return s.deferred }

// Requeue requests another pass after a duration at the latest; zero requests none.
func (s *Scope[S, U]) Requeue(after time.Duration) { s.requeue = Soonest(s.requeue, after) }

// RequeueAfter returns when the next pass is requested, zero when none is.
func (s *Scope[S, U]) RequeueAfter() time.Duration { return s.requeue }

// Assert sets a condition of the object, with its message shortened to 8 KiB. Its observed generation is set when it is written, and its
// transition time too unless it has one, which counts only when the status differs from the stored one. An unchanged condition is not
// written.
func (s *Scope[S, U]) Assert(conditions ...metav1.Condition) {
	if s.Asserted == nil { // most passes set the conditions that are stored
		s.Asserted = make([]metav1.Condition, 0, max(len(s.Stored), len(conditions)))
	}
	for _, c := range conditions {
		c.Message = Bounded(c.Message, MaxMessageLength)
		at := slices.IndexFunc(s.Asserted, func(have metav1.Condition) bool { return have.Type == c.Type })
		if at < 0 {
			s.Asserted = append(s.Asserted, c)
			continue
		}
		s.Asserted[at] = c
	}
}

// Condition returns a condition as this pass asserted it, or else as it was read.
func (s *Scope[S, U]) Condition(kind string) (metav1.Condition, bool) {
	if c, found := Find(s.Asserted, kind); found {
		return c, true
	}
	return Find(s.Stored, kind)
}

// IsTrue reports whether a condition is True, as this pass asserted it or else as it was read.
func (s *Scope[S, U]) IsTrue(kind string) bool {
	c, _ := s.Condition(kind)
	return c.Status == metav1.ConditionTrue
}

// Wait sets the stage of a deletion, as the reason and message of Deleting, and returns a Result that stops the pass. It requests no other
// pass: set RequeueAfter if no event will follow.
func (s *Scope[S, U]) Wait(reason, message string) Result {
	s.Assert(Condition(contract.ConditionDeleting, metav1.ConditionTrue, reason, message))
	return Result{Stop: true}
}

// Paused reports whether the object is paused, or may be because that is unknown. Closing steps run nevertheless.
func (s *Scope[S, U]) Paused() bool { return s.paused }

// Pause makes the rest of the pass treat the object as paused, and returns a Result that stops it. It sets the condition Paused, unless the
// status is empty: True when a person or the Cluster requests the pause, or Unknown when that cannot be determined. Call it from a step
// that replaces the standard one, which otherwise sets Paused to False.
func (s *Scope[S, U]) Pause(status metav1.ConditionStatus, reason, message string) Result {
	s.paused = true
	if status != "" {
		s.Assert(Condition(contract.ConditionPaused, status, reason, message))
	}
	return Result{Stop: true}
}

// ClusterKey returns the name of the object's Cluster; its Name is empty without one.
func (s *Scope[S, U]) ClusterKey() types.NamespacedName {
	common := s.Common()
	if common.ClusterName == "" {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: common.Key.Namespace, Name: common.ClusterName}
}

// ReadCluster sets Cluster and ClusterErr from Ports.ClusterOf, and requests another pass if no event of the Cluster follows.
func (s *Scope[S, U]) ReadCluster(ctx context.Context) {
	if key := s.ClusterKey(); s.frame.Ports.ClusterOf != nil && key.Name != "" {
		s.Cluster, s.ClusterErr = s.frame.Ports.ClusterOf(ctx, key)
		s.Requeue(s.Cluster.RetryAfter)
	}
}

// StopIfPaused applies DecidePause, and returns a Result that stops the pass of an object that is paused, or may be. Otherwise it sets
// Paused to False. The error is that of the lookup of the Cluster.
func (s *Scope[S, U]) StopIfPaused() (Result, error) {
	paused, ends := DecidePause(s.frame.Kind.GVK.Kind, s.Common(), s.Cluster, s.ClusterErr != nil)
	if !ends {
		s.Assert(paused)
		return Result{}, nil
	}
	result := s.Pause(paused.Status, paused.Reason, paused.Message)
	if s.ClusterErr != nil {
		return result, fmt.Errorf("read Cluster %s: %w", s.ClusterKey(), s.ClusterErr)
	}
	return result, nil
}

// SetOwnerReferences replaces the owner references; the Scope retains the slice. The write applies only to the version that was read, so
// that an owner that was added meanwhile is not lost.
func (s *Scope[S, U]) SetOwnerReferences(owners []metav1.OwnerReference) {
	have := s.Common()
	if contract.SameOwners(have.OwnerReferences, owners) {
		return
	}
	have.OwnerReferences = owners
	s.changes().OwnerReferences = contract.SetTo(owners)
}

// SetLabel sets a label of the object.
func (s *Scope[S, U]) SetLabel(key, value string) {
	change(&s.Common().Labels, &s.changes().Labels, key, contract.SetTo(value))
}

// ChangeAnnotation sets or removes an annotation of the object.
func (s *Scope[S, U]) ChangeAnnotation(key string, to contract.Change[string]) {
	change(&s.Common().Annotations, &s.changes().Annotations, key, to)
}

// ChangeMetadata changes labels and annotations of the object.
func (s *Scope[S, U]) ChangeMetadata(u contract.MetadataUpdate) {
	for key, to := range u.Labels {
		change(&s.Common().Labels, &s.changes().Labels, key, to)
	}
	for key, to := range u.Annotations {
		s.ChangeAnnotation(key, to)
	}
}

// change replaces a map by one with a change, and records the change, unless the value is already set. The map may be shared with a cache.
func change(have *map[string]string, into *map[string]contract.Change[string], key string, to contract.Change[string]) {
	value, set := to.Value()
	if now, found := (*have)[key]; found == set && now == value {
		return
	}
	texts := map[string]string{}
	maps.Copy(texts, *have)
	if texts[key] = value; !set {
		delete(texts, key)
	}
	if *into == nil {
		*into = map[string]contract.Change[string]{}
	}
	*have, (*into)[key] = texts, to
}

// JoinCluster labels the object with its Cluster, and makes the Cluster an owner of an object without a controller. An object with one of
// the labels waits for its adoption by the set, pool or control plane in the label: after a restore from a backup the owner references come
// later (kubernetes-sigs/cluster-api#7529). A Cluster that is being deleted may have removed itself from an object that was reconciled
// before: then the API server must confirm that the Cluster stays.
func (s *Scope[S, U]) JoinCluster(ctx context.Context, adoptedBy ...string) error {
	common := s.Common()
	if common.ClusterName != "" {
		s.SetLabel(contract.ClusterNameLabel, common.ClusterName)
	}
	owners, changed := ClusterOwner(common.Metadata, s.Cluster, adoptedBy...)
	if !changed {
		return nil
	}
	if s.changes().Finalizers.Keeps() {
		if stays, err := s.Cluster.Stays(ctx, s.frame.Ports.APIReader); err != nil || !stays {
			return err
		}
	}
	s.SetOwnerReferences(owners)
	return nil
}

// DecidePause returns the condition Paused of an object of a kind, zero while it is unknown only for a short time, and whether the pass
// ends. failed: the Cluster could not be looked up, and the error is retried. An object is paused while it or its Cluster requests it, even
// while it is being deleted. A Cluster that was not read may be paused. An object whose Cluster does not exist is not reconciled, but can
// be deleted: no Cluster is left that could pause it. Rule: contract page "Paused".
func DecidePause(kind string, object contract.Common, cluster external.ClusterView, failed bool) (paused metav1.Condition, ends bool) {
	is := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return Condition(contract.ConditionPaused, status, reason, message)
	}
	var causes []string
	if cluster.State.SpecPaused {
		causes = append(causes, "Cluster spec.paused is set to true")
	}
	if object.Paused() {
		causes = append(causes, kind+" has the "+contract.PausedAnnotation+" annotation")
	}
	unread := cluster.Presence == external.Unread || cluster.Presence == external.KindMissing
	switch {
	case len(causes) > 0:
		return is(metav1.ConditionTrue, contract.ReasonPaused, strings.Join(causes, ", ")), true
	case unread && !failed && cluster.Problem != (external.Problem{}):
		return is(metav1.ConditionUnknown, cluster.Problem.Reason, cluster.Problem.Message), true
	case unread || failed:
		return metav1.Condition{}, true
	case cluster.Presence == external.Absent && object.Deleting.IsZero():
		return is(metav1.ConditionUnknown, contract.ReasonClusterDoesNotExist, fmt.Sprintf(
			"Cluster %s/%s does not exist: create it, or delete the %s", object.Key.Namespace, object.ClusterName, kind)), true
	}
	return is(metav1.ConditionFalse, contract.ReasonNotPaused, ""), false
}

// Set changes a value of a state and records that in the update, unless it has the value already.
func Set[T comparable](have *T, want T, into *contract.Change[T]) {
	if *have != want {
		*have, *into = want, contract.SetTo(want)
	}
}

// SetOpt is Set for a value that may be absent.
func SetOpt[T comparable](have *contract.Opt[T], want T, into *contract.Change[T]) {
	if *have != contract.Some(want) {
		*have, *into = contract.Some(want), contract.SetTo(want)
	}
}

// NameReplicas stores, on the version that was read, the number of replicas of an object without one: the present number, because a
// manifest that leaves it to an autoscaler does not change it, or the first number of a new object. state and update are those of the
// Scope.
func (s *Scope[S, U]) NameReplicas(
	ctx context.Context, state *contract.ReplicatedState, update *contract.ReplicatedUpdate, there int32, isNew bool,
) error {
	if state.Replicas.Found() || s.Deleting() {
		return nil
	}
	if isNew {
		there = firstReplicas(s.Common().Metadata, s.frame.Kind.GVK.Group)
	}
	update.Replicas = contract.SetTo(there)
	return s.Commit(ctx)
}

// firstReplicas returns the minimum in an object's annotation for cluster-autoscaler, by the key of Cluster API's group or its own, or 1.
// Rule: the defaults of Cluster API's webhooks.
func firstReplicas(m *contract.Metadata, group string) int32 {
	_, name, _ := strings.Cut(contract.MinSizeAnnotation, "/")
	for _, key := range []string{contract.MinSizeAnnotation, group + "/" + name} {
		if n, err := strconv.ParseInt(m.Annotations[key], 10, 32); err == nil && n >= 0 {
			return int32(n)
		}
	}
	return 1
}
