// Package conformance describes what package provider demands of a Driver, as a table of cases that run against any Driver, also against a
// real cloud. Each case makes what it needs and deletes it again.
//
// A new cloud begins with the empty struct and the cases, which name what is missing one after the other:
//
//	for _, c := range conformance.Cases() {
//		t.Run(c.Name, func(t *testing.T) { require.NoError(t, c.Run(t.Context(), env)) })
//	}
//
// # Guarantees
//
//   - A case uses Tokens of its own. Cases may run at the same time.
//   - Every wait is limited by Env.Limit.
//   - A case deletes what it has made, also when it fails, as far as the Driver can.
//   - Removing any one of the cases would let a defect pass: the tests of this package plant one for each.
package conformance
