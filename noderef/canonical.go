package noderef

import "strings"

// Canonical turns a valid provider ID into the key under which it is compared and indexed. It returns IDs that it does not
// know unchanged, gives two IDs one key only when they name the same instance, and has no side effects.
//
// Clouds have written the ID of one instance in several ways over time. Without a Canonical such IDs differ, and a Machine
// waits for its Node; that is harmless, and the default. [AWS], [Azure], [VSphere] and [OpenStack] cover the ways that are
// known; [Join] combines them. They never look at a last segment alone: it names several instances where it is only unique
// within something (kubernetes/autoscaler#3057).
type Canonical func(id string) string

// Join returns a Canonical that applies each in order. With none it returns nil, which compares IDs as they are.
func Join(canonicals ...Canonical) Canonical {
	if len(canonicals) == 0 {
		return nil
	}
	return func(id string) string {
		for _, canonical := range canonicals {
			id = canonical(id)
		}
		return id
	}
}

// AWS leaves the availability zone out of the ID of an EC2 instance: "aws:///eu-west-1a/i-0123456789abcdef0" and
// "aws:////i-0123456789abcdef0" (kubernetes-sigs/cluster-api#7278) name the same one. An instance ID of 17 hexadecimal digits
// is unique by itself and its instance never changes its zone. Everything else, as the old IDs of 8 digits and Fargate's,
// stays as it is.
func AWS(id string) string {
	rest, ok := strings.CutPrefix(id, "aws://")
	if !ok {
		return id
	}
	rest = strings.TrimLeft(rest, "/")
	zone, instance, found := strings.Cut(rest, "/")
	if !found {
		zone, instance = "", rest
	}
	hex, ok := strings.CutPrefix(instance, "i-")
	if !ok || len(hex) != 17 || !isLowerHex(hex) || !isZone(zone) {
		return id
	}
	return "aws:///" + instance
}

// Azure folds the case of an ID that is an Azure resource ID. Azure ignores case in all of it, and its components disagree
// about that of the resource group (kubernetes-sigs/cluster-api-provider-azure#1503). Only ASCII letters are folded.
func Azure(id string) string {
	const root = "azure:///subscriptions/"
	if len(id) < len(root) || lowerASCII(id[:len(root)]) != root || !strings.HasPrefix(id, "azure:") {
		return id
	}
	return lowerASCII(id)
}

// VSphere folds the case of the UUID, which the cloud provider writes in lower case and some guests report in upper case
// (kubernetes/kubernetes#84247).
func VSphere(id string) string {
	const scheme = "vsphere://"
	if uuid, ok := strings.CutPrefix(id, scheme); ok && isUUID(uuid) {
		return lowerASCII(id)
	}
	return id
}

// OpenStack leaves the region out of the ID of a server: "openstack://region/<uuid>" and "openstack:///<uuid>" name the same
// one (kubernetes/cloud-provider-openstack#1900). Servers have random UUIDs.
func OpenStack(id string) string {
	rest, ok := strings.CutPrefix(id, "openstack://")
	if !ok {
		return id
	}
	if _, uuid, found := strings.Cut(rest, "/"); found && isUUID(uuid) {
		return "openstack:///" + lowerASCII(uuid)
	}
	return id
}

func isLowerHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}

// isZone also accepts no zone at all.
func isZone(s string) bool {
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// isUUID accepts both cases.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
				return false
			}
		}
	}
	return true
}

// lowerASCII is not strings.ToLower, which maps letters of other scripts onto a to z: the Kelvin sign becomes k.
func lowerASCII(s string) string {
	i := strings.IndexFunc(s, func(r rune) bool { return r >= 'A' && r <= 'Z' })
	if i < 0 {
		return s
	}
	b := []byte(s)
	for ; i < len(b); i++ {
		if c := b[i]; c >= 'A' && c <= 'Z' {
			b[i] = c + ('a' - 'A')
		}
	}
	return string(b)
}
