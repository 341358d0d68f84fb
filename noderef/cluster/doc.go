// Package cluster maintains connections to workload clusters without blocking a reconciler, even while a cluster is unreachable. It also
// provides what reconcilers need of each cluster: an index of its Nodes ([NodeIndex]), and a client and a drain runner ([Workload]).
//
// # Usage
//
// [New] takes an [Access], which returns how to reach a cluster: [SecretsFromManager] reads Cluster API's kubeconfig Secrets,
// [SecretLayout] your own, and [AccessFunc] covers everything else. Options.Setup prepares each new connection, for example with a Node
// index on its cache, and its result is in every [View]. Add the [Clusters] to a manager, call [Clusters.Get] in every pass, and watch
// [Clusters.Source] for changes.
//
// # How it works
//
// Each cluster in use has one goroutine that connects, monitors and reconnects. It probes the API server (one GET of /readyz) only when
// there is a reason: when a request has waited for three seconds, when a request fails, when a watch has no data for six minutes, and after
// 5xx and 401 responses, at most every two seconds.
//
// A connection ends when a probe fails: all its requests fail at once, and its caches are dropped. Then one probe at a time checks whether
// the server, or another one in the current kubeconfig, serves again. The pause between probes grows to 30 seconds. The next connection
// lists everything again, so that no change is missed; until its first lists are complete, View.Synced is false, and a caller must not
// treat "not found" as absent. A connection also ends when another cluster answers. A watch that breaks off or has no data is followed by a
// list: a server that was restored from a backup sends nothing on a watch from a resource version in its future.
//
// # Guarantees
//
//   - Get takes two locks briefly. It makes no request, waits for nothing and allocates nothing.
//   - Cached reads through View.Cluster never start an informer, and do not wait for the first list of an informer that Setup has started.
//   - A server that starts to hang costs a worker one request, for at most three seconds, the gap between probes (2 s) and one probe (5 s).
//     From then on requests fail at once. Servers that do not answer, however many, do not delay the connection or the requests of another
//     cluster.
//   - A new kubeconfig is tried in parallel to the working connection, which ends when the new one is ready. If only a token, a password or
//     a client certificate changed, the connection continues, with its caches and its Value, and no Machine is enqueued: later requests use
//     the new credentials, and current watches continue until they end. When the Secret is deleted, the connection and all its requests
//     end.
//   - To a server that does not support JSON Patch, such as Cluster API's in-memory one, the client of a View sends merge patches.
//   - Nodes of another cluster are not taken for the missing ones of this cluster: [Workload.Recognize] compares the UID of the namespace
//     kube-system with the UID recorded on an object. This requires [ConnectionPolicyRules] for the user of the kubeconfig.
//   - "Not connected" is an error that matches [ErrNotConnected], with the name of the cluster and a remedy. It is never reported as "the
//     Node does not exist". Its text is stable while the state and its cause are.
//   - A kubeconfig from a Secret cannot run a command, load a plugin or read a file; see [ParseKubeconfig].
//   - Connections, requests and goroutines end with the context of Start, even if servers hang.
//   - When a subscriber of a NodeIndex receives an event of a Node, the index has that state of the Node or a newer one. Heartbeats cause
//     no events.
//
// # Limits
//
// A server counts as lost only after a probe has failed, so it may count as connected for some seconds too long; without a request or a
// watch it is not probed at all. A proxy that answers in place of an API server is recognized by the status of its response: 401 means
// rejected credentials, 403 and 429 are signs of life, and any other status but 200 means that the server does not serve.
//
// The first Get of a cluster, and the first one after an idle cluster was disconnected, returns "not connected". A Setup, an AccessFunc or
// a Mapper that does not return blocks the maintenance of its own cluster, and the end of Start. Timeouts and pauses follow Options.Clock;
// TCP, TLS, HTTP/2 and the pauses of client-go's reflectors follow the real clock. If a kubeconfig turns off TLS verification, it is off.
package cluster
