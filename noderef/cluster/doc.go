// Package cluster keeps connections to workload clusters that can disappear, for reconcilers that never wait.
//
// # Usage
//
// [New] takes an [Access], which says how clusters are reached: [SecretsFromManager] by Cluster API's kubeconfig Secrets,
// [Same] by a cluster that is running already, such as the manager's own, [AccessFunc] by anything else. Options.Setup puts on
// each new connection what the caller needs, such as a Node index on its cache, and hands it to every [View]. The [Clusters]
// is added to a manager; reconcilers call [Clusters.Get] in every pass and are woken by [Clusters.Source].
//
// # How it works
//
// One goroutine per cluster in use connects, listens and connects again. It takes every answer, watch event and bookmark for
// a sign of life. It asks (one GET of /readyz) only when there is reason to: after 90 seconds of silence, when a request has
// waited for three seconds, when a TCP connection breaks or does not answer HTTP/2 pings, and after answers of the kind 5xx
// and 401, these every two seconds at most. While the server does not answer, a gate in the transport is closed: requests of
// callers fail at once, those of informers wait. So nothing but one probe in a while reaches the server, with a pause that
// grows to 30 seconds; and when it answers, informers go on where they were, without a list where the server still has their
// resource version. Cache and Value outlive an outage, unless the server comes back from a backup: one small list of each kind that
// is cached, at the end of an outage, says whether it stands at a resource version from before. Then the connection is made anew,
// because a watch from a version of the future is told of nothing. A balancer may lead to such a server without an outage, so the same is
// asked when TCP connections have broken, and when a server answers that was silent.
//
// What a cache shows when a server is found again is from before the outage, and its watches may take a while to go on. So View.Synced is
// false, and View.Problem matches [ErrNotSynced], until every informer stands at the resource version that the small list had or behind
// it, because of an event, a list or a bookmark. For the sake of bookmarks, which come once a minute, watches end after five seconds until
// then: API servers send one before the end. A cache that has not caught up after three minutes is replaced with a new connection, which
// reads everything. Neither reads nor writes are refused meanwhile: who takes what is not found for absent looks at Synced first, or at
// [View.Behind] for one kind. Where a server's resource versions cannot be compared, or the list is forbidden, a cache counts as synced
// at once.
//
// Each probe of a lost server goes out on a new TCP connection, and after five minutes the Access is asked again, also one that says when
// a target has changed.
//
// # Guarantees
//
//   - Get takes two locks for an instant. It makes no request, waits for nothing and allocates nothing.
//   - Cached reads through View.Cluster never wait for a first list, and never start an informer.
//   - A server that begins to hang costs a worker one request, for at most Patience (3 s), the gap between probes (2 s) and one
//     ProbeTimeout (5 s). From then on requests fail at once. Servers that do not answer, however many, keep no other cluster
//     from being connected or served.
//   - A new kubeconfig is tried beside the connection that works; that one ends when the new one is there. Where a token, a password or a
//     client certificate is all that is new, the connection stays, with its caches and its Value, and no Machine is woken: requests that come
//     from then on carry the new one, and watches under way end in their own time. A Secret that is
//     deleted, or replaced by one of the same name, closes the connection at once, with all requests under way.
//   - A server that knows no JSON Patch, such as Cluster API's in-memory one, is asked for it once per connection. From then on the client
//     of a View reads the object and sends a merge patch that names its UID and resource version.
//   - Not connected is an error that matches [ErrNotConnected], names the cluster and says what a person can do. It never reads
//     as "there is no such Node". Its text stays the same while the state does.
//   - A kubeconfig from a Secret cannot run a command, load a plugin or read a file; see [ParseKubeconfig].
//   - Connections, requests and goroutines end with the context of Start, also those of servers that hang.
//
// # Limits
//
// A server is believed dead only after a probe has failed, so that for some seconds it may count as connected although it is
// not. Bookmarks come about every minute; a connection without any watch is probed every 90 seconds. Proxies that answer in
// place of an API server are seen through by the status of what they answer, whatever its format: 401 is refused credentials, 403 and 429
// are signs of life, and another one, or a page for browsers, is a server that does not serve. That an object does not exist is believed
// only in a format of API servers. The first Get of a cluster
// and the one after it was evicted find it not connected. A Setup, an AccessFunc or a Mapper that does not return keeps its own
// cluster from being looked after, and the end of Start waiting. Timeouts and pauses follow Options.Clock; TCP, TLS, HTTP/2
// and the pauses of client-go's reflectors follow the real one. TLS verification that a kubeconfig turns off is off.
//
// # Why not something that exists
//
// sigs.k8s.io/multicluster-runtime is made for reconcilers whose own objects are spread over many clusters. It brings its own
// manager, builder and request type, which an operator whose Machines are all in one cluster would have to adopt for the sake
// of Nodes. Its clusters are there or not there: it knows no liveness, no reconnection and no "last seen". Its providers for
// Cluster API and for kubeconfig Secrets make a connection inside a reconciler and wait for its first lists without a
// deadline, the former with one worker for all clusters; they take kubeconfigs as they are, exec plugins included. An operator
// that is built on it loses nothing: an [AccessFunc] returns the cluster that its manager hands out as Target.Running.
//
// Cluster API's clustercache (controllers/clustercache) taught what has to be solved, but lives in the module of Cluster API,
// which pins other versions of its dependencies, and wants a Cluster object whose infrastructure is provisioned. It connects
// in a reconciler's workers, with five minutes for the first lists; probes every cluster every ten seconds; tries again at a
// fixed interval; gives the cache up with the connection; learns of a rotated Secret from a failed probe
// (kubernetes-sigs/cluster-api#12399); and never disconnects from a cluster that is no longer used.
package cluster
