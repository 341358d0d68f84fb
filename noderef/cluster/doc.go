// Package cluster keeps connections to workload clusters without blocking a reconciler, also while a cluster is unreachable, and gives
// reconcilers what they need of each: an index of its Nodes ([NodeIndex]), and a client and a drain runner ([Workload]).
//
// # Usage
//
// [New] takes an [Access], which tells how to reach a cluster: [SecretsFromManager] reads Cluster API's kubeconfig Secrets,
// [SecretLayout] those of one's own, and [AccessFunc] covers everything else. Options.Setup prepares each new connection, for
// example with a Node index on its cache, and its result is in every [View]. Add the [Clusters] to a manager, call
// [Clusters.Get] in every pass, and watch [Clusters.Source] to be woken.
//
// # How it works
//
// Each cluster in use has one goroutine that connects, monitors and reconnects. It probes the API server (one GET of /readyz) only
// when there is a reason: when a request has waited for three seconds, when one fails or a watch is silent for six minutes, and after
// 5xx and 401 answers, at most every two seconds.
//
// A connection ends when a probe fails: all its requests fail at once, and its caches are gone. One probe at a time then asks
// whether the server, or another one that the kubeconfig names by now, serves again. The pause between probes grows to 30
// seconds. The next connection reads everything anew, so that nothing that happened meanwhile is missed; until its first lists
// are complete, View.Synced is false, and a caller must not treat "not found" as absent. It also ends when another cluster answers. A watch
// that breaks off or is silent is followed by a list: a server that was restored from a backup sends nothing on a watch from a
// resource version in its future.
//
// # Guarantees
//
//   - Get takes two locks briefly. It makes no request, waits for nothing and allocates nothing.
//   - Cached reads through View.Cluster never start an informer, and do not wait for the first list of one that Setup has started.
//   - A server that starts to hang costs a worker one request, for at most three seconds, the gap between probes (2 s) and one
//     probe (5 s). From then on requests fail at once. Servers that do not answer, however many, do not delay the
//     connection or the requests of another cluster.
//   - A new kubeconfig is tried beside the working connection, which ends when the new one is ready. If only a token, a password
//     or a client certificate changed, the connection stays, with its caches and its Value, and no Machine is woken: later
//     requests use the new credentials, and current watches end by themselves. When the Secret is deleted, the connection and all its
//     requests end.
//   - To a server that does not support JSON Patch, such as Cluster API's in-memory one, the client of a View sends merge patches.
//   - Nodes of another cluster are not taken for the missing ones of this one: [Workload.Recognize] compares the UID of the namespace
//     kube-system with the one that an object has recorded. Nothing is compared unless the user of the kubeconfig has
//     [ConnectionPolicyRules].
//   - "Not connected" is an error that matches [ErrNotConnected], names the cluster and says what a person can do. It is never
//     reported as "the Node does not exist". Its text is stable while the state and its cause are.
//   - A kubeconfig from a Secret cannot run a command, load a plugin or read a file; see [ParseKubeconfig].
//   - Connections, requests and goroutines end with the context of Start, also those of servers that hang.
//   - When a subscriber of a NodeIndex receives an event of a Node, the index has that state of the Node or a newer one. Heartbeats
//     wake nobody.
//
// # Limits
//
// A server counts as lost only after a probe has failed, so it may count as connected for some seconds too long; without a request or
// a watch it is not probed at all. A proxy that answers in place of an API server is recognised by the status of its answer: 401 means
// refused credentials, 403 and 429 are signs of life, and any other status but 200 means that the server does not serve.
//
// The first Get of a cluster, and the first one after an idle cluster was disconnected, returns "not connected". A Setup, an
// AccessFunc or a Mapper that does not return blocks the maintenance of its own cluster, and the end of Start. Timeouts and
// pauses follow Options.Clock; TCP, TLS, HTTP/2 and the pauses of client-go's reflectors follow the real clock. If a kubeconfig
// turns off TLS verification, it is off.
package cluster
