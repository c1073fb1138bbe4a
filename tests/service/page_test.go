package service

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"authz/tests/rig"
)

// A browser is a headless Chromium, and what it has complained of and asked for.
type browser struct {
	context.Context
	mu    sync.Mutex
	said  []string // on the console, and what the policy has blocked
	asked []string // hosts
}

func startBrowser(t testing.TB) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	b := new(browser)
	b.Context, cancel = chromedp.NewContext(ctx, chromedp.WithListener(func(e any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := e.(type) {
		case *runtime.EventConsoleAPICalled:
			b.said = append(b.said, fmt.Sprint(e.Type, " ", e.Args))
		case *runtime.EventExceptionThrown:
			b.said = append(b.said, fmt.Sprint(e.ExceptionDetails))
		case *network.EventRequestWillBeSent:
			if u, err := url.Parse(e.Request.URL); err == nil && u.Host != "" {
				b.asked = append(b.asked, u.Host)
			}
		}
	}))
	t.Cleanup(cancel)
	// What its own policy forbids a page says on the console too.
	b.run(t, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, network.Enable, network.EnableParams{})
		return err
	}))
	return b
}

// run does this, and fails if it is not done in good time.
func (b *browser) run(t testing.TB, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	late := time.AfterFunc(time.Minute, func() { panic("Chromium does not answer") })
	defer late.Stop()
	if err := chromedp.Do(b, actions...); err != nil {
		t.Fatal(err)
	}
}

