package scale

// Batches is how many creations or deletions run at once: first one, and after each batch without an error twice as many, up to a
// ceiling. A quota or a broken webhook then costs one rejected request and not hundreds. Rule: the ReplicaSet controller's slow
// start.
type Batches struct {
	// Ceiling is the size of the largest batch; 0 means 100.
	Ceiling int
	last    int
}

// Next returns the size of the next batch when so many are left, 0 at the end.
func (b *Batches) Next(left int) int {
	most := b.Ceiling
	if most <= 0 {
		most = ceiling
	}
	b.last = min(max(2*b.last, 1), most)
	return min(b.last, max(left, 0))
}
