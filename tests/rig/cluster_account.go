package rig

import (
	"context"
	"regexp"
	"strings"
	"testing"
)

// ClusterAccount is the rules of the README's account, with what it needs more in a cluster.
func ClusterAccount(t *testing.T) (rules []any) {
	t.Helper()
	line := regexp.MustCompile(`(?m)^ *user authz on >PASSWORD (.*)$`).FindStringSubmatch(Readme(t))
	more := regexp.MustCompile("in a cluster it needs `([^`]*)` too").FindStringSubmatch(Readme(t))
	if line == nil || more == nil {
		t.Fatal("README.md has no account, or not what it needs in a cluster")
	}
	for _, rule := range strings.Fields(line[1] + " " + more[1]) {
		rules = append(rules, rule)
	}
	return rules
}

// Account makes an account on all nodes, and returns the URL to use it with.
func (c *RedisCluster) Account(t *testing.T, name string, rules ...any) string {
	t.Helper()
	for _, n := range c.Nodes {
		if err := n.Do(context.Background(), append([]any{"acl", "setuser", name, "on", "resetpass", ">pass"}, rules...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return "redis://" + name + ":pass@" + strings.TrimPrefix(c.URL(), "redis://")
}
