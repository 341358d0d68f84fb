package children

// batches is how many creations or deletions run at once: first one, and after each batch without an error twice as many, up to a
// ceiling. A quota or a broken webhook then costs one rejected request and not hundreds. Rule: the ReplicaSet controller's slow
// start.
type batches struct {
	// ceiling is the size of the largest batch; 0 means 100.
	ceiling int
	last    int
}

// next returns the size of the next batch when so many are left, 0 at the end.
func (b *batches) next(left int) int {
	most := b.ceiling
	if most <= 0 {
		most = 100
	}
	b.last = min(max(2*b.last, 1), most)
	return min(b.last, max(left, 0))
}
