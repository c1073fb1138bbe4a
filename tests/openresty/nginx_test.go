package openresty

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// initError is what nginx says of a configuration that it refuses. lua is the folder of the pack.
func initError(t testing.TB, lua, conf string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(`
		load_module /usr/lib/nginx/modules/ndk_http_module.so;
		load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;
		daemon off; master_process off; # one process, which the test ends if it starts
		pid nginx.pid;
		events { }
		http {
			access_log off;
			lua_package_path "%s/?.lua;;";
			%s
		}`, lua, conf)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	said, err := exec.CommandContext(ctx, "nginx", "-p", dir, "-c", file, "-e", "stderr").CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Fatalf("nginx takes this, want an error:\n%s\n%s", conf, said)
	}
	return string(said)
}
