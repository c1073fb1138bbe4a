package limits

import (
	"bytes"
	"strings"
)

// Identity is whose bucket the check charges, as it stands in the Redis key: "ip=203.0.113.9".
// Empty for a limit with key = [].
func (c *Check) Identity() []byte {
	if len(c.Limit.rule.parts) == 0 {
		return nil
	}
	open := bytes.IndexByte(c.Key, '{')
	return c.Key[open+1 : bytes.IndexByte(c.Key, '}')]
}

// hasPort says whether a host ends with a port: one colon, or one after a "]".
func hasPort(host string) bool {
	if host[0] == '[' {
		return host[len(host)-1] != ']'
	}
	return strings.Count(host, ":") == 1
}
