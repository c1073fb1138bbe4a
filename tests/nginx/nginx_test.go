package nginx

import (
	"testing"

	"authz/tests/rig"
)

func TestAnNginxStarts(t *testing.T) {
	n := rig.StartNginx(t, `server { listen LISTEN; listen LISTEN_H2 http2; return 200 "$server_protocol $uri"; }`, nil)
	for want, send := range map[string]rig.Sender{"HTTP/1.1 /a": n.Send, "HTTP/2.0 /a": n.SendH2} {
		if got := send(t, "GET /a", ""); got.Status != 200 || got.Body != want {
			t.Errorf("%d %q, want 200 %q", got.Status, got.Body, want)
		}
	}
}
