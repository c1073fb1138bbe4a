package rig

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// StartPackNginx starts an nginx that has the OpenResty pack, and tests/lua, on its Lua path. conf is
// what stands in http{}, and may have an init_by_lua_block.
func StartPackNginx(t testing.TB, workers int, conf string, files map[string]string) *NginxServer {
	t.Helper()
	return StartLuaNginx(t, workers, []string{Absolute(t, "../lua"), Absolute(t, "lua")}, conf, files)
}

// StartLuaNginx starts an nginx that has these folders on its Lua path.
func StartLuaNginx(t testing.TB, workers int, path []string, conf string, files map[string]string) *NginxServer {
	t.Helper()
	main := fmt.Sprintf(`
		load_module /usr/lib/nginx/modules/ndk_http_module.so;
		load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;
		worker_processes %d;`, workers)
	return startNginxWith(t, main, fmt.Sprintf(`lua_package_path "%s/?.lua;;";`, strings.Join(path, "/?.lua;"))+conf, files)
}

func Absolute(t testing.TB, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
