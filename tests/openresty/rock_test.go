package openresty

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"authz/tests/rig"
)

// What LuaRocks makes of the rockspec runs in nginx, scripts included.
func TestThePackThatLuaRocksInstallsRuns(t *testing.T) {
	names, err := filepath.Glob("../lua/*.rockspec")
	if err != nil || len(names) != 1 {
		t.Fatalf("%v, want one rockspec (%v)", names, err)
	}
	tree := t.TempDir()
	luarocks := exec.Command("luarocks", "--lua-version", "5.1", "make", "--tree", tree, filepath.Base(names[0]))
	luarocks.Dir = "../lua"
	luarocks.Env = append(os.Environ(), "HOME="+t.TempDir())
	if said, err := luarocks.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	s := &rig.Site{Redis: rig.StartRedis(t), App: rig.StartApp(t)}
	files := map[string]string{"limits.json": string(rig.Compile(t, `
		[limit.day]
		key = []
		algorithm = "sliding_window"
		rate = "2/d"`).JSON())}
	conf := s.PackConf(`redis = {socket = "`+s.Redis.Socket+`", timeout = "20s"}`, rig.SiteConf{})
	s.NginxServer = rig.StartLuaNginx(t, 1, []string{tree + "/share/lua/5.1"}, conf, files)
	rig.Same(t, s.SendAll(t, 3, "GET /"), "200 200 429")
}
