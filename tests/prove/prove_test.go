package prove

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authz/tests/rig"
)

// proved is what `authz prove --json` says.
type proved struct {
	Verdict string `json:"verdict"`
	Why     string `json:"why"`
	Attacks []struct {
		Name     string `json:"name"`
		Said     string `json:"said"`
		Requests int64  `json:"requests"`
		Admitted int64  `json:"admitted"`
		Refused  int64  `json:"refused"`
	} `json:"attacks"`
	Answers map[string]int `json:"answers"`
	Most    int64          `json:"most_admitted"`
}

// prove runs it; the exit code has to be that of the verdict.
func prove(t testing.TB, args ...string) (p proved) {
	t.Helper()
	code, printed := rig.Authz(t, append([]string{"prove", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(printed), &p); err != nil {
		t.Fatalf("%v: exit %d, %v\n%s", args, code, err, printed)
	}
	if (code == 0) != (p.Verdict == "held") || code > 1 {
		t.Errorf("%v: exit %d, %s", args, code, printed)
	}
	return p
}

// twentyPerSecond are the five algorithms, a path and a bucket each, and what they admit at once.
const twentyPerSecond = `
	[limit.token_bucket]
	match = { path = "/token_bucket" }
	key = ["ip"]
	algorithm = "token_bucket"
	rate = "20/s"
	burst = 30
	[limit.leaky_bucket]
	match = { path = "/leaky_bucket" }
	key = ["ip"]
	algorithm = "leaky_bucket"
	rate = "20/s"
	burst = 4
	[limit.fixed_window]
	match = { path = "/fixed_window" }
	key = ["ip"]
	algorithm = "fixed_window"
	rate = "20/s"
	utc_offset = "+05:45"
	[limit.sliding_window]
	match = { path = "/sliding_window" }
	key = ["ip"]
	algorithm = "sliding_window"
	rate = "20/s"
	[limit.sliding_counter]
	match = { path = "/sliding_counter" }
	key = ["ip"]
	algorithm = "sliding_counter"
	rate = "20/s"`

var twentyAtOnce = map[string]int64{"token_bucket": 30, "leaky_bucket": 5, "fixed_window": 20, "sliding_window": 20, "sliding_counter": 20}

// provesAll attacks all five at the same time.
func provesAll(t *testing.T, addr string, args ...string) {
	t.Helper()
	args = append(args, "--limits="+rig.LimitsFile(t, twentyPerSecond))
	var runs sync.WaitGroup
	for _, name := range rig.Algorithms {
		runs.Go(func() {
			p := prove(t, append(args, "--limit="+name, "--url=http://"+addr+"/"+name)...)
			if p.Verdict != "held" || len(p.Attacks) != 4 || p.Attacks[0].Admitted < twentyAtOnce[name] {
				t.Errorf("%s: %+v, want it held, by four attacks, of which the first is admitted %d times or more", name, p, twentyAtOnce[name])
			}
		})
	}
	runs.Wait()
}

func TestEveryAlgorithmHoldsWhatItPromises(t *testing.T) {
	t.Parallel() // most of it is waiting for windows to end
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, twentyPerSecond), "--redis="+rig.StartRedis(t).URL(), "--redis-timeout=20s")
	provesAll(t, a.Addr, "--direct")
}

func TestEveryAlgorithmHoldsWhatItPromisesThroughNginx(t *testing.T) {
	t.Parallel()
	s := rig.StartSite(t, rig.SiteConf{Limits: twentyPerSecond, Server: rig.ClosedServer})
	provesAll(t, s.Addr)
}

func TestEveryAlgorithmHoldsWhatItPromisesInThePack(t *testing.T) {
	t.Parallel()
	s := rig.StartPack(t, rig.StartRedis(t), "", rig.SiteConf{Limits: twentyPerSecond})
	provesAll(t, s.Addr)
}

func TestEveryAlgorithmHoldsWhatItPromisesInASharedDict(t *testing.T) {
	t.Parallel()
	s := rig.StartPack(t, nil, "", rig.SiteConf{Limits: twentyPerSecond})
	provesAll(t, s.Addr)
}

