package guard

// Owner is what a Source returns.
type Owner = owner
