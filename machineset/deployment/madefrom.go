package deployment

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// maxChanged is the number of sets whose template differs from their source at which no more are created: a user may have edited one set,
// but a cause that changes two changes all.
const maxChanged = 2

// fingerprint returns a digest of the sources of the deployment's sets, empty when it creates none.
func (s *Scope) fingerprint() string {
	made, err := s.env.kinds.SetMaker.NewSet(s.Object, contract.MachineSetSeed{Seed: contract.Seed{Key: s.State.Key}})
	if err != nil {
		return ""
	}
	return children.Digest(made)
}

// changed returns why no other set is created: the predecessors did not store the template that they were created from. Otherwise, one set
// after the other would be created if a webhook sets a default. It is empty if a set may be created.
func (s *Scope) changed() string {
	if !s.plan.Create.Found() || len(s.observed) < maxChanged {
		return "" // the digest costs more than the rest of the pass
	}
	from := s.fingerprint()
	made := slices.DeleteFunc(slices.Clone(s.observed), func(one *set) bool {
		return from == "" || scale.ReadStamp(one.Annotations).From != from || !one.Deleting.IsZero()
	})
	if len(made) < maxChanged || slices.ContainsFunc(made, func(one *set) bool { return len(one.diff) == 0 }) {
		return ""
	}
	last := made[len(made)-1]
	return fmt.Sprintf(
		"%[1]s %[2]s was made from the template of the deployment, and differs from it in %[3]s: look for a webhook that changes %[1]ss, "+
			"and make the template the same, or delete the %[1]s", s.env.kinds.Set.GVK.Kind, last.Key.Name, strings.Join(last.diff, ", "))
}

// selects reports whether a set selects the Machines that it creates from the template of the deployment. It does not after the labels of
// the deployment's template and its selector have changed, because the selector of a set never changes.
func (m *set) selects(d *contract.MachineDeploymentState) bool {
	selector, err := children.Selector(m.State.Selector, contract.CommonOf(m.State), contract.SetNameLabel)
	if err != nil {
		return true // the set reports it
	}
	all := map[string]string{contract.SetNameLabel: contract.LabelValue(m.Key.Name)}
	maps.Copy(all, m.State.Template.Labels)
	maps.Copy(all, setLabels(d))
	return selector.Matches(labels.Set(all))
}
