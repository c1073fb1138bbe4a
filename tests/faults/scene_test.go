package faults

import (
	"fmt"
	"testing"
	"time"

	"authz/tests/rig"
)

// address is where Redis is, and who asks it.
type address struct{ port, socket, user, password string }

func (a address) url() string {
	login := ""
	if a.user != "" {
		login = a.user + ":" + a.password + "@"
	}
	if a.socket != "" {
		return "unix://" + login + a.socket
	}
	return "redis://" + login + "127.0.0.1:" + a.port
}

// options is the same for the pack.
func (a address) options(timeout time.Duration) string {
	text := fmt.Sprintf(`timeout = "%dms"`, timeout.Milliseconds())
	if a.user != "" {
		text += fmt.Sprintf(`, user = %q, password = %q`, a.user, a.password)
	}
	if a.socket != "" {
		return fmt.Sprintf(`redis = {socket = %q, %s}`, a.socket, text)
	}
	return fmt.Sprintf(`redis = {host = "127.0.0.1", port = %s, %s}`, a.port, text)
}

// startDoors starts both, on the same limits and the same Redis.
func startDoors(t testing.TB, limits string, at address, timeout time.Duration) []*rig.Door {
	t.Helper()
	service := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, limits), "--redis="+at.url(), fmt.Sprint("--redis-timeout=", timeout))
	pack := rig.StartPack(t, nil, at.options(timeout), rig.SiteConf{Limits: limits, Server: rig.SayOK})
	pack.MayLog = []string{"connect() to unix:"} // nginx logs it whatever the pack says
	return []*rig.Door{service.Door(), pack.Door(t)}
}
