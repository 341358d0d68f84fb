package contract

import "strconv"

// Address is one address of a machine, in the shape that InfraMachines and Machines share.
type Address struct {
	// Type is Hostname, ExternalIP, InternalIP, ExternalDNS or InternalDNS.
	Type string
	// Address is the text of the address.
	Address string
}

// AddressesField is the place of a list of addresses, whose entries must have a type and an address. The zero
// AddressesField is "no such place": it reads as absent.
type AddressesField struct{ path Path }

// AddressesAt returns the AddressesField at the given keys.
func AddressesAt(segments ...string) AddressesField {
	return AddressesField{path: NewPath(segments...)}
}

// Path returns the place; it is the zero Path when the layout has none.
func (f AddressesField) Path() Path { return f.path }

// Get appends the addresses to into[:0] and returns it; strings are shared with obj, which is neither changed nor kept.
// found tells an absent list from an empty one. Another type anywhere, null included, is an error that matches
// ErrWrongType. Types of addresses are not checked: the contract leaves that to the schema of the Machine.
func (f AddressesField) Get(obj map[string]any, into []Address) (addresses []Address, found bool, err error) {
	into = into[:0]
	items, found, err := listAt(f.path, obj)
	if err != nil || !found {
		return into, false, err
	}
	for i, item := range items {
		values, ok := item.(map[string]any)
		if !ok {
			return into, false, &FieldError{Path: entryPath(f.path, i), Want: "object", Got: TypeName(item)}
		}
		address, err := readAddress(entry{list: f.path, index: i, values: values})
		if err != nil {
			return into, false, err
		}
		into = append(into, address)
	}
	return into, true, nil
}

// keep is Get for a state that may have been handed out: see entriesOf.
func (f AddressesField) keep(obj map[string]any, before []Address) ([]Address, error) {
	items, found, err := listAt(f.path, obj)
	if err != nil || !found {
		return nil, err
	}
	return entriesOf(f.path, items, before, readAddress)
}

func readAddress(e entry) (Address, error) {
	kind, ok := e.values["type"].(string)
	if !ok {
		return Address{}, wrongMember(e, "type")
	}
	text, ok := e.values["address"].(string)
	if !ok {
		return Address{}, wrongMember(e, "address")
	}
	return Address{Type: kind, Address: text}, nil
}

// write puts what a change asks for. No addresses are written as no list: readers do not tell the two apart.
func (f AddressesField) write(obj map[string]any, change Change[[]Address]) error {
	if f.path.IsZero() || change.Keeps() {
		return nil
	}
	addresses, _ := change.Value()
	if len(addresses) == 0 {
		return f.path.clear(obj)
	}
	items := make([]any, 0, len(addresses))
	for _, a := range addresses {
		items = append(items, map[string]any{"type": a.Type, "address": a.Address})
	}
	return f.path.set(obj, items)
}

// entryPath returns the place of an entry of a list, or of something inside that entry.
func entryPath(list Path, i int, more ...string) Path {
	return NewPath(append(append(list.Segments(), strconv.Itoa(i)), more...)...)
}

// wrongMember is the error about a member of an entry that is not a string, or not there.
func wrongMember(e entry, key string) error {
	got := "nothing"
	if raw, found := e.values[key]; found {
		got = TypeName(raw)
	}
	return &FieldError{Path: e.path(key), Want: "string", Got: got}
}