// What cannot be judged is no proof, and says why.
func TestARunThatSeesTooLittleProvesNothing(t *testing.T) {
	t.Parallel()
	file := rig.LimitsFile(t, `
		[limit.few]
		match = { path = ["/few", "/both"] }
		key = ["header:X-User"]
		missing = "share"
		algorithm = "sliding_window"
		rate = "3/h"
		[limit.fewer]
		match = { path = "/both" }
		key = []
		algorithm = "fixed_window"
		rate = "1/366d"
		[deny.some]
		match = { path = "/denied" }`)
	a := rig.StartAuthz(t, "--limits="+file)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(site.Close)
	says := func(want string, args ...string) {
		t.Helper()
		p := prove(t, append(args, "--for=2s")...)
		if got := p.Verdict + ": " + p.Why; got != want {
			t.Errorf("%v\ngot  %s\nwant %s", args, got, want)
		}
	}
	few := func(want, url string, args ...string) {
		t.Helper()
		says(want, append(args, "--url="+url, "--limit=few", "--algorithm=sliding_window", "--rate=3/h")...)
	}
	at := "http://" + a.Addr
	few("unclear: nothing was refused of 3 requests: the limit does not meet them, or they are too few: want --requests=26",
		at+"/few", "--direct", "--requests=3", "-H", "X-User: a")
	few("unclear: nothing was admitted of 18 requests: the limit was used up before, or refuses all", at+"/few", "--direct", "-H", "X-User: a")
	few("unclear: 6 of 6 answers are no verdict on the limit: 403 (6)", at+"/denied", "--direct")
	few("unclear: 6 of 6 answers are no verdict on the limit: 503 (6)", site.URL)
	few("unclear: 6 of 6 answers are no verdict on the limit: 503 without X-Authz-Status (6)", site.URL, "--direct")
	// Another limit's refusals say nothing about this one.
	says("unclear: 17 of 18 answers are no verdict on the limit: 429 of limit fewer (17)", "--url="+at+"/both", "--direct", "--limits="+file, "--limit=few")
}

// A limit that refuses is no proof for a window that nobody has watched to its end.
func TestNothingIsHeldThatWasNotSeen(t *testing.T) {
	t.Parallel()
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, strings.ReplaceAll(rig.Limit("hour", "sliding_window", "5/h")+rig.Limit("second", "sliding_window", "50/s"), "[]", `["ip"]`)))
	says := func(want, name, rate string, args ...string) {
		t.Helper()
		p := prove(t, append(args, "--url=http://"+a.Addr+"/"+name, "--direct", "--limit="+name, "--algorithm=sliding_window", "--rate="+rate)...)
		got := regexp.MustCompile(`watched for [^ ,]+`).ReplaceAllString(p.Verdict+": "+p.Why, "watched for N")
		rig.Same(t, got, want)
	}
	says("unclear: the limit was watched for N, and its window is 1h0m0s, the boundary was not tried to the end, the flood was not tried to the end: "+
		"want --for=3h0m10s", "hour", "5/h", "--for=2s", "--vary=X-Real-IP: 192.0.2.{n}")
	says("unclear: the limit was watched for N, and its window is 1h0m0s, the boundary was not tried to the end, the flood was not tried to the end: "+
		"want --requests=42 and --for=3h0m10s", "hour", "5/h", "--for=2s", "--requests=12", "--vary=X-Real-IP: 203.0.113.{n}")
	says("unclear: the flood was not tried to the end: want --requests=402", "second", "50/s", "--requests=300")
}