func ask[T any](t testing.TB, b *browser, action chromedp.Action[T]) T {
	t.Helper()
	answer, err := chromedp.Run(b, action)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// text is what an element shows.
func (b *browser) text(t testing.TB, selector string) string {
	t.Helper()
	return ask(t, b, chromedp.Text(selector))
}

// overflow is by how many pixels the page is wider than its window.
func (b *browser) overflow(t testing.TB) int {
	t.Helper()
	return ask(t, b, chromedp.Evaluate[int](`document.documentElement.scrollWidth - document.documentElement.clientWidth`))
}

const hostile = `"></textarea><script>document.title='broken'</script>`

// Whoever is on call sees who is refused, and lets them in again, with a keyboard alone; and what a client has put into a
// key is text.
func TestThePageShowsWhoIsRefusedAndResets(t *testing.T) {
	t.Parallel()
	r := rig.StartRedis(t)
	a := rig.StartAuthz(t, "--redis="+r.URL(), "--redis-timeout=20s", "--admin-token-file="+tokenFile(t), "--limits="+rig.LimitsFile(t, rig.UndoLimits+`
		[limit.tenant]
		match     = { path = "/tenant" }
		key       = ["header:X-Tenant"]
		missing   = "skip"
		algorithm = "fixed_window"
		rate      = "1/366d"`))
	client := a.Checker()
	for range 5 {
		client.Check(t, "GET /login", []string{"X-Real-IP: 192.0.2.7"})
		client.Check(t, "GET /tenant", []string{"X-Tenant: " + hostile})
	}
	b := startBrowser(t)
	home := "http://" + a.Admin + "/"
	b.run(t, chromedp.Navigate(home), chromedp.WaitVisible("#bucket"))
	for _, want := range []string{"redis, answers", "closed", "3, loaded "} {
		if got := b.text(t, "dl"); !strings.Contains(got, want) {
			t.Errorf("%s: not in\n%s", want, got)
		}
	}
	refused := b.text(t, ".two")
	for _, want := range []string{"login\tip=192.0.2.7", "tenant\theader:x-tenant=%22%3E%3C/textarea%3E%3Cscript%3E"} {
		if !strings.Contains(strings.ReplaceAll(refused, "\n", ""), want) {
			t.Errorf("%q: not in\n%q", want, refused)
		}
	}

	// By keyboard: to the key that is refused, and on to its reset.
	b.run(t, chromedp.Focus(`.two a[href*="192.0.2.7"]`), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("#token"))
	if got := b.text(t, "#bucket ~ div[role=status]"); !strings.Contains(got, "0 of 2, the next in") {
		t.Errorf("the bucket is shown as\n%s", got)
	}
	reset := func(token string) {
		b.run(t, chromedp.Focus("#token"), chromedp.KeyEvent(token), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	}
	reset("a-wrong-token-of-some-length")
	b.run(t, chromedp.WaitVisible("[role=alert]"))
	rig.Same(t, b.text(t, "[role=alert]"), "the token is wrong, want that of --admin-token-file")
	rig.Same(t, client.Check(t, "GET /login", []string{"X-Real-IP: 192.0.2.7"}), "429")
	reset(adminToken)
	b.run(t, chromedp.WaitNotPresent("[role=alert]"), chromedp.WaitVisible("#bucket"))
	if got := b.text(t, "#bucket ~ div[role=status]"); !strings.Contains(got, "2 of 2") {
		t.Errorf("after the reset the bucket is shown as\n%s", got)
	}
	rig.Await(t, "admission after the reset", func() bool { return client.Check(t, "GET /login", []string{"X-Real-IP: 192.0.2.7"}) == "200" })
	if at := ask(t, b, chromedp.Location()); strings.Contains(at, adminToken) {
		t.Errorf("the token is in %s", at)
	}

	// A pasted request with whatever is in it.
	b.run(t, chromedp.SendKeys("#request", "GET /tenant\nX-Tenant: "+hostile+"\nX-API-Key: s3cr3t\n"), chromedp.SendKeys("#ip", "192.0.2.9"),
		chromedp.Submit("#request"), chromedp.WaitVisible("#explain ~ div[role=status]"))
	explained := b.text(t, "#explain ~ div[role=status]")
	if !strings.Contains(explained, "limit.tenant: fixed_window, 1/366d") || !strings.Contains(explained, "0 of 1") || strings.Contains(explained, "s3cr3t") {
		t.Errorf("explained as\n%s", explained)
	}
	b.isWell(t, a.Admin)
}

// isWell looks at what no test asks for by name: nothing was run that is not ours, all controls have names, and neither a
// phone nor a wide screen scrolls sideways, in light and dark.
func (b *browser) isWell(t *testing.T, host string) {
	t.Helper()
	rig.Same(t, ask(t, b, chromedp.Title()), "authz")
	for _, width := range []int64{320, 1600} {
		for _, scheme := range []string{"light", "dark"} {
			b.run(t, chromedp.EmulateViewport(width, 900), chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
				_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
					Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
				return err
			}))
			picture := ask(t, b, chromedp.FullScreenshot(100))
			if pixels := b.overflow(t); pixels > 0 {
				t.Errorf("%d wide, the page is %d pixels wider", width, pixels)
			}
			if dir := os.Getenv("AUTHZ_SCREENSHOTS"); dir != "" { // for somebody to look at
				rig.ReplaceFile(t, filepath.Join(dir, fmt.Sprintf("page-%d-%s.png", width, scheme)), string(picture))
			}
		}
	}
	var tree accessibility.GetFullAXTreeResult
	b.run(t, chromedp.Func(func(ctx context.Context, target *chromedp.Target) (err error) {
		tree, err = cdp.Call(ctx, target, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		return err
	}))
	named := 0
	for _, n := range tree.Nodes {
		if n.Ignored || n.Role == nil || !slices.Contains([]string{`"link"`, `"button"`, `"textbox"`, `"combobox"`, `"image"`, `"table"`}, string(n.Role.Value)) {
			continue
		}
		if n.Name == nil || string(n.Name.Value) == `""` {
			if string(n.Role.Value) != `"table"` {
				t.Errorf("a %s without a name", n.Role.Value)
			}
			continue
		}
		named++
	}
	if named < 15 {
		t.Errorf("%d named controls, want all of the page's", named)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.said) > 0 {
		t.Errorf("the console has %q", b.said)
	}
	for _, h := range b.asked {
		if h != host {
			t.Errorf("%s was asked, want %s alone", h, host)
		}
	}
}
