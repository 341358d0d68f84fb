package deployment_test

import (
	"testing"

	"github.com/machinist-dev/machinist/internal/apitest/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
