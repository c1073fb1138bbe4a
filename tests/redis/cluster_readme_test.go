package redis

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authz/tests/rig"
)

// The ways to Redis that README.md shows lead there; only the addresses are others.
func TestTheReadmesWaysToRedisLeadThere(t *testing.T) {
	_, single := startRedisAt(t)
	_, cluster := startClusterOfOne(t)
	_, master := startRedisAt(t)
	sentinel := rig.StartSentinels(t, 1, master)[0]
	ca, encrypted := newCA(t, "our CA"), rig.FreePort(t)
	client := ca.issue(t, "client")
	rig.StartRedis(t, tlsServer(encrypted, ca, ca.issue(t, "127.0.0.1"))...)
	here := strings.NewReplacer(
		"authz serve --limits /etc/authz/limits.toml", "authz scripts load",
		"redis.example.com:6379", "127.0.0.1:"+single,
		"redis.example.com:6380", "127.0.0.1:"+encrypted,
		"node-1:6379,node-2:6379,node-3:6379", "127.0.0.1:"+cluster+",127.0.0.1:"+cluster,
		"sentinel-1:26379,sentinel-2:26379,sentinel-3:26379", sentinel.Addr+",127.0.0.1:1",
		"ca.pem", ca.file, "authz.pem", client.cert, "authz-key.pem", client.key)

	ways := 0
	for _, block := range rig.Blocks(rig.Readme(t), "sh") {
		for line := range strings.Lines(block) {
			if !strings.HasPrefix(line, "authz serve") || strings.Contains(line, "127.0.0.1") {
				continue
			}
			ways++
			cmd := exec.Command("sh", "-c", here.Replace(line))
			cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(rig.AuthzBinary(t))+":"+os.Getenv("PATH"))
			if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "take ") {
				t.Errorf("%s%v\n%s", line, err, out)
			}
		}
	}
	if ways != 4 {
		t.Errorf("README.md shows %d ways, want 4", ways)
	}
}
