package scale

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/machinist-dev/machinist/contract"
)

// SkipPreflightAnnotation of a MachineSet, or else of its bootstrap template, names the checks to leave out, separated by commas, or
// CheckAll. Rule: Cluster API's MachineSet preflight checks; topologies are not looked at.
const SkipPreflightAnnotation = "machineset.cluster.x-k8s.io/skip-preflight-checks"

// Preflight checks, by the names that Cluster API gives them. They are the reasons of Holds.
const (
	CheckAll = "All"
	// controlPlaneIsStable: the control plane is neither being made nor upgraded.
	controlPlaneIsStable = "ControlPlaneIsStable"
	// kubernetesVersionSkew: the Machines are no newer than the control plane, and at most three minor versions older.
	kubernetesVersionSkew = "KubernetesVersionSkew"
	// kubeadmVersionSkew: kubeadm joins a control plane of its own minor version only.
	kubeadmVersionSkew = "KubeadmVersionSkew"
)

// maxVersionSkew is how many minor versions a kubelet may be older than the API server. Rule: Kubernetes' version skew policy.
const maxVersionSkew = 3

// PreflightFacts are what the checks before a creation look at. Versions have or lack their leading v, and may lack the
// patch.
type PreflightFacts struct {
	// DesiredVersion and CurrentVersion are the control plane's. Nothing is checked without the first, because the Cluster has no control
	// plane or that has no version. CurrentVersion, the lowest one of its machines, is empty while it is being made.
	DesiredVersion, CurrentVersion string
	// Version is that of the Machines; empty leaves out the checks of versions.
	Version string
	// Kubeadm: the bootstrap data is kubeadm's.
	Kubeadm bool
	// Skip is the value of SkipPreflightAnnotation.
	Skip string
}

// parseVersion takes semantic versions, and those without a patch too, such as v1.36: managed control planes have them. A short one has
// neither a pre-release nor build metadata. Rule: semver.ParseTolerant, by which Cluster API reads versions.
func parseVersion(of, text string) (*version.Version, error) {
	full := strings.TrimSpace(text)
	if !strings.ContainsAny(full, "+-") {
		full += strings.Repeat(".0", max(0, 2-strings.Count(full, ".")))
	}
	v, err := version.ParseSemantic(full)
	if err != nil {
		return nil, fmt.Errorf("version %s: %q is no semantic version", of, text)
	}
	return v, nil
}

// Preflight returns what speaks against creating a Machine now, sorted; nothing when all is well. The error says that a version cannot
// be read: then it is not known, and nothing should be created either.
func Preflight(f PreflightFacts) (holds []Hold, err error) {
	if f.DesiredVersion == "" || f.Skips(CheckAll) {
		return nil, nil
	}
	reported := f.CurrentVersion
	if contract.IsVersion(reported, f.DesiredVersion) { // also with a distribution's suffix
		reported = ""
	}
	desired, err := parseVersion("of the control plane", f.DesiredVersion)
	current, currentErr := parseVersion("that the control plane reports", cmp.Or(reported, f.DesiredVersion))
	own, ownErr := parseVersion("of the Machines", cmp.Or(f.Version, f.DesiredVersion))
	if err := cmp.Or(err, currentErr, ownErr); err != nil {
		return nil, err
	}
	rebuilt := !desired.LessThan(current) && current.BuildMetadata() != desired.BuildMetadata()
	newer := own.Major() != desired.Major() || own.Minor() > desired.Minor()
	for _, check := range []struct {
		name    string
		fails   bool
		message string
	}{
		{controlPlaneIsStable, f.CurrentVersion == "", "the control plane is being provisioned"},
		{controlPlaneIsStable, current.LessThan(desired) || rebuilt,
			fmt.Sprintf("the control plane is being upgraded from version %s to %s", f.CurrentVersion, f.DesiredVersion)},
		{kubeadmVersionSkew, f.Kubeadm && (newer || own.Minor() != desired.Minor()),
			fmt.Sprintf("kubeadm of version %s cannot join a control plane of version %s", f.Version, f.DesiredVersion)},
		{kubernetesVersionSkew, newer,
			fmt.Sprintf("version %s of the Machines is newer than version %s of the control plane", f.Version, f.DesiredVersion)},
		{kubernetesVersionSkew, !newer && own.Minor()+maxVersionSkew < desired.Minor(),
			fmt.Sprintf("version %s of the Machines is more than %d minor versions older than version %s of the control plane",
				f.Version, maxVersionSkew, f.DesiredVersion)},
	} {
		if check.fails && !f.Skips(check.name) {
			holds = append(holds, Hold{check.name, check.message})
		}
	}
	return holds, nil
}

// Skips reports whether a check is left out. CheckAll stands for all of them: then the control plane need not be read.
func (f PreflightFacts) Skips(check string) bool {
	return slices.Contains(strings.FieldsFunc(f.Skip, func(r rune) bool { return r == ',' || r == ' ' }), check)
}
