// Package apitest describes the behaviour of a Kubernetes API server and its controllers on which this library depends, as a
// table of cases that run against any client.
//
// The table runs against fake.Store with its loops and against a real control plane (kube-apiserver, controller-manager,
// scheduler and kwok). A case is independent of which one it uses, so a difference in behaviour fails.
//
// # Cases
//
// The cases are in the folder cases, a file for each topic. A case is a list of steps; a step is a request, and what is expected of it:
//
//	# cases/update.yaml
//	- name: an update of an old version is a Conflict
//	  reason: lost updates
//	  steps:
//	  - create ConfigMap/a                    # as given.yaml has objects of its kind
//	  - update ConfigMap/a: {data: {k: new}}  # as it was last seen, with these fields; null removes one
//	  - update ConfigMap/a: {metadata: {resourceVersion: $resourceVersion}}
//	    fails: 409 Conflict
//	    message: the object has been modified
//	    shows: .details.kind = configmaps     # the Status
//	  - get ConfigMap/a:
//	    shows: |                              # the object
//	      .data.k = new
//	      .metadata.deletionTimestamp absent
//
// These are the requests and their arguments:
//
//	create, update                                      fields of the object
//	get
//	merge-patch, json-patch, strategic-patch, apply     the document; a text is sent as it is
//	delete, evict                                       metav1.DeleteOptions
//	bind                                                corev1.ObjectReference of the Node
//	list, watch, delete-all                             metav1.ListOptions; listed objects are named "Pod/0", "Pod/1" and so on
//	next events                                         the next events of the last watch, each as "TYPE GoType name"
//	define                                              installs the CustomResourceDefinition of given.yaml
//	ready, cordoned, running, unbound, gone             are names of steps in given.yaml
//
// An object is written "Kind/name", "Kind/name/status", or "Kind/name:view" to see it through another Go type: unstructured or metadata.
// "Pod:all" is a list over all namespaces. "as MANAGER" after the object sets a field manager; "eventually" before the request repeats it
// until it is as expected. Beside the request may be:
//
//	force, dryRun    options of the request
//	fails            the code and the reason of the refusal; cause is a reason of its causes, message a part of its message
//	shows            lines of what the answer has, each a path of kubectl's -o jsonpath without braces and spaces, or "owners" for the
//	                 managers of fields, and: "= TEXT", "!= TEXT", "has TEXT", "~ EXPRESSION", "present" or "absent"
//	then             more such lines, of the same answer, once a repeated request shows what is waited for
//
// In all of these, $ns is the namespace of the case, $uid and other fields of metadata are what the object of the request had first,
// ${Kind/name} is the UID of that object, $foreign a UID that no object has, and $continue where the last list stopped.
//
// # Guarantees
//
//   - A case uses its own namespace; the names of cluster-scoped objects contain the namespace. Cases may run at the same time.
//   - Every wait is limited to two minutes.
//   - A failing case reports the step, what was expected and what was found.
//   - A file that cannot be read, a field or verb that is unknown and a case without steps fail.
//
// # Limits
//
//   - Cases do not delete their objects, which end with the namespace; the custom kinds of the group conformance.machinist.dev stay.
//   - Behaviour that cannot be provoked on a real cluster (a compacted watch history, a budget that is not observed yet) is tested
//     only in package fake.
package apitest
