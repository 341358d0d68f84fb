package main

import "testing"

func TestADocumentThatIgnitionDoesNotAcceptIsRefused(t *testing.T) {
	for document, want := range map[string]bool{
		`{"ignition": {"version": "3.3.0"}}`: true,
		`{"ignition": {"version": "3.3.0"}, "storage": {"files": [{"path": "/a", "mode": 384, "contents": {"source": "data:;base64,YQ=="}}]}}`: true,
		`{"ignition": {"version": "3.3.0"}, "storage": {"files": [{"path": "a"}]}}`:                                                            false,
		`{"ignition": {"version": "3.3.0"}, "storage": {"files": [{"path": "/a", "contents": {"source": "nowhere"}}]}}`:                        false,
		`{"ignition": {"version": "3.3.0"}, "systemd": {"units": [{"name": "a"}]}}`:                                                            false,
		`{"ignition": {"version": "3.3.0"}, "storage": {"files": [{"path": "/a"}, {"path": "/a"}]}}`:                                           false,
		`{"ignition": {"version": "2.2.0"}}`:               false,
		`{"ignition": {"version": "3.3.0"}, "unknown": 1}`: false,
		"#cloud-config\n":                                  false,
	} {
		if err := check([]byte(document)); (err == nil) != want {
			t.Errorf("%s: %v", document, err)
		}
	}
}
