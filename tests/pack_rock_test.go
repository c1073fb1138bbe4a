package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
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
	s := &site{redis: startRedis(t), app: startApp(t)}
	files := map[string]string{"limits.json": string(compile(t, `
		[limit.day]
		key = []
		algorithm = "sliding_window"
		rate = "2/d"`).JSON())}
	conf := s.packConf(`redis = {socket = "`+s.redis.socket+`", timeout = "20s"}`, siteConf{})
	s.nginxServer = startLuaNginx(t, 1, []string{tree + "/share/lua/5.1"}, conf, files)
	same(t, s.sendAll(t, 3, "GET /"), "200 200 429")
}
