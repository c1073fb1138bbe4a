package service

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"authz/tests/rig"
)

// but is healthy with other lines: each replaces those of the same finding; "" leaves them out.
func but(lines ...string) string {
	text := strings.Split(rig.Healthy, "\n")
	text[0] = "exit 0"
	for _, line := range lines {
		what := strings.Fields(line)[1]
		i := slices.IndexFunc(text, func(l string) bool { return len(strings.Fields(l)) > 1 && strings.Fields(l)[1] == what })
		text[i] = line
		if strings.HasPrefix(line, "wrong") {
			text[0] = "exit 1"
		}
	}
	return strings.Join(text, "\n")
}

func TestADoctorFindsNothingWrongAndLeavesNothingBehind(t *testing.T) {
	r := rig.StartRedis(t)
	rig.Diagnosis(t, rig.Doctor(t, r.URL()), rig.Healthy)
	rig.Diagnosis(t, rig.Doctor(t, r.URL(), "--limits=../limits/examples/quickstart.toml"), rig.Healthy+"ok       limits      2, which one call can decide\n")
	if got := r.Keys(context.Background(), "*").Val(); len(got) != 0 {
		t.Errorf("it leaves %v behind", got)
	}
	r.ConfigSet(context.Background(), "maxmemory", "100mb")
	rig.Diagnosis(t, rig.Doctor(t, r.URL()), but("ok       memory      maxmemory is 104857600 bytes, and no key is evicted"))
	r.ConfigSet(context.Background(), "requirepass", "s3cr3t")
	rig.Diagnosis(t, rig.Doctor(t, r.URL(), "--redis-password=s3cr3t"), but("ok       memory      maxmemory is 104857600 bytes, and no key is evicted"))
}

