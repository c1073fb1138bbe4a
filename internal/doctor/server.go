package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"authz/internal/human"
	"authz/internal/store/redisstore"
)

// connection says whether Redis answers at all.
func (d *Doctor) connection(name string) bool {
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), d.first())
	defer cancel()
	_, err := d.Server.Do(ctx, "hello")
	took := time.Since(start)
	switch kind := redisstore.Kind(err); kind {
	case "timeout", "network", "pool", "malformed":
		d.wrong("connection", "%s: %s", name, d.whyNot(err))
		return false
	case "other", "noperm":
		// Either Redis does not know HELLO, or it refuses what each connection begins with, and says the same
		// whatever is asked.
		if _, again := d.Do("get", d.key("connection", "text")); again == nil || again.Error() != err.Error() {
			break
		}
		d.wrong("connection", "%s: %s", name, d.whyNot(err))
		return false
	case "noauth":
		d.wrong("connection", "%s: user or password are refused%s: %s", name, d.emptyFile(), InShort(err))
		return false
	case "loading":
		d.wrong("connection", "%s: try again when it has loaded its data: %s", name, InShort(err))
		return false
	}
	if took > d.At.Timeout {
		d.wrong("connection", "%s answers after %s, too late for --redis-timeout=%v", name, human.Duration(took), d.At.Timeout)
	} else {
		d.well("connection", "%s answers after %s, in time for --redis-timeout=%v", name, human.Duration(took), d.At.Timeout)
	}
	return true
}

// Identity says what it is, and whether that may keep buckets at all.
func (d *Doctor) Identity() bool {
	about, err := d.About()
	if err != nil {
		d.unknown("server", "neither HELLO nor INFO say which Redis this is, want %s or later: %s", Oldest, InShort(err))
		return true
	}
	name, old := TooOld(about)
	if old {
		d.wrong("server", "%s is too old for the scripts, want %s or later", name, Oldest)
	}
	switch {
	case about["mode"] == "sentinel":
		d.wrong("server", "%s is a Sentinel, want ?master=NAME in the URL", name)
	case about["mode"] == "cluster" && !d.Redis.IsCluster():
		d.wrong("server", "%s is a node of a cluster, want ?cluster=true in the URL", name)
	case about["role"] == "replica" || about["role"] == "slave":
		d.wrong("server", "%s is a replica%s and takes no writes, want its master", name, d.master())
	case !old:
		d.well("server", "%s, %s, %s", name, about["mode"], about["role"])
	}
	return about["mode"] != "sentinel"
}

// About is what a server says of itself: HELLO tells it whatever the account may do, or INFO.
func (d *Doctor) About() (map[string]string, error) {
	about, err := d.greeting()
	if err != nil {
		about = d.info("server", "replication")
		if about["redis_version"] == "" {
			return nil, err
		}
		about["server"], about["version"], about["mode"] = "redis", about["redis_version"], about["redis_mode"]
	}
	return about, nil
}

// Oldest is the version of Redis that has all that the scripts need.
const Oldest = "6.2"

// TooOld says whether a server is a Redis before that. Others count their versions by themselves.
func TooOld(about map[string]string) (name string, old bool) {
	server := about["server"]
	name = strings.ToUpper(server[:min(1, len(server))]) + server[min(1, len(server)):] + " " + about["version"]
	return name, server == "redis" && older(about["version"], 6, 2)
}

// greeting is the fields of HELLO.
func (d *Doctor) greeting() (map[string]string, error) {
	reply, err := d.Do("hello")
	if err != nil {
		return nil, err
	}
	fields, _ := reply.([]any)
	about := map[string]string{}
	for i := 0; i+1 < len(fields); i += 2 {
		about[fmt.Sprint(fields[i])] = fmt.Sprint(fields[i+1])
	}
	return about, nil
}

// info is the fields of some sections of INFO, none if the account may not ask.
func (d *Doctor) info(sections ...string) map[string]string {
	about := map[string]string{}
	for _, section := range sections {
		reply, err := d.Do("info", section)
		text, _ := reply.(string)
		if err != nil {
			continue
		}
		for line := range strings.Lines(text) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				about[name] = value
			}
		}
	}
	return about
}

// older compares versions; one that cannot be read is not.
func older(version string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(version, "%d.%d", &a, &b); n != 2 {
		return false
	}
	return a < major || a == major && b < minor
}

// master is where a replica's is, if the account may ask.
func (d *Doctor) master() string {
	reply, err := d.Do("role")
	if words, ok := reply.([]any); err == nil && ok && len(words) > 2 {
		return fmt.Sprintf(" of %v:%v", words[1], words[2])
	}
	return ""
}

// clock says how far apart the clocks are. It does no harm: limits go by Redis's.
func (d *Doctor) clock() {
	start := time.Now()
	reply, err := d.Do("time")
	took := time.Since(start)
	words, _ := reply.([]any)
	if err != nil || len(words) != 2 {
		d.unknown("clock", "TIME does not tell it%s", because(err))
		return
	}
	seconds, _ := strconv.ParseInt(fmt.Sprint(words[0]), 10, 64)
	micros, _ := strconv.ParseInt(fmt.Sprint(words[1]), 10, 64)
	ahead := time.Unix(seconds, micros*1000).Sub(start.Add(took / 2))
	switch {
	case ahead.Abs() <= max(took, time.Millisecond):
		d.well("clock", "as this machine's")
	case ahead > 0:
		d.well("clock", "%s ahead of this machine's; limits go by Redis's", human.Duration(ahead))
	default:
		d.well("clock", "%s behind this machine's; limits go by Redis's", human.Duration(-ahead))
	}
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + InShort(err)
}

// Memory says whether Redis may forget who was counted, or is full.
func (d *Doctor) Memory() {
	about := d.info("memory", "stats")
	policy, most := about["maxmemory_policy"], about["maxmemory"]
	if policy == "" {
		config, _ := d.Do("config", "get", "maxmemory*")
		words, _ := config.([]any)
		for i := 0; i+1 < len(words); i += 2 {
			switch words[i] {
			case "maxmemory":
				most = fmt.Sprint(words[i+1])
			case "maxmemory-policy":
				policy = fmt.Sprint(words[i+1])
			}
		}
	}
	limit, _ := strconv.ParseInt(most, 10, 64)
	used, _ := strconv.ParseInt(about["used_memory"], 10, 64)
	free, _ := strconv.ParseInt(about["mem_not_counted_for_evict"], 10, 64)
	switch {
	case policy == "":
		d.unknown("memory", "whether Redis may evict keys could not be looked at, want maxmemory-policy noeviction: this account may neither INFO nor CONFIG GET")
	case policy == "volatile-ttl" && limit > 0: // what it evicts first would have been forgotten first
		d.well("memory", "maxmemory is %d bytes, and what would expire first is evicted first%s", limit, evicted(about))
	case policy != "noeviction" && limit > 0:
		d.wrong("memory", "maxmemory-policy is %s%s: whoever's key is evicted begins to count again, want noeviction, on an instance of its own", policy, evicted(about))
	case limit > 0 && used-free >= limit:
		d.wrong("memory", "full: %d of %d bytes are used, and on_error decides for whoever is new; want a larger maxmemory", used-free, limit)
	case limit > 0:
		d.well("memory", "maxmemory is %d bytes, and no key is evicted", limit)
	default:
		d.well("memory", "no maxmemory: no key is evicted")
	}
}

func evicted(about map[string]string) string {
	if n := about["evicted_keys"]; n != "" && n != "0" {
		return ", and " + n + " keys have been evicted"
	}
	return ""
}
