package machineset

// Reasons of conditions that only sets have. Their other conditions and reasons are those of package contract.
const (
	// ReasonUpToDateUnknown is Cluster API's.
	ReasonUpToDateUnknown = "UpToDateUnknown"
	// ReasonMachineDeletionFailed is the reason of the condition ScalingDown while the API server refuses to delete a Machine.
	ReasonMachineDeletionFailed = "MachineDeletionFailed"
)
