package limits

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Every part that a rule reads is listed with its role, by rule in the order of evaluation.
func TestReadsAreWhatEachRuleReads(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limits.toml")
	if err := os.WriteFile(file, []byte(`
[deny.d]
match = { ip = "192.0.2.0/24", query = { debug = "1" } }
[allow.a]
match = { host = "a.example", zone = "in*" }
unless = { cookie = { sid = "*" } }
[limit.l]
match = { path = "/v1/**", method = "POST", zone = "api" }
key = ["header:X-API-Key", "path"]
missing = "ip"
algorithm = "token_bucket"
rate = "100/s"
cost = "header:X-Cost"
cost_max = 7
`), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := Load("authz", file)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for _, r := range set.Reads() {
		got += fmt.Sprintf("%v %s %v %v", r.Verdict, r.Name, r.Reads, r.Zones)
		for _, read := range r.Reads {
			got += fmt.Sprintf(" %d", read.Role)
		}
		got += "\n"
	}
	got += fmt.Sprintln(set.ReadHeaders(), set.Zones(), set.ReadsKind(ReadIP), set.ReadsKind(ReadHost), set.Limits()[0].MostCost())
	const want = `deny d [client address query] [] 0 0
allow a [host zone cookie sid] [in*] 0 0 1
limits l [path method zone header x-api-key path header x-cost] [api] 0 0 0 2 2 3
[cookie x-api-key x-cost] [api in*] true true 7
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
