package openresty

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"authz/tests/rig"
)

// The timeout is for all that a call has to say: one step in time after the other is not.
func TestTheTimeoutOfThePackBoundsTheWholeCall(t *testing.T) {
	r := rig.StartRedis(t)
	if err := r.Do(t.Context(), "acl", "setuser", "u", "on", ">pass", "+@all", "~*").Err(); err != nil {
		t.Fatal(err)
	}
	front := rig.InFrontOf(t, r, func(client, server net.Conn) {
		rig.OneByOne(client, server, func(_, reply []byte) (more bool) {
			time.Sleep(800 * time.Millisecond) // three of them are more than two seconds
			client.Write(reply)
			return true
		})
	})
	socket := strings.TrimPrefix(front, "unix://")
	option := func(name, timeouts string) string {
		return fmt.Sprintf(`%s = {socket = "%s", user = "u", password = "pass", database = 1, %s}`, name, socket, timeouts)
	}
	p := rig.StartPackStores(t, r, option("whole", `timeout = "2s"`), option("ample", `timeout = "20s"`))
	c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 5, 366*86400e6, 0), "u", 1)
	rig.Same(t, rig.PackStore{PackStores: p, Path: "/redis/whole"}.Kind(c), "timeout")
	rig.Same(t, rig.PackStore{PackStores: p, Path: "/redis/ample"}.Kind(c), "admitted")
}
