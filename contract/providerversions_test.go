package contract_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
)

// contractVersions are all that have layouts, whether or not a resolver honours their labels.
func contractVersions() []contract.Version {
	return []contract.Version{contract.V1Alpha3, contract.V1Alpha4, contract.V1Beta1, contract.V1Beta2}
}

// providerLayouts returns the layouts of a version by role, as pointers.
func providerLayouts(v contract.Version) map[string]any {
	return map[string]any{
		"InfraMachine": contract.LayoutsOf(v).InfraMachine, "BootstrapConfig": contract.LayoutsOf(v).BootstrapConfig,
		"InfraMachinePool": contract.LayoutsOf(v).InfraMachinePool, "Template": contract.LayoutsOf(v).Template,
		"ControlPlane": contract.LayoutsOf(v).ControlPlane,
	}
}

const (
	conditionPlaces = "status.v1beta2.conditions status.conditions status.deprecated.v1beta1.conditions"
	reportPlaces    = `FailureReason MAY string: status.failureReason
FailureMessage MAY string: status.failureMessage
Conditions SHOULD list of conditions: ` + conditionPlaces
	templatePlaces = `Labels MAY map of strings: spec.template.metadata.labels
Annotations MAY map of strings: spec.template.metadata.annotations
Spec MUST object: spec.template.spec`
)

// wantPlaces are the contract pages as a table. Before v1beta2, what differs between the versions is what controllers do.
func wantPlaces(v contract.Version) map[string]string {
	provisioned, poolFallback := "status.ready", "status.initialization.provisioned"
	created := "status.ready"
	if v == contract.V1Beta2 {
		provisioned, poolFallback = poolFallback, provisioned
		created = "status.initialization.dataSecretCreated"
	}
	return map[string]string{
		"InfraMachine": `Provisioned MUST bool: ` + provisioned + `
ProviderID MUST string: spec.providerID
Addresses MAY list of addresses: status.addresses
FailureDomain MAY string: status.failureDomain
FailureDomainFallback MAY string: spec.failureDomain
Interruptible MAY bool: status.interruptible
` + reportPlaces,
		"BootstrapConfig": `DataSecretCreated MUST bool: ` + created + `
DataSecretName MUST string: status.dataSecretName
` + reportPlaces,
		"InfraMachinePool": `Provisioned MUST bool: ` + provisioned + `
ProvisionedFallback MAY bool: ` + poolFallback + `
ProviderIDList MUST list of strings: spec.providerIDList
Replicas MUST 32-bit integer: status.replicas
InfrastructureMachineKind MAY string: status.infrastructureMachineKind
` + reportPlaces,
		"Template": templatePlaces,
		"ControlPlane": `Deleting  time: metadata.deletionTimestamp
ExternalManagedControlPlane MAY bool: status.externalManagedControlPlane
DesiredVersion MAY string: spec.version
CurrentVersion MAY string: status.version
CurrentVersions MAY list of versions: status.versions`,
	}
}

func TestProviderLayouts_HaveThePlacesOfTheirContract(t *testing.T) {
	for _, v := range contractVersions() {
		for role, layout := range providerLayouts(v) {
			t.Run(string(v)+"/"+role, func(t *testing.T) {
				var got []string
				for _, p := range contract.Places(layout) {
					if len(p.Paths) == 0 {
						continue
					}
					paths := make([]string, 0, len(p.Paths))
					for _, path := range p.Paths {
						paths = append(paths, path.String())
					}
					got = append(got, fmt.Sprintf("%s %s %s: %s", p.Name, p.Need, p.Type, strings.Join(paths, " ")))
					require.NotEmpty(t, p.Writer, "%s: who writes it is not said", p.Name)
				}
				if diff := cmp.Diff(strings.Split(wantPlaces(v)[role], "\n"), got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestProviderLayouts_AreOneSharedTablePerVersion(t *testing.T) {
	versions := contractVersions()
	for _, honoured := range contract.Versions() {
		require.True(t, slices.Contains(versions, honoured))
	}
	for _, v := range versions {
		again := providerLayouts(v)
		for role, layout := range providerLayouts(v) {
			require.Same(t, again[role], layout, "%s of %s", role, v)
			if version := reflect.ValueOf(layout).Elem().FieldByName("Version"); version.IsValid() { // templates have no errors to name it in
				require.Equal(t, v, version.Interface(), "%s of %s", role, v)
			}
		}
	}
	for _, unknown := range []contract.Version{"", "v1alpha2", "v1beta3", "v1", "V1Beta2"} {
		for role, layout := range providerLayouts(unknown) {
			require.True(t, reflect.ValueOf(layout).IsNil(), "%s of %q", role, unknown)
		}
	}
}
