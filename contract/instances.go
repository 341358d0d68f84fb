package contract

// instance is an entry of the list in which an InfraMachinePool names its machines for people. Nothing may be decided by it, so that it
// only matters whether it can be read.
type instance struct{}

// readInstance reads instanceName, providerID, version, ready and addresses, all of which may be missing, beside members that only the
// provider knows.
func readInstance(e entry) (instance, error) {
	for _, key := range []string{"instanceName", "providerID", "version"} {
		if _, err := e.text(key); err != nil {
			return instance{}, err
		}
	}
	ready, found := e.values["ready"]
	if _, ok := ready.(bool); found && !ok {
		return instance{}, &FieldError{Path: e.path("ready"), Want: "bool", Got: TypeName(ready)}
	}
	_, _, err := addressesAt(NewPath("addresses"), e.values, nil)
	return instance{}, e.locate(err)
}
