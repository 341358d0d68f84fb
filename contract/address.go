package contract

import "strconv"

// Address is one address of a machine, in the shape that InfraMachines and Machines share.
type Address struct {
	// Type is Hostname, ExternalIP, InternalIP, ExternalDNS or InternalDNS.
	Type string
	// Address is the text of the address.
	Address string
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

func addressContent(a Address) any { return map[string]any{"type": a.Type, "address": a.Address} }

// entryPath returns the place of an entry of a list, or of something inside that entry.
func entryPath(list Path, i int, more ...string) Path {
	return NewPath(append(append(list.Segments(), strconv.Itoa(i)), more...)...)
}

// wrongMember is the error about a member of an entry that is not a string, or not there.
func wrongMember(e entry, key string) error {
	got := "nothing"
	if raw, found := e.values[key]; found {
		got = typeName(raw)
	}
	return &FieldError{Path: e.path(key), Want: "string", Got: got}
}
