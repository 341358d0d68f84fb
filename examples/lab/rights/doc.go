// Package rights runs a program with exactly the rights that it declares, and reports afterwards which requests were
// denied and which rights were not used.
//
// A test needs a control plane (package cluster) and the rules under test:
//
//	user, err := rights.Grant(ctx, plane, "my-operator", rights.Asked{Cluster: myoperator.PolicyRules()})
//	require.NoError(t, err)
//	run(user.Config()) // the program, through all of its life
//	report, err := user.Report()
//	require.NoError(t, err)
//	require.Empty(t, report.Problems(map[string]string{"update example.com/servers/finalizers": "the admission plugin asks for it"}))
//
// For a program in its own process, write User.Config into a kubeconfig with cluster.WriteKubeconfig. Other programs of
// the test, such as providers, use the administrator's plane.Config().
//
// # Guarantees
//
//   - The user exists for this test only, and has the rights that were asked for and those that every authenticated user has, such
//     as discovery. Grant returns when the API server knows of them.
//   - The report is made from the audit log, of everything that the user has sent since Grant, whatever its user agent.
//   - It is exact in both directions: a request that was refused is Denied, and a verb on a resource that no request has used is
//     Unused. A wildcard is used by any request that it covers.
//
// # Limits
//
// Informers of client-go read their first list through the watch where the server can stream it, and list where it cannot. Such a
// watch counts as a list too; with KUBE_FEATURE_WatchListClient=false in the environment of the program it lists.
package rights
