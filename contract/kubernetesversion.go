package contract

import "strings"

// IsVersion reports whether a Kubernetes version that a kubelet or a control plane reports is the wanted one. A leading v and blanks do
// not matter. What distributions append, as in v1.36.3+k3s1 or v1.36.3-eks-1234, matters only where it is wanted, and a wanted version
// without a patch is that of every patch. A pre-release, such as v1.36.0-rc.1, is another version. The empty text wants nothing in
// particular; an empty report is no version.
func IsVersion(reported, wanted string) bool {
	reported, wanted = bareVersion(reported), bareVersion(wanted)
	if wanted == "" {
		return true
	}
	rest, found := strings.CutPrefix(reported, wanted)
	if !strings.ContainsAny(wanted, "+-") && strings.Count(wanted, ".") == 1 {
		if patch, has := strings.CutPrefix(rest, "."); has && patch != "" {
			rest = strings.TrimLeft(patch, "0123456789")
		}
	}
	return found && (rest == "" || rest[0] == '+' || rest[0] == '-' && !isPreRelease(rest[1:]))
}

func bareVersion(text string) string { return strings.TrimPrefix(strings.TrimSpace(text), "v") }

// isPreRelease reports whether what follows the first hyphen of a version is Kubernetes' own word for one that is yet to be released.
func isPreRelease(suffix string) bool {
	return strings.HasPrefix(suffix, "alpha") || strings.HasPrefix(suffix, "beta") || strings.HasPrefix(suffix, "rc")
}
