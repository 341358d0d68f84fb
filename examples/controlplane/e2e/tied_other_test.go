//go:build !linux

package e2e_test

import "os/exec"

// tied does nothing where the system cannot tie a process to its parent; the test still ends it in its clean-up.
func tied(*exec.Cmd) {}