// C118: the README's account is enough, and of what one lacks all is named at once.
func TestADoctorNamesWhatAnAccountLacks(t *testing.T) {
	r := rig.StartRedis(t)
	ctx := context.Background()
	line := regexp.MustCompile(`(?m)^ *user (authz on .*)$`).FindStringSubmatch(rig.Readme(t))[1]
	rules := strings.Fields(strings.Replace(line, ">PASSWORD", ">s3cr3t", 1))
	examine := func(rules []string, want string) {
		t.Helper()
		words := []any{"acl", "setuser"}
		for _, rule := range append([]string{rules[0], "reset"}, rules[1:]...) {
			words = append(words, rule)
		}
		if err := r.Do(ctx, words...).Err(); err != nil {
			t.Fatal(err)
		}
		rig.Diagnosis(t, rig.Doctor(t, "unix://authz:s3cr3t@"+r.Socket), want)
	}
	const memory = "unknown  memory      whether Redis may evict keys could not be looked at, want maxmemory-policy noeviction: this account may neither INFO nor CONFIG GET"
	examine(rules, but(memory))
	expires := func() (keys int) {
		t.Helper()
		for _, key := range r.Keys(ctx, "*").Val() {
			ttl := r.PTTL(ctx, key).Val()
			if gone := ttl == -2; !gone && (!strings.HasPrefix(key, "authz:v1:{doctor-") || ttl <= 0 || ttl > 2*time.Minute) {
				t.Errorf("%s lives for %v, want a key of the doctor's that expires", key, ttl)
			}
			keys++
		}
		return keys
	}
	if expires() == 0 {
		t.Error("no keys, though the account may not DEL")
	}
	examine(append(rules, "+info"), rig.Healthy)
	examine(append(rules, "+config|get", "+del"), rig.Healthy)

	without := func(lacks ...string) []string {
		return slices.DeleteFunc(slices.Clone(rules), func(rule string) bool { return slices.Contains(lacks, rule) })
	}
	account := func(lacks string) string {
		return "wrong    account     may not do all that is needed, want " + lacks
	}
	const denied = "NOPERM this user has no permissions to run the 'evalsha' command"
	const inScript = "ERR The user executing the script can't run this command or subcommand"
	examine(without("+evalsha"), strings.Replace(but(memory, account("+evalsha"), "wrong    scripts     "+rig.AllScripts+": "+denied), "ok       speed       T a check, T for the slowest of 20, in time for --redis-timeout=T\n", "", 1))
	examine(without("+script|load"), but(memory, account("+script|load")))
	const notTried = "wrong    scripts     take, sliding_window: not tried, since without +pexpire what they write would stay for ever\n"
	examine(without("+pexpire"), but(memory, account("+pexpire"), notTried+"ok       scripts     charge and refuse: token_bucket, leaky_bucket, fixed_window, sliding_counter"))
	examine(without("+set", "+pexpire"), but(memory, account("+set +pexpire"), notTried+"wrong    scripts     token_bucket, leaky_bucket, fixed_window, sliding_counter: "+inScript))
	examine(without("+zadd", "+zcount"), but(memory, account("+zadd +zcount"), "wrong    scripts     take, sliding_window: "+inScript+
		"\nok       scripts     charge and refuse: token_bucket, leaky_bucket, fixed_window, sliding_counter"))
	// the limits that this concerns
	file := rig.LimitsFile(t, "[limit.login]\nkey=[\"ip\"]\nalgorithm=\"sliding_window\"\nrate=\"5/m\"\n[limit.api]\nkey=[\"ip\"]\nalgorithm=\"fixed_window\"\nrate=\"5/m\"\n")
	concerned := func(lacks, want string) {
		t.Helper()
		r.Do(ctx, append([]any{"acl", "setuser", "authz", "reset"}, rig.AsAny(without(lacks)[1:])...)...)
		if got := rig.Doctor(t, "unix://authz:s3cr3t@"+r.Socket, "--limits="+file); !strings.HasSuffix(got, "\n"+want+"\n") || strings.Count(got, " limits ") != 1 {
			t.Errorf("without %s: got\n%swant it to end with\n%s", lacks, got, want)
		}
	}
	concerned("+zremrangebyscore", "wrong    limits      login: "+inScript)
	concerned("+zcount", "wrong    limits      login: "+inScript)
	concerned("+pexpire", "wrong    limits      login: not tried, since without +pexpire what they write would stay for ever")
	concerned("+mget", "wrong    limits      all in one request: "+inScript)
	concerned("+evalsha", "wrong    limits      api, login: "+denied)
	concerned("+info", "ok       limits      2, which one call can decide") // which is not needed

	for _, rule := range rules[3:] {
		examineOne := without(rule)
		if strings.HasPrefix(rule, "~") {
			rule = "~authz:*"
		}
		r.Do(ctx, append([]any{"acl", "setuser", "authz", "reset"}, rig.AsAny(examineOne[1:])...)...)
		got := rig.Doctor(t, "unix://authz:s3cr3t@"+r.Socket)
		if !strings.HasPrefix(got, "exit 1\n") || !strings.Contains(got, account(rule)+"\n") {
			t.Errorf("without %s: got\n%s", rule, got)
		}
	}
	expires() // whatever the account lacked, beside DEL
}

