package redisscripts

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestEveryScriptIsTheOneThatIsListed(t *testing.T) {
	if err := Verify(); err != nil {
		t.Error(err)
	}
	var names []string
	for _, s := range All() {
		names = append(names, s.Name)
		if s.Version != "v1" || len(s.SHA) != 40 || !strings.Contains(s.Text, "\n-- "+s.Name+": ") {
			t.Errorf("%s: version %q, SHA %q, text %.80q", s.Name, s.Version, s.SHA, s.Text)
		}
	}
	want := "take token_bucket leaky_bucket fixed_window sliding_window sliding_counter"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("All() is %s, want %s", got, want)
	}
	if Take() != All()[0] {
		t.Error("Take() is not the first of All()")
	}
}

func TestAScriptThatDiffersInAByteIsNotRun(t *testing.T) {
	embedded := func() fstest.MapFS {
		copied := fstest.MapFS{}
		for _, file := range []string{"SHA1SUMS", "take.lua", "token_bucket.lua", "leaky_bucket.lua",
			"fixed_window.lua", "sliding_window.lua", "sliding_counter.lua"} {
			text, err := files.ReadFile("v1/" + file)
			if err != nil {
				t.Fatal(err)
			}
			copied["v1/"+file] = &fstest.MapFile{Data: text}
		}
		return copied
	}
	wrong := func(copied fstest.MapFS, want string) {
		t.Helper()
		if got := verify(copied); got == nil || !strings.HasPrefix(got.Error(), want) {
			t.Errorf("error is %v, want %s...", got, want)
		}
	}
	if err := verify(embedded()); err != nil {
		t.Error(err)
	}
	for _, s := range All() {
		changed := embedded()
		changed["v1/"+s.Name+".lua"].Data[100] ^= 1
		wrong(changed, "redisscripts/v1/"+s.Name+".lua: SHA-1 is ")
		crlf := embedded()
		crlf["v1/"+s.Name+".lua"].Data = []byte(strings.ReplaceAll(s.Text, "\n", "\r\n"))
		wrong(crlf, "redisscripts/v1/"+s.Name+".lua: SHA-1 is ")
	}
	unlisted := embedded()
	unlisted["v1/SHA1SUMS"].Data = nil
	wrong(unlisted, "redisscripts/v1/take.lua: SHA-1 is "+Take().SHA+`, want "" as SHA1SUMS says`)
	missing := embedded()
	delete(missing, "v1/take.lua")
	wrong(missing, "open v1/take.lua: file does not exist")
}
