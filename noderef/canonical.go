package noderef

import "strings"

// Canonical turns a valid provider ID into the key by which it is compared and indexed. It returns an ID of an unknown
// shape unchanged, returns the same key for two IDs only if they name the same instance, and has no side effects.
//
// Clouds have changed the form of provider IDs over time. Without a Canonical two forms differ, and a Machine waits for
// its Node; that is harmless, and the default. [AWS], [Azure], [VSphere] and [OpenStack] know the forms of these
// clouds; [Join] combines them. They never compare only a last segment, because it may be unique only within a zone or
// a project (kubernetes/autoscaler#3057).
type Canonical func(id string) string

// Join returns a Canonical that applies all of them in order. Without any it returns nil, which compares IDs as they
// are.
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

// AWS removes the availability zone from the ID of an EC2 instance: "aws:///eu-west-1a/i-0123456789abcdef0" and
// "aws:////i-0123456789abcdef0" (kubernetes-sigs/cluster-api#7278) name the same instance. An instance ID of 17
// hexadecimal digits is globally unique, and an instance never changes its zone. Other IDs, such as old ones with 8
// digits and those of Fargate, are unchanged.
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

// Azure converts an Azure resource ID to lower case. Azure ignores the case of resource IDs, and its components use
// different cases for the resource group (kubernetes-sigs/cluster-api-provider-azure#1503). Only ASCII letters are
// converted.
func Azure(id string) string {
	const root = "azure:///subscriptions/"
	if len(id) < len(root) || lowerASCII(id[:len(root)]) != root || !strings.HasPrefix(id, "azure:") {
		return id
	}
	return lowerASCII(id)
}

// VSphere converts the UUID to lower case. The cloud provider writes it in lower case, and some guests report it in
// upper case (kubernetes/kubernetes#84247).
func VSphere(id string) string {
	const scheme = "vsphere://"
	if uuid, ok := strings.CutPrefix(id, scheme); ok && isUUID(uuid) {
		return lowerASCII(id)
	}
	return id
}

// OpenStack removes the region from the ID of a server: "openstack://region/<uuid>" and "openstack:///<uuid>" name the
// same server (kubernetes/cloud-provider-openstack#1900). Servers have random UUIDs.
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

// isZone accepts an empty zone too.
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

// lowerASCII differs from strings.ToLower, which maps some other letters to a to z: the Kelvin sign becomes k.
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