func TestADoctorSaysWhatIsWrongWithAServer(t *testing.T) {
	r := rig.StartRedis(t)
	ctx := context.Background()
	set := func(words ...any) {
		t.Helper()
		if err := r.Do(ctx, append([]any{"config", "set"}, words...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	// C112
	set("maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
	const policy = "maxmemory-policy is allkeys-lru: whoever's key is evicted begins to count again, want noeviction, on an instance of its own"
	rig.Diagnosis(t, rig.Doctor(t, r.URL(), "--limits=../limits/examples/quickstart.toml"), but("wrong    memory      "+policy)+"ok       limits      2, which one call can decide\n")
	rig.StartAuthz(t, "--limits=../limits/examples/quickstart.toml", "--redis="+r.URL(), "--redis-timeout=20s").
		Await(t, "level=WARN msg=\"Redis is not as it should be, see authz doctor\" server="+r.Socket+" what=memory why=\""+policy+"\"")
	set("maxmemory-policy", "volatile-ttl")
	rig.Diagnosis(t, rig.Doctor(t, r.URL()), but("ok       memory      maxmemory is 104857600 bytes, and what would expire first is evicted first"))
	set("maxmemory", "2mb", "maxmemory-policy", "allkeys-lru")
	for i := 0; !strings.Contains(r.Info(ctx, "stats").Val(), "evicted_keys:7"); i++ {
		r.Set(ctx, fmt.Sprint("filler", i), strings.Repeat("x", 10_000), 0)
	}
	if got := rig.Doctor(t, r.URL()); !regexp.MustCompile(`wrong    memory      maxmemory-policy is allkeys-lru, and \d+ keys have been evicted: `).MatchString(got) {
		t.Errorf("got\n%s", got)
	}
	r.Flush(t)
	// C111
	set("maxmemory", "1000", "maxmemory-policy", "noeviction")
	got := regexp.MustCompile(`full: \d+ of`).ReplaceAllString(rig.Doctor(t, r.URL()), "full: N of")
	rig.Diagnosis(t, got, but("wrong    memory      full: N of 1000 bytes are used, and on_error decides for whoever is new; want a larger maxmemory",
		"wrong    scripts     "+rig.AllScripts+": Redis is full, want a larger maxmemory: OOM command not allowed when used memory > 'maxmemory'."))
	set("maxmemory", "0")
	// a replica, of a master that it has lost
	r.Do(ctx, "replicaof", "127.0.0.1", "1")
	rig.Diagnosis(t, rig.Doctor(t, r.URL()), but("wrong    server      Redis 7.0.15 is a replica of 127.0.0.1:1 and takes no writes, want its master",
		"wrong    scripts     "+rig.AllScripts+": this is a replica, want its master: READONLY You can't write against a read only replica."))
	r.Do(ctx, "replicaof", "no", "one")
	// a disk that is full (C115)
	r.FailToSave(t)
	if got := rig.Doctor(t, r.URL()); !strings.Contains(got, "\nwrong    scripts     "+rig.AllScripts+": Redis cannot save its data and takes no writes, see its log: MISCONF ") {
		t.Errorf("got\n%s", got)
	}
	set("save", "")
	rig.Diagnosis(t, rig.Doctor(t, r.URL()), rig.Healthy)
	// a limits file that leaves no time
	const late = "wrong    limits      leaky buckets hold answers, which nginx awaits for T: want a --redis-timeout of less than T\n"
	if got := rig.Doctor(t, r.URL(), "--limits="+rig.LimitsFile(t, "[limit.a]\nkey=[]\nalgorithm=\"leaky_bucket\"\nrate=\"1/s\"\n")); !strings.HasSuffix(got, late) {
		t.Errorf("got\n%s", got)
	}
	// a Redis that is too slow for what it is given
	code, text := rig.Authz(t, "doctor", "--redis="+r.URL(), "--redis-timeout=1ns")
	if code != 1 || !regexp.MustCompile(`^wrong    connection  \S+ answers after \S+, too late for --redis-timeout=1ns\n`).MatchString(text) ||
		!regexp.MustCompile(`\nwrong    speed       \S+ a check, but \S+ for the slowest of 20, too late for --redis-timeout=1ns\n$`).MatchString(text) {
		t.Errorf("exit %d\n%s", code, text)
	}
}

func TestADoctorKnowsOtherServers(t *testing.T) {
	// C123: a proxy that has not all commands
	bare := rig.StartRedis(t, "--rename-command", "SCRIPT", "", "--rename-command", "EVALSHA", "", "--rename-command", "HELLO", "")
	rig.Diagnosis(t, rig.Doctor(t, bare.URL()), strings.Replace(but("wrong    scripts     "+rig.AllScripts+": the command is not there, is this a proxy? ERR unknown command 'evalsha'\n"+
		"wrong    scripts     SCRIPT LOAD: the command is not there, is this a proxy? ERR unknown command 'script'; each script is sent whenever Redis does not know it"),
		"ok       speed       T a check, T for the slowest of 20, in time for --redis-timeout=T\n", "", 1))
	// C120: an old one, which is this one under another name
	r := rig.StartRedis(t)
	for version, unknown := range map[string]string{"6.0.15": "", "5.0.15": "hello"} {
		rig.Diagnosis(t, rig.Doctor(t, asOld(t, r, version, unknown)), but("wrong    server      Redis "+version+" is too old for the scripts, want 6.2 or later"))
	}
	// one that lies: it admits all
	lying := rig.InFrontOf(t, r, func(client, server net.Conn) {
		answering(client, server, func([]byte) string { return "*4\r\n:1\r\n:0\r\n:0\r\n:0" })
	})
	rig.Diagnosis(t, rig.Doctor(t, lying), strings.Replace(but("wrong    scripts     take: Redis sent no script's reply: 4 numbers, want 21\n"+
		"wrong    scripts     token_bucket, leaky_bucket, fixed_window, sliding_window, sliding_counter: what was charged is not found again: is this several servers that do not share their data?"),
		"ok       speed       T a check, T for the slowest of 20, in time for --redis-timeout=T\n", "", 1))
	// a node of a cluster
	node := rig.StartRedis(t, "--port", rig.FreePort(t), "--cluster-enabled", "yes")
	got := rig.Doctor(t, node.URL())
	for _, want := range []string{"exit 1\n", "\nwrong    server      Redis 7.0.15 is a node of a cluster, want ?cluster=true in the URL\n",
		"\nwrong    scripts     " + rig.AllScripts + ": want a cluster that is whole, and ?cluster=true in the URL: CLUSTERDOWN Hash slot not served\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%swant it to have\n%s", got, want)
		}
	}
	// Sentinels: nothing else is true of them
	sentinel := startSentinel(t)
	rig.Diagnosis(t, rig.Doctor(t, sentinel, "--limits=../limits/examples/quickstart.toml"), "exit 1\nok       connection  REDIS answers after T, in time for --redis-timeout=T\n"+
		"wrong    server      Redis 7.0.15 is a Sentinel, want ?master=NAME in the URL\n")
	another := startSentinel(t)
	if got := rig.Doctor(t, sentinel+","+strings.TrimPrefix(another, "redis://")); strings.Count(got, "\n") != 2 ||
		!regexp.MustCompile(`^exit 1\nwrong    connection  REDIS: the server is a Sentinel, want \?master=NAME in the URL: .*ERR unknown command 'cluster'`).MatchString(got) {
		t.Errorf("got\n%s", got)
	}
	// a clock that is wrong
	clocked, clock := rig.StartRedisWithClock(t)
	for off, want := range map[time.Duration]string{time.Hour: "1h0m0s ahead of", -time.Hour: "1h0m0s behind"} {
		clock.Move(t, off)
		_, text := rig.Authz(t, "doctor", "--redis="+clocked.URL(), "--redis-timeout=20s")
		if want := "\nok       clock       " + want + " this machine's; limits go by Redis's\n"; !strings.Contains(text, want) {
			t.Errorf("got\n%swant it to have\n%s", text, want)
		}
	}
}

// startSentinel is the URL of a Sentinel that watches over nothing.
func startSentinel(t *testing.T) string {
	t.Helper()
	port, conf := rig.FreePort(t), filepath.Join(t.TempDir(), "sentinel.conf")
	rig.ReplaceFile(t, conf, "port "+port+"\nbind 127.0.0.1\n")
	rig.AwaitLine(t, exec.Command("redis-server", conf, "--sentinel"), make(chan struct{}), "Sentinel ID is")
	return "redis://127.0.0.1:" + port
}

func TestADoctorSaysWhyThereIsNoConnection(t *testing.T) {
	check := func(url, want string, args ...string) {
		t.Helper()
		rig.Same(t, rig.Doctor(t, url, append(args, "--redis-timeout=1s")...), "exit 1\nwrong    connection  REDIS: "+want+"\n")
	}
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	rig.SelfSigned(t, cert, key)
	plain, secure, mutual := rig.FreePort(t), rig.FreePort(t), rig.FreePort(t)
	r := rig.StartRedis(t, "--port", plain, "--tls-port", secure, "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-auth-clients", "no", "--tls-ca-cert-file", cert)
	rig.StartRedis(t, "--tls-port", mutual, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert)
	r.ConfigSet(context.Background(), "requirepass", "s3cr3t")

	check("redis://127.0.0.1:"+secure, "the server speaks TLS, want rediss://")
	check("redis://127.0.0.1:"+mutual, "the server speaks TLS, want rediss://")
	check("rediss://127.0.0.1:"+plain, "the server speaks no TLS, want redis://")
	check("rediss://127.0.0.1:"+secure, "tls: failed to verify certificate: x509: certificate signed by unknown authority")
	check("redis://127.0.0.1:"+plain, "user or password are refused: NOAUTH HELLO must be called with the client already authenticated, "+
		"otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
	check("redis://u:s3cr3t@127.0.0.1:"+plain, "user or password are refused: WRONGPASS invalid username-password pair or user is disabled.")
	check("redis://127.0.0.1:"+plain, "user or password are refused: WRONGPASS invalid username-password pair or user is disabled.", "--redis-password=s3cr3t2")
	nobody := rig.FreePort(t)
	check("redis://u:s3cr3t@127.0.0.1:"+nobody, "dial tcp 127.0.0.1:"+nobody+": connect: connection refused")

	empty := filepath.Join(dir, "empty")
	rig.ReplaceFile(t, empty, "\n")
	if got, want := rig.Doctor(t, r.URL(), "--redis-password-file="+empty), "exit 1\nwrong    connection  REDIS: user or password are refused, and "+empty+" is empty: NOAUTH "; !strings.HasPrefix(got, want) {
		t.Errorf("got\n%swant it to begin with\n%s", got, want)
	}
	const noDatabase = "the server has no such database as the URL names: ERR DB index is out of range"
	check("redis://:s3cr3t@127.0.0.1:"+plain+"/99", noDatabase)
	r.MustDo(t, "acl", "setuser", "unselected", "on", ">s3cr3t", "+@all", "-select", "~*")
	check("redis://unselected:s3cr3t@127.0.0.1:"+plain+"/1", "NOPERM this user has no permissions to run the 'select' command")

	r.Signal(t, syscall.SIGSTOP)
	_, hung := rig.Authz(t, "doctor", "--redis=redis://127.0.0.1:"+plain)
	_, patient := rig.Authz(t, "doctor", "--redis=redis://127.0.0.1:"+plain, "--redis-timeout=2500ms")
	r.Signal(t, syscall.SIGCONT)
	for got, want := range map[string]string{hung: "50ms, nor within 2s", patient: "2.5s"} {
		want = "wrong    connection  redis://127.0.0.1:" + plain + ": no answer within --redis-timeout=" + want + ": "
		if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "i/o timeout\n") {
			t.Errorf("got %swant it to begin with\n%s", got, want)
		}
	}
}

// Neither Redis nor a proxy before it gets a secret printed by quoting the command that has it.
func TestADoctorPrintsNoSecretThatAServerQuotes(t *testing.T) {
	r := rig.StartRedis(t)
	quoting := rig.InFrontOf(t, r, func(client, _ net.Conn) {
		buf := make([]byte, 64<<10)
		for {
			n, err := client.Read(buf)
			if err != nil {
				return
			}
			words := strings.FieldsFunc(string(buf[:n]), func(r rune) bool { return r == '\r' || r == '\n' })
			fmt.Fprintf(client, "-ERR unknown command '%s', with args beginning with: '%s' \r\n", words[2], strings.Join(words[3:], "' '"))
		}
	})
	for _, args := range [][]string{nil, {"--redis-user=s3cr3t"}} {
		if got := rig.Doctor(t, quoting, append(args, "--redis-password=s3cr3t")...); !strings.HasPrefix(got, "exit 1\n") || !strings.Contains(got, "ERR unknown command") {
			t.Errorf("got\n%s", got)
		}
	}
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.ThreeAnswers), "--redis="+quoting, "AUTHZ_REDIS_PASSWORD=s3cr3t")
	rig.Same(t, a.Checker().Check(t, "GET /deny", nil), "503")
	if log := a.Logged(); strings.Contains(log, "s3cr3t") || !strings.Contains(log, "ERR unknown command") {
		t.Errorf("the log is\n%s", log)
	}
}

