package contract

// Opt is a value that was read: absent, or there. A nil replica count is not 0 and a nil secret name is not "". The zero
// Opt is absent.
type Opt[T any] struct {
	value T
	found bool
}

// Some returns an Opt that holds v.
func Some[T any](v T) Opt[T] { return Opt[T]{value: v, found: true} }

// SomeAt returns an Opt that holds what p points at, absent when p is nil. It keeps no reference to p.
func SomeAt[T any](p *T) Opt[T] {
	if p == nil {
		return Opt[T]{}
	}
	return Some(*p)
}

// Get returns the value and whether there is one.
func (o Opt[T]) Get() (T, bool) { return o.value, o.found }

// Found reports whether there is a value.
func (o Opt[T]) Found() bool { return o.found }

// Or returns the value, or fallback when there is none.
func (o Opt[T]) Or(fallback T) T {
	if o.found {
		return o.value
	}
	return fallback
}

type changeKind uint8

const (
	changeKeep changeKind = iota
	changeSet
	changeClear
)

// Change is what to do with a value: keep it (the zero Change), set it or clear it. It is immutable; what it holds is the
// caller's.
type Change[T any] struct {
	value T
	kind  changeKind
}

// SetTo returns the Change that writes v.
func SetTo[T any](v T) Change[T] { return Change[T]{value: v, kind: changeSet} }

// Cleared returns the Change that removes the value.
func Cleared[T any]() Change[T] { return Change[T]{kind: changeClear} }

// Keeps reports whether the value stays as it is.
func (c Change[T]) Keeps() bool { return c.kind == changeKeep }

// Clears reports whether the value is removed.
func (c Change[T]) Clears() bool { return c.kind == changeClear }

// Value returns the value to write and whether there is one.
func (c Change[T]) Value() (T, bool) { return c.value, c.kind == changeSet }

// ApplyTo carries the change out on a field of a Go type; clearing makes it zero.
func (c Change[T]) ApplyTo(field *T) {
	if c.kind != changeKeep {
		*field = c.value // zero when it is cleared
	}
}

// ApplyToPointer carries the change out on an optional field of a Go type; clearing makes it nil. What the field pointed at
// does not change, because an object in a cache may share it.
func (c Change[T]) ApplyToPointer(field **T) {
	switch c.kind {
	case changeSet:
		*field = &c.value
	case changeClear:
		*field = nil
	case changeKeep:
	}
}
