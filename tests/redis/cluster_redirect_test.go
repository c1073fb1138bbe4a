package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"authz/internal/store/redisstore"
	"authz/tests/rig"
)

// MOVED, ASK, TRYAGAIN and NOSCRIPT are followed, to where they say, and not for ever.
func TestWhatANodeSaysInsteadOfAnAnswerIsFollowed(t *testing.T) {
	c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 5, 366*86400e6, 0), "u", 1)
	run := func(want, wantFirst, wantSecond string, first, second []string) {
		t.Helper()
		b := rig.StartPuppet(t, second...)
		for i, say := range first {
			first[i] = strings.ReplaceAll(say, "THERE", "127.0.0.1:"+b.Port)
		}
		a := rig.StartPuppet(t, first...)
		s := rig.OpenRedisURL(t, "redis://127.0.0.1:"+a.Port+"?cluster=true", 10*time.Second)
		rig.Same(t, rig.KindOf(s, c), want)
		rig.Same(t, fmt.Sprintf("%s, %s", a.Commands(), b.Commands()), fmt.Sprintf("%s, %s", wantFirst, wantSecond))
	}
	say := func(words ...string) []string { return words }
	run("admitted", "evalsha", "", say(rig.Admits), say(rig.Admits))
	run("admitted", "evalsha eval", "", say("-NOSCRIPT No matching script\r\n", rig.Admits), say(rig.Admits))
	run("admitted", "evalsha", "evalsha", say("-MOVED 1 THERE\r\n"), say(rig.Admits))
	run("admitted", "evalsha", "evalsha eval", say("-MOVED 1 THERE\r\n"), say("-NOSCRIPT No matching script\r\n", rig.Admits))
	run("admitted", "evalsha", "asking evalsha", say("-ASK 1 THERE\r\n"), say(rig.Admits))
	run("admitted", "evalsha", "asking evalsha asking eval", say("-ASK 1 THERE\r\n"), say("-NOSCRIPT No matching script\r\n", rig.Admits))
	run("admitted", "evalsha evalsha evalsha", "", say("-TRYAGAIN Multiple keys\r\n", "-TRYAGAIN Multiple keys\r\n", rig.Admits), say(rig.Admits))
	run("admitted", "evalsha", "asking evalsha asking evalsha", say("-ASK 1 THERE\r\n"), say("-TRYAGAIN Multiple keys\r\n", rig.Admits))
	run("moved", "evalsha"+strings.Repeat(" evalsha", 8), "", say("-TRYAGAIN Multiple keys\r\n"), say(rig.Admits))
	run("moved", "evalsha", strings.Repeat("asking evalsha ", 7)+"asking evalsha", say("-ASK 1 THERE\r\n"), say("-TRYAGAIN Multiple keys\r\n"))
	run("moved", "evalsha", "", say("-MOVED nonsense\r\n"), say(rig.Admits))

	// These are no answers either, but are not followed.
	run("noscript", "evalsha eval", "", say("-NOSCRIPT No matching script\r\n"), say(rig.Admits))
	run("clusterdown", "evalsha", "", say("-CLUSTERDOWN Hash slot not served\r\n"), say(rig.Admits))
	run("loading", "evalsha", "", say("-LOADING Redis is loading the dataset in memory\r\n"), say(rig.Admits))
	run("busy", "evalsha", "", say("-BUSY Redis is busy\r\n"), say(rig.Admits))
	run("crossslot", "evalsha", "", say("-CROSSSLOT Keys in request don't hash to the same slot\r\n"), say(rig.Admits))
	run("readonly", "evalsha", "", say("-READONLY You can't write against a read only replica.\r\n"), say(rig.Admits))
	run("malformed", "evalsha", "", say("*0\r\n"), say(rig.Admits))
}

// The epoch, which tells that somebody was reset, is one key like any other.
func TestAKeyIsReadWhereverItIs(t *testing.T) {
	second := rig.StartPuppet(t, "$2\r\nv2\r\n")
	there := " 1 127.0.0.1:" + second.Port + "\r\n"
	first := rig.StartPuppet(t, "$2\r\nv1\r\n", "$-1\r\n", "-ASK"+there, "-MOVED"+there)
	s := rig.OpenRedisURL(t, "redis://127.0.0.1:"+first.Port+"?cluster=true", 10*time.Second)
	for _, want := range []string{"v1", "", "v2", "v2"} {
		got, err := redisstore.Get(t.Context(), s, "authz:v1:epoch")
		if got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	get := "get authz:v1:epoch"
	rig.Same(t, first.Commands()+", "+second.Commands(), strings.Join([]string{get, get, get, get}, " ")+", "+strings.Join([]string{"asking", get, get}, " "))
}
