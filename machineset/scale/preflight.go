package scale

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/machinist-dev/machinist/contract"
)

// SkipPreflightAnnotation of a MachineSet, or else of its bootstrap template, contains the checks to skip, separated by commas, or
// CheckAll. Rule: Cluster API's MachineSet preflight checks; topologies are not checked.
const SkipPreflightAnnotation = "machineset.cluster.x-k8s.io/skip-preflight-checks"

// Preflight checks, by their names in Cluster API. They are the reasons of Holds.
const (
	CheckAll = "All"
	// controlPlaneIsStable: the control plane is neither being created nor upgraded.
	controlPlaneIsStable = "ControlPlaneIsStable"
	// kubernetesVersionSkew: the Machines are no newer than the control plane, and at most three minor versions older.
	kubernetesVersionSkew = "KubernetesVersionSkew"
	// kubeadmVersionSkew: kubeadm joins a control plane of its own minor version only.
	kubeadmVersionSkew = "KubeadmVersionSkew"
)

// maxVersionSkew is how many minor versions a kubelet may be older than the API server. Rule: Kubernetes' version skew policy.
const maxVersionSkew = 3

// PreflightFacts are the inputs of the checks before a creation. Versions may lack their leading v and their patch.
type PreflightFacts struct {
	// DesiredVersion and CurrentVersion are the control plane's. Without DesiredVersion nothing is checked, because there is no control plane
	// or it has no version. CurrentVersion, the lowest of its machines, is empty while it is being created.
	DesiredVersion, CurrentVersion string
	// Version is the version of the Machines; if empty, versions are not checked.
	Version string
	// Kubeadm: the bootstrap data is kubeadm's.
	Kubeadm bool
	// Skip is the value of SkipPreflightAnnotation.
	Skip string
}

// parseVersion parses semantic versions, and versions without a patch, such as v1.36, which managed control planes have. A short version
// has neither a pre-release nor build metadata. Rule: semver.ParseTolerant, by which Cluster API reads versions.
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

// Preflight returns the reasons against creating a Machine now, sorted. The error is about an invalid version: nothing should be created
// then either.
func Preflight(f PreflightFacts) (holds []Hold, err error) {
	if f.DesiredVersion == "" || f.Skips(CheckAll) {
		return nil, nil
	}
	reported := f.CurrentVersion
	if contract.IsVersion(reported, f.DesiredVersion) { // even with a distribution's suffix
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

// Skips reports whether a check is skipped. CheckAll skips all of them, and the control plane need not be read.
func (f PreflightFacts) Skips(check string) bool {
	return slices.Contains(strings.FieldsFunc(f.Skip, func(r rune) bool { return r == ',' || r == ' ' }), check)
}
