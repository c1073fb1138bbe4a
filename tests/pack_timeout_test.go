package tests

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// The timeout is for all that a call has to say: one step in time after the other is not.
func TestTheTimeoutOfThePackBoundsTheWholeCall(t *testing.T) {
	r := startRedis(t)
	if err := r.Do(t.Context(), "acl", "setuser", "u", "on", ">pass", "+@all", "~*").Err(); err != nil {
		t.Fatal(err)
	}
	front := inFrontOf(t, r, func(client, server net.Conn) {
		oneByOne(client, server, func(_, reply []byte) (more bool) {
			time.Sleep(800 * time.Millisecond) // three of them are more than two seconds
			client.Write(reply)
			return true
		})
	})
	socket := strings.TrimPrefix(front, "unix://")
	option := func(name, timeouts string) string {
		return fmt.Sprintf(`%s = {socket = "%s", user = "u", password = "pass", database = 1, %s}`, name, socket, timeouts)
	}
	p := startPackStores(t, r, option("whole", `timeout = "2s"`), option("ample", `timeout = "20s"`))
	c := check(newLimit(t, "api", "fixed_window", 5, 366*86400e6, 0), "u", 1)
	same(t, packStore{p, "/redis/whole"}.kind(c), "timeout")
	same(t, packStore{p, "/redis/ample"}.kind(c), "admitted")
}
