package drain

import (
	"fmt"
	"slices"
	"strings"
)

const maxVolumeNames = 5 // per line, as in Cluster API

// Summary returns the volumes that are waited for in the lines of Cluster API's message, without its first line, which contains a start
// time. Each line names at most maxNames volumes (0 or less means 5), and at most three failures of drivers follow. It is empty when the
// plan is Done, contains no times, and is equal for equal plans.
func (p VolumePlan) Summary(maxNames int) string {
	if p.Done() {
		return ""
	}
	if maxNames <= 0 {
		maxNames = maxVolumeNames
	}
	var claims, volumes, inTree, failures []string
	for _, d := range p.Blocking() {
		switch {
		case d.Claim.Name != "":
			claims = append(claims, d.Claim.String())
		case d.PV != "":
			volumes = append(volumes, d.PV)
		default:
			inTree = append(inTree, d.Name)
		}
		if d.Failed && len(failures) < defaultNames {
			failures = append(failures, failure(&d))
		}
	}
	var lines []string
	bullet := func(text string, names []string) {
		if len(names) > 0 {
			lines = append(lines, "* "+text+": "+limited(names, maxNames))
		}
	}
	bullet("PersistentVolumeClaims", claims)
	bullet("PersistentVolumes without a .spec.claimRef to a PersistentVolumeClaim", volumes)
	bullet("Node with .status.volumesAttached entries not matching a PersistentVolume", inTree)
	return strings.Join(append(lines, failures...), "\n")
}

// failure omits the text of the driver: many contain the ID of a request, and would change the message with every attempt.
func failure(d *VolumeDecision) string {
	if d.Reason == VolumeDetaching {
		return fmt.Sprintf("* VolumeAttachment %s: detach failed and is tried again, see its .status.detachError", d.Name)
	}
	return fmt.Sprintf("* VolumeAttachment %s: attach failed, see its .status.attachError", d.Name)
}

func limited(names []string, limit int) string {
	slices.Sort(names)
	shown := names[:min(limit, len(names))]
	return joined(shown, len(names)-len(shown))
}
