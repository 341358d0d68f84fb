package noderef

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func everyCloud() Canonical { return Join(AWS, Azure, VSphere, OpenStack) }

const (
	ec2       = "i-0123456789abcdef0"
	uuid      = "4212a3f0-0bd6-4e0f-a2a1-0f2f2be8f9ab"
	vmss      = "/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/%s/virtualMachines/0"
	vmInGroup = "/resourceGroups/%s/providers/Microsoft.Compute/virtualMachines/vm"
)

// Groups of IDs that clouds and their controllers write. The IDs of a group name the same instance; IDs of two groups do not.
func realIDs() map[string][]string {
	upper := strings.ToUpper(uuid)
	return map[string][]string{
		"an EC2 instance": {
			"aws:///eu-west-1a/" + ec2, "aws:////" + ec2, "aws:///" + ec2, "aws://eu-west-1a/" + ec2, "aws:///us-west-2-lax-1a/" + ec2,
		},
		"another EC2 instance":                {"aws:///eu-west-1a/i-0123456789abcdef1"},
		"an old EC2 instance":                 {"aws:///eu-west-1a/i-0abc1234"},
		"an old EC2 instance, elsewhere":      {"aws:///us-east-1a/i-0abc1234"},
		"Fargate":                             {"aws:///us-west-2b/" + uuid + "/fargate-ip-192-168-1-1.ec2.internal"},
		"a task that ends like an instance":   {"aws:///us-west-2b/" + uuid + "/" + ec2},
		"an EC2 instance with a capital":      {"aws:///eu-west-1a/i-0123456789ABCDEF0"},
		"the bare instance ID":                {ec2},
		"an instance of a cloud that is like": {"alicloud:///eu-west-1a/" + ec2},
		"an Azure machine": {
			"azure:///subscriptions/" + uuid + "/resourceGroups/My-RG/providers/Microsoft.Compute/virtualMachines/vm",
			"azure:///subscriptions/" + uuid + "/resourceGroups/my-rg/providers/Microsoft.Compute/virtualMachines/vm",
			"azure:///Subscriptions/" + upper + "/resourcegroups/MY-RG/providers/microsoft.compute/virtualmachines/VM",
		},
		"instance 0 of a scale set":         {"azure:///subscriptions/" + uuid + fmt.Sprintf(vmss, "a")},
		"instance 0 of another":             {"azure:///subscriptions/" + uuid + fmt.Sprintf(vmss, "b")},
		"a group with a letter beyond A-Z":  {"azure:///subscriptions/" + uuid + fmt.Sprintf(vmInGroup, "\u212a")},
		"a group with the letter it is not": {"azure:///subscriptions/" + uuid + fmt.Sprintf(vmInGroup, "k")},
		"not an Azure resource":             {"azure:///Machines/VM"},
		"not an Azure resource either":      {"azure:///machines/vm"},
		"a vSphere machine":                 {"vsphere://" + uuid, "vsphere://" + upper},
		"a vSphere machine by name":         {"vsphere://VM-1"},
		"another by name":                   {"vsphere://vm-1"},
		"its UUID in the other byte order":  {"vsphere://f0a31242-d60b-0f4e-a2a1-0f2f2be8f9ab"},
		"an OpenStack server": {
			"openstack:///" + uuid, "openstack://RegionOne/" + uuid, "openstack://region-2/" + uuid, "openstack:///" + upper,
		},
		"not quite a server":    {"openstack://" + uuid},
		"something below one":   {"openstack:///" + uuid + "/port"},
		"GCE":                   {"gce://project/europe-west1-b/worker"},
		"GCE, another zone":     {"gce://project/europe-west1-c/worker"},
		"Oracle":                {"ocid1.instance.oc1.iad.abcdef"},
		"a bare metal host":     {"metal3://" + uuid},
		"the other format":      {"metal3://ns/host/machine"},
		"the same in upper":     {"metal3://" + upper},
		"a UUID on its own":     {uuid},
		"a UUID on its own, up": {upper},
		"a fake":                {"kwok://node-1"},
	}
}

func TestTwoIDsHaveOneKeyOnlyIfTheyNameOneInstance(t *testing.T) {
	rules := Rules{Canonical: everyCloud()}
	owner := map[string]string{}
	for group, ids := range realIDs() {
		key := rules.Key(ids[0])
		require.NotEmpty(t, key)
		for _, id := range ids {
			require.Equal(t, key, rules.Key(id), "%s: %s", group, id)
			require.Equal(t, key, rules.Key(rules.Key(id)), "a key is its own key")
			require.True(t, rules.Same(ids[0], id))
			require.Equal(t, id == ids[0], Rules{}.Same(ids[0], id), "without a Canonical IDs are opaque")
		}
		require.Empty(t, owner[key], "%s and %s share a key", group, owner[key])
		owner[key] = group
	}
	for _, id := range []string{"", "aws://", "aws:///", "vsphere://", "openstack:///"} {
		require.Empty(t, rules.Key(id))
		require.False(t, rules.Same(id, id))
	}
	require.Nil(t, Join())
}

