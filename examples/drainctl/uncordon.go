package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/machinist-dev/machinist/drain/runner"
)

// uncordon makes Nodes schedulable again. What a drain has evicted stays where it is.
func (s *session) uncordon(ctx context.Context) int {
	nodes, err := s.readNodes(ctx)
	if err != nil {
		return s.fail(ctx, err)
	}
	var errs []error
	for _, node := range nodes {
		if !node.Spec.Unschedulable {
			fmt.Fprintf(s.stdout, "%s is schedulable already\n", node.Name)
			continue
		}
		if err := runner.Uncordon(ctx, s.config, node.Name); err != nil {
			errs = append(errs, s.explain("patch", "nodes", err))
			continue
		}
		fmt.Fprintf(s.stdout, "%s is schedulable again\n", node.Name)
	}
	return s.fail(ctx, errors.Join(errs...))
}
