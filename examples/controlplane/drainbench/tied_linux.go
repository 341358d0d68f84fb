package main

import (
	"os/exec"
	"syscall"
)

// tied makes a process end with this one, also when this one is killed.
func tied(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