func TestTheIndexKeepsCanonicalKeysOnBothSides(t *testing.T) {
	x := NewIndex(Rules{Canonical: everyCloud()})
	upper := newNode("a", "u1", "vsphere://"+strings.ToUpper(uuid))
	x.Add(upper)
	require.Equal(t, []*corev1.Node{upper}, x.ByProviderID("vsphere://"+uuid))
	x.Add(newNode("a", "u1", "aws:///zone/"+ec2))
	require.Empty(t, x.ByProviderID("vsphere://"+uuid))
	x.Add(newNode("a", "u1", "aws:////"+ec2)) // another spelling, the same key
	require.Len(t, x.ByProviderID("aws:///"+ec2), 1)
	x.Remove("a")
	require.Empty(t, x.ByProviderID("aws:///"+ec2))
}

// The instance that an ID names, by regular expressions, which the code does not use.
var spellings = []struct {
	shape *regexp.Regexp
	fold  bool
}{
	{regexp.MustCompile(`^(aws)://(?:/*[a-z0-9-]+/|/*)(i-[0-9a-f]{17})$`), false},
	{regexp.MustCompile(`^(azure):///(?i:(subscriptions)/)(.*)$`), true},
	{regexp.MustCompile(`^(vsphere)://([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$`), true},
	{regexp.MustCompile(`^(openstack)://[^/]*/([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$`), true},
}

func instanceOf(id string) string {
	for _, s := range spellings {
		if match := s.shape.FindStringSubmatch(id); match != nil {
			name := strings.Join(match[1:], " ")
			if s.fold {
				name = strings.Map(func(r rune) rune {
					if r >= 'A' && r <= 'Z' {
						return r - 'A' + 'a'
					}
					return r
				}, name)
			}
			return "instance " + name
		}
	}
	return "opaque " + id
}

// Two IDs have the same key exactly when they name the same instance.
func FuzzCanonicalKeysAreInjective(f *testing.F) {
	ids := []string{"aws://" + ec2, "aws:///a//" + ec2, "aws:///Zone/" + ec2, "aws:////" + ec2 + "/",
		"azure:///subscriptions/", "openstack://a/b/" + uuid, "\xff"}
	for _, group := range realIDs() {
		ids = append(ids, group...)
	}
	for i := range ids {
		f.Add(ids[i], ids[(i+1)%len(ids)])
		f.Add(ids[i], strings.ToUpper(ids[i]))
	}
	canonical := everyCloud()
	f.Fuzz(func(t *testing.T, a, b string) {
		if strings.ToValidUTF8(a, "") != a || strings.ToValidUTF8(b, "") != b || strings.Contains(a+b, "\n") {
			return // a provider ID is text
		}
		if canonical(canonical(a)) != canonical(a) {
			t.Errorf("%q: the key %q is not its own key", a, canonical(a))
		}
		if same, want := canonical(a) == canonical(b), instanceOf(a) == instanceOf(b); same != want {
			t.Errorf("%q and %q: one key is %v, one instance is %v", a, b, same, want)
		}
		if ValidProviderID(a) != ValidProviderID(canonical(a)) {
			t.Errorf("%q and its key %q: only one is valid", a, canonical(a))
		}
	})
}

func TestInvalidIDsAreNeverTheSame(t *testing.T) {
	rules := Rules{Canonical: everyCloud()}
	none := []string{"", "aws://", "aws:///", "vsphere://", "openstack:///"}
	for _, a := range none {
		for _, b := range append(none, "vsphere://"+uuid) {
			require.False(t, rules.Same(a, b), "%q and %q", a, b)
		}
	}
	require.False(t, rules.Same("openstack://one/server", "openstack://two/server"), "only UUIDs are known to be unique")
	for _, odd := range "/:@G[`g" { // beside the digits and letters of a UUID
		for _, at := range []int{0, 8, 13, 18, 23, 35} {
			misspelt := uuid[:at] + string(odd) + uuid[at+1:]
			require.False(t, rules.Same("vsphere://"+misspelt, "vsphere://"+strings.ToUpper(misspelt)), misspelt)
			require.False(t, rules.Same("openstack://one/"+misspelt, "openstack://two/"+misspelt), misspelt)
		}
	}
}
