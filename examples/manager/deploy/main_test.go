//go:build e2e

package deploy_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../../.." // from this folder

// manager is the program of the image, which is built once, for the first test that asks for it.
var manager struct {
	once sync.Once
	dir  string
	err  error
}

func managerBinary(t *testing.T) string {
	t.Helper()
	manager.once.Do(func() { manager.dir, manager.err = buildManager(context.WithoutCancel(t.Context())) })
	require.NoError(t, manager.err)
	return filepath.Join(manager.dir, "manager")
}

// buildManager runs the command of the Containerfile that builds the manager, and returns the directory of the program.
func buildManager(ctx context.Context) (dir string, err error) {
	text, err := os.ReadFile(filepath.Join("..", "Containerfile"))
	if err != nil {
		return "", err
	}
	command := regexp.MustCompile(`(?m)^RUN (.*go build .* )-o /out/manager (.*)$`).FindStringSubmatch(string(text))
	if command == nil {
		return "", fmt.Errorf("the Containerfile does not build the manager: %s", text)
	}
	if dir, err = os.MkdirTemp("", "machinist-manager-"); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", command[1]+"-o '"+filepath.Join(dir, "manager")+"' "+command[2])
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("%v: %w: %s", cmd.Args, err, out)
	}
	return dir, nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	if manager.dir != "" {
		_ = os.RemoveAll(manager.dir)
	}
	os.Exit(code)
}
