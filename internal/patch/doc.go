// Package patch writes the changes that a pass over an object has decided, as minimal merge patches.
//
// [Apply] writes an Update of package contract into a copy of an object and returns the difference: a [Document] for everything, with the
// parts [Document.Main] and [Document.Status]. [Writer.Send] sends one. A patch contains no fields that already have the right value.
//
// Each of these patches contains the UID and the resource version of the object that was read, so that it cannot change a new object with
// the same name, nor undo a change of another writer.
//
// A Writer remembers its last write of each object until the cache shows it. An object that is Behind must not be reconciled,
// because the same write would follow again. If the memory is lost, at most one write is rejected.
//
// A Writer limits its requests: a patch that others undo again and again is delayed with an [UndoneError], which names the undone fields
// and, if managed fields show them, the other writers. The reconcilers report it as the condition Contested. The limit applies to each
// process and each content: two controllers that write one field together with other values have a burst each.
//
// # Floor
//
// This package writes through a client, so it is on floor 2a, unlike package contract, which only decides. Reconcilers of all
// floors above use it.
package patch
