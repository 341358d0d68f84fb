// Package patch writes what a pass over an object has decided, as minimal merge patches.
//
// Apply puts an Update of package contract into a copy of an object and says what differs: a Document for everything, for all but the
// status, or for the status. Writer.Send sends one. A patch names the UID of the object that was read, so that an object which was
// replaced meanwhile is not changed; one that replaces a list (conditions, owner references, finalizers) and one for the status
// names the resource version too, so that an addition of another writer is never lost. What says what it said before is not
// written at all.
//
// A Writer remembers what it wrote until the cache shows it: what is Behind must not be decided upon, because the same write
// would follow again. Losing that memory costs one rejected write at most, never correctness.
//
// # Where it stands
//
// This package writes through a client and so stands on floor 2a, unlike package contract above it, which only decides. It is for
// reconcilers of every floor above: single Machines and many share one way to write.
package patch
