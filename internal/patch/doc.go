// Package patch writes the changes that a pass over an object has decided, as minimal merge patches.
//
// [Apply] writes an Update of package contract into a copy of an object and returns the difference: a [Document] for everything,
// of which [Document.Main] and [Document.Status] are parts. [Writer.Send] sends one. Fields that already have the right value are not
// in the patch.
//
// Each of these patches names the UID and the resource version of the object that was read, so that it cannot change a new object with the
// same name, nor undo a change of another writer.
//
// A Writer remembers its last write of each object until the cache shows it. An object that is Behind must not be reconciled,
// because the same write would follow again. If the memory is lost, at most one write is rejected.
//
// A Writer limits what it sends: a patch that others undo again and again is put off with an [UndoneError], which names what is
// undone and, where managed fields show it, by whom. The reconcilers report it as the condition Contested. What each process sends
// is limited, for each content: two controllers that write one field beside other values have a burst each.
//
// # Floor
//
// This package writes through a client, so it is on floor 2a, unlike package contract, which only decides. Reconcilers of all
// floors above use it.
package patch
