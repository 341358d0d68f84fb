package contract

import "errors"

// Instance is what an InfraMachinePool tells people about one of its machines. Nothing may be decided by it.
type Instance struct {
	Name, ProviderID string
	// Version is the Kubernetes version.
	Version   string
	Ready     bool
	Addresses []Address
}

// InstancesField is the place of a list of instances: instanceName, providerID, version, ready and addresses, all of which
// may be missing, beside members that only the provider knows. The zero InstancesField is "no such place": it reads as
// absent. Safe for concurrent use as long as the object is not written.
type InstancesField struct {
	path Path
	// addresses is the place within an instance.
	addresses AddressesField
}

// InstancesAt returns the InstancesField at the given keys.
func InstancesAt(segments ...string) InstancesField {
	return InstancesField{path: NewPath(segments...), addresses: AddressesAt("addresses")}
}

func (f InstancesField) describe() (string, []Path) { return "list of instances", []Path{f.path} }

// Get appends the instances to into[:0] and returns it, reusing the addresses of the instances that were there; strings are
// shared with obj, which is neither changed nor kept. found tells an absent list from an empty one. Another type anywhere,
// null included, is an error that matches ErrWrongType. It allocates nothing when the slices are large enough.
func (f InstancesField) Get(obj map[string]any, into []Instance) (instances []Instance, found bool, err error) {
	into = into[:0]
	items, found, err := listAt(f.path, obj)
	if err != nil || !found {
		return into, false, err
	}
	for i, item := range items {
		values, ok := item.(map[string]any)
		if !ok {
			return into[:0], false, &FieldError{Path: entryPath(f.path, i), Want: "object", Got: TypeName(item)}
		}
		if i < cap(into) {
			into = into[:i+1] // for the sake of its addresses
		} else {
			into = append(into, Instance{})
		}
		if err := f.read(entry{list: f.path, index: i, values: values}, &into[i]); err != nil {
			return into[:0], false, err
		}
	}
	return into, true, nil
}

func (f InstancesField) read(e entry, into *Instance) (err error) {
	if into.Name, err = e.text("instanceName"); err != nil {
		return err
	}
	if into.ProviderID, err = e.text("providerID"); err != nil {
		return err
	}
	if into.Version, err = e.text("version"); err != nil {
		return err
	}
	ready, found := e.values["ready"]
	is, ok := ready.(bool)
	if found && !ok {
		return &FieldError{Path: e.path("ready"), Want: "bool", Got: TypeName(ready)}
	}
	into.Ready = is
	into.Addresses, _, err = f.addresses.Get(e.values, into.Addresses)
	if inner, ok := errors.AsType[*FieldError](err); ok {
		return &FieldError{Path: entryPath(e.list, e.index, inner.Path.Segments()...), Want: inner.Want, Got: inner.Got}
	}
	return err
}

// instances reads instances into the slice of a state.
func (r *reader) instances(f InstancesField, into []Instance) []Instance {
	instances, _, err := f.Get(r.obj, into)
	r.fail(err)
	return instances
}