// Directly, with addresses that nobody has used, a bucket that begins full is seen not to begin with its initial.
func TestABucketThatBeginsFullIsCaught(t *testing.T) {
	t.Parallel()
	full := rig.Limit("new", "token_bucket", "20/s") + "burst = 20\n"
	full = strings.ReplaceAll(full, "[]", `["ip"]`)
	file := rig.LimitsFile(t, full+"initial = 0.2\n")
	says := func(want string, running string, args ...string) {
		t.Helper()
		a := rig.StartAuthz(t, "--limits="+running)
		p := prove(t, append(args, "--url=http://"+a.Addr+"/new", "--direct", "--limits="+file, "--limit=new")...)
		if got := regexp.MustCompile(`no more than \d+|^broken: \d+|within \d[^ ,]+|promises \d at`).ReplaceAllString(p.Verdict+": "+p.Why, "N"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	says("held: N were admitted within any 1s, where token_bucket, 20/s, burst 20 promises 40 at most, and a new key had 4", file)
	says("N of a new key were admitted N, where token_bucket, 20/s, burst 20, of which a new key has 4, N most", rig.LimitsFile(t, full))
	says("held: N were admitted within any 1s, where token_bucket, 20/s, burst 20 promises 40 at most; "+
		"that a new key has 4 was not tried: it takes --direct with addresses of its own", rig.LimitsFile(t, full), "--vary=X-Real-IP: 192.0.2.{n}")
}

// What would be admitted by a schedule's numbers was not promised by those before it.
func TestARunDoesNotBeginThatASchedulesNumbersWouldMeet(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	site := startLimiter(t, func(context.Context) (bool, int64) { return asked.Add(1) <= 3, 3600 })
	at := time.Now().UTC().Add(time.Hour).Truncate(time.Minute)
	file := rig.LimitsFile(t, strings.ReplaceAll(rig.Limit("sale", "fixed_window", "3/h"), "/sale", "/")+
		"[schedule.sale.soon]\nrate = \"100/h\"\nzone = \"UTC\"\nfrom = \""+at.Format("2006-01-02T15:04")+"\"\n")
	code, said := rig.Authz(t, "prove", "--url="+site, "--limit=sale", "--limits="+file, "--for=4h")
	rig.Same(t, fmt.Sprint(code, " ", asked.Load(), " ", regexp.MustCompile(`5\dm\d+s`).ReplaceAllString(said, "5XmYs")),
		"1 0 authz: prove: nothing was sent: a schedule gives limit.sale other numbers at "+at.Format(time.RFC3339)+", and the run may take 4h0m0s; "+
			"want one after that, or --for=5XmYs, which may be too short to say that the promise is held\n")
	if p := prove(t, "--url="+site, "--limit=sale", "--limits="+file, "--for=1s"); asked.Load() == 0 {
		t.Errorf("%+v, want requests: it is over before", p)
	}
}

// A broken promise is broken, whatever else was seen.
func TestWithoutALimiterThePromiseIsBroken(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(site.Close)
	p := prove(t, "--url="+site.URL, "--limit=none", "--algorithm=token_bucket", "--rate=5/h", "--for=1s")
	if p.Verdict != "broken" || p.Most < 10 || !strings.HasSuffix(p.Why, "; nothing was ever refused: does the limit meet these requests?") {
		t.Errorf("%+v, want it broken, and a question", p)
	}

	// authz itself is none while Redis is away, if on_error says so, and says that.
	a := rig.StartAuthz(t, "--redis=unix://"+t.TempDir()+"/nobody", "--limits="+rig.LimitsFile(t, rig.Limit("away", "token_bucket", "5/h")+"on_error = \"allow\""))
	p = prove(t, "--url=http://"+a.Addr+"/away", "--direct", "--limit=away", "--algorithm=token_bucket", "--rate=5/h", "--for=1s")
	if p.Verdict != "broken" || p.Answers["200 with X-Authz-Degraded: allow"] < 10 {
		t.Errorf("%+v, want it broken by answers that are degraded", p)
	}
}

// A site that sends everything elsewhere, or has nothing there, need not have asked the limit.
func TestAPlaceWhereNothingIsServedIsNoProof(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/moved", r.URL.Path == "/both" && n.Add(1) == 1:
			http.Redirect(w, r, "https://site.test/moved", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(site.Close)
	says := func(want, path string) {
		t.Helper()
		p := prove(t, "--url="+site.URL+path, "--limit=none", "--algorithm=token_bucket", "--rate=5/h", "--for=1s", "--requests=20")
		rig.Same(t, p.Verdict+": "+p.Why, want)
	}
	says("unclear: nothing was ever refused and every answer is 302: does the limit meet these requests?", "/moved")
	says("unclear: nothing was ever refused and every answer is 404: does the limit meet these requests?", "/missing")
	says("unclear: nothing was ever refused and no answer is 2xx, but 302 (1), 404 (19): does the limit meet these requests?", "/both")
}

// With TLS the site has to prove its name.
func TestASiteIsAttackedOverTLS(t *testing.T) {
	t.Parallel()
	site := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(site.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	rig.ReplaceFile(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: site.Certificate().Raw})))
	says := func(want string, env ...string) {
		t.Helper()
		cmd := exec.Command(rig.AuthzBinary(t), "prove", "--url="+site.URL, "--limit=x", "--algorithm=token_bucket", "--rate=5/h", "--for=1s")
		cmd.Env = append(os.Environ(), env...)
		if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("%v: got\n%s\nwant %q", env, out, want)
		}
	}
	says("answers   404 (", "SSL_CERT_FILE="+ca)
	says("x509: certificate signed by unknown authority")
}

// A request that is lost is not sent again, and one that is sent elsewhere not followed: each would count twice.
func TestAnAttackSendsEachRequestOnce(t *testing.T) {
	t.Parallel()
	var lost, moved, followed atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/lost":
			if lost.Add(1)%2 == 0 { // on a connection that has been used
				panic(http.ErrAbortHandler)
			}
		case "/moved":
			moved.Add(1)
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		default:
			followed.Add(1)
		}
	}))
	t.Cleanup(site.Close)
	prove := func(path string) (sent int64) {
		t.Helper()
		p := prove(t, "--url="+site.URL+path, "--limit=none", "--algorithm=token_bucket", "--rate=5/h", "--for=1s", "--requests=60")
		for _, a := range p.Attacks {
			sent += a.Requests
		}
		return sent
	}
	if sent, came := prove("/lost"), lost.Load(); sent != came || came < 10 {
		t.Errorf("%d were sent and %d came, of which half are lost", sent, came)
	}
	if sent, came, more := prove("/moved"), moved.Load(), followed.Load(); sent != came || more != 0 || came < 10 {
		t.Errorf("%d were sent and %d came, and %d followed", sent, came, more)
	}
}