func TestADoctorWantsAnAddressAndAGoodFile(t *testing.T) {
	check := func(want string, args ...string) {
		t.Helper()
		code, text := rig.Authz(t, append([]string{"doctor"}, args...)...)
		rig.Same(t, fmt.Sprintf("exit %d, %s", code, text), want)
	}
	check("exit 2, authz: doctor: want --redis=URL; see authz doctor --help\n")
	check("exit 2, authz: doctor: --redis-timeout=0s: want a time above 0, such as 50ms; see authz doctor --help\n", "--redis=redis://127.0.0.1:1", "--redis-timeout=0s")
	if code, text := rig.Authz(t, "doctor", "--redis=http://u:s3cr3t@h"); code != 1 || !strings.HasPrefix(text, "authz: the Redis URL cannot be read, want ") {
		t.Errorf("exit %d, %s", code, text)
	}
	file := rig.LimitsFile(t, "[limit.a]\nkey = []\nalgorithm = \"fixed_window\"\nrate = \"5\"\n")
	code, text := rig.Authz(t, "doctor", "--redis=redis://127.0.0.1:1", "--limits="+file)
	if code != 1 || !strings.HasPrefix(text, file+":4: limit.a: rate = ") {
		t.Errorf("exit %d, %s", code, text)
	}
}
