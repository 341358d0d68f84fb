package vm

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// Image is what a machine starts from: files that no machine changes.
type Image struct{ Kernel, Initrd, Disk string }

//go:embed image.sh
var script string

// MakeImage returns an image with a kernel, systemd, cloud-init, containerd and its network plugins, all of Debian, and a kubelet. It makes
// it unless it is in the user's cache directory (machinist/vm), which takes minutes and 2 GB. The log receives what is done. The network of
// pods is a bridge in each machine.
func MakeImage(ctx context.Context, kubelet string, log io.Writer) (Image, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return Image{}, fmt.Errorf("find a place for images: %w", err)
	}
	parent := filepath.Join(cache, "machinist", "vm")
	folder := filepath.Join(parent, fmt.Sprintf("%x", sha256.Sum256([]byte(script+kubelet)))[:20]) // the path of a kubelet has its version
	image := Image{Kernel: filepath.Join(folder, "kernel"), Initrd: filepath.Join(folder, "initrd"), Disk: filepath.Join(folder, "disk")}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return Image{}, err
	}
	lock, err := os.OpenFile(filepath.Join(parent, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return Image{}, err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return Image{}, err
	}
	if _, err := os.Stat(folder); err == nil { // one with this name is complete
		return image, nil
	}
	unfinished := filepath.Join(parent, "unfinished") // another process may have left one
	err = errors.Join(os.RemoveAll(unfinished), os.Mkdir(unfinished, 0o755))
	if err == nil {
		err = build(ctx, kubelet, unfinished, log)
	}
	if err == nil {
		err = os.Rename(unfinished, folder)
	}
	if err != nil {
		return Image{}, fmt.Errorf("make a disk of Debian's packages: %w", errors.Join(err, os.RemoveAll(unfinished)))
	}
	return image, nil
}

// build runs the script in namespaces of its own, so that nothing that it starts or mounts is left, however it or this process ends.
func build(ctx context.Context, kubelet, folder string, log io.Writer) error {
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child",
		"sh", "-c", script, "image.sh", kubelet, folder)
	cmd.Stdout, cmd.Stderr = log, log
	runtime.LockOSThread() // the kernel kills the process when this thread ends
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.Run()
}