// Each attack has a key of its own by --vary, and asked directly without it; one of the run's choice is kept.
func TestAttacksHaveKeysOfTheirOwn(t *testing.T) {
	t.Parallel()
	r := rig.StartRedis(t)
	a := rig.StartAuthz(t, "--redis="+r.URL(), "--redis-timeout=20s", "--refusals-max=0", "--limits="+rig.LimitsFile(t, `
		[limit.user]
		match = { path = "/user", method = "POST", host = "site.test" }
		key = ["header:X-User"]
		missing = "deny"
		algorithm = "fixed_window"
		rate = "2/366d"
		[limit.ip]
		match = { path = "/ip" }
		key = ["ip"]
		algorithm = "fixed_window"
		rate = "2/366d"`))
	keys := func(want string, args ...string) {
		t.Helper()
		r.Flush(t)
		prove(t, append(args, "--direct", "--limit=any", "--algorithm=fixed_window", "--rate=2/200ms")...)
		all := r.Keys(context.Background(), "*").Val()
		slices.Sort(all)
		rig.Same(t, regexp.MustCompile(`198\.1[89]\.\d+\.\d+(\d)`).ReplaceAllString(strings.Join(all, " "), "198.18.0.$1"), want)
	}
	url := "--url=http://" + a.Addr
	keys("authz:v1:{header:x-user=u-1}:user:fw authz:v1:{header:x-user=u-2}:user:fw authz:v1:{header:x-user=u-3}:user:fw",
		url+"/user?x", "--method=POST", "-H", "X-Original-Host: site.test", "--vary=X-User: u-{n}")
	keys("authz:v1:{ip=198.18.0.1}:ip:fw authz:v1:{ip=198.18.0.2}:ip:fw authz:v1:{ip=198.18.0.3}:ip:fw", url+"/ip")
	keys("authz:v1:{ip=203.0.113.9}:ip:fw", url+"/ip", "-H", "X-Real-IP: 203.0.113.9")
	keys("authz:v1:{ip=203.0.113.9}:ip:fw", url+"/nginx", "-H", "X-Real-IP: 203.0.113.9", "-H", "X-Original-URI: /ip")
}

// What went wrong is said without the address, which is that of --url, or of one of many behind its name.
func TestLostConnectionsAreOneAnswer(t *testing.T) {
	t.Parallel()
	p := prove(t, "--url=http://127.0.0.1:1", "--limit=none", "--algorithm=fixed_window", "--rate=20/h", "--for=1s")
	rig.Same(t, p.Verdict+": "+p.Why, "unclear: 40 of 40 answers are no verdict on the limit: no answer (dial: connect: connection refused) (40)")
}

// Another machine is asked about; 0.0.0.0 is this one by another name.
func TestAnotherMachineIsAttackedOnlyIfSomebodySaysSo(t *testing.T) {
	t.Parallel()
	var came atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { came.Add(1) }))
	t.Cleanup(site.Close)
	addr := strings.Replace(strings.TrimPrefix(site.URL, "http://"), "127.0.0.1", "0.0.0.0", 1)
	args := []string{"prove", "--url=http://" + addr, "--limit=x", "--algorithm=token_bucket", "--rate=1/h", "--for=100ms", "--requests=4"}
	ask := func(how, answer string, wantCame int64, wantSaid ...string) {
		t.Helper()
		came.Store(0)
		cmd := exec.Command(rig.AuthzBinary(t), args...)
		if how == "terminal" {
			cmd = exec.Command("script", "-qec", rig.AuthzBinary(t)+" "+strings.Join(args, " "), "/dev/null")
		}
		cmd.Stdin = strings.NewReader(answer)
		out, err := cmd.CombinedOutput()
		if err == nil || came.Load() != wantCame {
			t.Errorf("%s, answer %q: %v, %d came, want %d\n%s", how, answer, err, came.Load(), wantCame, out)
		}
		for _, want := range wantSaid {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s, answer %q: got\n%s\nwant %q", how, answer, out, want)
			}
		}
	}
	question := "Send 4 requests to " + addr + "?"
	ask("terminal", "n\n", 0, question+" [y/N] ", "authz: prove: nothing was sent")
	ask("terminal", "\n", 0, "nothing was sent")
	ask("terminal", "y\n", 4, question+" [y/N] ", "limit     x: token_bucket, 1/h, burst 1; 4 requests to "+addr+" at most, for 100ms at most")
	ask("pipe", "y\n", 0, "authz: prove: "+question+" Nobody is there to answer, want --yes\n")
	args = append(args, "--yes")
	ask("pipe", "", 4, "broken: ")
}
