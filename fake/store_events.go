package fake

// eventFields are the fields with different names in events.k8s.io/v1 and in core v1, in which events are stored.
var eventFields = map[string]string{
	"note": "message", "regarding": "involvedObject", "reportingController": "reportingComponent", "deprecatedSource": "source",
	"deprecatedFirstTimestamp": "firstTimestamp", "deprecatedLastTimestamp": "lastTimestamp", "deprecatedCount": "count",
}

func eventToCore(content map[string]any) {
	for events, core := range eventFields {
		rename(content, events, core)
	}
}

func eventFromCore(content map[string]any) {
	for events, core := range eventFields {
		rename(content, core, events)
	}
}

func rename(m map[string]any, from, to string) {
	if v, ok := m[from]; ok {
		delete(m, from)
		m[to] = v
	}
}
