package children

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// lost describes the missing values of an object by which its owner recognizes the child of a slot, empty when it has all. If a Maker has
// made an object of another Go type than the kind's, its Cluster is compared when the cache has it.
func (s *Scope[S, U, CS, CU]) lost(obj client.Object, e scale.Entry) string {
	owner := s.owner.Common()
	made, err := s.frame.child(obj)
	var all []string
	compare := func(part string, kept bool) {
		if !kept {
			all = append(all, part)
		}
	}
	compare("metadata.name", obj.GetName() == e.Name)
	compare("metadata.namespace", obj.GetNamespace() == owner.Key.Namespace)
	compare("metadata.labels", s.Selector.Matches(labels.Set(obj.GetLabels())))
	compare("metadata.annotations", scale.IsPartOf(obj, owner.UID, e.Slot))
	compare("metadata.ownerReferences", metav1.IsControlledBy(obj, s.owner.Object))
	compare("the name of its Cluster", err != nil || s.inCluster(made))
	return strings.Join(all, ", ")
}

// notKept returns an error about a child that the API server has stored without the values by which its owner recognizes it. Its slot stays
// reserved, so that no process creates another one in its place. A child in deletion is ignored.
func (s *Scope[S, U, CS, CU]) notKept(obj client.Object, e scale.Entry) error {
	lost := s.lost(obj, e)
	if lost == "" || obj.GetDeletionTimestamp() != nil {
		return nil
	}
	return fmt.Errorf("%s was created, and the API server has stored it without %s: its CRD does not keep that, or a webhook removes it: "+
		"mend that, and delete the %s, or give it what it lacks", s.frame.nameOf(s.key(e.Name)), lost, s.frame.kind.GVK.Kind)
}

// reserved returns the entry of the ledger for a name.
func (s *Scope[S, U, CS, CU]) reserved(name string) (scale.Entry, bool) {
	at := slices.IndexFunc(s.Ledger.Pending, func(e scale.Entry) bool { return e.Name == name })
	if at < 0 {
		return scale.Entry{}, false
	}
	return s.Ledger.Pending[at], true
}

// recognize holds an owner with a child that was not stored as it was created, or that is of another Cluster, because the name of a Cluster
// never changes.
func (s *Scope[S, U, CS, CU]) recognize(m Child[CS]) {
	owner, have := s.owner.Common(), contract.CommonOf(m.State)
	if !owner.Deleting.IsZero() {
		return
	}
	if !s.inCluster(m) {
		s.Hold(ReasonClaimFailed, engine.ClusterChanged(s.frame.owner.Kind.GVK.Kind, owner, have.ClusterName))
	}
	if e, found := s.reserved(m.Key.Name); found {
		if err := s.notKept(m.Object, e); err != nil {
			s.unkept[m.Key.Name] = true
			s.Hold(ReasonClaimFailed, err.Error())
		}
	}
}

// Reserved returns how many slots of a ledger are reserved for children that do not exist.
func (s *Scope[S, U, CS, CU]) Reserved(ledger scale.Ledger) int {
	return len(ledger.Pending) - len(s.unkept)
}

// Abandon returns a ledger without the last n reserved slots. While there are children that were not stored as created, it removes none.
func (s *Scope[S, U, CS, CU]) Abandon(ledger scale.Ledger, n int) scale.Ledger {
	if len(s.unkept) > 0 {
		return ledger
	}
	return ledger.Abandon(n)
}
